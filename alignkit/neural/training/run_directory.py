"""Run directories: a configuration, texts, a log, checkpoints, and the state from which training is resumed.

config.json         settings, description of the text, and versions of the program's parts
train.npz           the encoded training text (Bitext.save); a classifier's has the labels as target sentences
valid.npz           the encoded validation text
valid.tgt.txt       of a translation run, the raw target lines of the validation text, the references of BLEU
log.jsonl           measurements: train.loss, valid.loss (nats), valid.accuracy (a share), valid.bleu
checkpoints/        step-000500.pt and so on, at the logged steps
best.pt             the network with the lowest validation loss; the classifier with the highest accuracy
state.pt            the state from which training is resumed

A run survives being killed at any moment, because files are written atomically and the state last, so that no
other file is older.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from alignkit.errors import AlignkitError, InputError, reading, writing
from alignkit.neural.aligners import (
    TRAINING,
    ClassifierAligner,
    NeuralAligner,
    TrainedAligner,
    load_checkpoint,
    load_payload,
    readable,
    save_payload,
)
from alignkit.neural.devices import pick_device, training_batches
from alignkit.neural.settings import (
    BEST,
    CONFIG,
    RUN_KINDS,
    ClassifierRunSettings,
    RunSettings,
    best_checkpoint,
    differences,
    from_dict,
)
from alignkit.neural.training.trainer import AlignerT, Task, Trainer, TrainingLog
from alignkit.support.files import Record, atomic_write, check_kind, parse_json
from alignkit.text.bitext import Bitext
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import Tokenizer, tokenizer_from_state
from alignkit.types import PathLike, Progress

VERSION = 2
MEASURED = "valid.loss", "valid.accuracy"  #: with every network of a run
_STEP = re.compile(r"step-([0-9]{6,18})\.pt")
TEXTS = {"training": "train.npz", "validation": "valid.npz"}  #: the encoded texts of a run
_REMEDY = "put the run's own file back, or train it again"
STATE, LOG, CHECKPOINTS = "state.pt", "log.jsonl", "checkpoints"
REFERENCES = "valid.tgt.txt"

Settings = TypeVar("Settings", bound=RunSettings)
Text = TypeVar("Text", Bitext, LabelledText)


@dataclass(frozen=True, init=False)
class RunDirectory(Generic[Settings, AlignerT, Text]):
    """A run directory, whose content is read when it is asked for."""

    path: Path

    COMMAND: ClassVar[str]  #: that trains such runs
    ALIGNER: ClassVar[type[Any]]  #: the class of its networks

    def __init__(self, path: PathLike) -> None:
        object.__setattr__(self, "path", Path(path))

    @property
    def config(self) -> dict[str, Any]:
        """The contents of config.json; raises InputError if it is not that of such a run."""
        place = self.path / CONFIG
        with reading(place):
            config = parse_json(place, place.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise InputError(place, "not the configuration of a run")
        check_kind(place, config, (RUN_KINDS[self.COMMAND],), VERSION)
        return config

    @property
    def settings(self) -> Settings:
        return from_dict(self.ALIGNER.SETTINGS, self.config.get("settings"))

    @property
    def train(self) -> Text:
        """The encoded training text; raises InputError if it is missing, damaged, or not of this run."""
        return self.encoded("training")

    @property
    def valid(self) -> Text:
        """The encoded validation text; errors as of :attr:`train`."""
        return self.encoded("validation")

    def encoded(self, name: str) -> Any:
        """The encoded text of that name in :data:`TEXTS`; errors as of :attr:`train`."""
        file = TEXTS[name]
        text = Bitext.load(self.path / file)
        if text.fingerprint() != Record(self.path / CONFIG, self.config).part("encoded").text(name):
            raise InputError(self.path / file, f"not the {name} text of this run", remedy=_REMEDY)
        return text

    @property
    def log(self) -> TrainingLog:
        return TrainingLog.load(self.path / LOG)

    @property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints of the logged steps, in ascending order of steps; other files are ignored."""
        paths = (self.path / CHECKPOINTS).glob("step-*.pt")
        # Sorted by number, because names of a million steps and more are longer.
        return dict(sorted((int(match[1]), path) for path in paths if (match := _STEP.fullmatch(path.name))))

    @property
    def begun(self) -> bool:
        """True if there is a state from which to resume."""
        return (self.path / STATE).exists()

    @property
    def finished(self) -> bool:
        """True if nothing is left to train."""
        return self.begun and load_payload(self.path / STATE, TRAINING).get("finished") is True

    def open(self, new: Mapping[str, Any], device: str) -> dict[str, Any] | None:
        """Create and configure the directory, or check the configuration of an existing run.

        A run that failed before its first step takes the new configuration.

        Args:
            new: all that determines the run, in JSON values.
            device: as :func:`alignkit.neural.devices.pick_device`.

        Returns:
            the state from which an interrupted or finished run goes on; None if the run begins.

        Raises:
            AlignkitError: the directory contains something else, or a run with another configuration; there is no
                such device.
        """
        pick_device(device)  # a missing device is reported before anything is written
        path, checkpoints = self.path, self.path / CHECKPOINTS
        with writing(f"create the run directory {path}"):
            path.mkdir(parents=True, exist_ok=True)
            known, others = (path / CONFIG).exists(), any(path.iterdir())
            if known:
                checkpoints.mkdir(exist_ok=True)
        if known:
            old = self.config
            changes = list(differences({name: old.get(name, {}) for name in new}, new))
            if changes and self.begun:
                raise AlignkitError(
                    f"{path} holds a run with other settings or text ({'; '.join(changes)}); "
                    "give the same ones to resume it, or another directory"
                )
            if changes:
                self._configure({**old, **new})
            return load_payload(path / STATE, TRAINING) if self.begun else None
        if others:
            raise AlignkitError(f"{path} is neither empty nor a run; give another directory")
        versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
        self._configure({"kind": RUN_KINDS[self.COMMAND], "version": VERSION, **new, "versions": versions})
        checkpoints.mkdir(exist_ok=True)
        return None

    def encoded_texts(self, state: Mapping[str, Any]) -> tuple[Text, Text, Tokenizer]:
        """The training text, the validation text and the tokenizer of a run with that state.

        Raises:
            InputError: what the run holds is damaged, or does not belong together.
        """
        training, held = self.train, self.valid
        with readable(self.path / STATE):
            tokenizer = tokenizer_from_state(state["tokenizer"])
            for name, text in (("training", training), ("validation", held)):
                if (text.source if isinstance(text, Bitext) else text.corpus).vocabulary != tokenizer.vocabulary:
                    raise ValueError(f"the {name} text is not encoded with the tokenizer's vocabulary")
        return training, held, tokenizer

    def load(self, step: int | None = None, device: str = "auto") -> AlignerT:
        """The network of a logged step, or the best.

        Raises:
            InputError: there is no such checkpoint, or it is damaged, or not of this run.
        """
        place = (
            best_checkpoint(self.path) if step is None else self.checkpoints.get(step, self.path / f"step {step}")
        )
        network: Any = load_checkpoint(place, device)
        if not isinstance(network, self.ALIGNER):
            raise InputError(place, f"holds a {network.name}", remedy=f"give a run of `alignkit {self.COMMAND}`")
        self.check(network, place, step)
        return network

    def check(self, network: TrainedAligner, place: Path, step: int | None = None) -> None:
        """Check that a network is of this run.

        Args:
            network: read from ``place``.
            place: the file, for errors.
            step: at which it should be, if that is known.

        Raises:
            InputError: it was trained on another text or with other settings, is of another step, or was not
                measured.
        """
        config = Record(self.path / CONFIG, self.config)
        if network.fingerprint != config.part("encoded").text("training"):
            raise InputError(place, "a network of another run: it was trained on another text", remedy=_REMEDY)
        with readable(self.path / CONFIG):
            own = self.settings.change(network={"vocabulary": network.settings.network.vocabulary})
        changes = list(differences(asdict(own), asdict(network.settings)))
        if changes:
            raise InputError(place, f"a network of another run ({'; '.join(changes)})", remedy=_REMEDY)
        for name in MEASURED:
            Record(place, network.metrics, name="metrics").number(name)
        if step is not None and network.step != step:
            raise InputError(place, f"the network of step {network.step}, not of step {step}", remedy=_REMEDY)

    def _configure(self, config: Mapping[str, Any]) -> None:
        with atomic_write(self.path / CONFIG) as stream:
            stream.write(json.dumps(config, indent=1, sort_keys=True).encode() + b"\n")

    def complete(
        self, task: Task[Any, AlignerT], state: Mapping[str, Any] | None, device: str, progress: Progress | None
    ) -> AlignerT:
        """Train to the end, from the beginning or from where an interrupted run had come.

        Args:
            task: of the run.
            state: as of :meth:`open`.
            device: of the network that is returned.
            progress: as of :meth:`Trainer.run`.

        Returns:
            the best network.

        Raises:
            AlignkitError: what the run holds is damaged.
        """
        trainer = Trainer(task)
        if state is not None:
            best = self.load(device="cpu")
            with readable(self.path / STATE):
                trainer.restore(state, best)
        else:
            held = task.valid if isinstance(task.valid, Bitext) else task.valid.bitext
            texts = {"training": task.bitext, "validation": held}
            # The fingerprints are noted before the texts are written.
            self._configure({**self.config, "encoded": {name: text.fingerprint() for name, text in texts.items()}})
            for name, text in texts.items():
                text.save(self.path / TEXTS[name])
        tokenizer, keep = task.tokenizer.state(), task.settings.training.keep
        for improved in trainer.measured_steps(progress):
            if keep == "logged" and trainer.step in task.logged_steps:
                trainer.snapshot().save(self.path / CHECKPOINTS / f"step-{trainer.step:06d}.pt")
            if improved and trainer.best is not None:
                trainer.best.save(self.path / BEST)
            trainer.log.save(self.path / LOG)
            # The state, from which training is resumed, comes last.
            save_payload(self.path / STATE, TRAINING, {**trainer.state(), "tokenizer": tokenizer})
        assert trainer.best is not None
        return trainer.best.to(device)


class TranslationRun(RunDirectory[RunSettings, NeuralAligner, Bitext]):
    """The run directory of a translation network."""

    COMMAND: ClassVar[str] = "train"
    ALIGNER: ClassVar[type[Any]] = NeuralAligner

    @property
    def uniform_steps(self) -> int:
        """The number of first steps in which attention was fixed to 1/L, whatever the network's attention is."""
        training = self.settings.training
        if not training.warmup:
            return 0
        return training.warmup * len(training_batches(self.train, training.batch, 0, 0, training.buckets))

    @property
    def references(self) -> list[str]:
        """The raw target lines of the validation text."""
        with reading(place := self.path / REFERENCES):
            return place.read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1]


class ClassifierRun(RunDirectory[ClassifierRunSettings, ClassifierAligner, LabelledText]):
    """The run directory of a classifier."""

    COMMAND: ClassVar[str] = "classify"
    ALIGNER: ClassVar[type[Any]] = ClassifierAligner

    def encoded(self, name: str) -> LabelledText:
        return LabelledText.from_bitext(super().encoded(name))


def find_run(path: PathLike) -> TranslationRun | None:
    """The run at a directory, or the run that a checkpoint belongs to; None if there is none."""
    place = Path(path).resolve()
    for folder in (place, place.parent, place.parent.parent):
        if (folder / CONFIG).is_file() and (folder / "train.npz").is_file():
            return TranslationRun(folder)
    return None


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
    run = TranslationRun(best_checkpoint(Path(path)).parent)
    _ = run.config
    return run


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
