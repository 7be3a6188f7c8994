"""What every run directory has: a configuration, a log, checkpoints, and a state to go on from.

A kill at any moment does not harm it: files are written whole, the state last.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.checkpoints import BEST, TRAINING, load_payload, save_payload
from alignkit.neural.settings import differences
from alignkit.neural.training.log import TrainingLog
from alignkit.neural.training.trainer import Trainer
from alignkit.storage import atomic_write

VERSION = 2
CONFIG, STATE, LOG, CHECKPOINTS = "config.json", "state.pt", "log.jsonl", "checkpoints"


@dataclass(frozen=True)
class RunDirectory:
    """A run directory that exists; what it holds is read when asked for."""

    KIND: ClassVar[str]  #: what config.json says it is

    path: Path

    @property
    def config(self) -> dict[str, Any]:
        """The contents of config.json; raises InputError if it is not that of such a run."""
        place = self.path / CONFIG
        try:
            config = json.loads(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(place, error.strerror or str(error)) from error
        except ValueError as error:
            raise InputError(place, f"damaged: {error}") from error
        if not isinstance(config, dict) or config.get("kind") != self.KIND:
            raise InputError(place, "not the configuration of a run")
        if config.get("version") != VERSION:
            raise InputError(place, f"version {config.get('version')} of a run, this program reads {VERSION}")
        return config

    @property
    def log(self) -> TrainingLog:
        return TrainingLog.load(self.path / LOG)

    @property
    def checkpoints(self) -> dict[int, Path]:
        """Step -> checkpoint, of the logged steps, rising."""
        paths = (self.path / CHECKPOINTS).glob("step-*.pt")
        # By number: names of a million steps and more have another length.
        return dict(sorted((int(path.stem.removeprefix("step-")), path) for path in paths))

    @property
    def begun(self) -> bool:
        """Whether there is a state to go on from."""
        return (self.path / STATE).exists()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return self.begun and load_payload(self.path / STATE, TRAINING).get("finished") is True

    def open(self, new: Mapping[str, Any]) -> None:
        """Makes and configures the directory if it is new; ``new`` is what decides the run, in JSON values.

        A run that is the same but of fewer epochs or steps (:func:`is_longer`) becomes the longer one, and one
        that has nothing to go on from, because it failed before its first step, becomes the new one.

        Raises:
            AlignkitError: it holds something else, or a run that was decided by other values.
        """
        path = self.path
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / CHECKPOINTS).mkdir(exist_ok=True) if (path / CONFIG).exists() else None
            others = any(path.iterdir())
        except OSError as error:
            raise AlignkitError(f"cannot make the run directory {path}: {error.strerror or error}") from error
        if (path / CONFIG).exists():
            found = self.config
            changes = list(differences({name: found.get(name, {}) for name in new}, new))
            if changes and (not self.begun or is_longer(found, new)):
                self._configure({**found, **new})
            elif changes:
                raise AlignkitError(
                    f"{path} holds a run with other settings or text ({'; '.join(changes)}); "
                    "give the same ones to go on, or another directory"
                )
            return
        if others:
            raise AlignkitError(f"{path} is neither empty nor a run; give another directory")
        versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
        self._configure({"kind": self.KIND, "version": VERSION, **new, "versions": versions})
        (path / CHECKPOINTS).mkdir(exist_ok=True)

    def _configure(self, config: Mapping[str, Any]) -> None:
        with atomic_write(self.path / CONFIG) as stream:
            stream.write(json.dumps(config, indent=1, sort_keys=True).encode() + b"\n")

    def commit(self, now: Trainer[Any, Any], improved: bool, state: Mapping[str, Any]) -> None:
        """Writes what a measured step gave; the state, with ``state`` added to the trainer's own, last."""
        if now.plan.keep_logged and now.step in now.plan.logged_steps and not now.finished:
            now.snapshot().save(self.path / CHECKPOINTS / f"step-{now.step:06d}.pt")
        if improved:
            assert now.best is not None
            now.best.save(self.path / BEST)
        now.log.save(self.path / LOG)
        save_payload(self.path / STATE, TRAINING, {**now.state(), **state})


def is_longer(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether ``new`` decides the same run as ``old`` with nothing changed but more epochs or steps.

    Never of classifiers, whose training is not counted in epochs.
    """
    try:
        before, now = old["settings"]["training"], new["settings"]["training"]
        more_steps = now["steps"] is None or (before["steps"] is not None and now["steps"] >= before["steps"])
        more = now["epochs"] >= before["epochs"] and more_steps
        length = {name: before[name] for name in ("epochs", "steps")}
        as_before = {**new, "settings": {**new["settings"], "training": {**now, **length}}}
    except (KeyError, TypeError):
        return False
    return more and not list(differences({name: old.get(name, {}) for name in new}, as_before))


def fingerprint(*parts: Sequence[str]) -> str:
    """SHA-256 of lists of lines, to tell one text from another."""
    digest = hashlib.sha256()
    for lines in parts:
        digest.update(len(lines).to_bytes(8, "little"))
        for line in lines:
            data = line.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()
