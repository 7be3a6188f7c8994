"""Vectors of words from files as evidence for links."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alignkit.embeddings.levels import centred, fill_levels
from alignkit.errors import AlignkitError, InputError
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary
from alignkit.text.word_vectors import read_word_vectors
from alignkit.types import PathLike, Progress, no_progress


class WordVectors:
    """Vectors of both sides' words in one space, from one file for both or from one for each.

    A word that a file does not have gets the vector of its lower-case form; without that, nothing is known of it.

    Args:
        source, target: the files, which may be compressed; without ``target``, one file has both languages' words.

    Raises:
        InputError: a file cannot be found.
    """

    def __init__(self, source: PathLike, target: PathLike | None = None) -> None:
        self.source, self.target = source, source if target is None else target
        for path in (self.source, self.target):
            if not Path(path).is_file():
                raise InputError(path, "no such file of word vectors")

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """See :class:`alignkit.embeddings.levels.Embeddings`.

        Raises:
            InputError: a file is not in one of the formats, or has none of the words of its side.
            AlignkitError: the vectors of the two files are not equally long.
        """
        report, levels = progress or no_progress, np.empty(flat_offsets(bitext.shapes)[-1], np.uint8)
        report(0, len(bitext), "reading word vectors")
        source = vectors_of(self.source, bitext.source.vocabulary)
        target = vectors_of(self.target, bitext.target.vocabulary)
        if source.shape[1] != target.shape[1]:
            sizes = f"{source.shape[1]} and {target.shape[1]}"
            raise AlignkitError(f"the word vectors of both sides must be equally long, not of {sizes} numbers")
        both = [_centred_types(*each) for each in ((source, bitext.source), (target, bitext.target))]
        step = 100_000
        for low in range(0, len(bitext), step):
            block, offsets = bitext.block(low, min(low + step, len(bitext))), flat_offsets(bitext.shapes)
            own = levels[offsets[low] : offsets[min(low + step, len(bitext))]]
            fill_levels(block, both[0][block.source.tokens], both[1][block.target.tokens], own, threads)
        return levels


def vectors_of(path: PathLike, vocabulary: Vocabulary) -> np.ndarray:
    """float32 (V, D): the vectors of these words in a file; zeros for those that it does not have.

    Raises:
        InputError: as :func:`alignkit.text.word_vectors.read_word_vectors`.
    """
    forms = [tuple(form.encode("utf-8", "surrogatepass") for form in (word, word.lower())) for word in vocabulary]
    found = read_word_vectors(path, {form for both in forms for form in both})
    vectors = np.zeros((len(vocabulary), len(next(iter(found.values())))), np.float32)
    for i, (word, lower) in enumerate(forms):
        vectors[i] = found.get(word, found.get(lower, np.float32(0)))
    return vectors


def _centred_types(vectors: np.ndarray, corpus: Corpus) -> np.ndarray:
    """Unit vectors of the words, from the mean of the text's tokens."""
    known = vectors.any(axis=1)
    counts = np.bincount(corpus.tokens, minlength=len(vectors)) * known
    centre = counts @ vectors / max(counts.sum(), 1)
    return centred(vectors, centre.astype(np.float32))
