"""Probabilities of pairs of words that a model does not know, against the formula word by word."""

import numpy as np
import pytest
from planted import bitext_of, emissions_of

from alignkit.classical.hmm.background import LEAST_COUNT
from alignkit.classical.hmm.inference import inference_of
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import View
from alignkit.text.units import folded_text

TEXT = [
    (["walking", "dogs"], ["gehende", "hunde"]),
    (["walked", "cats"], ["ging", "katzen"]),
    (["talking", "cats"], ["redende", "katzen"]),
    (["walking", "Cats"], ["gehende", "Katzen"]),
    (["a"], ["ein"]),
] * 3
NEW = [
    (["barking", "dogs", "2024", "a"], ["bellende", "hunde", "2024", "katzen"]),
    (["zz"], ["yy", "Gehende"]),
    ([], ["hunde"]),
]


def naive(model, x, y, alike):
    """(p(y|x), p(x|y)) of a new pair, from counts looked up word by word."""
    rows = np.repeat(np.arange(len(model.source)), np.diff(model.table.offsets))
    pairs = [
        (model.source[int(i)], model.target[int(o)], float(count))
        for i, o, count in zip(rows, model.table.columns, model.counts.pairs, strict=True)
    ]
    both = []
    for side, (state, word) in enumerate(((x, y), (y, x))):
        turned = [(b, a, n) if side else (a, b, n) for a, b, n in pairs]
        own = sum(n for a, _, n in turned if a == state)
        seen = max(sum(n for _, b, n in turned if b == word), 1)
        is_unknown = word not in (model.source if side else model.target)
        total = JOINT_SETTINGS.dirichlet + alike
        for part in (slice(3), slice(-3, None), slice(5), slice(-5, None)):
            a, b = state[part], word[part]
            count = sum(n for i, o, n in turned if i[part] == a and o[part] == b and n >= LEAST_COUNT)
            rest = sum(n for i, _, n in turned if i[part] == a) - own
            in_class = sum(n for _, o, n in turned if o[part] == b) + is_unknown
            total += JOINT_SETTINGS.back_off / 4 * count / (rest + 8) * seen / max(in_class, seen)
        both.append(min(total / (own + 1), 1))
    return both


def test_probabilities_of_new_pairs_are_the_formula():
    model, bitext = fit_joint(bitext_of(TEXT)).words, folded_text(bitext_of(NEW))
    known = model.lookup(bitext).scores().values
    emissions, place = emissions_of(model.inference_with_counts, bitext), 0
    for x, y in NEW:
        for t in y:
            for s in x:
                if known[place]:
                    assert emissions[place, 0] == known[place]
                else:
                    alike = 1.0 if s == t else 0.0  # other words have too few letters in common
                    expected = naive(model, s.lower(), t.lower(), alike)
                    assert emissions[place] == pytest.approx(expected, rel=1e-4), (s, t)
                place += 1
    assert known.any()


def test_endings_tell_new_words_apart():
    """The words differ, but their endings are those of pairs that the model knows."""
    model = fit_joint(bitext_of(TEXT), views=(View(),))
    new = bitext_of([(["barking", "mats"], ["tatzen", "bellende"])])
    assert model.links(new)[0].tolist() == [[0, 1], [1, 0]]
    found = model.probabilities(new)[0]
    assert min(found[0, 1], found[1, 0]) > 0.7
    model.words.__dict__["inference_with_counts"] = inference_of(model.words)
    assert model.probabilities(new)[0][0, 1] < 0.3


def test_a_model_of_pieces_without_spelling_compares_none():
    text, new = bitext_of(TEXT), bitext_of([(["2024"], ["2024"])])
    for spelling, least in ((0.0, 0.0), (1.0, 0.5)):
        model = fit_joint(text, spelling=spelling).words
        forward, reverse = emissions_of(model.inference_with_counts, new)[0]
        assert least < forward <= least + 0.51
        assert forward == reverse
