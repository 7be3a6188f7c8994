"""A text in other units than its words: lower-case forms, first letters, subwords, and collocations.

Collocations are words that stand together so often that they are one unit, as "New York" and "in order to" are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from alignkit.support.arrays import in_runs, offsets_of
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary

#: Neighbours are joined in so many rounds, so that a unit has at most 2 ** ROUNDS words: where they stand together
#: at least so often, and where Dice's coefficient of the two is at least so large.
ROUNDS, LEAST_COUNT, LEAST_DICE = 3, 2, 0.2


def units_of(corpus: Corpus, split: Callable[[str], Iterable[str]]) -> tuple[Corpus, np.ndarray]:
    """A text whose words are split into units, which are numbered as they first appear.

    Args:
        corpus: M sentences.
        split: gives the units of a word, at least one.

    Returns:
        (M sentences of units; int64 (V,), the number of units of each word).
    """
    ids: dict[str, int] = {}
    units: list[int] = []
    sizes = np.empty(len(corpus.vocabulary), np.int64)
    for i, word in enumerate(corpus.vocabulary.tokens):
        before = len(units)
        units.extend(ids.setdefault(unit, len(ids)) for unit in split(word))
        sizes[i] = len(units) - before
    places, offsets = corpus.tokens, corpus.offsets
    if len(units) > len(sizes):
        counts = sizes[corpus.tokens]
        places, offsets = in_runs(offsets_of(sizes)[corpus.tokens], counts), offsets_of(counts)[corpus.offsets]
    return Corpus(np.array(units, np.int32)[places], offsets, Vocabulary.from_tokens(ids)), sizes


def lowercase(vocabulary: Vocabulary) -> tuple[Vocabulary, np.ndarray]:
    """The words in lower case; and int32 (V,), which of them each word is."""
    ids: dict[str, int] = {}
    numbers = np.array([ids.setdefault(word.lower(), len(ids)) for word in vocabulary.tokens], np.int32)
    return Vocabulary.from_tokens(ids), numbers


def lowercase_counts(corpus: Corpus) -> Counter[str]:
    """How often each word occurs, in lower case, without those of the vocabulary that do not."""
    counts = np.bincount(corpus.tokens, minlength=len(corpus.vocabulary))
    words: Counter[str] = Counter()
    for word, count in zip(corpus.vocabulary.tokens, counts.tolist(), strict=True):
        if count:
            words[word.lower()] += count
    return words


def lowercased(bitext: Bitext) -> Bitext:
    """A bitext in lower case; a side that is in lower case is taken as it is."""
    sides = []
    for side in (bitext.source, bitext.target):
        text = side.vocabulary.text.tobytes().decode("utf-8", "replace")
        if text != text.lower():
            vocabulary, ids = lowercase(side.vocabulary)
            side = Corpus(ids[side.tokens], side.offsets, vocabulary)
        sides.append(side)
    return Bitext(*sides)


def find_collocations(corpus: Corpus, can_join: Callable[[str], bool]) -> Vocabulary:
    """The collocations of a text in order, their words divided by spaces.

    Two units are joined whose Dice's coefficient, 2 c(a b) / (c(a) + c(b)), is at least :data:`LEAST_DICE`, in
    :data:`ROUNDS` rounds, so that what was joined can be joined again. A repeated sentence counts once: its words
    need not belong together.

    Args:
        corpus: M sentences.
        can_join: True for the words, and for several with spaces between, that may be part of one.
    """
    found: set[str] = set()
    places = enumerate(pairwise(corpus.offsets.tolist()))
    once = {corpus.tokens[low:high].tobytes(): m for m, (low, high) in places}
    corpus = corpus.take(np.array([*once.values()], np.int64))
    for _ in range(ROUNDS):
        neighbours, words = Neighbours.of(corpus), corpus.vocabulary
        allowed = np.fromiter(map(can_join, words.tokens), bool, len(words))
        occurrences = np.bincount(corpus.tokens, minlength=len(words))
        dice = 2 * neighbours.counts / occurrences[neighbours.pairs].sum(axis=1)
        is_chosen = allowed[neighbours.pairs].all(axis=1)
        is_chosen &= (neighbours.counts >= LEAST_COUNT) & (dice >= LEAST_DICE)
        corpus, _, names = neighbours.joined(corpus, is_chosen)
        if not names:
            break
        found.update(names)
    return Vocabulary.from_tokens(sorted(found))


def beginnings(collocations: Vocabulary) -> frozenset[str]:
    """What collocations begin with, up to each of their spaces."""
    return frozenset(name[:end] for name in collocations for end in range(len(name)) if name[end] == " ")


def joined(
    corpus: Corpus, collocations: Vocabulary, begin: frozenset[str] | None = None
) -> tuple[Corpus, np.ndarray]:
    """A text whose collocations are units.

    Args:
        corpus: M sentences.
        collocations: as :func:`find_collocations` returns them.
        begin: their :func:`beginnings`, if they are known.

    Returns:
        (M sentences of units; int64, the number of words of each unit).
    """
    begin = beginnings(collocations) if begin is None else begin
    widths = np.ones(len(corpus.tokens), np.int64)
    for _ in range(ROUNDS):
        neighbours, words = Neighbours.of(corpus), corpus.vocabulary.tokens
        begins = np.fromiter((unit in begin for unit in words), bool, len(words))
        is_chosen = begins[neighbours.pairs[:, 0]]
        pairs = neighbours.pairs[is_chosen].tolist()
        is_chosen[is_chosen] = [f"{words[a]} {words[b]}" in collocations for a, b in pairs]
        corpus, are_first, names = neighbours.joined(corpus, is_chosen)
        if not names:
            break
        widths = np.add.reduceat(widths, np.flatnonzero(are_first))
    return corpus, widths


class Neighbours(NamedTuple):
    """Neighbouring units of a text, of K kinds.

    Attributes:
        places: int64, of the first unit of each two neighbours.
        kind: int64, the kind of each two.
        pairs: int64 (K, 2), the units of each kind.
        counts: int64 (K,), how often each kind occurs.
    """

    places: np.ndarray
    kind: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> Neighbours:
        """Those of a corpus."""
        tokens, types = corpus.tokens, len(corpus.vocabulary)
        has_next = np.ones(len(tokens), bool)
        has_next[corpus.offsets[1:][corpus.lengths > 0] - 1] = False
        places = np.flatnonzero(has_next)
        codes = tokens[places].astype(np.int64) * types + tokens[places + 1]
        kinds, kind, counts = np.unique(codes, return_inverse=True, return_counts=True)
        return cls(places, kind, np.stack(np.divmod(kinds, max(types, 1)), axis=1), counts)

    def joined(self, corpus: Corpus, is_chosen: np.ndarray) -> tuple[Corpus, np.ndarray, list[str]]:
        """The corpus with the neighbours of chosen kinds, bool (K,), joined.

        Returns:
            (the corpus; bool (N,), the old units that one of it begins with; the names of what was joined).
        """
        places, kind = self.places[is_chosen[self.kind]], self.kind[is_chosen[self.kind]]
        # Of several in a row the first two are joined, then the third and the fourth.
        runs = np.diff(np.flatnonzero(np.diff(places, prepend=-2, append=-2) != 1))
        is_joined = in_runs(np.zeros_like(runs), runs) % 2 == 0
        joined_kinds, kind = np.unique(kind[is_joined], return_inverse=True)
        words = corpus.vocabulary.tokens
        names = [f"{words[a]} {words[b]}" for a, b in self.pairs[joined_kinds].tolist()]
        ids = corpus.vocabulary.ids.copy()
        own = np.array([ids.setdefault(name, len(ids)) for name in names], np.int32)
        are_first, tokens = np.ones(len(corpus.tokens), bool), corpus.tokens.copy()
        are_first[places[is_joined] + 1] = False
        tokens[places[is_joined]] = own[kind]
        offsets = offsets_of(are_first)[corpus.offsets]
        return Corpus(tokens[are_first], offsets, Vocabulary.from_tokens(ids)), are_first, names
