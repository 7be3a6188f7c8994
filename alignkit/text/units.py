"""The words of a text as sequences of units: their lower-case forms, their first letters, their subwords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.support.arrays import Ragged, offsets_of, places_of
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Units(Ragged):
    """Every word of a vocabulary as a sequence of units.

    Attributes:
        vocabulary: the units.
        ids: int32, units of the first word, of the second, and so on.
        offsets: int64 (V + 1,), where each word starts in ``ids``; no word is without units.
    """

    vocabulary: Vocabulary
    ids: np.ndarray
    offsets: np.ndarray

    @cached_property
    def is_one_to_one(self) -> bool:
        """Whether every word is one unit."""
        return len(self.ids) == len(self)

    def encode(self, corpus: Corpus) -> Corpus:
        """The units of a corpus whose words these are."""
        if self.is_one_to_one:
            return Corpus(self.ids[corpus.tokens], corpus.offsets, self.vocabulary)
        ends = offsets_of(self.counts(corpus))
        return Corpus(self.ids[places_of(self, corpus.tokens)], ends[corpus.offsets], self.vocabulary)

    def counts(self, corpus: Corpus) -> np.ndarray:
        """int64 (N,): the number of units of each token."""
        return np.diff(self.offsets)[corpus.tokens]


def units_of(vocabulary: Vocabulary, split: Callable[[str], Iterable[str]]) -> Units:
    """The units of all words: of each word those that ``split`` gives, numbered as they first appear."""
    known: dict[str, int] = {}
    ids: list[int] = []
    offsets = np.zeros(len(vocabulary) + 1, np.int64)
    for i, word in enumerate(vocabulary):
        ids.extend(known.setdefault(unit, len(known)) for unit in split(word))
        offsets[i + 1] = len(ids)
    return Units(Vocabulary.from_tokens(known), np.array(ids, np.int32), offsets)


def lowercase(vocabulary: Vocabulary) -> Units:
    """The words in lower case, one unit each."""
    known: dict[str, int] = {}
    ids = [known.setdefault(word.lower(), len(known)) for word in vocabulary]
    return Units(Vocabulary.from_tokens(known), np.array(ids, np.int32), np.arange(len(ids) + 1))


def lowercase_counts(corpus: Corpus) -> Counter[str]:
    """How often each word occurs, in lower case, without those of the vocabulary that do not."""
    counts = np.bincount(corpus.tokens, minlength=len(corpus.vocabulary))
    words: Counter[str] = Counter()
    for word, count in zip(corpus.vocabulary, counts.tolist(), strict=True):
        if count:
            words[word.lower()] += count
    return words


def lowercased(bitext: Bitext) -> Bitext:
    """A bitext in lower case; a side that is in lower case is taken as it is."""
    sides = bitext.source, bitext.target
    source, target = (
        side if _is_lowercase(side.vocabulary) else lowercase(side.vocabulary).encode(side) for side in sides
    )
    return Bitext(source, target)


def _is_lowercase(vocabulary: Vocabulary) -> bool:
    try:
        text = vocabulary.text.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return text == text.lower()
