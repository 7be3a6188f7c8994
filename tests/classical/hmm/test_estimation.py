"""EM of the hidden Markov aligners: expectations, counts, priors, fertility."""

import math
from dataclasses import replace

import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of, expected_links, hmm_of_one_pair, random_pairs

from alignkit.classical.hmm import e_step
from alignkit.classical.hmm.background import fertility_counts
from alignkit.classical.hmm.hmm import HMMEstimation, estimate, fertility_factors, leave_one_out_share
from alignkit.classical.hmm.model import WIDTH, HMMParameters
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.kernels.hmm_e_step import BOTH, FORWARD, REVERSE
from alignkit.kernels.hmm_rows import FERTILITIES


def estimation_of(pairs, settings, pool=FORWARD, lexical=0, iterations=0):
    """(bitext, an estimation after so many iterations without transitions, and with them)."""
    bitext = bitext_of(pairs)
    model = HMMEstimation(bitext, settings, pool, 1)
    model.initialise()
    for step in range(lexical + iterations):
        if step == lexical:
            model.add_transitions()
        model.e_step()
        model.m_step()
    return bitext, model


def as_dict(bitext, table, values):
    """{(i, o): value} from values float32 (K,) of the word pairs of a table."""
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.offsets))
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    keys = zip(rows.tolist(), table.columns.tolist(), strict=True)
    return {(source[i], target[o]): v for (i, o), v in zip(keys, values.tolist(), strict=True)}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("pool", [FORWARD, REVERSE])
def test_the_likelihood_rises_at_every_step_of_em(seed, pool):
    bitext = bitext_of(random_pairs(seed, pairs=120))
    settings = HMMSettings(lexical_iterations=4, iterations=12)
    history = estimate(HMMEstimation(bitext, settings, pool, 1))
    assert len(history) == 17
    # With equal weights the HMM is IBM Model 1, so the likelihood goes on from where that left it.
    assert (np.diff(history) > -1e-6 * abs(history[0])).all()
    assert history[-1] > history[4] + 1


@pytest.mark.parametrize(("prior", "exclude"), [(0.0, False), (0.3, False), (0.3, True)])
def test_without_transitions_it_is_ibm_model_1_with_a_fixed_null(prior, exclude):
    """With priors, and with a link's own part, and that of copies of its pair, taken out of the counts."""
    pairs = random_pairs(5, pairs=60)
    pairs += pairs[:20] + pairs[:5]
    settings = HMMSettings(null_probability=0.2, dirichlet=prior, null_prior=prior, leave_one_out=exclude)
    bitext, model = estimation_of(pairs, settings, lexical=3)
    share = leave_one_out_share(bitext) if exclude else 0.0
    trans, null, history = naive.lexical_em(pairs, 3, 0.2, len(bitext.target.vocabulary), prior, share)
    model.add_transitions()  # which a complete set of parameters has
    table, _, (parameters,) = model.release(0)
    found = as_dict(bitext, table, parameters.emission)
    assert found == pytest.approx(trans, abs=2e-4)
    for word, value in null.items():
        assert parameters.null[bitext.target.vocabulary.id(word)] == pytest.approx(value, abs=1e-4)
    assert model.log_likelihood == pytest.approx(history[-1], rel=1e-5)


@pytest.mark.parametrize("least", [0.0, 0.4, 1.0])
def test_the_last_e_step_takes_out_a_larger_own_part(least):
    """Whatever was expected of the link, but no more than was counted."""
    pairs = random_pairs(5, pairs=60)
    pairs += pairs[:20]
    settings = HMMSettings(null_probability=0.2, dirichlet=0.3, null_prior=0.3, leave_one_out=True)
    settings = replace(settings, least_own=least)
    bitext, model = estimation_of(pairs, settings, lexical=3)
    share = leave_one_out_share(bitext)
    *_, history = naive.lexical_em(pairs, 4, 0.2, len(bitext.target.vocabulary), 0.3, share, least)
    model.e_step(last=FORWARD)
    assert model.log_likelihood == pytest.approx(history[-1], rel=1e-5)


def test_counts_are_sums_of_links():
    bitext, model = estimation_of(random_pairs(3), HMMSettings(), BOTH, lexical=1, iterations=1)
    model.e_step()
    matrices, counts, totals = expected_links(model), {}, {}
    for m in range(len(bitext)):
        for t, o in enumerate(bitext.target.words(m)):
            for j, i in enumerate(bitext.source.words(m)):
                counts[i, o] = counts.get((i, o), 0.0) + float(matrices[m][t, j])
                totals[i] = totals.get(i, 0.0) + float(matrices[m][t, j])
    model.m_step()
    expected = {(i, o): n / totals[i] for (i, o), n in counts.items()}
    table, _, (parameters,) = model.release(0)
    assert as_dict(bitext, table, parameters.emission) == pytest.approx(expected, abs=1e-4)


def test_the_reverse_direction_is_the_forward_one_of_the_reversed_text():
    text = random_pairs(9, pairs=100)
    _, reverse = estimation_of(text, HMMSettings(), REVERSE, lexical=2, iterations=2)
    _, forward = estimation_of([(y, x) for x, y in text], HMMSettings(), lexical=2, iterations=2)
    for one, other in zip(expected_links(reverse), expected_links(forward), strict=True):
        assert np.allclose(one.T, other, atol=1e-4)
    of_reverse, of_forward = reverse.release(1).directions[0], forward.release(0).directions[0]
    assert np.allclose(of_reverse.transition, of_forward.transition, atol=1e-4)


def started(numbers, p0, settings=None, final=None):
    """An estimation of a text of one pair that goes on from these parameters, before its first E-step."""
    hmm, bitext = hmm_of_one_pair(*numbers, p0, final=final)
    model = HMMEstimation(bitext, settings or HMMSettings(null_probability=p0), FORWARD, 1, start=hmm)
    model.initialise()
    return model


@pytest.mark.parametrize(("T", "L"), [(1, 1), (1, 4), (4, 3), (3, 4), (5, 2)])
def test_the_m_step_of_transitions(T, L):
    """Expected numbers of jumps and their divisors are those of enumeration, and their quotients the weights."""
    rng = np.random.default_rng(10 * T + L)
    numbers = rng.random((T, L)), rng.random(T), rng.random(2 * WIDTH + 1) + 0.05, rng.random(WIDTH + 1) + 0.05
    numbers = tuple(array.astype(np.float32) for array in numbers)
    emission, null, transition, initial = numbers
    final = (rng.random(WIDTH + 1) ** 3 + 0.01).astype(np.float32)
    model = started(numbers, 0.3, HMMSettings(null_probability=0.3, ends=True), final)
    jump, start = (lambda d: float(transition[WIDTH + d])), (lambda j: float(initial[j]))
    end = lambda d: float(final[d])  # noqa: E731
    expected = naive.posteriors(emission.tolist(), null.tolist(), jump, start, 0.3, end)
    model.e_step()
    assert np.allclose(expected_links(model)[0], expected[1], atol=2e-3)
    assert model.log_likelihood == pytest.approx(expected[0], abs=1e-4)
    counts = model.expectation.transitions[0]
    for d, number in expected[3].items():
        assert counts.jumps[WIDTH + d] == pytest.approx(number, abs=5e-4)
        assert counts.jump_divisors[WIDTH + d] == pytest.approx(expected[4][d], rel=2e-3, abs=1e-4)
    assert counts.initial_divisors[:L] == pytest.approx(1 / initial[:L].sum(), rel=1e-4)
    assert counts.final_divisors[:L] == pytest.approx(1 / final[:L].sum(), rel=1e-4)
    model.m_step()
    parameters = model.release(0).directions[0]
    assert np.allclose(parameters.initial[:L] / parameters.initial[:L].sum(), expected[5], atol=1e-3)
    assert np.allclose(parameters.final[:L] / parameters.final[:L].sum(), expected[6], atol=1e-3)
    if T > 1:
        weights = np.array([expected[3][d] / expected[4][d] for d in range(1 - L, L)])
        found = parameters.transition[WIDTH + 1 - L : WIDTH + L]
        assert np.allclose(found / found.sum(), weights / weights.sum(), rtol=5e-3, atol=1e-5)


def test_expected_jumps_of_long_sentences():
    """Jumps beyond the width are counted with the last of it."""
    T, L = 3, WIDTH + 20
    rng = np.random.default_rng(1)
    numbers = rng.random((T, L)) ** 8 + 1e-6, rng.random(T) * 0.1, rng.random(2 * WIDTH + 1) + 0.05
    numbers = *numbers, rng.random(WIDTH + 1) + 0.05
    model = started(numbers, 0.2)
    model.e_step()
    counts = model.expectation.transitions[0]
    expected = np.zeros(2 * WIDTH + 1)
    for d, number in naive.posteriors_by_matrices(*numbers, 0.2)[3].items():
        expected[min(max(d, -WIDTH), WIDTH) + WIDTH] += number
    assert np.allclose(counts.jumps, expected, atol=2e-3)
    assert counts.initial.sum() == pytest.approx(1, abs=1e-3)


def test_larger_texts_count_transitions_in_every_nth_pair(monkeypatch):
    """At first all words are equally likely, so that the other pairs do not matter."""
    monkeypatch.setattr(e_step, "COUNTED_PAIRS", 20)
    pairs, counts = random_pairs(4, pairs=40), []
    for text in (pairs, pairs[::2]):
        model = HMMEstimation(bitext_of(text), HMMSettings(), BOTH, 1)
        model.initialise()
        model.add_transitions()
        model.e_step()
        counts.append([number for each in model.expectation.transitions for number in each])
    assert counts[0][0].sum() > 0
    for sampled, whole in zip(*counts, strict=True):
        assert sampled == pytest.approx(whole, rel=1e-4)


def test_posteriors_sum_to_one_where_jumps_are_next_to_impossible():
    """What negligible states do not pass on is then nearly all there is."""
    words = 30
    order = np.random.default_rng(1).permutation(words)
    places = np.arange(words)
    emission = 10.0 ** -(4 + (places + places[:, None]) % 5)
    emission[places, order] = 1.0  # a word is nearly always its own translation, and never NULL's
    transition = np.full(2 * WIDTH + 1, 1e-12)
    transition[WIDTH + 1] = 1.0
    model = started((emission, np.full(words, 1e-25), transition, np.ones(WIDTH + 1)), 0.05)
    model.e_step()
    assert expected_links(model)[0].sum(axis=1) == pytest.approx(np.ones(words), abs=1e-3)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("longest", [6, 30])
def test_fertilities_are_poisson_binomial(side, longest):
    """Sentences of one, two and broken vectors of words, and words with more links than are told apart."""
    settings = HMMSettings(fertility=1.0, null_probability=0.01)
    pairs = [*random_pairs(4, longest=longest), (["s0"], ["t0"] * 12), (["s0"] * 12, ["t0"])]
    bitext, model = estimation_of(pairs, settings, BOTH, iterations=1)
    model.e_step()
    matrices, corpus = expected_links(model), (bitext.source, bitext.target)[side]
    counts = np.zeros((len(corpus.vocabulary), FERTILITIES))
    for m in range(len(bitext)):
        for word, chances in zip(corpus[m].tolist(), matrices[m] if side else matrices[m].T, strict=True):
            counts[word] += naive.fertility_chances(chances.astype(float), FERTILITIES - 1)
    model.m_step()
    general = counts.sum(axis=0) + 0.5
    expected = counts + settings.fertility_prior * general / general.sum()
    found = model.release(side).directions[0].fertility
    assert np.allclose(found, expected[:, 1:] / expected[:, :-1], rtol=2e-2, atol=1e-3)
    assert counts[:, -1].max() > 0.1


@pytest.mark.parametrize("reach", [0.0, 5.0])
def test_transitions_start_with_weights_that_fall_on_both_sides(reach):
    _, model = estimation_of([(["a"], ["x"])], HMMSettings(reach=reach))
    model.add_transitions()
    found = model.release(0).directions[0]
    if not reach:
        assert set(found.transition.tolist()) == {1.0}
        return
    assert found.transition[WIDTH - 5] == found.transition[WIDTH + 5] == pytest.approx(math.exp(-1))
    assert found.initial[10] == pytest.approx(math.exp(-2))
    assert found.transition[0] > 0


def test_impossible_parameters_are_errors():
    _, model = estimation_of(random_pairs(2), JOINT_SETTINGS, BOTH, iterations=1)
    parameters = model.release(0).directions[0]
    arrays = parameters.arrays
    for name, bad in (
        ("transition", parameters.transition * 0),
        ("null", parameters.null * np.nan),
        ("fertility", parameters.fertility[1:]),
        ("initial", parameters.initial[1:]),
    ):
        with pytest.raises(ValueError, match=r"HMM|fertility|transition"):
            HMMParameters(**{**arrays, name: bad}, null_probability=0.2)
    with pytest.raises(TypeError, match="float32"):
        HMMParameters(**{**arrays, "null": parameters.null.astype(float)}, null_probability=0.2)
    with pytest.raises(ValueError, match="null_probability"):
        HMMParameters(**arrays, null_probability=1.0)


def test_fertility_factors_are_ratios_of_smoothed_chances_to_a_power():
    counts = np.array([[6.0, 3.0, 1.0], [0.0, 2.0, 0.0]])
    prior = 4 * np.array([6.5, 5.5, 1.5]) / 13.5
    found = fertility_factors(counts, HMMSettings(fertility=0.5, fertility_prior=4.0))
    assert found == pytest.approx(np.sqrt((counts[:, 1:] + prior[1:]) / (counts[:, :-1] + prior[:-1])))


def test_fertility_counts_have_the_links_of_their_words():
    chances = np.random.default_rng(0).dirichlet(np.ones(FERTILITIES), 2)
    factors = (chances[:, 1:] / chances[:, :-1]) ** 0.8
    found = fertility_counts(factors, np.array([3.0, 50.0]), 0.8)
    assert found @ np.arange(FERTILITIES) == pytest.approx([3, 50])
    assert found / found.sum(1, keepdims=True) == pytest.approx(chances, rel=1e-4)
