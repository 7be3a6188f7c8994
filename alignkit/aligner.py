"""The Aligner protocol, and the registry of aligners: whatever maps a bitext to scores."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

from alignkit.bitext import Bitext
from alignkit.errors import AlignkitError, InputError
from alignkit.scores import Scores
from alignkit.storage import read_header


@runtime_checkable
class Aligner(Protocol):
    """A fitted aligner. Fitting is a function that returns one; there are no half-made aligners.

    Attributes:
        name: short name, as in ``ibm1`` or ``lstm``; with a kind it names a score: ``ibm1.beta``.
        kinds: the score kinds it gives, a subset of ``alignkit.scores.KINDS``.
    """

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def score(self, bitext: Bitext, kind: str) -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind it does not have."""
        ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the aligner so that :func:`load_aligner` reads it."""
        ...


#: header kind of a saved npz -> where its loader is ("module:function", imported when needed)
LOADERS = {
    "alignkit.ibm1": "alignkit.classical.ibm1:load_ibm1",
    "alignkit.diagonal": "alignkit.classical.diagonal:load_diagonal",
    "alignkit.hmm": "alignkit.classical.hmm:load_hmm",
    "alignkit.hmm-joint": "alignkit.classical.hmm_joint:load_joint",
}
#: the loader of a checkpoint or a run directory
NEURAL_LOADER = "alignkit.neural.checkpoints:load_aligner"


def check_kind(aligner: Aligner, kind: str) -> None:
    """Raises AlignkitError, naming those there are, if the aligner does not give scores of ``kind``."""
    if kind not in aligner.kinds:
        known = ", ".join(aligner.kinds)
        raise AlignkitError(f"{aligner.name} has no {kind} scores; it has {known}")


def load_aligner(path: str | os.PathLike[str]) -> Aligner:
    """Reads any saved aligner: a model file, a neural checkpoint (.pt) or a run directory.

    Raises:
        InputError: the file is missing, damaged, or none of these.
    """
    if not Path(path).exists():
        raise InputError(path, "no such file")
    if Path(path).is_dir() or os.fspath(path).endswith(".pt"):
        return _resolve(NEURAL_LOADER)(path)
    header = read_header(path)
    if header is None:
        raise InputError(path, "not a saved aligner, or damaged", remedy="give a file that --model wrote")
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in LOADERS:
        raise InputError(path, f"holds {kind}, which is not an aligner this program knows")
    return _resolve(LOADERS[kind])(path)


def _resolve(place: str):  # type: ignore[no-untyped-def]
    module, name = place.split(":")
    return getattr(import_module(module), name)
