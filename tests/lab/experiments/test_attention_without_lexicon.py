"""What is transplanted, written and erased, how places are decoded, and how the claims are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression

from alignkit.lab.experiments import interventions as experiment
from alignkit.text.tokenization import BOS, EOS

SMALL = replace(experiment.QUICK_ATTENTION_WITHOUT_LEXICON, length=5, hidden=8, steps=2, before=3, pairs=4)
TASK = "permutation", 5, 5


@pytest.fixture(scope="module")
def bench():
    torch.set_num_threads(1)
    return experiment.Bench(SMALL, lambda *what: None, 5, range(100, 102), 1)


@pytest.fixture(scope="module")
def flat(bench):
    return bench.trained_uniformly(bench.narrow, 3)


def same(one, other):
    """The parts of two networks whose weights are all the same."""
    after = other.state_dict()
    differ = {name.split(".")[0] for name, x in one.state_dict().items() if not torch.equal(x, after[name])}
    return {name.split(".")[0] for name in after} - differ


def test_a_transplant_changes_its_groups_and_no_others(bench, flat):
    fresh, trained = bench.starts[0], flat[0]
    every = same(fresh, fresh)
    assert same(fresh, trained) == {"attention"}
    for subset in experiment.SUBSETS:
        mixed = experiment.transplant(fresh, trained, subset)
        moved = {name for group in subset for name in experiment.GROUPS[group]}
        assert same(mixed, trained) == moved | {"attention"}, subset
        assert same(mixed, fresh) == every - moved, subset
    assert same(experiment.transplant(fresh, trained, ()), fresh) == every
    assert same(experiment.transplant(fresh, trained, experiment.GROUPS), trained) == every
    assert same(fresh, trained) == {"attention"}  # neither has changed


def added(networks, places, sign=1.0):
    return [
        experiment.with_places(one, (sign * h, sign * s)) for one, (h, s) in zip(networks, places, strict=True)
    ]


@pytest.fixture(scope="module")
def places(bench, flat):
    return [experiment.mean_places(network, bench.narrow) for network in flat]


def test_places_are_the_mean_states_and_only_they_are_added(bench, flat, places):
    for one, trained, written in zip(bench.starts, flat, added(bench.starts, places), strict=True):
        states = [experiment.states_of(each, bench.narrow, 200) for each in (written, one, trained)]
        for after, before, of_flat in zip(*states, strict=True):
            mean = of_flat.mean(0) - of_flat.mean((0, 1))
            torch.testing.assert_close(after - before, mean.expand_as(after), atol=1e-5, rtol=0)
    for erased in added(flat, places, -1.0):
        parts = experiment.states_of(erased, bench.narrow, 200)
        assert all(part.mean(0).var(0).max() < 1e-10 for part in parts)


def test_scrambled_places_are_the_same_vectors_in_orders_of_their_own(bench, places):
    for seed, straight in zip(bench.seeds, places, strict=True):
        orders = []
        for mixed, table in zip(experiment.scrambled(straight, seed), straight, strict=True):
            distances = torch.cdist(mixed, table)
            assert distances.min(1).values.max() < 1e-6
            orders.append(distances.argmin(1).tolist())
            assert sorted(orders[-1]) == list(range(6)) != orders[-1]
        assert orders[0] != orders[1]


def test_added_places_are_not_trained_and_known_words_are_those_without(bench, places):
    starts = added(bench.starts, places)
    found = bench.condition("x", 0, starts, known=bench.starts)
    for start, run in zip(starts, found.runs, strict=True):
        assert same(start, run.network) == set()
        assert all(map(torch.equal, start.places, run.network.places))
    plain = bench.condition("x", 0, bench.starts)
    assert found.known.tolist() == plain.known.tolist()
    assert found.runs[0].loss.tolist() != plain.runs[0].loss.tolist()


def test_erasing_moves_words_and_their_biases_together(flat):
    erased = experiment.with_words_erased(flat[0], 3)
    assert same(erased, flat[0]) == same(flat[0], flat[0]) - {"output"}
    rows = [torch.cat([p.output.weight, p.output.bias[:, None]], 1) for p in (erased, flat[0])]
    order = torch.cdist(*rows).argmin(1)
    assert torch.equal(rows[0], rows[1][order])
    assert sorted(order.tolist()) == list(range(len(order))) != order.tolist()
    assert order[: EOS + 1].tolist() == list(range(EOS + 1))


def test_other_order_and_noise():
    rng = np.random.default_rng(0)
    source, previous, target = experiment.OtherOrder(*TASK).draw(rng, 50)
    assert (np.sort(source) == np.sort(target)).all()
    assert (previous[:, 1:] == target[:, :-1]).all()
    assert (source[:, 0] == target[:, 0]).mean() < 0.5
    source, previous, target = experiment.Noise(*TASK).draw(rng, 3000)
    assert (previous[:, 1:] == target[:, :-1]).all()
    assert (previous[:, 0] == BOS).all()
    counts = np.stack([np.bincount(column - EOS, minlength=6) for column in target.T])
    assert (abs(counts - 500) < 100).all()  # every token at every place, equally often


def test_places_are_decoded_as_by_scikit_learn():
    rng = np.random.default_rng(1)
    given = rng.standard_normal((12, 7, 4))
    given[..., 0] += 0.7 * np.arange(7)
    places = np.tile(np.arange(7), 6)
    first, second = given[:6].reshape(-1, 4), given[6:].reshape(-1, 4)
    expected = LinearRegression().fit(first, places).score(second, places)
    assert 0.3 < expected < 0.99
    assert experiment.decoded_places(given) == pytest.approx(expected)
    given[..., 1] = 3 - 2 * np.arange(7)
    assert experiment.decoded_places(given) == pytest.approx(1)
    assert experiment.decoded_places(rng.standard_normal((400, 7, 2))) < 0.02


def test_only_states_that_have_read_a_word_are_decoded(bench, flat):
    expected = np.zeros((2, 2))
    for number, network in enumerate(flat):
        h, s = experiment.states_of(network, bench.narrow, 8)
        expected[:, number] = [experiment.decoded_places(part.numpy()) for part in (h[:, 0:5], s[:, 1:6])]
    assert experiment.decoded(flat, bench.narrow, 8) == pytest.approx(expected)


def planted(seeds=40):
    """Mediators (2, 16, seeds), and steps that the encoder delays by 20 and the decoder by 10.

    Of these, 6 and 3 go through the mediators.
    """
    rng = np.random.default_rng(2)
    members = np.array([[group in subset for subset in experiment.SUBSETS] for group in experiment.GROUPS], float)
    h = members[1][:, None] + 0.2 * rng.standard_normal((16, seeds))
    s = members[2][:, None] + 0.2 * rng.standard_normal((16, seeds))
    steps = 100 + 6 * h + 3 * s + 14 * members[1][:, None] + 7 * members[2][:, None] + rng.normal(0, 9, seeds)
    return np.stack([h, s]), steps


def test_the_share_that_is_mediated():
    mediators, steps = planted()
    assert experiment.mediated_share(steps, mediators) == pytest.approx(9 / 30, abs=0.03)
    assert experiment.mediated_share(steps, mediators[:1]) == pytest.approx(6 / 30, abs=0.03)
    assert experiment.mediated_share(steps, mediators[:0]) == pytest.approx(0)


def test_correlations_within_conditions_are_spearmans():
    rng = np.random.default_rng(3)
    mediator, steps = rng.standard_normal((2, 5, 12))
    steps = steps.round()  # ties
    expected = np.mean([spearmanr(*pair).statistic for pair in zip(mediator, steps, strict=True)])
    assert experiment.within_conditions(mediator, steps).mean() == pytest.approx(expected)
    with_constant = np.vstack([steps, np.ones((1, 12))])
    found = experiment.within_conditions(np.vstack([mediator, mediator[:1]]), with_constant)
    assert found.mean() == pytest.approx(expected)


def test_every_condition_starts_from_what_its_name_says(monkeypatch):
    trainings, kept, told = [], experiment.copying.train_on_sequences, []

    def spy(given, seeds, draw, plan, progress, frozen=(), uniform=False):
        runs = kept(given, seeds, draw, plan, progress, frozen=frozen, uniform=uniform)
        trainings.append((given, list(seeds), draw.__self__, plan.steps, uniform, runs))
        return runs

    monkeypatch.setattr(experiment.copying, "train_on_sequences", spy)
    result = experiment.run_attention_without_lexicon(SMALL, lambda *what: told.append(what[:2]))
    assert told[-1][0] == told[-1][1]
    before, main = trainings[:3], trainings[3:]
    kinds = [type(sequences) for _, _, sequences, *_ in before]
    assert kinds == [experiment.copying.Sequences, experiment.OtherOrder, experiment.Noise]
    assert {(steps, uniform, *seeds) for _, seeds, _, steps, uniform, _ in before} == {(3, True, 2100, 2101)}
    assert {(steps, uniform, *seeds) for _, seeds, _, steps, uniform, _ in main} == {(2, False, 1100, 1101)}
    fresh, (flat, other, noise) = before[0][0], ([run.network for run in each[-1]] for each in before)
    names = result.table.condition.tolist()
    starts = dict(zip(names, [given for given, *_ in main], strict=True))
    assert names[:16] == experiment.NAMES
    for name, subset in zip(names, experiment.SUBSETS, strict=False):
        for given, one, trained in zip(starts[name], fresh, flat, strict=True):
            assert same(given, experiment.transplant(one, trained, subset)) == same(one, one)
    assert starts["other order"] == other
    assert starts["noise"] == noise
    sequences = main[0][2]
    for number, seed in enumerate((100, 101)):
        places = experiment.mean_places(flat[number], sequences)
        added = {
            "places written": (fresh, places),
            "places scrambled": (fresh, experiment.scrambled(places, seed)),
            "places erased": (flat, [-part for part in places]),
        }
        for name, (plain, parts) in added.items():
            assert same(starts[name][number], plain[number]) == same(fresh[0], fresh[0])
            assert all(map(torch.equal, starts[name][number].places, parts))
        erased = experiment.with_words_erased(starts["readout"][number], seed)
        assert same(starts["readout, erased"][number], erased) == same(fresh[0], fresh[0])
    seeds = result.rows["seeds"].set_index("condition")
    for name, (*_, runs) in zip(names, main, strict=True):
        expected = experiment.decoded(starts[name], sequences, 2 * SMALL.pairs)
        assert pytest.approx(expected, abs=1e-5) == seeds.loc[name, ["h", "s"]].to_numpy().T
        assert seeds.attention[name].tolist() == pytest.approx([run.attention[-1] for run in runs], abs=1e-5)
    table = result.table.set_index("condition")
    assert table["place in h"].to_numpy() == pytest.approx(seeds.groupby("condition").h.mean()[names], abs=1e-5)
    assert seeds.known["places written"].tolist() == seeds.known["none"].tolist()  # without the added places
    assert len(result.claims) == 15
