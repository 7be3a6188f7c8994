"""The mode of evaluation: what holds within it, and that everything is as before after it, errors included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.neural.devices import Batcher, evaluation_mode

from ..conftest import small_network


def state_of(network):
    modes = [part.training for part in network.modules()]
    return modes, network.encoder.dropout, network.decoder.dropout


@pytest.mark.parametrize("gradients", [False, True])
def test_everything_is_as_it_was(gradients):
    network = small_network(dropout=0.3).train()
    network.decoder.eval()  # parts in modes of their own
    before = state_of(network)
    with evaluation_mode(network, gradients):
        assert torch.is_inference_mode_enabled() is not gradients
        assert not network.training
    assert state_of(network) == before
    with pytest.raises(ValueError, match="within"), evaluation_mode(network, gradients):
        raise ValueError("within")
    assert state_of(network) == before
    assert not torch.is_inference_mode_enabled()


def test_gradients_are_those_without_dropout(bitext):
    network = small_network(dropout=0.5).train()
    batch = Batcher(bitext, torch.device("cpu"))(np.array([0]))
    found = []
    for _ in range(2):
        with evaluation_mode(network, gradients=True):
            x = network(batch.source, batch.source_lengths, batch.previous)
            found.append(torch.autograd.grad(x.sum(), network.embedding.weight)[0])
    assert torch.equal(*found)
    assert found[0].abs().max() > 0
    with evaluation_mode(network):
        quiet = network(batch.source, batch.source_lengths, batch.previous)
    torch.testing.assert_close(x, quiet)
