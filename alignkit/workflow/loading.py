"""Load whatever the library saves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alignkit import scores
from alignkit.aligner import Aligner, load_aligner
from alignkit.scores import Scores
from alignkit.storage import read_header
from alignkit.text import bitext
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike

#: header kind of a saved npz that is no aligner -> its loader
_LOADERS: dict[str, Callable[[PathLike], Scores | Bitext]] = {scores.KIND: Scores.load, bitext.KIND: Bitext.load}


def load(path: PathLike, threads: int | None = None) -> Aligner | Scores | Bitext:
    """Load a file that ``save`` wrote: a fitted aligner, scores or a bitext; a checkpoint or a run directory.

    Args:
        path: the file or folder.
        threads: of an aligner, as of :func:`alignkit.aligner.load_aligner`.

    Raises:
        InputError: the file is missing, damaged, or none of these.
    """
    header = read_header(path) if Path(path).is_file() else None
    kind = None if header is None else header.get("kind")
    if isinstance(kind, str) and kind in _LOADERS:
        return _LOADERS[kind](path)
    return load_aligner(path, threads)
