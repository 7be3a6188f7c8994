import itertools
import math

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, permuted_copy, random_pairs

from alignkit.bitext import Bitext
from alignkit.classical.affixes import affix_classes
from alignkit.classical.chain import Chain
from alignkit.classical.hmm import fit_hmm
from alignkit.classical.hmm_estimation import WIDTH, Direction, Estimation, Settings
from alignkit.classical.hmm_joint import SETTINGS, fit_best, fit_joint, links_above
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.kernels import chain as kernels
from alignkit.kernels import hmm as estep
from alignkit.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.scores import Scores
from alignkit.vocabulary import Vocabulary


def run_kernel(emission, null, jumps, start, p0, shares=False):
    """(log-likelihood, posteriors, NULL's, {jump: expected number}) by the kernel."""
    T, L = emission.shape
    direction = Direction(0, (1, 1), T, Settings(null_probability=p0))
    direction.jumps, direction.start = jumps, start
    room = max(T, L) + kernels.STEP
    weights, counts = kernels.widened(direction.arrays, room)
    f, g = np.empty((T, L), np.float32), np.empty((T, L), np.float32)
    work = (f, g, np.empty((7, room), np.float32), np.empty(T, np.float32), np.empty(max(T, L)))
    e, e_null = emission.copy(), null.copy()
    likelihood = kernels.posteriors(T, L, e, e_null, direction.arrays, weights, work, counts)
    middle = (len(counts[0]) - 1) // 2
    if shares:
        return {d: counts[1][middle + d] for d in range(1 - L, L)}
    return likelihood, e, e_null, {d: counts[0][middle + d] for d in range(1 - L, L)}


@pytest.mark.parametrize(
    ("T", "L", "seed"), [(1, 1, 0), (1, 4, 1), (4, 1, 2), (3, 3, 3), (4, 3, 4), (3, 4, 5), (5, 2, 6)]
)
def test_forward_backward_is_enumeration(T, L, seed):
    rng = np.random.default_rng(seed)
    emission = rng.random((T, L)).astype(np.float32)
    null = rng.random(T).astype(np.float32)
    jumps = rng.random(2 * WIDTH + 1).astype(np.float32) + np.float32(0.05)
    start = rng.random(WIDTH + 1).astype(np.float32) + np.float32(0.05)
    found = run_kernel(emission, null, jumps, start, 0.3)
    expected = naive.posteriors(
        emission.tolist(), null.tolist(), lambda d: float(jumps[WIDTH + d]), lambda j: float(start[j]), 0.3
    )
    assert found[0] == pytest.approx(expected[0], abs=1e-4)
    assert np.allclose(found[1], expected[1], atol=2e-4)
    assert np.allclose(found[2], expected[2], atol=2e-4)
    for d, number in expected[3].items():
        assert found[3][d] == pytest.approx(number, abs=5e-4)


def test_jumps_beyond_the_width_share_a_weight():
    """Sentences longer than the table of jumps: far jumps take the weight of the last."""
    weights = np.arange(1, 2 * WIDTH + 2, dtype=np.float32)
    reach = WIDTH + 7
    wide = np.zeros(2 * reach + 1, np.float32)
    kernels.widen(weights, -reach, reach, wide)
    assert wide[0] == wide[7] == weights[0]
    assert wide[8] == weights[1]
    assert wide[-1] == wide[-8] == weights[-1]
    folded = np.zeros_like(weights, dtype=np.float64)
    kernels.fold(np.ones(2 * reach + 1), -reach, folded)
    assert folded[0] == folded[-1] == 8
    assert (folded[1:-1] == 1).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0)])
def test_the_likelihood_rises_at_every_step_of_em(seed, shares):
    bitext = bitext_of(random_pairs(seed, pairs=120))
    settings = Settings(lexical_iterations=4, iterations=12)
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
    fitted = fit_hmm(bitext_of(pairs), Settings(lexical_iterations=1, iterations=1))
    assert fitted.log_likelihood[0] == pytest.approx(4 * math.log(1 / 3), abs=1e-5)


def test_without_the_chain_it_is_ibm_model_1_with_fixed_null():
    pairs = random_pairs(5, pairs=80)
    bitext = bitext_of(pairs)
    estimation = Estimation(bitext, Settings(lexical_iterations=3, null_probability=0.2), (1.0, 0.0), 1)
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
    offsets, columns, _ = estimation.statistics.rows
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return [
        (bitext.source.vocabulary[i], bitext.target.vocabulary[o])
        for i, o in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def values_of(estimation):
    offsets, _, counts = estimation.statistics.rows
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
    bitext, estimation = estimated(random_pairs(3), Settings())
    expected = {}
    for m in range(len(bitext)):
        x, y = bitext.source.words(m), bitext.target.words(m)
        matrix = estimation.links[estimation.offsets[m] : estimation.offsets[m + 1]].reshape(len(y), len(x))
        for (t, o), (j, i) in itertools.product(enumerate(y), enumerate(x)):
            expected[i, o] = expected.get((i, o), 0.0) + float(matrix[t, j])
    found = dict(zip(pair_keys(bitext, estimation), estimation.statistics.rows[2].tolist(), strict=True))
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair], abs=1e-4) for pair in expected)


@pytest.mark.parametrize("side", [0, 1])
def test_fertilities_are_poisson_binomial(side):
    settings = Settings(fertility=1.0)
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


def test_back_off_is_what_other_words_of_the_classes_say():
    pairs = [(["abcx", "abcy", "zzz"], ["defx", "defy", "qq"]), (["abcy", "zzz"], ["defy", "qr", "defz"])] * 2
    settings = Settings(back_off=2.0, affixes=(3,))
    bitext, estimation = estimated(pairs, settings, steps=1)
    counts = dict(zip(pair_keys(bitext, estimation), estimation.statistics.rows[2].tolist(), strict=True))
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
    for direction, values in zip(estimation.directions, expected, strict=True):
        for pair, prior in zip(pair_keys(bitext, estimation), direction.prior.tolist(), strict=True):
            assert prior == pytest.approx(values[pair], abs=1e-5)


def test_affix_classes_partition_the_words():
    vocabulary = Vocabulary.from_tokens(["über", "üben", "haus", "maus", "us", "ha"])
    first, last = affix_classes(vocabulary, 2, False), affix_classes(vocabulary, 2, True)
    assert first.of.tolist() == [0, 0, 1, 2, 3, 1]
    assert last.of.tolist() == [0, 1, 2, 2, 2, 3]
    assert last.members.tolist() == [0, 1, 2, 3, 4, 5]
    assert last.first.tolist() == [0, 1, 2, 5, 6]
    assert len(affix_classes(Vocabulary.from_tokens([]), 3, True)) == 0


@pytest.mark.parametrize("exclude", [0.0, 1.0])
def test_a_link_is_not_judged_by_itself(exclude):
    """Emissions against the formula, with and without a link's own part in the counts."""
    rng = np.random.default_rng(6)
    T, L = 3, 2
    links, nulls = rng.random((T, L)).astype(np.float32), rng.random(T).astype(np.float32)
    counts, prior = 1 + rng.random((2, T * L)).astype(np.float32)
    totals, null = np.float32([5, 6]), np.float32([2, 3, 4])
    direction = Direction(0, (L, T), T, Settings())
    direction.prior, direction.totals, direction.null = prior, totals, null
    direction.numbers[1:] = (11.0, exclude)
    pairs = (np.array([0, T * L]), np.arange(T * L, dtype=np.int32), counts, links.ravel())
    e, e_null = np.empty((T, L), np.float32), np.empty(T, np.float32)
    x, y = np.arange(L, dtype=np.int32), np.arange(T, dtype=np.int32)
    fertile = links.sum(axis=0)
    scale = estep.emissions(0, (L, 1), x, y, pairs, direction.arrays, fertile, nulls, e, e_null)
    own = exclude * links
    expected = (counts.reshape(T, L) - own + prior.reshape(T, L)) / (totals - own)
    expected_null = (null - exclude * nulls) / 11
    largest = np.maximum(expected.max(axis=1), expected_null)
    assert np.allclose(e, expected / largest[:, None], rtol=1e-5)
    assert np.allclose(e_null, expected_null / largest, rtol=1e-5)
    assert scale == pytest.approx(np.log(largest).sum(), rel=1e-5)


def test_fertility_is_interpolated_between_whole_numbers():
    """Expected other links of 1.25: three quarters of the factor for 1, a quarter of that for 2."""
    links = np.float32([[0.5], [1.0], [0.25]])
    direction = Direction(0, (1, 3), 3, Settings())
    direction.ratios = np.float32([[8.0, 4.0, 2.0]])
    direction.prior, direction.totals = np.full(3, 0.5, np.float32), np.ones(1, np.float32)
    direction.null, direction.numbers[1] = np.zeros(3, np.float32), 1.0
    pairs = (np.array([0, 3]), np.arange(3, dtype=np.int32), np.zeros(3, np.float32), links.ravel())
    e, e_null = np.empty((3, 1), np.float32), np.empty(3, np.float32)
    tokens = np.zeros(1, np.int32), np.arange(3, dtype=np.int32)
    nulls = np.zeros(3, np.float32)
    fertile = links.sum(axis=0)
    scales = [
        estep.emissions(
            t, (1, 1), tokens[0], tokens[1][t : t + 1], pairs, direction.arrays, fertile, nulls, e, e_null
        )
        for t in range(3)
    ]
    factors = [0.75 * 4 + 0.25 * 2, 0.25 * 8 + 0.75 * 4, 0.5 * 4 + 0.5 * 2]
    assert np.allclose(np.exp(scales), 0.5 * np.array(factors), rtol=1e-3)


def test_jumps_are_divided_by_the_chances_they_had():
    """The M-step's divisor: for each jump that was possible, the jumps from a position by the weights from it."""
    rng = np.random.default_rng(4)
    T, L, p0 = 4, 3, 0.3
    emission, null = rng.random((T, L)).astype(np.float32), rng.random(T).astype(np.float32)
    jumps = rng.random(2 * WIDTH + 1).astype(np.float32) + np.float32(0.05)
    start = rng.random(WIDTH + 1).astype(np.float32) + np.float32(0.05)
    counts = run_kernel(emission, null, jumps, start, p0, shares=True)
    weight = lambda d: float(jumps[WIDTH + d])  # noqa: E731
    expected = dict.fromkeys(range(1 - L, L), 0.0)
    for path in naive.paths(T, L):
        chance = naive.path_probability(
            path, emission.tolist(), null.tolist(), weight, lambda j: float(start[j]), p0
        )
        for (before, _), (_, is_null) in itertools.pairwise(path):
            if not is_null:
                possible = range(-before, L - before)
                for d in possible:
                    expected[d] += chance / sum(map(weight, possible))
    total = math.exp(naive.posteriors(emission.tolist(), null.tolist(), weight, lambda j: float(start[j]), p0)[0])
    for d, share in expected.items():
        assert counts[d] == pytest.approx(share / total, rel=1e-3)
    direction = Direction(0, (1, 1), T, Settings())
    number, share = np.zeros((2, 2 * WIDTH + 1))
    number[WIDTH : WIDTH + 2], share[WIDTH : WIDTH + 2] = (3, 1), (6, 1)
    direction.update_chain((number, share, np.zeros(WIDTH + 1), np.zeros(WIDTH + 1)), 0.0)
    assert direction.jumps[WIDTH + 1] / direction.jumps[WIDTH] == pytest.approx(2)


def recovered(links: Links, planted) -> float:
    gold = GoldLinks(Links.from_lists(planted), Links.from_lists(planted))
    return evaluate(gold, links).f1


def test_a_planted_lexicon_is_recovered():
    pairs, planted = permuted_copy(7)
    assert recovered(fit_best(bitext_of(pairs)).links, planted) > 0.97


def test_a_planted_order_is_recovered_where_words_alone_say_too_little():
    """Words are few, so most occur several times in their sentence, and only the order tells the copies apart."""
    rng = np.random.default_rng(3)
    pairs, planted = [], []
    for _ in range(300):
        words = rng.integers(0, 6, 8).tolist()
        pairs.append(([f"s{w}" for w in words], [f"t{w}" for w in words]))
        planted.append([(j, j) for j in range(len(words))])
    bitext = bitext_of(pairs)
    assert recovered(fit_ibm1(bitext).links(bitext), planted) < 0.7
    assert recovered(fit_hmm(bitext).links(bitext), planted) > 0.95
    assert recovered(fit_best(bitext).links, planted) > 0.95


def test_threads_change_no_bit_of_the_training_links():
    bitext = bitext_of(random_pairs(8, pairs=150))
    one = fit_joint(bitext, threads=1)
    for threads in (2, 3, 8):
        other = fit_joint(bitext, threads=threads)
        assert other.probabilities.values.tobytes() == one.probabilities.values.tobytes()


def test_the_reverse_direction_is_the_forward_one_of_the_reversed_text():
    bitext = bitext_of(random_pairs(9, pairs=100))
    settings = Settings(lexical_iterations=2, iterations=2)
    forward, reverse = (
        Estimation(text, settings, shares, 1)
        for text, shares in ((bitext.reversed, (1.0, 0.0)), (bitext, (0.0, 1.0)))
    )
    for step in range(4):
        for estimation in (forward, reverse):
            if step == 2:
                estimation.start_chain()
            estimation.expect()
            estimation.maximise()
    for m in range(len(bitext)):
        place = slice(forward.offsets[m], forward.offsets[m + 1])
        T, L = bitext.shapes[m]
        assert np.allclose(forward.links[place].reshape(L, T), reverse.links[place].reshape(T, L).T, atol=1e-4)


def test_a_higher_threshold_gives_a_subset():
    fitted = fit_joint(bitext_of(random_pairs(10, pairs=100)))
    few, many = (links_above(fitted.probabilities, threshold) for threshold in (0.7, 0.2))
    assert 0 < len(few.pairs) < len(many.pairs)
    for m in range(len(few)):
        assert set(map(tuple, few[m].tolist())) <= set(map(tuple, many[m].tolist()))


def test_links_above_are_sorted_and_at_least_the_threshold():
    matrices = [np.array([[0.5, 0.1, 0.9], [0.5, 0.6, 0.0]]), np.zeros((0, 3)), np.array([[0.5]])]
    links = links_above(Scores.from_matrices(matrices), 0.5)
    assert [links[m].tolist() for m in range(3)] == [[[0, 0], [0, 1], [1, 1], [2, 0]], [], [[0, 0]]]
    assert len(links_above(Scores.from_matrices(matrices), 0.0).pairs) == 6


def test_empty_and_long_sentences():
    pairs = [([], ["x"]), (["a"], []), ([], []), (["a"] * 300, ["x"] * 280), (["a", "b"], ["x", "y"])]
    fitted = fit_joint(bitext_of(pairs))
    assert len(fitted.links) == 5
    assert np.isfinite(fitted.probabilities.values).all()
    assert fitted.probabilities.values.max() <= 1
    assert fit_joint(bitext_of([([], [])])).links.pairs.shape == (0, 2)
    assert len(fit_joint(bitext_of([])).links) == 0


@pytest.mark.parametrize(
    "wrong", [{"iterations": 0}, {"lexical_iterations": -1}, {"null_probability": 0.0}, {"lexical_prior": -1.0}]
)
def test_settings_outside_their_range_are_errors(wrong):
    with pytest.raises(AlignkitError):
        Settings(**wrong)


def test_a_threshold_outside_its_range_is_an_error():
    with pytest.raises(AlignkitError, match="threshold"):
        fit_joint(bitext_of([(["a"], ["x"])]), threshold=1.5)


def test_a_chain_with_impossible_numbers_is_an_error():
    bitext, estimation = estimated(random_pairs(2), Settings())
    chain = Chain.of(estimation, 0)
    arrays = {name: getattr(chain, name) for name in ("values", "floor", "null", "ratios", "jumps", "start")}
    for name, bad in (("jumps", chain.jumps * 0), ("null", chain.null * np.nan), ("ratios", chain.ratios[1:])):
        with pytest.raises(ValueError):
            Chain(**{**arrays, name: bad}, null_probability=0.2)
    with pytest.raises(ValueError):
        Chain(**arrays, null_probability=1.0)
    assert isinstance(bitext, Bitext)
    assert SETTINGS.exclude
