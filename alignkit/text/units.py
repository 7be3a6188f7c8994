"""A text in other units than its words: folded words, first letters, subwords, and collocations.

Collocations are words that stand together so often that they are one unit, as "New York" and "in order to" are.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain, pairwise

import numpy as np

from alignkit.support.arrays import in_runs, offsets_of
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.spellings import folded
from alignkit.text.vocabulary import UNKNOWN, ExtendedVocabulary, Vocabulary

#: Neighbours are joined in so many rounds, so that a unit has at most 2 ** ROUNDS words: where they stand together
#: at least so often, and where Dice's coefficient of the two is at least so large.
ROUNDS, LEAST_COUNT, LEAST_DICE = 3, 2, 0.2
MOST_WORDS = 1 << 14  # whose units are remembered


def units_of(corpus: Corpus, split: Callable[[str], Iterable[str]]) -> tuple[Corpus, np.ndarray]:
    """A text whose words are split into units, which are numbered as they first appear.

    Args:
        corpus: M sentences.
        split: gives the units of a word, at least one.

    Returns:
        (M sentences of units; int64 (N,), the number of units of each token).
    """
    ids: dict[str, int] = {}
    units: list[int] = []
    sizes = np.empty(len(corpus.vocabulary), np.int64)
    for i, word in enumerate(corpus.vocabulary.tokens):
        before = len(units)
        units.extend(ids.setdefault(unit, len(ids)) for unit in split(word))
        sizes[i] = len(units) - before
    tokens, offsets = in_units(corpus, np.array(units, np.int32), sizes)
    return Corpus(tokens, offsets, Vocabulary.from_tokens(ids)), sizes[corpus.tokens]


def in_units(corpus: Corpus, units: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tokens and the offsets of a text whose words are replaced by units: those of one word of its vocabulary
    after another, of each ``sizes`` int64 (V,), at least one."""
    if len(units) == len(sizes):
        return units[corpus.tokens], corpus.offsets
    counts = sizes[corpus.tokens]
    places = in_runs(offsets_of(sizes)[corpus.tokens], counts)
    return units[places], offsets_of(counts)[corpus.offsets]


class UnitIds(dict[str, tuple[int, ...]]):
    """Word -> the numbers of its units in a vocabulary, ``UNKNOWN`` for those that it does not have; words that
    were asked for are remembered.

    Args:
        vocabulary: of units.
        split: gives the units of a word, at least one.
    """

    def __init__(self, vocabulary: Vocabulary, split: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self.vocabulary, self.split = vocabulary, split

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= MOST_WORDS:
            self.clear()
        found = self[word] = tuple(map(self.vocabulary.id, self.split(word)))
        return found

    def units(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray, ExtendedVocabulary]:
        """The units of words.

        Returns:
            (int32, the units of one word after another; int64, how many each word has; the vocabulary and, after
            it, the units that it does not have, in order).
        """
        each = [self[word] for word in words]
        ids, sizes = np.array([*chain.from_iterable(each)], np.int32), np.array([*map(len, each)], np.int64)
        places, new = (ids == UNKNOWN).nonzero()[0], list[str]()
        if len(places):
            ids[places] = len(self.vocabulary) + np.arange(len(places), dtype=np.int32)
            split = ((self.split(word), own) for word, own in zip(words, each, strict=True) if UNKNOWN in own)
            new = [unit for units, own in split for unit, i in zip(units, own, strict=True) if i == UNKNOWN]
        return ids, sizes, ExtendedVocabulary(self.vocabulary, new)


def folded_words(vocabulary: Vocabulary) -> tuple[Vocabulary, np.ndarray]:
    """The words as :func:`.spellings.folded` gives them; and int32 (V,), which of them each word is."""
    ids: dict[str, int] = {}
    numbers = np.array([ids.setdefault(folded(word), len(ids)) for word in vocabulary.tokens], np.int32)
    return Vocabulary.from_tokens(ids), numbers


def folded_counts(corpus: Corpus) -> Counter[str]:
    """How often each folded word occurs, without those of the vocabulary that do not."""
    counts = np.bincount(corpus.tokens, minlength=len(corpus.vocabulary))
    words: Counter[str] = Counter()
    for word, count in zip(corpus.vocabulary.tokens, counts.tolist(), strict=True):
        if count:
            words[folded(word)] += count
    return words


def folded_text(bitext: Bitext) -> Bitext:
    """A bitext of folded words; a side whose words are folded is taken as it is."""
    sides = []
    for side in (bitext.source, bitext.target):
        text = side.vocabulary.text.tobytes().decode("utf-8", "replace")
        if text != folded(text):
            vocabulary, ids = folded_words(side.vocabulary)
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
        pairs, counts = neighbours(corpus)
        words = corpus.vocabulary.tokens
        allowed = np.fromiter(map(can_join, words), bool, len(words))
        occurrences = np.bincount(corpus.tokens, minlength=len(words))
        dice = 2 * counts / occurrences[pairs].sum(axis=1)
        is_chosen = allowed[pairs].all(axis=1) & (counts >= LEAST_COUNT) & (dice >= LEAST_DICE)
        names = {f"{words[a]} {words[b]}" for a, b in pairs[is_chosen].tolist()}
        corpus, widths = joined(corpus, names, rounds=1)
        if (widths == 1).all():
            break
        found.update(name for name in corpus.vocabulary.tokens if name in names)
    return Vocabulary.from_tokens(sorted(found))


def neighbours(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """int64 (K, 2), the different pairs of neighbouring tokens; int64 (K,), how often each occurs."""
    has_next = np.ones(len(corpus.tokens), bool)
    has_next[corpus.offsets[1:][corpus.lengths > 0] - 1] = False
    places, types = np.flatnonzero(has_next), len(corpus.vocabulary)
    codes = corpus.tokens[places].astype(np.int64) * types + corpus.tokens[places + 1]
    kinds, counts = np.unique(codes, return_counts=True)
    return np.stack(np.divmod(kinds, max(types, 1)), axis=1), counts


def joined(corpus: Corpus, names: Container[str], rounds: int = ROUNDS) -> tuple[Corpus, np.ndarray]:
    """A text whose collocations are units, numbered as they first appear.

    Args:
        corpus: M sentences.
        names: of the collocations, their words divided by spaces.
        rounds: in each, neighbours become one.

    Returns:
        (M sentences of units; int64, the number of words of each unit).
    """
    ids: dict[str, int] = {}
    tokens, sizes, offsets = array("i"), array("q"), [0]
    for m in range(len(corpus)):
        units, widths = joined_words(corpus.words(m), names, rounds)
        tokens.extend([ids.setdefault(unit, len(ids)) for unit in units])
        sizes.extend(widths)
        offsets.append(len(tokens))
    units_of_text = Corpus(np.array(tokens), np.array(offsets), Vocabulary.from_tokens(ids))
    return units_of_text, np.array(sizes)


def joined_words(words: Sequence[str], names: Container[str], rounds: int = ROUNDS) -> tuple[list[str], list[int]]:
    """The units of a sentence whose collocations are joined (:func:`joined`), and the number of words of each."""
    units, widths = list(words), [1] * len(words)
    for _ in range(rounds):
        are_joined = [name in names for name in map(" ".join, pairwise(units))]
        if True not in are_joined:
            break
        earlier, earlier_widths = units, widths
        units, widths, is_second = [], [], False
        for n, is_first in enumerate([*are_joined, False]):
            # Of several in a row the first two are joined, then the third and the fourth.
            if is_second:
                is_second = False
                continue
            end = n + 1 + is_first
            units.append(" ".join(earlier[n:end]))
            widths.append(sum(earlier_widths[n:end]))
            is_second = is_first
    return units, widths
