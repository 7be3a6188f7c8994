"""Run directories: a configuration, a log, checkpoints, and the state from which training is resumed.

A run survives being killed at any moment, because files are written atomically and the state last.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import ClassifierAligner, NeuralAligner, best_checkpoint, load_checkpoint
from alignkit.neural.checkpoints import BEST, TRAINING, load_payload, readable, save_payload
from alignkit.neural.settings import differences, from_dict, to_dict
from alignkit.neural.training.log import TrainingLog
from alignkit.neural.training.trainer import Found, Trainer, TrainingState
from alignkit.records import Record, parse_json, shown
from alignkit.storage import atomic_write
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import Tokenizer, tokenizer_from_state

VERSION = 2
_STEP = re.compile(r"step-([0-9]{6,18})\.pt")
TEXTS = {"training": "train.npz", "validation": "valid.npz"}  #: the encoded texts of a run
_REMEDY = "put the run's own file back, or train it again"
CONFIG, STATE, LOG, CHECKPOINTS = "config.json", "state.pt", "log.jsonl", "checkpoints"


@dataclass(frozen=True)
class RunDirectory:
    """A run directory, whose content is read when it is asked for."""

    KIND: ClassVar[str]  #: the kind of run in config.json

    path: Path

    @property
    def config(self) -> dict[str, Any]:
        """The contents of config.json; raises InputError if it is not that of such a run."""
        place = self.path / CONFIG
        try:
            text = place.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(place, error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise InputError(place, f"damaged: {error}") from error
        config = parse_json(place, text)
        if not isinstance(config, dict) or config.get("kind") != self.KIND:
            raise InputError(place, "not the configuration of a run")
        if config.get("version") != VERSION:
            version = shown(config.get("version"))
            raise InputError(place, f"format version {version} of a run, this program reads {VERSION}")
        return config

    @property
    def log(self) -> TrainingLog:
        return TrainingLog.load(self.path / LOG)

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints of the logged steps, in ascending order of steps; other files are ignored."""
        paths = (self.path / CHECKPOINTS).glob("step-*.pt")
        # Sorted by number, because names of a million steps and more are longer.
        return dict(sorted((int(found[1]), path) for path in paths if (found := _STEP.fullmatch(path.name))))

    @property
    def begun(self) -> bool:
        """True if there is a state from which to resume."""
        return (self.path / STATE).exists()

    @property
    def finished(self) -> bool:
        """True if nothing is left to train."""
        return self.begun and load_payload(self.path / STATE, TRAINING).get("finished") is True

    def open(self, new: Mapping[str, Any]) -> None:
        """Create and configure the directory, or check the configuration of an existing run.

        A run that differs only in having fewer epochs or steps (:func:`is_longer`) takes the new configuration,
        and so does one that failed before its first step.

        Args:
            new: all that determines the run, in JSON values.

        Raises:
            AlignkitError: the directory contains something else, or a run with another configuration.
        """
        path = self.path
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / CHECKPOINTS).mkdir(exist_ok=True) if (path / CONFIG).exists() else None
            others = any(path.iterdir())
        except OSError as error:
            raise AlignkitError(f"cannot create the run directory {path}: {error.strerror or error}") from error
        if (path / CONFIG).exists():
            found = self.config
            changes = list(differences({name: found.get(name, {}) for name in new}, new))
            if changes and (not self.begun or is_longer(found, new)):
                self._configure({**found, **new})
            elif changes:
                raise AlignkitError(
                    f"{path} holds a run with other settings or text ({'; '.join(changes)}); "
                    "give the same ones to resume it, or another directory"
                )
            return
        if others:
            raise AlignkitError(f"{path} is neither empty nor a run; give another directory")
        versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
        self._configure({"kind": self.KIND, "version": VERSION, **new, "versions": versions})
        (path / CHECKPOINTS).mkdir(exist_ok=True)

    def save_texts(self, training: Bitext, validation: Bitext) -> None:
        """Write the encoded texts, after their fingerprints are noted in the configuration."""
        texts = {"training": training, "validation": validation}
        self._configure({**self.config, "encoded": {name: text.fingerprint() for name, text in texts.items()}})
        for name, text in texts.items():
            text.save(self.path / TEXTS[name])

    def encoded(self, name: str) -> Bitext:
        """The encoded text of that name in :data:`TEXTS`.

        Raises:
            InputError: it is missing, damaged, or not of this run.
        """
        file = TEXTS[name]
        text = Bitext.load(self.path / file)
        if text.fingerprint() != Record(self.path / CONFIG, self.config).part("encoded").text(name):
            raise InputError(self.path / file, f"not the {name} text of this run", remedy=_REMEDY)
        return text

    def load(self, step: int | None = None, device: str = "auto") -> NeuralAligner | ClassifierAligner:
        """The network of a logged step, or the best.

        Raises:
            InputError: there is no such checkpoint, or it is damaged, or not of this run.
        """
        place = (
            best_checkpoint(self.path) if step is None else self.checkpoints.get(step, self.path / f"step {step}")
        )
        network = load_checkpoint(place, device)
        if not isinstance(network, NeuralAligner | ClassifierAligner):
            raise InputError(place, "not the checkpoint of a run")
        self.check(network, place, step)
        return network

    def check(self, network: NeuralAligner | ClassifierAligner, place: Path, step: int | None = None) -> None:
        """Check that a network is of this run.

        Args:
            network: read from ``place``.
            place: the file, for errors.
            step: at which it should be, if that is known.

        Raises:
            InputError: it was trained on another text or with other settings, or is of another step.
        """
        config = Record(self.path / CONFIG, self.config)
        if network.fingerprint != config.part("encoded").text("training"):
            raise InputError(place, "a network of another run: it was trained on another text", remedy=_REMEDY)
        with readable(self.path / CONFIG):
            own = to_dict(from_dict(type(network.settings), config.value("settings")))
        changes = list(differences(_without_length(own), _without_length(to_dict(network.settings))))
        if changes:
            raise InputError(place, f"a network of another run ({'; '.join(changes)})", remedy=_REMEDY)
        if step is not None and network.step != step:
            raise InputError(place, f"the network of step {network.step}, not of step {step}", remedy=_REMEDY)

    def _configure(self, config: Mapping[str, Any]) -> None:
        with atomic_write(self.path / CONFIG) as stream:
            stream.write(json.dumps(config, indent=1, sort_keys=True).encode() + b"\n")

    def resume(
        self, make: Callable[[Tokenizer], Trainer[Any, Found]], best: Found
    ) -> tuple[Trainer[Any, Found], Tokenizer]:
        """The trainer at the saved state, and the run's tokenizer.

        Args:
            make: makes the trainer before its first step.
            best: the best network so far.

        Raises:
            InputError: the state is damaged.
        """
        state = load_payload(self.path / STATE, TRAINING)
        place = self.path / STATE
        with readable(place):
            tokenizer = tokenizer_from_state(Record(place, state).value("tokenizer"))
            trainer = make(tokenizer)
            trainer.restore(TrainingState.read(place, state, trainer.plan.last_step), best)
        return trainer, tokenizer

    def commit(self, now: Trainer[Any, Any], improved: bool, state: Mapping[str, Any]) -> None:
        """Write the results of a measured step, and last the trainer's state with ``state`` added."""
        if now.plan.keep_logged and now.step in now.plan.logged_steps:
            now.snapshot().save(self.path / CHECKPOINTS / f"step-{now.step:06d}.pt")
        if improved:
            assert now.best is not None
            now.best.save(self.path / BEST)
        now.log.save(self.path / LOG)
        save_payload(self.path / STATE, TRAINING, {**now.state(), **state})


def is_longer(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """True if the configuration ``new`` differs from ``old`` only in having more epochs or steps.

    Always false for classifiers, whose training is not counted in epochs.
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


def _without_length(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run without those in which its networks may differ: it may have been made longer."""
    network = {name: value for name, value in settings["network"].items() if name != "vocabulary"}
    training = {name: value for name, value in settings["training"].items() if name not in ("epochs", "steps")}
    return {**settings, "network": network, "training": training}


def fingerprint(*parts: Sequence[str]) -> str:
    """The SHA-256 of lists of lines, which identifies a text."""
    digest = hashlib.sha256()
    for lines in parts:
        digest.update(len(lines).to_bytes(8, "little"))
        for line in lines:
            data = line.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()
