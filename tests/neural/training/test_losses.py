"""The losses whose gradients are written out against torch's own, and their gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from alignkit.neural.proxy import BagLoss
from alignkit.neural.training.translation import TokenLoss


def drawn():
    """x (9, 4), the weights (11, 4) and biases (11,) of a layer, and targets (9,)."""
    torch.manual_seed(1)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((9, 4), (11, 4), (11,))
    )
    return x, weight, bias, torch.randint(11, (9,))


def check(found, expected, parts):
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(3 * loss, parts) for loss in (found, expected)]
    for own, other in zip(*grads, strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_loss_of_tokens(smoothing):
    x, weight, bias, y = drawn()
    expected = cross_entropy(x @ weight.t() + bias, y, label_smoothing=smoothing)
    check(TokenLoss.apply(x, weight, bias, y, smoothing), expected, (x, weight, bias))


def test_loss_of_bags():
    x, weight, _, y = drawn()
    y[1] = y[0]
    rows = torch.tensor([0, 0, 0, 2, 2, 5, 8, 8, 8])  # some bags are empty, some hold a word twice
    check(BagLoss.apply(x, weight, rows, y), cross_entropy((x @ weight.t())[rows], y), (x, weight))
