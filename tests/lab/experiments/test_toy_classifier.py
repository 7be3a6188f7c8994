"""The two-token classifier: the flow against differences of the loss, scipy and the closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import toy_classifier as experiment

CLAIMED = ("0:0:0.5", "10:-10:0.5", "0:20:0.5")  #: starts that claims are about


def state_at(start):
    """(beta0, beta1, a) from beta0:beta1:p."""
    beta0, beta1, p = experiment.read_start(start)
    return np.array([beta0, beta1, np.log(p / (1 - p))])


@pytest.mark.parametrize("name", ["", "linear_"])
def test_flows_are_the_negative_gradients_of_their_losses(name):
    loss, flow = getattr(experiment, f"{name}loss"), getattr(experiment, f"{name}flow")
    state = np.random.default_rng(0).normal(size=(3, 8))
    steps = 1e-6 * np.eye(3)[:, :, None]
    slopes = [(loss(state + h) - loss(state - h)) / 2e-6 for h in steps]
    assert flow(state) == pytest.approx(-np.array(slopes), abs=1e-8)


@pytest.mark.parametrize("start", ["10:-10:0.5", "3:0.5:0.2"])
def test_against_scipy(start):
    first = state_at(start)
    ours = experiment.integrate(first[:, None], 20.0, 1000)[-1, :, 0]
    theirs = solve_ivp(
        lambda t, x: experiment.flow(x[:, None])[:, 0], (0, 20), first, method="DOP853", rtol=1e-11, atol=1e-12
    ).y[:, -1]
    assert ours == pytest.approx(theirs, abs=1e-7)


def test_attention_is_a_function_of_relevance():
    """Where beta0 is 0; of a + e^a - beta1^2 / 2 = 1, as at a = beta1 = 0, and of another constant."""

    def a_of(beta1):
        return brentq(lambda a: a + np.exp(a) - 1 - beta1**2 / 2, -5, 10)

    grid = np.linspace(-3, 9, 20)
    assert experiment.attention_logit(grid, 1.0) == pytest.approx([a_of(b) for b in grid], abs=1e-10)
    assert experiment.attention_logit(np.array([1.0]), -20.0)[0] == pytest.approx(-19.5, abs=1e-8)
    last = experiment.integrate(np.array([[0.0], [0.0], [0.0]]), 9.0, 300)[-1]
    assert last[2] == pytest.approx(experiment.attention_logit(last[1], 1.0), abs=1e-7)
    assert experiment.invariant(last) == pytest.approx([1])


def test_every_claim_holds_at_the_quick_size(bounds):
    result = experiment.run_toy_classifier(experiment.QUICK_TOY_CLASSIFIER)
    assert {claim.verdict for claim in result.claims} == {Verdict.HOLDS}
    above = [0.0, None, None, 0.0, *[None] * 4]
    below = [None, 0.0, 1e-6, None, -0.1, 1e-3, 0.05, 1e-6]
    assert bounds == list(zip(above, below, strict=True))
    table = result.table[result.table["flow"] == "extension"].set_index("start")
    assert table.loc["0:0:0.5", "last p"] > 0.8
    R, D = (0.5 + 1 / (1 + np.exp(-10))) / 2, (0.5 - 1 / (1 + np.exp(-10))) / 2
    assert table.loc["10:-10:0.5", "dp/dt at 0"] == pytest.approx((-10 * R - 10 * D) / 16)
    assert table.drift.isna().tolist() == [not start.startswith("0:") for start in table.index]
    assert table["first loss"]["0:20:0.5"] == pytest.approx(np.log1p(np.exp(-10)))
    assert table.turns[["0:0:0.5", "10:-10:0.5"]].tolist() == pytest.approx([0, np.nan], nan_ok=True)
    source = result.table[result.table["flow"] == "source"].set_index("start")
    turns = source.turns[["0:0:0.5", "10:-10:0.5", "0.3:0:0.5"]].tolist()
    expected = experiment.turning_time(experiment.read_start("0.3:0:0.5"))
    assert turns == pytest.approx([0, np.nan, expected], nan_ok=True)
    least = experiment.solve_linear(experiment.read_start("0.3:0:0.5"), np.linspace(0, 3, 150))[:, 2].min()
    assert source["least p"]["0.3:0:0.5"] == pytest.approx(least)
    assert source["dp/dt at 0"]["10:-10:0.5"] == -20
    assert source["last loss"]["0:0:0.5"] == pytest.approx(-np.cosh(18**0.5) * np.sinh(18**0.5) / 2**0.5 / 2)
    courses = result.rows["courses"]
    assert 90 < courses.groupby("start").size().max() < 140  # of 2000 steps, more of them early
    assert table.drift.dropna().min() > 0
    assert source.drift.min() > 0
    assert result.claims[4].low < result.claims[4].high  # two step sizes
    assert courses.groupby("start").time.max().to_numpy() == pytest.approx(experiment.QUICK_TOY_CLASSIFIER.time)


@pytest.mark.parametrize("start", ["0:0:0.5", "10:-10:0.5", "-1:3:0.5", "0.3:0:0.5", "2:1.5:0.9"])
def test_the_flow_of_the_source_is_solved(start):
    """Against scipy's integration of the equations as the source states them."""
    first = experiment.read_start(start)

    def equations(t, x):
        beta0, beta1, p = x
        return [-p, p, beta1 - beta0]

    times = np.linspace(0, 3, 7)
    theirs = solve_ivp(equations, (0, 3), first, t_eval=times, method="DOP853", rtol=1e-12, atol=1e-12).y.T
    assert experiment.solve_linear(first, times) == pytest.approx(theirs, rel=1e-8, abs=1e-8)


def test_when_the_extension_turns():
    """Against scipy, where p falls until b0 - b1 is 0, and rises from then on."""
    first = "0:-3:0.5"
    settings = replace(experiment.QUICK_TOY_CLASSIFIER, starts=(first,), time=200.0)
    table = experiment.run_toy_classifier(settings).table.query("flow == 'extension'").set_index("start")
    theirs = solve_ivp(
        lambda t, x: experiment.flow(x[:, None])[:, 0],
        (0, 200),
        state_at(first),
        rtol=1e-10,
        atol=1e-12,
        max_step=0.1,
    )
    assert table.turns[first] == pytest.approx(theirs.t[theirs.y[2].argmin()], abs=0.2)
    assert 50 < table.turns[first] < 150


def test_when_attention_turns():
    """0.3:0:0.5 has a wrong relevance that attention outgrows, 10:-10:0.5 one that it does not."""
    first = experiment.read_start("0.3:0:0.5")
    turn = experiment.turning_time(first)
    around = experiment.solve_linear(first, turn + np.array([-0.01, 0, 0.01]))[:, 2]
    assert around[0] > around[1] < around[2]
    assert brentq(
        lambda t: np.subtract(*experiment.solve_linear(first, np.array([t]))[0, :2]), 0, 2
    ) == pytest.approx(turn)
    assert experiment.turning_time(experiment.read_start("10:-10:0.5")) == np.inf
    assert experiment.turning_time(experiment.read_start("-1:3:0.5")) == 0
    far = experiment.solve_linear(experiment.read_start("10:-10:0.5"), np.linspace(0, 5, 50))
    assert (np.diff(far[:, 2]) < 0).all()
    assert far[-1, 2] < -100


def test_starts_of_the_claims_are_always_added():
    settings = experiment.ToyClassifierSettings(("-1:3:0.5",), 3.0, ("0:1:0.9",), 2.0, 0.001)
    table = experiment.run_toy_classifier(settings).table
    assert table.start.tolist() == ["-1:3:0.5", *CLAIMED[:2], "0:1:0.9", *CLAIMED]
    assert table.drift[:3].max() < 1e-11  # with steps of 0.001


def test_claims_are_of_the_right_trajectories_and_ends():
    """Planted ones, that of the smaller steps a little higher."""
    fine = np.zeros((4, 3, 3))
    fine[:, 2] = np.array([[0, 0, 0], [1, -2, 0.5], [1.5, -3, 0.1], [3, -1, 0.2]])  # a of each start
    fine[:, :2, 1:] = [[10, 0], [-10, 20]]  # beta0 and beta1, none of the first
    coarse = fine + np.array([0, 0, 0.01])[:, None]
    solved = pd.DataFrame({"start": [CLAIMED[0]] * 3 + [CLAIMED[1]] * 2, "p": [0.5, 0.6, 0.9, 0.5, 0.1]})
    rows = pd.DataFrame({"drift": [1e-9, 3e-9]})
    found = list(experiment.toy_classifier_claims(solved, rows, list(CLAIMED), coarse, fine))
    p, other = (1 / (1 + np.exp(-each[:, 2])) for each in (fine, coarse))
    assert [found[i].value for i in (0, 1, 2)] == pytest.approx([0.1, -20, 3e-9])
    pairs = [(each[2, 0] - each[1, 0], each[2, 1] - 0.5, each[3, 2] - 0.5) for each in (p, other)]
    for claim, value, less in zip((found[3], found[4], found[6]), *pairs, strict=True):
        width = abs(value - less)
        assert (claim.value, claim.low, claim.high) == pytest.approx((value, value - width, value + width))
    assert found[5].value == pytest.approx(np.log1p(np.exp(-10)))
    a = fine[:, 2, [0, 2]]  # of the starts with beta0 = 0
    assert found[7].value == pytest.approx(np.ptp(a + np.exp(a), axis=0).max())


def test_bad_start():
    with pytest.raises(AlignkitError, match="beta0:beta1:p"):
        experiment.run_toy_classifier(experiment.ToyClassifierSettings(starts=("1:2",)))
    for text in ("1:2:1.0", "1:2:0"):
        with pytest.raises(AlignkitError, match="0 < p < 1"):
            experiment.read_start(text)
