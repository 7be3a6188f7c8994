"""The loop of EM, on a model whose maximum is known."""

import math

import numpy as np
import pytest

from alignkit.classical.em import has_settled, run_em


class Mixture:
    """Two coins of known biases; each of the throws comes from one of them, and its share is estimated."""

    def __init__(self, heads=7, tails=3, tolerance=0.0):
        self.heads, self.tails, self.tolerance = heads, tails, tolerance
        self.share, self.log_likelihood = 0.0, 0.0

    def initialise(self):
        self.share = 0.5

    def e_step(self):
        head, tail = 0.4 + 0.5 * self.share, 0.6 - 0.5 * self.share  # coins that show heads in 0.4 and 0.9
        self.log_likelihood = self.heads * math.log(head) + self.tails * math.log(tail)
        self.count = self.heads * 0.9 * self.share / head + self.tails * 0.1 * self.share / tail

    def m_step(self):
        self.share = self.count / (self.heads + self.tails)

    @property
    def status(self):
        return f"share {self.share:.2f}"

    def has_converged(self, history):
        return has_settled(history, self.tolerance)


def test_the_likelihood_rises_to_the_maximum():
    model = Mixture()
    model.initialise()
    history = run_em(model, 60)
    assert len(history) == 60
    steps = np.diff(history)
    assert (steps[:8] > 0).all()
    assert (steps > -1e-12).all()
    assert model.share == pytest.approx(0.6, abs=1e-6)  # which shows heads in 0.7
    assert history[0] == pytest.approx(7 * math.log(0.65) + 3 * math.log(0.35))
    assert history[-1] == pytest.approx(7 * math.log(0.7) + 3 * math.log(0.3))


def test_progress_counts_the_iterations_of_other_runs():
    model, seen = Mixture(), []
    model.initialise()
    run_em(model, 2, lambda *step: seen.append(step), before=3, after=1)
    assert [step[:2] for step in seen] == [(4, 6), (5, 6)]
    assert seen[-1][2] == f"share {model.share:.2f}"
    assert run_em(model, 0) == []


def test_a_run_that_converges_stops_and_counts_as_complete():
    model, seen = Mixture(tolerance=1e-4), []
    model.initialise()
    history = run_em(model, 100, lambda *step: seen.append(step[:2]), before=1)
    assert 2 < len(history) < 20
    assert seen[-1] == (101, 101)
    assert seen[:-1] == [(2 + i, 101) for i in range(len(history) - 1)]
    assert history[-1] - history[-2] < 1e-4 * abs(history[-2])
    assert history[-2] - history[-3] >= 1e-4 * abs(history[-3])


def test_a_tolerance_of_zero_never_stops():
    assert not has_settled([-1.0, -1.0], 0.0)
    assert has_settled([-1.0, -1.0], 1e-9)
    assert not has_settled([-1.0], 1.0)
