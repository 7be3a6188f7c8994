from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of, error_rate, inflected_pairs, random_pairs, scrambled

from alignkit.classical.hmm.adaptation import ADAPTATION_SETTINGS, Adapter
from alignkit.classical.hmm.joint import fit_joint, load_joint
from alignkit.classical.hmm.known_model import LEAST_COUNT, KnownModel, KnownPairs
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.word_classes import BackOff
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.errors import AlignkitError, InputError


def test_a_model_links_new_words_of_known_classes_and_learns_others_from_the_text():
    model = fit_joint(bitext_of(inflected_pairs(1, 150)[0]))
    text, planted = inflected_pairs(2, 40)
    bitext = bitext_of(text)
    assert sum(word not in model.source for word in bitext.source.vocabulary) > 20
    assert error_rate(model.links(bitext), planted) < 0.01
    # Words that no code turns into each other.
    foreign = bitext_of(
        [([scrambled("s" + word) for word in x], [scrambled(word) for word in y]) for x, y in text * 3]
    )
    plain = error_rate(model.links(foreign), planted * 3)
    assert error_rate(Adapter(model).adapt(foreign).fitted_links, planted * 3) < 0.6 * plain


def test_adapting_to_a_text_changes_neither_the_model_nor_what_it_says_of_the_next(tmp_path):
    model = fit_joint(bitext_of(random_pairs(3, pairs=150)))
    model.save(tmp_path / "m.npz")
    first, second = bitext_of(random_pairs(4, pairs=40)), bitext_of(random_pairs(5, pairs=30, source_types=30))
    adapter = Adapter(model, threads=1)
    adapter.adapt(first)
    after = adapter.adapt(second).fitted_probabilities.values.tobytes()
    for threads in (1, 3):
        other = Adapter(load_joint(tmp_path / "m.npz"), threads=threads).adapt(second)
        assert other.fitted_probabilities.values.tobytes() == after


def test_texts_of_blank_unknown_and_long_pairs():
    text, _planted = inflected_pairs(6, 500)
    adapter = Adapter(fit_joint(bitext_of(text[:150])))
    long = [word for x, _ in text for word in x][:2100], [word for _, y in text for word in y][:2100]
    pairs = [([], ["a00z1"]), (["a00q1"], []), (["new"], ["neu"]), long, (["A00Q1", "b01q2"], ["a00z1"])]
    links = adapter.adapt(bitext_of(pairs)).fitted_links
    assert [len(pair) for pair in links][:3] == [0, 0, 1]
    assert len(links[3]) > 1000
    assert [0, 0] in links[4].tolist()
    for few in ([], [([], [])], pairs[3:4]):
        assert len(adapter.adapt(bitext_of(few)).fitted_links) == len(few)


def test_a_model_without_counts_cannot_be_adapted(tmp_path):
    model = fit_joint(bitext_of(random_pairs(3, pairs=20)))
    with pytest.raises(AlignkitError, match="counts"):
        Adapter(replace(model, counts=None))
    for wrong in (model.counts.pairs[:-1], -model.counts.pairs - 1):
        with pytest.raises(ValueError):
            replace(model, counts=replace(model.counts, pairs=wrong))
    damaged = replace(model)
    object.__setattr__(damaged.counts, "null", np.full(2, np.nan, np.float32))
    damaged.save(tmp_path / "m.npz")
    with pytest.raises(InputError, match="damaged"):
        load_joint(tmp_path / "m.npz")


def test_adaptation_goes_by_what_the_model_was_fitted_with(tmp_path):
    bitext, other = bitext_of(random_pairs(3, pairs=60)), bitext_of(random_pairs(4, pairs=20))
    for options in ({}, {"null_probability": 0.3}, {"spelling": 0.0}, {"fertility": 0.0}):
        fit_joint(bitext, **options).save(tmp_path / "m.npz")
        model = load_joint(tmp_path / "m.npz")
        adapted = Adapter(model).adapt(other)
        for direction in adapted.directions:
            assert direction.null_probability == options.get("null_probability", JOINT_SETTINGS.null_probability)
        assert adapted.is_spelled == model.is_spelled == (options != {"spelling": 0.0})
        assert adapted.has_fertility == model.has_fertility == (options != {"fertility": 0.0})


def test_new_words_are_learned_by_a_model_without_pseudo_counts():
    model = fit_joint(bitext_of(inflected_pairs(1, 100)[0]), HMMSettings())
    text, planted = inflected_pairs(2, 40)
    foreign = bitext_of(
        [([scrambled("s" + word) for word in x], [scrambled(word) for word in y]) for x, y in text * 3]
    )
    assert error_rate(Adapter(model).adapt(foreign).fitted_links, planted * 3) < 0.5


@pytest.mark.parametrize("threads", [1, 3])
def test_what_a_model_knows_of_a_text_is_its_counts(threads):
    """Of each pair, of the other pairs of a word, and of pairs of the same classes, by dictionaries."""
    model = fit_joint(bitext_of(inflected_pairs(7, 60, stems=12)[0]), JOINT_SETTINGS)
    bitext = bitext_of(inflected_pairs(8, 25, stems=14)[0])
    names = tuple(list(side.vocabulary) for side in (bitext.source, bitext.target))
    known_names = list(model.source), list(model.target)
    table = model.table
    counts = {
        (known_names[0][i], known_names[1][table.columns[k]]): float(model.counts.pairs[k])
        for i in range(table.shape[0])
        for k in range(table.offsets[i], table.offsets[i + 1])
    }
    known = KnownModel(model, model.counts, ADAPTATION_SETTINGS)
    indexed = IndexedBitext.of(bitext, threads)
    rows = indexed.pairs()
    ids = model.source.translate(bitext.source.vocabulary), model.target.translate(bitext.target.vocabulary)
    pairs = KnownPairs(known, ids, rows, indexed)
    met = [
        (names[0][i], names[1][o])
        for i in range(len(names[0]))
        for o in rows.columns[slice(*rows.offsets[i : i + 2])]
    ]
    assert pairs.values.tolist() == [np.float32(counts.get(pair, 0)) for pair in met]
    assert (pairs.values > 0.5).any()
    assert (np.array([pair not in counts for pair in met])).any()
    for side in (0, 1):
        rest = [sum(n for pair, n in counts.items() if pair[side] == x and pair not in met) for x in names[side]]
        assert np.allclose(pairs.rest[side], rest, atol=1e-3)
    for (letters, suffix), classes in zip(
        BackOff.affix_kinds(ADAPTATION_SETTINGS.affixes), known.classes, strict=True
    ):
        part = slice(-letters, None) if suffix else slice(letters)
        for i in range(classes.table.shape[0]):
            columns, values = classes.table.row(i)
            affix = next(a for a, n in classes.ids[0].items() if n == i)
            for b, value in zip(columns, values, strict=True):
                other = next(a for a, n in classes.ids[1].items() if n == b)
                found = [
                    n for (x, y), n in counts.items() if (x[part], y[part]) == (affix, other) and n >= LEAST_COUNT
                ]
                assert value == pytest.approx(sum(found), rel=1e-5)


def test_pairs_that_the_model_was_fitted_on_count_once():
    text, _planted = inflected_pairs(1, 150)
    bitext = bitext_of(text)
    model = fit_joint(bitext)
    adapter, links = Adapter(model), float(model.counts.pairs.sum())

    def counted(pairs):
        return float(adapter.adapt(bitext, pairs).counts.pairs.sum())

    assert counted(None) == pytest.approx(2 * links, rel=0.01)
    assert counted(np.ones(150, bool)) == pytest.approx(links, rel=0.01)
    half = np.arange(150) % 2 == 0
    share = sum(len(x) for x, _ in text[::2]) / sum(len(x) for x, _ in text)
    assert counted(half) == pytest.approx((2 - share) * links, rel=0.01)
    assert counted(np.zeros(150, bool)) == counted(None)


def test_long_pairs_that_the_model_was_fitted_on_count_once_too():
    text, _planted = inflected_pairs(6, 500)
    long = [word for x, _ in text for word in x][:2100], [word for _, y in text for word in y][:2100]
    model = fit_joint(bitext_of(text[:150]))
    for pairs in ([long], [long, *text[:5]], [([], []), long]):
        bitext = bitext_of(pairs)
        links = Adapter(model).adapt(bitext, np.ones(len(pairs), bool)).fitted_links
        assert len(links) == len(pairs)
