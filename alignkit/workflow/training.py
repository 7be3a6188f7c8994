"""Train a network on files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.neural.settings import RunSettings
from alignkit.text.line_pairs import check_has_words, hold_out_pairs
from alignkit.text.reading import read_line_pairs
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    from alignkit.neural.aligners import NeuralAligner

log = logging.getLogger(__name__)

Files = tuple[PathLike, PathLike | None]


def train_files(
    run_dir: PathLike,
    text: Files,
    valid: Files | None,
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
        text: source and target file; or one file with both sides, and None.
        valid: the same of a held-out text. None: the last 1,000 pairs of the text, or one in twenty if that is
            fewer, are held out.
        settings: of text, network and training.
        threads: all cores by default; another number may change the last bits of the result.
        device, progress: as of :func:`alignkit.neural.training.translation_run.train_translation`.
        **reading: ``encoding_errors`` and ``lowercase`` of :func:`alignkit.text.reading.read_line_pairs`.

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: a file cannot be read, has no pair with words on both sides, or is not the one that the run
            was started on; or there is no such device.
    """
    lines = read_line_pairs(*text, **reading)
    if valid is not None:
        held = read_line_pairs(*valid, **reading)
    else:
        lines, held = hold_out_pairs(lines)
        log.info("no validation text: the last %d pairs are held out as one", len(held[0]))
    check_has_words(lines, "train on")
    check_has_words(held, "validate on")
    # Imported only now: torch takes a second or two, which an error in the input need not wait for.
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.translation_run import LinePairs, TranslationRun, train_translation

    set_threads(threads)
    run = TranslationRun(Path(run_dir))
    before = run.log if run.finished else None
    best = train_translation(run_dir, LinePairs(*lines), LinePairs(*held), settings, progress, device)
    if before is not None:
        finished, longer = "this run is finished; nothing was left to train", "a finished run was continued"
        log.info("%s: %s", run_dir, finished if before == run.log else longer)
    return best
