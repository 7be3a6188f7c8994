"""Links with what is to be said of them: probabilities, and how likely a sentence is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.aligner import Aligner, Reversed, Symmetrized, per_word
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.kernels.translation_table import UNSEEN
from alignkit.pipeline.aligned_text import AlignedText

PAIRS = random_pairs(21)
ALL = {"probabilities": True, "scored": True, "words": True}


def alignment_of(aligner, bitext, **wanted):
    (found,) = AlignedText(bitext, aligner).alignments(**wanted)
    return found


@pytest.fixture(scope="module")
def models():
    bitext = bitext_of(PAIRS)
    return bitext, fit_ibm1(bitext, iterations=3), fit_ibm1(bitext.reversed, iterations=3)


def test_link_probabilities_are_the_posteriors(models):
    bitext, forward, reverse = models
    alpha, back = forward.score(bitext, "alpha"), reverse.score(bitext.reversed, "alpha")
    links = forward.links(bitext)
    one, other, both = (
        aligner.link_probabilities(bitext, links)
        for aligner in (forward, Reversed(reverse), Symmetrized(forward, reverse))
    )
    k = 0
    for m, pair in enumerate(links):
        for s, t in pair:
            assert one[k] == alpha[m][t, s]
            assert other[k] == back[m][s, t]
            assert both[k] == pytest.approx(math.sqrt(float(alpha[m][t, s]) * float(back[m][s, t])))
            k += 1
    assert k == len(links.pairs) > 50


@pytest.mark.parametrize("null", [True, False])
@pytest.mark.parametrize("share", [None, 0.08])
def test_log_probabilities_of_ibm1_equal_the_naive_sum(null, share):
    if share is not None and not null:
        return
    bitext = bitext_of(PAIRS)
    model = fit_ibm1(bitext, iterations=3, null=null, null_probability=share)
    new = [*PAIRS[:20], (["s0", "unseen"], ["t0", "new", "t1"]), (["unseen"], ["new"])]
    trans = {
        (x, y): model.table.value(i, o)
        for i, x in enumerate(model.source)
        for o, y in enumerate(model.target)
        if model.table.value(i, o)
    }
    found = model.log_probabilities(bitext_of(new))
    for m, (x, y) in enumerate(new):
        if not x:
            continue
        expected = 0.0
        for word in y:
            from_null = float(model.null[model.target.id(word)]) if null and word in model.target else 0.0
            p0 = (1 / (len(x) + 1) if share is None else share) if null else 0.0
            p = p0 * from_null + (1 - p0) / len(x) * sum(trans.get((i, word), 0.0) for i in x)
            expected += math.log(max(p, UNSEEN))
        assert found[m] == pytest.approx(expected, rel=1e-5)


def test_log_probabilities_without_matrix_elements():
    """A pair with a blank side: all target words come from NULL, or from nowhere."""
    text = bitext_of([([], ["t0", "t1"]), (["s0"] * 3, []), ([], [])])
    without, with_null = (fit_ibm1(bitext_of(PAIRS), iterations=3, null=null) for null in (False, True))
    assert without.log_probabilities(text).tolist() == pytest.approx([2 * math.log(UNSEEN), 0, 0])
    null = [with_null.null[with_null.target.id(word)] for word in ("t0", "t1")]
    expected = [sum(math.log(max(p, UNSEEN)) for p in null), 0, 0]
    assert with_null.log_probabilities(text).tolist() == pytest.approx(expected)
    assert without.log_probabilities(bitext_of([])).tolist() == []


def test_per_word():
    found = per_word(np.array([-6.0, -5.0, 0.0, 0.0]), np.array([[3, 1], [2, 0], [0, 2], [0, 0]]))
    assert found[0] == -2
    assert np.isnan(found[1:]).all()


def test_a_reversed_aligner_links_source_first(models):
    bitext, _, reverse = models
    found = alignment_of(Reversed(reverse), bitext, **ALL)
    inner = alignment_of(reverse, bitext.reversed, **ALL)
    assert found.links.to_pharaoh() == inner.links.reversed.to_pharaoh()
    assert np.array_equal(found.sentence_scores, inner.sentence_scores, equal_nan=True)
    assert (list(found.source), list(found.target)) == (list(inner.target), list(inner.source))


def test_two_directions_have_two_sentence_scores(models):
    bitext, forward, reverse = models
    both = alignment_of(Symmetrized(forward, reverse), bitext, **ALL)
    alone = [alignment_of(forward, bitext, **ALL), alignment_of(reverse, bitext.reversed, **ALL)]
    columns = np.concatenate([each.sentence_scores for each in alone], axis=1)
    assert both.sentence_scores.shape == (len(bitext), 2)
    assert np.array_equal(both.sentence_scores, columns, equal_nan=True)


def test_an_aligner_of_scores_alone(models):
    class Plain(Aligner):
        name, kinds = "plain", ("alpha",)

        def score(self, bitext, kind):
            return models[1].score(bitext, kind)

        def save(self, path):
            raise NotImplementedError

    bitext = models[0]
    with pytest.raises(AlignkitError, match="plain gives no probability of a sentence"):
        alignment_of(Plain(), bitext, scored=True)
    wanted = {"words": True, "probabilities": True}
    found, expected = (alignment_of(each, bitext, **wanted) for each in (Plain(), models[1]))
    assert found.sentence_scores is None
    assert found.links.to_pharaoh() == expected.links.to_pharaoh()
    assert np.array_equal(found.probabilities, expected.probabilities)
