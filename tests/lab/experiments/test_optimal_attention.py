"""The best attention: against scipy, its certificate, and the counterexample in closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import optimal_attention as experiment
from alignkit.lab.experiments.networks import encode_plan, take_pairs, train_network
from alignkit.lab.experiments.optimal_attention import (
    Problem,
    ascend_logits,
    best_attention,
    maximise_quadratic,
    search_attention,
)
from alignkit.metrics.agreement import agreement
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.support.stages import no_progress
from alignkit.text.tokenization import BOS


def random_problem(seed, rows=4, length=5, words=7):
    generator = torch.Generator().manual_seed(seed)
    Z = 3 * torch.randn(length, words, generator=generator, dtype=torch.float64)
    base = torch.randn(rows, words, generator=generator, dtype=torch.float64)
    return Problem(Z, base, torch.randint(words, (rows,), generator=generator))


def log_probability(problem, t, alpha):
    logits = problem.base[t].numpy() + alpha @ problem.Z.numpy()
    return logits[int(problem.y[t])] - np.logaddexp.reduce(logits)


def best_of_scipy(function, length):
    ones = {"type": "eq", "fun": lambda a: a.sum() - 1}
    start = np.full(length, 1 / length)
    options = {"maxiter": 500, "ftol": 1e-12}
    return -minimize(
        lambda a: -function(a),
        start,
        bounds=[(0, 1)] * length,
        constraints=[ones],
        method="SLSQP",
        options=options,
    ).fun


def test_quadratic_model_against_scipy():
    generator = torch.Generator().manual_seed(1)
    root = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    H, g = root @ root.transpose(1, 2), torch.randn(3, 4, generator=generator, dtype=torch.float64)
    alpha = torch.full((3, 4), 0.25, dtype=torch.float64)
    found = maximise_quadratic(alpha, g, H, 2000)
    for r in range(3):

        def model(a, r=r):
            d = a - 0.25
            return g[r].numpy() @ d - d @ H[r].numpy() @ d / 2

        assert model(found[r].numpy()) == pytest.approx(best_of_scipy(model, 4), abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_best_attention_against_scipy(seed):
    problems = [random_problem(seed), random_problem(seed + 100, rows=2)]
    alpha, value, gap = best_attention(problems, 1e-8)
    assert (gap <= 1e-8).all()
    assert (best_attention(problems)[2] <= 1e-4).all()
    assert torch.allclose(alpha.sum(1), torch.ones(6, dtype=torch.float64))
    rows = [(problem, t) for problem in problems for t in range(len(problem.y))]
    for r, (problem, t) in enumerate(rows):
        assert float(value[r]) == pytest.approx(log_probability(problem, t, alpha[r].numpy()), abs=1e-10)
        assert float(value[r]) == pytest.approx(
            best_of_scipy(lambda a, p=problem, t=t: log_probability(p, t, a), 5), abs=1e-6
        )


def test_the_gap_bounds_what_is_left_wherever_the_search_stops():
    problem = random_problem(9)
    best = best_attention([problem], 1e-9)[1]
    for iterations in range(4):
        _, value, gap = best_attention([problem], 1e-9, iterations)
        assert (best <= value + gap + 1e-9).all()
    assert float((best - best_attention([problem], 1e-9, 0)[1]).max()) > 0.1


@pytest.mark.parametrize(("a", "b", "c"), [(2.0, 4.0, 1.0), (1.0, 2.0, 0.2), (3.0, 6.0, 2.9)])
def test_counterexample_in_closed_form(a, b, c):
    problem = experiment.counterexample(a, b, c)
    alpha, value, gap = best_attention([problem], 1e-10)
    assert alpha[0].tolist() == pytest.approx([0.5, 0.5, 0], abs=1e-5)
    assert float(gap) <= 1e-10
    assert float(value) == pytest.approx(math.log(math.exp(a) / (math.exp(a) + 2)), abs=1e-9)
    beta = torch.softmax(problem.Z, 1)[:, 0]
    wrong = math.exp(a) / (math.exp(a) + 2 * math.cosh(b))
    assert beta.tolist() == pytest.approx([wrong, wrong, math.exp(c) / (math.exp(c) + 2)])
    assert int(beta.argmax()) == 2


def test_ascent_follows_the_gradient_of_the_logits():
    """Against autograd, step by step; and from everywhere it climbs towards the same maximum."""
    problem = random_problem(3)
    start = torch.softmax(torch.randn(4, 5, generator=torch.Generator().manual_seed(8), dtype=torch.float64), 1)
    a = start.log().clone().requires_grad_()
    for _ in range(7):
        logs = torch.log_softmax(problem.base + torch.softmax(a, 1) @ problem.Z, 1)
        (slope,) = torch.autograd.grad(logs.gather(1, problem.y.unsqueeze(1)).sum(), a)
        a = (a + 0.3 * slope).detach().requires_grad_()
    three, seven = ascend_logits([problem], start, 0.3, (3, 7))
    assert torch.allclose(seven, torch.softmax(a, 1))
    best = best_attention([problem], 1e-9)[1]

    def value(alpha):
        logs = torch.log_softmax(problem.base + alpha @ problem.Z, 1)
        return logs.gather(1, problem.y.unsqueeze(1)).squeeze(1)

    assert (value(start) < value(three)).all()
    assert (value(three) < value(seven)).all()
    assert (best - value(ascend_logits([problem], start, 1.0, (700,))[0])).max() < 0.08


@pytest.fixture(scope="module")
def trained():
    """A network, held-out pairs of few words, and what was found for them."""
    settings = experiment.OptimalAttentionSettings(
        pairs=60, pieces=100, scored=3, tolerance=1e-5, ascent_steps=(2, 5), ascent_rate=0.7
    )
    text = encode_plan(settings)
    changed = settings.settings().change(network={"embedding": 24, "hidden": 24}, training={"steps": 8})
    network, some = train_network(changed, text, no_progress), take_pairs(text.valid, 3)
    found = []

    def search(*given):
        found.append(search_attention(*given))
        return found[0][0].copy(), found[0][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "encode_plan", lambda settings: text)
        patch.setattr(experiment, "train_network", lambda *given: network)
        patch.setattr(experiment, "search_attention", search)
        result = experiment.run_optimal_attention(settings)
    return network, some, found[0], result


def test_the_table_has_the_agreements_of_all_scores(trained):
    network, some, (scores, rows), result = trained
    scores = scores | {kind: network.score(some, kind) for kind in ("alpha", "beta")}
    assert list(result.table.u[4:12:2]) == [
        f"from {way}, {n} steps" for way in ("alpha", "uniform") for n in (2, 5)
    ]
    assert [*zip(result.table.u, result.table.v, strict=True)][-2:] == [
        ("beta", "alpha_opt"),
        ("alpha_opt", "alpha"),
    ]
    for row in result.table.itertuples():
        expected = agreement(scores[row.u], scores[row.v])
        assert (row.agreement, row.chance, row.low) == (expected.agreement, expected.chance, expected.low)
    tokens = result.rows["tokens"]
    assert tokens.pair.value_counts(sort=False).sort_index().tolist() == [len(y) for y in some.target]
    assert rows.gap.max() <= 1e-5
    own = network.log_probabilities(some).sum() / len(tokens)
    assert f"{own:.3f} with the network's own" in result.remarks[1]


def test_ascents_start_from_the_trained_and_from_uniform_attention(trained):
    """Each climbs from where it starts, and the more steps, the higher; no weight is ever lost."""
    network, some, (scores, rows), _ = trained
    net, m = network.network, 1
    x, y = (torch.from_numpy(side[m].astype(np.int64)).unsqueeze(1) for side in (some.source, some.target))
    with torch.no_grad():
        encoding = net.encode(x, np.array([len(x)]))
        s, _ = net.states(torch.cat([torch.full((1, 1), BOS), y[:-1]]), encoding.start)
        weight = net.output.weight.double()
        Z, bias = net.context(encoding.h)[0].double() @ weight.t(), net.output.bias.double()
        problem = Problem(Z, s[0].double() @ weight.t() + bias, y[:, 0])
    alpha, value, _ = best_attention([problem], 1e-5)
    assert scores["alpha_opt"][m] == pytest.approx(alpha.numpy(), abs=1e-4)
    assert rows[rows.pair == m].value.to_numpy() == pytest.approx(value.numpy(), abs=1e-4)
    plain = torch.softmax(Z + bias, 1)[:, y[:, 0]].t()  # beta that does not see the state
    assert scores[experiment.PLAIN][m] == pytest.approx(plain.numpy(), abs=1e-5)
    starts = {
        "alpha": torch.from_numpy(network.score(some, "alpha")[m]),
        "uniform": torch.full((len(y), len(x)), 1.0),
    }
    for name, start in starts.items():
        path = ascend_logits([problem], (start / start.sum(1, keepdim=True)).double(), 0.7, (2, 5))
        for steps, expected in zip((2, 5), path, strict=True):
            assert scores[f"from {name}, {steps} steps"][m] == pytest.approx(expected.numpy(), abs=1e-4)


@pytest.mark.parametrize("changes", [{"output": "hidden"}, {"heads": 2}])
def test_a_network_that_does_not_add_states_is_refused(changes, trained):
    hidden = EncoderDecoder(replace(trained[0].network.settings, **changes))
    with pytest.raises(AlignkitError, match="output = sum"):
        experiment.search_attention(
            SimpleNamespace(network=hidden), trained[1], experiment.OptimalAttentionSettings()
        )
    with pytest.raises(AlignkitError, match="valid_source"):
        experiment.run_optimal_attention(experiment.OptimalAttentionSettings(source="x", target="y"))
    with pytest.raises(AlignkitError, match="ascent_steps must increase"):
        experiment.OptimalAttentionSettings(ascent_steps=(20, 10))
    for numbers in ((1.0, 2.0), (1.0, 2.0, 3.0), (2.0, 4.0, 1.0, 1.0)):
        with pytest.raises(AlignkitError, match="counterexample must be three numbers a, b and c, with c below a"):
            experiment.OptimalAttentionSettings(counterexample=numbers)
    assert experiment.OptimalAttentionSettings(counterexample=(4.0, 4.0, 1.0)).counterexample[0] == 4
