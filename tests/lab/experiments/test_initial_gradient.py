"""The derivative at initialisation: closed form against autograd, limits and their rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import initial_gradient as experiment
from alignkit.text.bitext import Bitext

SOURCE = [["a", "b", "a"], ["b", "c"], ["d"], ["a", "d", "c", "b"]]
TARGET = [["x", "y"], ["y", "y", "z"], ["z", "x"], ["w"]]


@pytest.fixture
def drawn():
    """A bitext with repeated words, and e and W of a width of 5 that are not small."""
    generator = torch.Generator().manual_seed(3)
    e, W = (torch.randn(4, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    return Bitext.from_sentences(SOURCE, TARGET), e, W


def log_likelihood(bitext, e, W):
    """Token by token, straight from the definition."""
    total = torch.zeros((), dtype=e.dtype)
    for x, y in zip(bitext.source, bitext.target, strict=True):
        logs = torch.log_softmax(W @ e[x.tolist()].mean(0), 0)
        for word in y.tolist():
            total = total + logs[word]
    return total


def test_the_closed_form_is_the_flow_of_autograd(drawn):
    bitext, e, W = drawn
    dz, dtheta = experiment.initial_derivatives(bitext, e, W)
    leaves = e.clone().requires_grad_(), W.clone().requires_grad_()
    log_likelihood(bitext, *leaves).backward()
    de, dW = leaves[0].grad, leaves[1].grad
    assert torch.allclose(dz, de @ W.t() + e @ dW.t(), atol=1e-6)  # C is float32
    expected = torch.func.jvp(lambda e, W: torch.softmax(e @ W.t(), 1), (e, W), (de, dW))[1]
    assert torch.allclose(dtheta, expected, atol=1e-6)


def test_nothing_but_the_table_is_left_where_the_limits_hold_exactly(drawn):
    """Orthonormal rows and spaces apart: W W' = e e' = 1 and e W' = 0, so that p is uniform."""
    bitext, _, _ = drawn
    basis = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    e, W = basis[:4], basis[4:]
    dz, dtheta = experiment.initial_derivatives(bitext, e, W)
    table = experiment.predicted(bitext).double()
    assert torch.allclose(dz, table, atol=1e-6)
    assert torch.allclose(dtheta, table / 4, atol=1e-6)


def test_statistics_on_known_arrays():
    table = torch.tensor([[1.0, -1.0], [2.0, -2.0]])
    correlation, slope, error = experiment.compared(table / 4, table)
    assert (correlation, slope, error) == pytest.approx((1, 0.25, 0.75))


@pytest.fixture(scope="module")
def found():
    return experiment.run_initial_gradient(
        experiment.InitialGradientSettings(pairs=200, words=60, widths=(64, 256, 1024), seeds=3)
    )


def test_the_statement_is_right_for_logits_and_not_for_probabilities(found):
    verdicts = {claim.text[:40]: claim.verdict for claim in found.claims}
    assert [v for v in verdicts.values()].count(Verdict.FAILS) == 1
    assert verdicts["The same statement for the probabilities"] is Verdict.FAILS
    raw = found.rows["draws"]
    last = raw[raw.width == 1024]
    assert (last["logit correlation"] > 0.95).all()
    assert np.allclose(last["logit error"], last["predicted error"], rtol=0.15)
    assert np.allclose(last["theta slope"] * 61, 1, atol=0.15)


def test_same_seed_same_rows(found):
    again = experiment.run_initial_gradient(
        experiment.InitialGradientSettings(pairs=200, words=60, widths=(64,), seeds=3)
    )
    raw = found.rows["draws"]
    assert again.rows["draws"].equals(raw[raw.width == 64].reset_index(drop=True))
