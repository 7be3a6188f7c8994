"""Trained networks and their runs, opened and checked."""

from __future__ import annotations

from pathlib import Path

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import NeuralAligner, load_checkpoint
from alignkit.neural.checkpoints import BEST
from alignkit.neural.training.translation import TranslationRun, find_run
from alignkit.types import PathLike


def load_network(path: PathLike, device: str = "auto") -> NeuralAligner:
    """The network of a checkpoint or run directory.

    Raises:
        AlignkitError: it holds another aligner, or lies in a run directory that it does not belong to.
    """
    network = load_checkpoint(path, device)
    if not isinstance(network, NeuralAligner):
        raise AlignkitError(f"{path} holds a {network.name}, not a network of `alignkit train`")
    run = find_run(path)
    if run is not None:
        run.check(network, Path(path))
    return network


def open_run(path: PathLike) -> TranslationRun:
    """The run in a directory.

    Raises:
        InputError: there is no such directory, or it holds no run or one without any network yet.
    """
    place = Path(path)
    if not place.is_dir():
        raise InputError(path, "no such directory", remedy="give a run directory of `alignkit train`")
    run = TranslationRun(place)
    _ = run.config
    if not (place / BEST).exists():
        raise InputError(path, "this run has no network yet", remedy="train it first with `alignkit train`")
    return run
