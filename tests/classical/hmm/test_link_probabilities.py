"""Probabilities of links from the log-odds of both directions, against the formula element by element."""

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.hmm.joint import fit_joint, fit_view
from alignkit.classical.hmm.link_probabilities import (
    PhraseEdges,
    into_probabilities,
    levels_of_links,
    mean_log_odds,
    packed_log_odds,
    trust_in,
    trusted,
)
from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD
from alignkit.classical.hmm.views import View, ViewedText
from alignkit.embeddings.levels import LEVELS, OPINIONS
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE
from alignkit.kernels.link_probabilities import NO_LINK
from alignkit.scores import Scores


def drawn(seed, shapes):
    """Matrices of log-odds, many of which are no link's."""
    draw = np.random.default_rng(seed)
    found = []
    for shape in shapes:
        values = np.where(draw.random(shape) < 0.4, NO_LINK, draw.normal(0, 3, shape))
        found.append(np.clip(values, NO_LINK, -NO_LINK).astype(np.float32))
    return found


@pytest.mark.parametrize("threads", [1, 3])
def test_probabilities_are_the_formula_where_neighbours_count_by_their_cohesion(threads):
    shapes, draw = [(3, 5), (1, 1), (0, 4), (7, 2), (2, 0), (1, 6), (4, 4)], np.random.default_rng(3)
    matrices = drawn(4, shapes)
    ends = np.concatenate([[[0, 0]], np.cumsum(shapes, axis=0)])
    cohesion = tuple(draw.uniform(0.2, 1.5, size + 1).astype(np.float32) for size in ends[-1, ::-1])
    found = into_probabilities(Scores.from_matrices(matrices), threads, cohesion)
    for m, matrix in enumerate(found):
        own = tuple(cohesion[side][ends[m, 1 - side] : ends[m + 1, 1 - side] + 1] for side in (0, 1))
        expected = naive.judged(matrices[m].astype(np.float64), cohesion=own)
        assert matrix == pytest.approx(expected, abs=1e-5)
    plain = into_probabilities(Scores.from_matrices(matrices), threads)
    assert np.abs(found.values - plain.values).max() > 0.05
    for matrix, log_odds in zip(plain, matrices, strict=True):
        assert matrix == pytest.approx(naive.judged(log_odds.astype(np.float64)), abs=1e-5)


@pytest.mark.parametrize("size", [0, 1, 13, 64])
def test_packed_log_odds_have_the_bits_of_the_mean(size):
    opinions = [drawn(seed, [(1, size)])[0][0] for seed in range(3)]
    opinions[1][:] = NO_LINK
    for count in (1, 2, 3):
        expected = sum(opinions[:count], np.zeros(size, np.float32)) / np.float32(count)
        assert mean_log_odds([packed_log_odds(each) for each in opinions[:count]]).tobytes() == expected.tobytes()
    assert sum(each.nbytes for each in packed_log_odds(opinions[1])[1:]) == -(-size // 8)


@pytest.mark.parametrize("views", range(1, 9))
def test_what_no_view_sees_is_no_link_in_the_mean_of_any_number_of_views(views):
    total = np.zeros(6, np.float32)
    for _ in range(views):
        total += np.float32(1 / views) * NO_LINK
    assert not into_probabilities(Scores.from_matrices([total.reshape(2, 3)]), 1).values.any()


def test_links_are_trusted_as_far_as_there_are_more_of_them_than_doubtful_pairs():
    values = np.array([0.9, 0.5, 0.4999, 0.3, 0.02, 0.03, 0.1, 0.0199, 0], np.float32)
    scores, as_many, no_link = (Scores.from_matrices([part[None]]) for part in (values, values[:4], values[2:]))
    assert [trust_in(each) for each in (scores, as_many, no_link)] == pytest.approx([0.4**0.3, 1, 1])
    assert trusted(scores, 0.5) is scores
    assert scores.values == pytest.approx([0.75, 0.5, *values[2:]], abs=1e-6)  # the root of odds of 9 is 3
    assert scores.values[1] == 0.5


def test_a_model_pools_the_posteriors_of_its_directions():
    bitext = bitext_of([pair for pair in random_pairs(5, pairs=60) if all(pair)])
    model = fit_joint(bitext, fertility=0.0, threads=1)  # without it a direction needs nothing of the other
    words = model.words
    forward, reverse = (words.inference_with_counts.links(bitext, pool, 1)[0] for pool in (FORWARD, REVERSE))
    log_odds = words.log_odds(bitext, are_words=False)  # nothing is taken out of the counts
    probabilities = into_probabilities(words.log_odds(bitext, are_words=False))
    tokens = len(bitext.source.tokens), len(bitext.target.tokens)
    assert words.share == pytest.approx((tokens[1] + 1) / (sum(tokens) + 2))
    for m in range(len(bitext)):
        expected = naive.pooled(forward[m], reverse[m], words.share)
        assert log_odds[m] == pytest.approx(expected, abs=1e-4)
        assert probabilities[m] == pytest.approx(naive.judged(expected), abs=1e-4)


def test_the_links_of_the_fit_are_judged_log_odds():
    bitext = bitext_of([pair for pair in random_pairs(6, pairs=60) if all(pair)])
    log_odds = fit_view(ViewedText(View(), bitext), JOINT_SETTINGS, 1)[1]
    whole = fit_joint(bitext, JOINT_SETTINGS, threads=1, views=(View(),))
    cohesion = PhraseEdges.of_text(bitext).cohesion(bitext)
    judged = into_probabilities(log_odds, cohesion=cohesion)
    assert judged.values.tobytes() == whole.fitted_probabilities.values.tobytes()
    assert whole.threshold == JOINT_THRESHOLD


def test_a_second_word_for_the_same_word_must_stand_beside_it():
    """One direction alone finds (1, 0), (2, 0) or (3, 0); both find (0, 0)."""
    alone = naive.pooled([[0.9]], [[0.05]], 0.5)[0, 0]
    for t, least, most in ((1, JOINT_THRESHOLD, 1.0), (2, 0.0, JOINT_THRESHOLD), (3, 0.0, JOINT_THRESHOLD)):
        log_odds = np.full((4, 2), NO_LINK, np.float32)
        log_odds[0, 0], log_odds[t, 0] = 4, alone
        assert least <= into_probabilities(Scores.from_matrices([log_odds]))[0][t, 0] <= most


def test_opinions_are_levels_of_probabilities():
    probabilities = np.exp(-(np.arange(40) + 0.5) / 4)
    log_odds = np.append(np.log(probabilities / (1 - probabilities)), (-np.inf, 20.0)).astype(np.float32)
    last = OPINIONS + LEVELS - 1
    wanted = [OPINIONS + n if p > 0.0031 else last for n, p in enumerate(probabilities)]  # below, hardly any link
    assert levels_of_links(log_odds).tolist() == [*wanted, last, OPINIONS]
