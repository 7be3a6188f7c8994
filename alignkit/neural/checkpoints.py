"""Checkpoint files: tensors and plain values, read without executing anything in them.

A file is a plain dict ``{"header": {"kind", "version"}, ...}`` written by ``torch.save`` and read with
``weights_only=True``, which builds tensors and plain values and refuses everything else.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError, InputError, first_line, reading
from alignkit.neural.settings import ClassifierSettings, NetworkSettings, new_network
from alignkit.support.files import atomic_write, check_kind, check_regular
from alignkit.types import PathLike

NETWORK, PROXY, TRAINING = "alignkit.network", "alignkit.proxy", "alignkit.training"
CLASSIFIER = "alignkit.classifier"
BEST = "best.pt"  #: the network with the lowest validation loss, in a run directory
VERSION = 2
LARGEST_WEIGHT = 1e6  #: in absolute value: sums and products of such numbers are finite in float32


def save_payload(path: PathLike, kind: str, payload: Mapping[str, Any]) -> None:
    """Write a checkpoint of that kind, atomically; the same content gives the same bytes.

    Raises:
        AlignkitError: the name does not end in .pt, by which checkpoints are recognised, or writing fails.
    """
    if not os.fspath(path).endswith(".pt"):
        raise AlignkitError(f"cannot write {path}: the name of a checkpoint must end in .pt")
    # Into memory first: torch writes the name of the file that it is given into the file.
    buffer = io.BytesIO()
    torch.save(_plain({"header": {"kind": kind, "version": VERSION}, **payload}), buffer)
    with atomic_write(path) as stream:
        stream.write(buffer.getbuffer())


def _plain(value: Any) -> Any:
    """The same content in new containers: pickle's bytes depend on which equal strings are one object."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(part) for part in value])
    return value


def load_payload(path: PathLike, *kinds: str) -> dict[str, Any]:
    """Read a checkpoint of one of the kinds; nothing in the file is executed.

    Raises:
        InputError: the file is missing, damaged, contains code, or is of another kind or version.
    """
    check_regular(path)
    try:
        with reading(path), zipfile.ZipFile(path) as archive:  # torch does not test its checksums
            if archive.testzip() is not None:
                raise InputError(path, "damaged: a checksum does not match")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about files of other kinds: the error says what matters
            payload = torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # torch raises a dozen kinds of error for a bad file
        problem = "not a checkpoint, damaged, or with something other than numbers in it; nothing in it was run"
        raise InputError(path, problem, remedy="give a checkpoint (.pt) or a run directory") from error
    header = payload.get("header") if isinstance(payload, dict) else None
    if not isinstance(header, dict):
        raise InputError(path, "not a checkpoint that alignkit wrote")
    check_kind(path, header, kinds, VERSION)
    return payload


_CAUSED = AlignkitError, LookupError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError


@contextmanager
def readable(path: PathLike) -> Iterator[None]:
    """Within the block the content of a file is made into objects: what fails there is the file's fault.

    Raises:
        InputError: instead of any error that wrong content can cause.
    """
    try:
        yield
    except (InputError, torch.OutOfMemoryError):
        raise
    except _CAUSED as error:
        raise InputError(path, f"damaged: {first_line(error)}") from error


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The parameters of a network by name, in the host's memory."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}


def network_with_weights(settings: NetworkSettings | ClassifierSettings, weights: object) -> Any:
    """The network of these settings with these weights, in evaluation mode.

    Args:
        settings: of the network.
        weights: its parameters by name.

    Raises:
        RuntimeError: names or shapes of the weights do not fit the network.
        ValueError: a weight is not finite float32.
    """
    with torch.device("meta"):  # no memory yet: the settings of a damaged file may ask for any amount
        network = new_network(settings)
    network.load_state_dict(checked_weights(weights), assign=True)
    # Tensors that were read must be trainable parameters again, in one block for oneDNN and cuDNN.
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    return network.eval()


def checked_weights(weights: object, largest: float = LARGEST_WEIGHT) -> dict[str, Tensor]:
    """The weights, float32 tensors by name, at most ``largest`` in absolute value; otherwise raises ValueError."""
    if not isinstance(weights, dict):
        raise ValueError("no weights")
    for name, tensor in weights.items():
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.float32 or tensor.layout != torch.strided:
            raise ValueError(f"weight {name} is not a float32 tensor")
        if not bool((tensor.abs() <= largest).all()):  # not true of NaN either
            raise ValueError(f"weight {name} is not finite, or too large for any trained network")
    return weights
