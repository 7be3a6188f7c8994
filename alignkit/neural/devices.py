"""Where and with how many threads torch computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from alignkit.errors import AlignkitError


def set_threads(threads: int | None) -> None:
    """Lets torch use so many threads on the CPU; None leaves it as it is (all cores).

    Results are the same every time with one number of threads, but may differ in the last bits from those with
    another: the libraries of matrix products split their sums by it.
    """
    if threads is not None:
        torch.set_num_threads(threads)


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; ``auto`` is a CUDA GPU where there is one, else the CPU.

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
    return device


@contextmanager
def precision(device: torch.device, tf32: bool) -> Iterator[None]:
    """Allows TF32 matrix products on a GPU, or forbids them, within the block."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
