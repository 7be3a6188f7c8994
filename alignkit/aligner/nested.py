"""Saved aligners inside the file of another aligner, as arrays of bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from alignkit.aligner.protocol import Aligner
from alignkit.aligner.registry import load_aligner
from alignkit.aligner.word_level import WordLevel


def saved_bytes(aligner: Aligner) -> tuple[np.ndarray, str]:
    """The file that an aligner writes, uint8, and the suffix of its name, which says what kind of file it is."""
    suffix = ".pt" if isinstance(aligner, WordLevel) else ".npz"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "aligner" + suffix)
        aligner.save(place)
        return np.fromfile(place, np.uint8), suffix


def load_bytes(data: np.ndarray, suffix: str) -> Aligner:
    """The aligner of what :func:`saved_bytes` gave; raises AlignkitError if it is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "aligner" + (".pt" if suffix == ".pt" else ".npz"))
        data.tofile(place)
        return load_aligner(place)
