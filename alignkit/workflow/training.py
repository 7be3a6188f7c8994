"""Files to train networks on, and training on them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alignkit.errors import InputError
from alignkit.links.files import read_links
from alignkit.links.links import Links
from alignkit.neural.settings import RunSettings
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines, hold_out, read_labelled, two_labels
from alignkit.text.line_pairs import LinePairs, check_has_words, hold_out_pairs
from alignkit.text.reading import read_line_pairs
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    from alignkit.neural.aligners import NeuralAligner

log = logging.getLogger(__name__)

Files = tuple[PathLike, PathLike | None]


def read_training_pairs(text: Files, valid: Files | None, **reading: Any) -> tuple[LinePairs, LinePairs]:
    """Read a training and a validation text.

    Args:
        text: source and target file; or one file with both sides, and None.
        valid: the same of a validation text. None: the last 1,000 pairs of the text, or one in twenty if that is
            fewer, are held out.
        **reading: ``encoding_errors`` and ``lowercase`` of :func:`alignkit.text.reading.read_line_pairs`.

    Raises:
        AlignkitError: a file cannot be read, or has no pair with words on both sides.
    """
    lines = read_line_pairs(*text, **reading)
    if valid is not None:
        held = read_line_pairs(*valid, **reading)
    else:
        lines, held = hold_out_pairs(lines)
    check_has_words(lines, "train on")
    check_has_words(held, "validate on")
    if valid is None:
        log.info("no validation text: the last %d pairs are held out as one", len(held.source))
    return lines, held


def read_training_texts(
    data: PathLike,
    valid: PathLike | None,
    labels: Sequence[str] | None = None,
    *,
    split_punctuation: bool = False,
    longest: int | None = None,
    **reading: Any,
) -> tuple[LabelledLines, LabelledLines, tuple[str, str]]:
    """Read the training and the validation texts of a classifier, and the names of its two labels.

    Args:
        data: labelled texts; a file or folder of :func:`alignkit.text.labelled.read_labelled`.
        valid: the same of the validation texts. None: one text in ten, at most 1,000, is held out.
        labels: keep only the texts with these two labels.
        split_punctuation: make every punctuation mark a word.
        longest: read only this number of words of a text.
        **reading: options of :func:`alignkit.text.labelled.read_labelled`.

    Raises:
        AlignkitError: a file cannot be read or is malformed, or there are not two labels.
    """
    text, names = two_labels(read_labelled(data, **reading), labels)
    if valid is None:
        text, held = hold_out(text)
        log.info("no validation text: %d texts are held out as one", len(held))
    else:
        held = read_labelled(valid, **reading)
        held = held.keep(names) if labels is not None else held
    if split_punctuation:
        text, held = text.split_punctuation(), held.split_punctuation()
    if longest is not None:
        text, held = text.cut(longest), held.cut(longest)
    return text, held, names


class TrainingFiles(NamedTuple):
    """The files that a network is trained on.

    Attributes:
        text, valid: as of :func:`read_training_pairs`.
        guide: links between the words of the text, which attention is pulled towards, line m that of pair m; or
            the probabilities of links, as ``align --save-scores FILE.npz`` writes them.
    """

    text: Files
    valid: Files | None = None
    guide: PathLike | None = None


def train_files(
    run_dir: PathLike,
    files: TrainingFiles,
    settings: RunSettings,
    *,
    threads: int | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    **reading: Any,
) -> NeuralAligner:
    """Train a network on the text of files into a run directory, or continue an interrupted or a finished run.

    Args:
        run_dir: made if it does not exist.
        files: the text, and what goes with it.
        **reading: as of :func:`read_training_pairs`.
        settings: of text, network and training.
        threads: all cores by default; another number may change the last bits of the result.
        device, progress: as of :func:`alignkit.neural.training.translation_run.train_translation`.

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: as of :func:`read_training_pairs`; a text is not the one that the run was started on; there
            is no such device.
    """
    pairs = read_training_pairs(files.text, files.valid, **reading)
    links = None if files.guide is None else _guide(files.guide, pairs, files.valid is None)
    # Imported only now: torch takes a second or two, which an error in the input need not wait for.
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.translation_run import TranslationRun, train_translation

    set_threads(threads)
    run = TranslationRun(Path(run_dir))
    before = run.log if run.finished else None
    best = train_translation(run_dir, *pairs, settings, progress, device, links)
    if before is not None:
        finished, longer = "this run is finished; nothing was left to train", "a finished run was continued"
        log.info("%s: %s", run_dir, finished if before == run.log else longer)
    return best


def _guide(path: PathLike, texts: tuple[LinePairs, LinePairs], held_out: bool) -> Links | Scores:
    """The guide of the training text, whose last pairs may have been held out as validation text."""
    guide: Links | Scores
    is_scores = os.fspath(path).endswith(".npz")
    guide = Scores.load(path) if is_scores else read_links(path)
    count = len(texts[0].source)
    expected = count + (len(texts[1].source) if held_out else 0)
    if len(guide) != expected:
        found = "scores of {} sentence pairs" if is_scores else "{} lines of links"
        raise InputError(path, f"has {found.format(len(guide))}, the text has {expected} sentence pairs")
    if isinstance(guide, Links):
        return guide.block(0, count)
    return Scores.from_matrices(guide[m] for m in range(count))
