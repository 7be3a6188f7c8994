"""What an iteration does: expectations, counts, priors, fertility."""

import itertools
import math

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.hmm.estimation import Direction, Estimation
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.word_classes import affix_classes
from alignkit.errors import AlignkitError
from alignkit.kernels import forward_backward, hmm_m_step
from alignkit.kernels import hmm_e_step as estep
from alignkit.text.vocabulary import Vocabulary


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0)])
def test_the_likelihood_rises_at_every_step_of_em(seed, shares):
    bitext = bitext_of(random_pairs(seed, pairs=120))
    settings = HMMSettings(lexical_iterations=4, iterations=12)
    estimation = Estimation(bitext, settings, shares, 1)
    likelihoods = []
    for iteration in range(16):
        if iteration == 4:
            estimation.start_chain()
        likelihoods.append(estimation.expect())
        estimation.maximise()
    # With equal weights the chain is IBM Model 1, so the likelihood goes on from where that left it.
    steps = np.diff(likelihoods)
    assert (steps > -1e-6 * abs(likelihoods[0])).all()
    assert likelihoods[-1] > likelihoods[4] + 1


def test_the_first_likelihood_is_that_of_uniform_probabilities():
    pairs = [(["a", "b"], ["x", "y", "z"]), (["b"], ["y"])]
    fitted = fit_hmm(bitext_of(pairs), HMMSettings(lexical_iterations=1, iterations=1))
    assert fitted.log_likelihood[0] == pytest.approx(4 * math.log(1 / 3), abs=1e-5)


def test_without_the_chain_it_is_ibm_model_1_with_fixed_null():
    pairs = random_pairs(5, pairs=80)
    bitext = bitext_of(pairs)
    estimation = Estimation(bitext, HMMSettings(lexical_iterations=3, null_probability=0.2), (1.0, 0.0), 1)
    for _ in range(3):
        estimation.expect()
        estimation.maximise()
    trans, null = fixed_null_ibm1(pairs, 3, 0.2, len(bitext.target.vocabulary))
    chain_values = dict(zip(pair_keys(bitext, estimation), values_of(estimation), strict=True))
    for pair, value in trans.items():
        assert chain_values[pair] == pytest.approx(value, abs=1e-5)
    nulls = estimation.directions[0].null / estimation.directions[0].numbers[1]
    for word, value in null.items():
        assert nulls[bitext.target.vocabulary.id(word)] == pytest.approx(value, abs=1e-5)


def fixed_null_ibm1(pairs, iterations, p0, types):
    trans, null = {}, {}
    for _ in range(iterations):
        counts, null_counts = {}, {}
        for x, y in pairs:
            if not x:
                continue
            for o in y:
                weights = [(1 - p0) / len(x) * trans.get((i, o), 1 / types if not trans else 0) for i in x]
                weight = p0 * null.get(o, 1 / types if not null else 0)
                z = sum(weights) + weight
                null_counts[o] = null_counts.get(o, 0) + weight / z
                for i, w in zip(x, weights, strict=True):
                    counts[i, o] = counts.get((i, o), 0) + w / z
        totals = {}
        for (i, _), n in counts.items():
            totals[i] = totals.get(i, 0) + n
        trans = {(i, o): n / totals[i] for (i, o), n in counts.items()}
        null = {o: n / sum(null_counts.values()) for o, n in null_counts.items()}
    return trans, null


def pair_keys(bitext, estimation):
    offsets, columns, _ = estimation.rows
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return [
        (bitext.source.vocabulary[i], bitext.target.vocabulary[o])
        for i, o in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def values_of(estimation):
    offsets, _, counts = estimation.rows
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return counts / estimation.directions[0].totals[rows]


def estimated(pairs, settings, shares=(0.5, 0.5), steps=3, threads=1):
    bitext = bitext_of(pairs)
    estimation = Estimation(bitext, settings, shares, threads)
    for step in range(steps):
        if step == 1:
            estimation.start_chain()
        estimation.expect()
        estimation.maximise()
    return bitext, estimation


def test_counts_are_sums_of_links():
    bitext, estimation = estimated(random_pairs(3), HMMSettings())
    expected = {}
    for m in range(len(bitext)):
        x, y = bitext.source.words(m), bitext.target.words(m)
        matrix = estimation.links[estimation.offsets[m] : estimation.offsets[m + 1]].reshape(len(y), len(x))
        for (t, o), (j, i) in itertools.product(enumerate(y), enumerate(x)):
            expected[i, o] = expected.get((i, o), 0.0) + float(matrix[t, j])
    found = dict(zip(pair_keys(bitext, estimation), estimation.rows[2].tolist(), strict=True))
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair], abs=1e-4) for pair in expected)


@pytest.mark.parametrize("side", [0, 1])
def test_fertilities_are_poisson_binomial(side):
    settings = HMMSettings(fertility=1.0)
    bitext, estimation = estimated(random_pairs(4, longest=6), settings)
    corpus = (bitext.source, bitext.target)[side]
    last = 8
    counts = np.zeros((len(corpus.vocabulary), last + 1))
    for m in range(len(bitext)):
        T, L = bitext.shapes[m]
        matrix = estimation.links[estimation.offsets[m] : estimation.offsets[m + 1]].reshape(T, L)
        if T == 0 or L == 0:
            matrix = np.zeros((max(T, 1), max(L, 1)))[:T, :L]
        for j, word in enumerate(corpus[m].tolist()):
            chances = matrix[j] if side else matrix[:, j]
            counts[word] += naive.fertility_chances([float(p) for p in chances], last)
    direction = estimation.directions[side]
    general = counts.sum(axis=0) + 0.5
    expected = counts + settings.fertility_prior * general / general.sum()
    assert np.allclose(direction.ratios, expected[:, 1:] / expected[:, :-1], rtol=5e-3, atol=1e-3)


def test_fertilities_of_long_sentences():
    """Words with more links than are told apart, and sentences of one, two and broken vectors of words."""
    draw = np.random.default_rng(1)
    shapes = np.array([(1, 20), (20, 1), (20, 20), (9, 8), (17, 3)])
    offsets = np.concatenate([[0], np.cumsum(shapes.prod(1))])
    links = (draw.random(offsets[-1]) ** 3).astype(np.float32)
    links[draw.random(len(links)) < 0.2] = 1
    ends = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(shapes, axis=0)])
    sides = [draw.integers(0, 30, ends[-1, side]).astype(np.int32) for side in (1, 0)]
    text = (sides[0], ends[:, 1].copy(), sides[1], ends[:, 0].copy())
    found = np.zeros((2, 30, hmm_m_step.FERTILITIES))
    hmm_m_step.count_fertilities(0, len(shapes), text, (links, offsets), found[0], found[1])
    expected = np.zeros_like(found)
    for m, (T, L) in enumerate(shapes):
        matrix = links[offsets[m] : offsets[m + 1]].reshape(T, L)
        for side, rows in enumerate((matrix.T, matrix)):
            for word, row in zip(sides[side][ends[m, 1 - side] :], rows, strict=False):
                chances = [float(p) if p >= hmm_m_step.SOME else 0.0 for p in row]
                expected[side, word] += naive.fertility_chances(chances, hmm_m_step.FERTILITIES - 1)
    assert expected[:, :, -1].max() > 1.5
    assert np.allclose(found, expected, atol=1e-5)


def test_back_off_is_what_other_words_of_the_classes_say():
    pairs = [(["abcx", "abcy", "zzz"], ["defx", "defy", "qq"]), (["abcy", "zzz"], ["defy", "qr", "defz"])] * 2
    settings = HMMSettings(back_off=2.0, affixes=(3,))
    bitext, estimation = estimated(pairs, settings, steps=1)
    counts = dict(zip(pair_keys(bitext, estimation), estimation.rows[2].tolist(), strict=True))
    frequency = [
        {word: int((side.tokens == side.vocabulary.id(word)).sum()) for word in side.vocabulary}
        for side in (bitext.source, bitext.target)
    ]
    expected = [{}, {}]
    turned = {(o, i): n for (i, o), n in counts.items()}
    for cut in (slice(3), slice(-3, None)):
        classes = [{word: word[cut] for word in side} for side in frequency]
        for i_o, value in naive.back_off(counts, *classes, *frequency, 1.0).items():
            expected[0][i_o] = expected[0].get(i_o, 0.0) + value
        for (o, i), value in naive.back_off(turned, *classes[::-1], *frequency[::-1], 1.0).items():
            expected[1][i, o] = expected[1].get((i, o), 0.0) + value
    assert max(expected[0].values()) > 0.1
    for priors, values in zip(estimation.evidence[:, 1:].T, expected, strict=True):
        for pair, prior in zip(pair_keys(bitext, estimation), priors.tolist(), strict=True):
            assert prior == pytest.approx(values[pair], abs=1e-5)


def test_affix_classes_partition_the_words():
    vocabulary = Vocabulary.from_tokens(["über", "üben", "haus", "maus", "us", "ha"])
    first, last = affix_classes(vocabulary, 2, False), affix_classes(vocabulary, 2, True)
    assert first.of.tolist() == [0, 0, 1, 2, 3, 1]
    assert last.of.tolist() == [0, 1, 2, 2, 2, 3]
    assert last.members.tolist() == [0, 1, 2, 3, 4, 5]
    assert last.first.tolist() == [0, 1, 2, 5, 6]
    assert len(affix_classes(Vocabulary.from_tokens([]), 3, True)) == 0


def emitted(direction, words, counts, links, prior, nulls, copies=1):
    """(the scale, e (T, L), e_null) of one sentence pair by the kernel, from (T, L) matrices."""
    T, L = links.shape
    stride = forward_backward.padded(L)

    def flat(matrix):
        out = np.zeros((T, stride), np.float32)
        out[:, :L] = matrix
        return out.ravel()

    e, e_null = flat(prior), nulls.copy()
    rows, places = np.empty((5, stride), np.float32), np.empty(stride, np.int32)
    scale = estep.emissions(
        *words, (flat(counts), flat(links)), direction.arrays, np.float32(copies), rows, places, e, e_null
    )
    return scale, e.reshape(T, stride)[:, :L], e_null


@pytest.mark.parametrize(("exclude", "copies"), [(0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2)])
def test_a_link_is_not_judged_by_itself(exclude, copies):
    """Emissions against the formula, with and without a link's own part in the counts."""
    rng = np.random.default_rng(6)
    T, L = 3, 2
    links, nulls = rng.random((T, L)).astype(np.float32), rng.random(T).astype(np.float32)
    counts, prior = 2 + rng.random((2, T, L)).astype(np.float32)
    totals, null = np.float32([5, 6]), np.float32([2, 3, 4])
    direction = Direction((L, T), T, HMMSettings())
    direction.totals, direction.null = totals, null
    direction.numbers[1:] = (11.0, exclude)
    words = np.arange(L, dtype=np.int32), np.arange(T, dtype=np.int32)
    scale, e, e_null = emitted(direction, words, counts, links, prior, nulls, copies)
    own = exclude * copies * links
    expected = (counts - own + prior) / (totals - own)
    expected_null = (null - exclude * copies * nulls) / 11
    largest = np.maximum(expected.max(axis=1), expected_null)
    assert np.allclose(e, expected / largest[:, None], rtol=1e-5)
    assert np.allclose(e_null, expected_null / largest, rtol=1e-5)
    assert scale == pytest.approx(np.log(largest).sum(), rel=1e-5)


def test_fertility_is_interpolated_between_whole_numbers():
    """Expected other links of 1.25: three quarters of the factor for 1, a quarter of that for 2."""
    links = np.float32([[0.5], [1.0], [0.25]])
    direction = Direction((1, 3), 3, HMMSettings())
    direction.ratios = np.float32([[8.0, 4.0, 2.0]])
    direction.totals = np.ones(1, np.float32)
    direction.null, direction.numbers[1] = np.float32([0.5, 0.5, 0.5]), 1.0
    words = np.zeros(1, np.int32), np.arange(3, dtype=np.int32)
    prior = np.full((3, 1), 0.5, np.float32)
    _, e, e_null = emitted(direction, words, np.zeros((3, 1)), links, prior, np.zeros(3, np.float32))
    factors = [0.75 * 4 + 0.25 * 2, 0.25 * 8 + 0.75 * 4, 0.5 * 4 + 0.5 * 2]
    assert np.allclose(e[:, 0] / e_null, factors, rtol=1e-3)


@pytest.mark.parametrize(
    "wrong", [{"iterations": 0}, {"lexical_iterations": -1}, {"null_probability": 0.0}, {"lexical_prior": -1.0}]
)
def test_settings_outside_their_range_are_errors(wrong):
    with pytest.raises(AlignkitError):
        HMMSettings(**wrong)


def test_the_chain_starts_with_weights_that_fall_on_both_sides():
    direction = Direction((1, 1), 1, HMMSettings())
    direction.start_chain(0.0)
    assert set(direction.jumps.tolist()) == {1.0}
    direction.start_chain(5.0)
    middle = len(direction.jumps) // 2
    assert direction.jumps[middle - 5] == direction.jumps[middle + 5] == pytest.approx(math.exp(-1))
    assert direction.start[10] == pytest.approx(math.exp(-2))
    assert direction.jumps[0] > 0
