"""The loss with label smoothing against torch's own, and its gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from alignkit.neural.training.translation import TokenLoss


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_loss_and_gradients_are_those_of_torch(smoothing):
    torch.manual_seed(1)
    x, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 4), (9, 4), (9,))
    )
    y = torch.randint(9, (6,))
    found = TokenLoss.apply(x, weight, bias, y, smoothing)
    expected = cross_entropy(x @ weight.t() + bias, y, label_smoothing=smoothing)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(loss, (x, weight, bias)) for loss in (found, expected)]
    for own, other in zip(*grads, strict=True):
        torch.testing.assert_close(own, other)
