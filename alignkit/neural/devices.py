"""Devices, threads and precision of torch, and the mode in which networks are evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn

from alignkit.errors import AlignkitError
from alignkit.support.threads import core_count, thread_count

Products = Literal["float32", "bfloat16"]


def set_threads(threads: int | None) -> None:
    """Set the number of threads that torch uses on the CPU; None leaves it as it is, but for a container's limit.

    With MKL (see :mod:`alignkit.neural`) results have the same bits with any number.

    Raises:
        AlignkitError: the number is out of range.
    """
    chosen = thread_count(threads) if threads is not None else min(torch.get_num_threads(), core_count())
    torch.set_num_threads(chosen)


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """On a CPU, the block runs on one thread."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; ``auto`` is a CUDA GPU where there is one, else the CPU.

    From then on, products on a GPU are those of float32, not of TF32.

    Raises:
        AlignkitError: there is no such device here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        problem = str(error).strip().splitlines()[0]
        raise AlignkitError(f"cannot compute on device {name!r}: {problem}") from error
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return device


def gpu_names() -> list[str]:
    """The names of the GPUs that torch can use."""
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def device_of(network: nn.Module) -> torch.device:
    """The device that a network's parameters lie on."""
    return next(network.parameters()).device


@contextmanager
def rounded(products: Products) -> Iterator[None]:
    """Let matrix products of float32 numbers round their factors to bfloat16 within the block, if asked to.

    Sums and all other operations stay in float32. Processors with units for bfloat16 (AMX) then multiply several
    times faster; on others nothing changes. The setting applies to the CPU and to the whole process.
    """
    if products == "float32":
        yield
        return
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@contextmanager
def evaluation_mode(network: nn.Module, gradients: bool = False) -> Iterator[None]:
    """Inference mode, unless gradients are asked for, with the network in evaluation mode.

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
        with torch.inference_mode(not gradients):
            yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
        for layer, dropout in zip(recurrent, dropouts, strict=True):
            layer.dropout = dropout
