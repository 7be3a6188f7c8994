"""Train networks on files."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alignkit.errors import InputError
from alignkit.links.gold import read_links
from alignkit.links.links import Links
from alignkit.neural.settings import RunSettings
from alignkit.scores import Scores
from alignkit.text.pairs import Files, LinePairs, read_training_pairs
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    from alignkit.neural.aligners import NeuralAligner

log = logging.getLogger(__name__)


class TrainingFiles(NamedTuple):
    """The files that a network is trained on.

    Attributes:
        text, valid: as in :func:`alignkit.text.pairs.read_training_pairs`.
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
        **reading: as in :func:`alignkit.text.pairs.read_training_pairs`.
        settings: of text, network and training.
        threads: all cores by default; another number may change the last bits of the result.
        device, progress: as in :func:`alignkit.neural.training.translation.train_translation`.

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: as in :func:`alignkit.text.pairs.read_training_pairs`; a text is not
            the one that the run was started on; there is no such device.
    """
    pairs = read_training_pairs(files.text, files.valid, **reading)
    links = None if files.guide is None else _guide(files.guide, pairs, files.valid is None)
    # Imported only now: torch takes a second or two, which an error in the input need not wait for.
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.translation import TranslationRun, train_translation

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
