"""The two-token classifier: the flow against differences of the loss, scipy and the closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

from alignkit.errors import AlignkitError
from alignkit.experiments import toy_classifier as experiment
from alignkit.experiments.protocol import Verdict


def test_the_flow_is_the_negative_gradient_of_the_loss():
    state = np.random.default_rng(0).normal(size=(3, 8))
    steps = 1e-6 * np.eye(3)[:, :, None]
    slopes = [(experiment.loss(state + h) - experiment.loss(state - h)) / 2e-6 for h in steps]
    assert experiment.flow(state) == pytest.approx(-np.array(slopes), abs=1e-8)


@pytest.mark.parametrize("start", ["0:0:0.5", "10:-10:0.5", "3:0.5:0.2"])
def test_against_scipy(start):
    first = np.array(experiment.parse_start(start))
    ours = experiment.integrate(first[:, None], 60.0, 3000)[-1, :, 0]
    theirs = solve_ivp(
        lambda t, x: experiment.flow(x[:, None])[:, 0], (0, 60), first, method="DOP853", rtol=1e-11, atol=1e-12
    ).y[:, -1]
    assert ours == pytest.approx(theirs, abs=1e-7)


def test_closed_form_with_its_time():
    """On beta0 = 0 the whole course follows from one integral over beta1."""
    last = experiment.integrate(np.array([[0.0], [0.0], [0.0]]), 30.0, 3000)[-1, :, 0]

    def a_of(beta1):
        return brentq(lambda a: a + np.exp(a) - 1 - beta1**2 / 2, -5, 10)

    grid = np.linspace(-3, 9, 20)
    assert experiment.attention_logit(grid, 1.0) == pytest.approx([a_of(b) for b in grid], abs=1e-10)
    assert experiment.attention_logit(np.array([1.0]), -20.0)[0] == pytest.approx(-19.5, abs=1e-8)

    def pace(beta1):
        p = 1 / (1 + np.exp(-a_of(beta1)))
        return p / (1 + np.exp(p * beta1))

    assert last[0] == 0
    assert last[2] == pytest.approx(a_of(last[1]), abs=1e-9)
    assert quad(lambda b: 1 / pace(b), 0, last[1])[0] == pytest.approx(30, abs=1e-6)


def test_first_directions_exactly():
    rising, falling = (np.array(experiment.parse_start(s))[:, None] for s in ("0:0:0.5", "10:-10:0.5"))
    assert experiment.flow(rising)[:, 0] == pytest.approx([0, 0.25, 0])  # relevance first, attention not yet
    far = 1 / (1 + np.exp(-10))  # r of the class that the neutral token hurts; the other's is 1/2
    R, D = (0.5 + far) / 2, (0.5 - far) / 2
    assert experiment.flow(falling)[:, 0] == pytest.approx([D / 2, R / 2, (-10 * R - 10 * D) / 4])


def test_every_claim_holds_at_the_quick_size():
    result = experiment.run_toy_classifier(experiment.QUICK)
    assert {claim.verdict for claim in result.claims} == {Verdict.HOLDS}
    table = result.table.set_index("start")
    assert table.loc["0:0:0.5", "last p"] > 0.8
    assert table.loc["10:-10:0.5", "dp/dt at 0"] < 0
    courses = result.rows["courses"]
    assert courses.groupby("start").time.max().to_numpy() == pytest.approx(experiment.QUICK.time)


def test_bad_start():
    with pytest.raises(AlignkitError, match="beta0:beta1:p"):
        experiment.run_toy_classifier(experiment.ToyClassifierSettings(starts=("1:2",)))
    with pytest.raises(AlignkitError, match="0 < p < 1"):
        experiment.parse_start("1:2:1.0")
