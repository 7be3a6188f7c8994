"""The run directory of a translation network: a training run on disk that survives being killed at any moment.

config.json         settings, description of the text, and versions of the program's parts
train.npz           the encoded training text (Bitext.save)
valid.npz           the encoded validation text
valid.tgt.txt       the raw target lines of the validation text, the references of BLEU
log.jsonl           measurements
checkpoints/        step-000500.pt and so on, at the logged steps
best.pt             the network with the lowest validation loss
state.pt            the state from which training is resumed; written last, so that no other file is older
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from alignkit.errors import AlignkitError, InputError, check_list
from alignkit.links.links import Links
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import pick_device
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.settings import RunSettings, TextSettings, from_dict, to_dict
from alignkit.neural.training.guidance import text_guide
from alignkit.neural.training.run_directory import CONFIG, RunDirectory, fingerprint
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import epoch_steps, translation_trainer
from alignkit.scores import Scores
from alignkit.storage import atomic_write
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import Tokenizer, encode_bitext, learn_words, train_subwords
from alignkit.types import PathLike, Progress


@dataclass(frozen=True)
class TranslationRun(RunDirectory):
    """The run directory of a translation network."""

    KIND: ClassVar[str] = "alignkit.run"

    @property
    def settings(self) -> RunSettings:
        return from_dict(RunSettings, self.config.get("settings"))

    def load(self, step: int | None = None, device: str = "auto") -> NeuralAligner:
        """The network of a logged step, or the best; errors as :meth:`RunDirectory.load`."""
        found = super().load(step, device)
        assert isinstance(found, NeuralAligner)  # of these settings
        return found

    @property
    def train(self) -> Bitext:
        """The encoded training text."""
        return self.encoded("training")

    @property
    def valid(self) -> Bitext:
        """The encoded validation text."""
        return self.encoded("validation")

    @property
    def uniform_steps(self) -> int:
        """The number of first steps in which attention was fixed to 1/L, whatever the network's attention is."""
        training = self.settings.training
        if not training.warmup:
            return 0
        return training.warmup * epoch_steps(self.train, training)

    @property
    def references(self) -> list[str]:
        """The raw target lines of the validation text."""
        place = self.path / "valid.tgt.txt"
        try:
            text = place.read_bytes().decode("utf-8", "surrogatepass")
        except OSError as error:
            raise InputError(place, error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise InputError(place, f"damaged: {error}") from error
        return text.split("\n")[:-1]


def find_run(path: PathLike) -> TranslationRun | None:
    """The run at a directory, or the run that a checkpoint belongs to; None if there is none."""
    place = Path(path).resolve()
    for folder in (place, place.parent, place.parent.parent):
        if (folder / CONFIG).is_file() and (folder / "train.npz").is_file():
            return TranslationRun(folder)
    return None


def train_translation(
    run_dir: PathLike,
    text: LinePairs,
    valid: LinePairs,
    settings: RunSettings,
    progress: Progress | None = None,
    device: str = "auto",
    guide: Links | Scores | None = None,
) -> NeuralAligner:
    """Train a network in a run directory, or resume an interrupted run.

    On one machine, with the same versions and number of threads, an interrupted run ends with the same bits as an
    uninterrupted one. A finished run is not trained again, but is continued if the settings have more epochs or
    steps. The weights at each step are then those of a run that had these settings from the start; the step at
    which it first ended remains measured and kept, and may be the best; a best network from before keeps its
    settings.

    Args:
        run_dir: created if it does not exist.
        text: raw training text.
        valid: raw held-out text.
        settings: of text, network and training.
        progress: called after every step with (steps done, steps in all, message).
        device: as :func:`alignkit.neural.devices.pick_device`.
        guide: links between the words of ``text``, or their probabilities, that attention is pulled towards
            (guided training).

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: the directory contains something else, or a run with other settings or text; the two sides
            of a text differ in length, or are strings; there is no such device.
    """
    for name, part in (("training", text), ("validation", valid)):
        for side in part:
            check_list(side, f"the {name} text must have a list of lines on each side")
        if len(part.source) != len(part.target):
            raise AlignkitError(
                f"the {name} text has {len(part.source)} source and {len(part.target)} target lines"
            )
    pick_device(device)  # a missing device is reported before anything is written
    run = TranslationRun(Path(run_dir))
    described = {"training": _describe(text), "validation": _describe(valid)}
    if guide is not None:
        described["guide"] = _describe_guide(guide)
    run.open({"settings": to_dict(settings), "text": described})
    finished = run.finished
    if run.begun:
        training, tokenizer = _resume(run, settings, text, device, guide)
    else:
        training, tokenizer = _begin(run, settings, (text, valid), device, guide)
    state = {"tokenizer": tokenizer.state()}
    if finished and not training.finished:
        run.commit(training, False, state)  # from now on it is an unfinished run
    best = training.run(lambda now, improved: run.commit(now, improved, state), progress)
    return best.to(device)


def learn_tokenizer(text: LinePairs, settings: TextSettings) -> Tokenizer:
    """The joint tokenizer of both sides of a text."""
    both = [*text.source, *text.target]
    if settings.tokens == "words":
        return learn_words(both, settings.minimum)
    return train_subwords(both, settings.pieces)


def _describe(text: LinePairs) -> dict[str, object]:
    """The number of pairs and the SHA-256 of the lines, which identify the text."""
    return {"pairs": len(text.source), "sha256": fingerprint(*text)}


def _describe_guide(guide: Links | Scores) -> dict[str, object]:
    if isinstance(guide, Links):
        return {"links": len(guide.pairs), "sha256": fingerprint(guide.to_strings())}
    digest = hashlib.sha256(guide.shapes.tobytes() + guide.values.tobytes())
    return {"probabilities": len(guide.values), "sha256": digest.hexdigest()}


def _begin(
    run: TranslationRun,
    settings: RunSettings,
    texts: tuple[LinePairs, LinePairs],
    device: str,
    guide: Links | Scores | None,
) -> tuple[Trainer[TranslationNetwork, NeuralAligner], Tokenizer]:
    text, valid = texts
    tokenizer = learn_tokenizer(text, settings.text)
    encoded = encode_bitext(tokenizer, text.source, text.target)
    held = encode_bitext(tokenizer, valid.source, valid.target)
    own = None if guide is None else text_guide(guide, text, encoded, tokenizer)
    training = translation_trainer(encoded, held, settings, tokenizer, valid.target, device, own)
    run.save_texts(encoded, held)
    with atomic_write(run.path / "valid.tgt.txt") as stream:
        for line in valid.target:
            stream.write(line.encode("utf-8", "surrogatepass") + b"\n")
    return training, tokenizer


def _resume(
    run: TranslationRun, settings: RunSettings, text: LinePairs, device: str, guide: Links | Scores | None
) -> tuple[Trainer[TranslationNetwork, NeuralAligner], Tokenizer]:
    best, texts = run.load(device="cpu"), (run.train, run.valid)

    def make(tokenizer: Tokenizer) -> Trainer[TranslationNetwork, NeuralAligner]:
        own = None if guide is None else text_guide(guide, text, texts[0], tokenizer)
        return translation_trainer(*texts, settings, tokenizer, run.references, device, own)

    return run.resume(make, best)
