"""Vectors of words from files in the text formats of word2vec, fastText and GloVe, and as evidence for links."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from pathlib import Path

import numpy as np

from alignkit.embeddings.levels import centred, fill_levels
from alignkit.errors import AlignkitError, InputError
from alignkit.scores import flat_offsets
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_raw_lines
from alignkit.text.spellings import spellings
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike, Progress


class WordVectors:
    """Vectors of both sides' words in one space, from one file for both or from one for each.

    A word that a file does not have gets the vector of its lower-case form, or of that without its marks
    (:func:`alignkit.text.spellings.spellings`); without these, nothing is known of it.

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
        both = []
        for vectors, side in ((source, bitext.source), (target, bitext.target)):
            # Unit vectors of the words, from the mean of the text's tokens.
            counts = np.bincount(side.tokens, minlength=len(vectors)) * vectors.any(axis=1)
            centre = counts @ vectors / max(counts.sum(), 1)
            both.append(centred(vectors, centre.astype(np.float32)))
        step = 100_000
        for low in range(0, len(bitext), step):
            block, offsets = bitext.block(low, min(low + step, len(bitext))), flat_offsets(bitext.shapes)
            own = levels[offsets[low] : offsets[min(low + step, len(bitext))]]
            fill_levels(block, both[0][block.source.tokens], both[1][block.target.tokens], own, threads)
        return levels


def vectors_of(path: PathLike, vocabulary: Vocabulary) -> np.ndarray:
    """float32 (V, D): the vectors of these words in a file; zeros for those that it does not have.

    Raises:
        InputError: as :func:`read_word_vectors`.
    """
    forms = [[form.encode() for form in (word, *spellings(word.lower()))] for word in vocabulary]
    found = read_word_vectors(path, set(chain.from_iterable(forms)))
    vectors = np.zeros((len(vocabulary), len(next(iter(found.values())))), np.float32)
    for i, own in enumerate(forms):
        vectors[i] = next((found[form] for form in own if form in found), 0)
    return vectors


def read_word_vectors(path: PathLike, words: Collection[bytes]) -> dict[bytes, np.ndarray]:
    """float32 (D,) of some words, those that a file has.

    Each line is a word and D numbers with spaces between them; a first line of two numbers, as word2vec and
    fastText have it, is skipped. Of a word that is there twice, the first vector counts.

    Args:
        path: the file, which may be compressed.
        words: encoded in UTF-8, without spaces.

    Raises:
        InputError: a line of one of the words is not of this form, or there is none of them.
    """
    found: dict[bytes, np.ndarray] = {}
    size = 0
    for number, line in enumerate(read_raw_lines(path), 1):
        word, _, rest = line.rstrip(b" \r").partition(b" ")
        if number == 1 and word.isdigit() and rest.isdigit():
            size = int(rest)
        elif word in words and word not in found:
            parts = rest.split(b" ")
            size = size or len(parts)
            if len(parts) > size:
                continue  # a word with spaces
            try:
                found[word] = np.array(parts, np.float32)
            except ValueError:
                found[word] = np.full(1, np.nan, np.float32)
            if not np.isfinite(found[word]).all():
                problem = "must be a word and numbers, with spaces between them"
                remedy = "give vectors in the text format of word2vec or fastText"
                raise InputError(path, problem, line=number, remedy=remedy)
            if len(parts) != size:
                raise InputError(path, f"has {len(parts)} numbers after its word, not {size}", line=number)
    if not found:
        raise InputError(path, "has none of the text's words", remedy="is it of the other language?")
    return found
