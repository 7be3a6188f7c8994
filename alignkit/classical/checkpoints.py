"""Checkpoints of EM: the state of a fit after each iteration, from which a fit that was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.storage import atomic_write, load_arrays, save_arrays
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike
from alignkit.version import __version__

KIND, VERSION = "alignkit.em-checkpoint", 1
COMPLETE = "complete.json"


class Ranks(Protocol):
    """What checkpoints need of :class:`alignkit.classical.exchange.Exchange`."""

    rank: int
    size: int

    def summed(self, numbers: np.ndarray) -> np.ndarray:
        """The sums of whole numbers of all ranks."""

    def agreed(self, function: Callable[[], Any]) -> Any:
        """The result of ``function()``, if it fails at no rank."""


class Restorable(Protocol):
    """A model whose estimation can be interrupted between two iterations."""

    @property
    def purpose(self) -> str:
        """What is fitted: equal only for equal texts and settings."""

    def state(self) -> dict[str, np.ndarray]:
        """All that the next iteration needs and :meth:`initialise` does not give."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set the state of an initialised model."""


class Checkpoints:
    """The folder of the checkpoints of a run, which may fit several models, one after another.

    Args:
        folder: made if it is not there. Each rank reads only what itself has written, so that it need not be the
            same for all machines.

    Raises:
        AlignkitError: it cannot be made.
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder, self._fits = Path(folder), 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AlignkitError(f"cannot write to {folder}: {error.strerror}") from error

    def of_next_fit(self, exchange: Ranks, model: Restorable) -> FitCheckpoint:
        """The checkpoint of the next fit of the run."""
        self._fits += 1
        return FitCheckpoint(self.folder / f"fit-{self._fits}", exchange, model)


class FitCheckpoint:
    """The last complete state of a fit.

    Args:
        folder: of this fit.
        exchange: with the ranks that share it; each keeps its own part.
        model: as it was made.

    Raises:
        AlignkitError: the checkpoint is of another text, of other settings or of another number of ranks.
    """

    def __init__(self, folder: Path, exchange: Ranks, model: Restorable) -> None:
        self.folder, self.exchange, self.model = folder, exchange, model
        self._name = f"rank-{exchange.rank:05}-of-{exchange.size:05}.npz"
        self._purpose = model.purpose
        done = np.zeros(1, np.int64)
        if exchange.rank == 0:
            done[0] = _completed(folder)
        self._saved = int(exchange.summed(done)[0])
        self._histories: list[list[float]] = []
        self._finished = False
        self._state: dict[str, np.ndarray] = {}
        if self._saved:
            exchange.agreed(self._load)

    def _load(self) -> None:
        path = self._folder_of(self._saved) / self._name
        remedy = "give another folder, or delete it"
        if not path.exists():
            raise AlignkitError(f"the checkpoint in {self.folder.parent} is of another number of ranks; {remedy}")
        self._state, header = load_arrays(path, KIND, VERSION)
        if header.get("purpose") != self._purpose:
            raise AlignkitError(
                f"the checkpoint in {self.folder.parent} is of another text, of other settings, or of another "
                f"version of alignkit; {remedy}"
            )
        self._histories, self._finished = header["histories"], header["finished"]

    def resume(self, stage: int) -> tuple[list[float], bool]:
        """The log-likelihoods of the iterations of a stage that are done, and whether it is finished.

        Args:
            stage: the number of the run of EM, from 0; if it is that of the checkpoint, the model is restored.
        """
        if stage >= len(self._histories):
            return [], False
        is_last = stage == len(self._histories) - 1
        if is_last:
            self.model.restore(self._state)
            self._state = {}
        return list(self._histories[stage]), self._finished or not is_last

    def save(self, stage: int, history: list[float], finished: bool) -> None:
        """Keep the state after an iteration, and remove the one before."""
        skipped = stage - len(self._histories)  # stages without iterations have saved nothing
        self._histories[stage:] = [*([] for _ in range(skipped)), list(history)]
        self._saved += 1
        folder = self._folder_of(self._saved)
        self.exchange.agreed(lambda: folder.mkdir(parents=True, exist_ok=True))
        header = {"purpose": self._purpose, "histories": self._histories, "finished": finished}
        self.exchange.agreed(lambda: save_arrays(folder / self._name, KIND, VERSION, self.model.state(), header))
        if self.exchange.rank == 0:  # all have agreed that they have saved theirs
            with atomic_write(self.folder / COMPLETE) as stream:
                stream.write(json.dumps({"saved": self._saved}).encode() + b"\n")
        self.exchange.agreed(lambda: None)
        shutil.rmtree(self._folder_of(self._saved - 1), ignore_errors=True)

    def _folder_of(self, saved: int) -> Path:
        return self.folder / f"state-{saved:05}"


def _completed(folder: Path) -> int:
    """The number of the last complete state; 0 for none."""
    path = folder / COMPLETE
    try:
        return int(json.loads(path.read_bytes())["saved"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"damaged: {error}") from error


def purpose_of(model: object, bitext: Bitext, *settings: object) -> str:
    """A fingerprint of the model's kind, its text and settings, and this version.

    ``settings`` are bytes, or values whose ``repr`` tells them apart: of what has arrays, give the fingerprint.
    """
    digest = hashlib.sha256(f"{__version__} {type(model).__name__} {bitext.fingerprint()}".encode())
    for each in settings:
        part = each if isinstance(each, bytes) else repr(each).encode()
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
