"""The mode in which networks are evaluated: no dropout, full precision, no gradients unless they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from alignkit.neural.devices import device_of, precision


@contextmanager
def scoring_mode(device: torch.device, gradients: bool = False) -> Iterator[None]:
    """No TF32 products on a GPU, and inference mode unless gradients are asked for, within the block."""
    with precision(device, tf32=False), torch.inference_mode(not gradients):
        yield


@contextmanager
def evaluation_mode(network: nn.Module, gradients: bool = False) -> Iterator[None]:
    """:func:`scoring_mode` with the network in evaluation mode.

    Afterwards every part of the network is in the mode that it was in, also if the block raises an error.

    Args:
        network: on the device that computes.
        gradients: keep what autograd needs.
    """
    parts = list(network.modules())
    modes = [part.training for part in parts]
    recurrent = [part for part in parts if isinstance(part, nn.RNNBase)]
    dropouts = [part.dropout for part in recurrent]
    network.eval()
    if gradients:
        # cuDNN has a recurrent layer's gradient only in training mode, which without dropout computes the same.
        for layer in recurrent:
            layer.dropout, layer.training = 0.0, True
    try:
        with scoring_mode(device_of(network), gradients):
            yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
        for layer, dropout in zip(recurrent, dropouts, strict=True):
            layer.dropout = dropout
