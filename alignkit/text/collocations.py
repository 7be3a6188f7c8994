"""Words that stand together so often that they are one unit, as "New York" and "in order to" are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from alignkit.support.arrays import in_runs, offsets_of
from alignkit.text.bitext import Corpus
from alignkit.text.vocabulary import Vocabulary

#: Neighbours are joined in so many rounds, so that a unit has at most 2 ** ROUNDS words: where they stand together
#: at least so often, and where Dice's coefficient of the two is at least so large.
ROUNDS, LEAST_COUNT, LEAST_DICE = 3, 2, 0.2

#: Says of K pairs of units, (K, 2), that stand together so often, (K,), in a text whether to join them, bool (K,).
Choice = Callable[[np.ndarray, np.ndarray, Corpus], np.ndarray]


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

    def choose(pairs: np.ndarray, counts: np.ndarray, text: Corpus) -> np.ndarray:
        allowed = np.fromiter(map(can_join, text.vocabulary), bool, len(text.vocabulary))
        occurrences = np.bincount(text.tokens, minlength=len(text.vocabulary))
        dice = 2 * counts / occurrences[pairs].sum(axis=1)
        return allowed[pairs].all(axis=1) & (counts >= LEAST_COUNT) & (dice >= LEAST_DICE)

    once = {corpus[m].tobytes(): m for m in range(len(corpus))}
    corpus = corpus.take(np.array([*once.values()], np.int64))
    for _ in range(ROUNDS):
        corpus, _, names = _joined_once(corpus, choose)
        if not names:
            break
        found.update(names)
    return Vocabulary.from_tokens(sorted(found))


def joined(corpus: Corpus, collocations: Vocabulary) -> tuple[Corpus, np.ndarray]:
    """A text whose collocations are units.

    Args:
        corpus: M sentences.
        collocations: as :func:`find_collocations` returns them.

    Returns:
        (M sentences of units; int64, the number of words of each unit).
    """
    beginnings = {name[:end] for name in collocations for end in range(len(name)) if name[end] == " "}

    def choose(pairs: np.ndarray, counts: np.ndarray, text: Corpus) -> np.ndarray:
        begin = np.fromiter((unit in beginnings for unit in text.vocabulary), bool, len(text.vocabulary))
        chosen = begin[pairs[:, 0]]
        chosen[chosen] = [name in collocations for name in _names(pairs[chosen], text.vocabulary)]
        return chosen

    widths = np.ones(len(corpus.tokens), np.int64)
    for _ in range(ROUNDS):
        corpus, are_first, names = _joined_once(corpus, choose)
        if not names:
            break
        widths = np.add.reduceat(widths, np.flatnonzero(are_first))
    return corpus, widths


def _joined_once(corpus: Corpus, choose: Choice) -> tuple[Corpus, np.ndarray, list[str]]:
    """Join chosen neighbours.

    Returns:
        (the text; bool (N,), the old units that one of it begins with; the names of what was joined).
    """
    tokens, words = corpus.tokens.copy(), corpus.vocabulary
    has_next = np.ones(len(tokens), bool)
    has_next[corpus.offsets[1:][corpus.lengths > 0] - 1] = False
    places = np.flatnonzero(has_next)
    codes = tokens[places].astype(np.int64) * len(words) + tokens[places + 1]
    kinds, kind, counts = np.unique(codes, return_inverse=True, return_counts=True)
    pairs = np.stack(np.divmod(kinds, max(len(words), 1)), axis=1)
    is_chosen = choose(pairs, counts, corpus)
    places, kind = places[is_chosen[kind]], kind[is_chosen[kind]]
    # Of several in a row the first two are joined, then the third and the fourth.
    runs = np.diff(np.flatnonzero(np.diff(places, prepend=-2, append=-2) != 1))
    is_joined = in_runs(np.zeros_like(runs), runs) % 2 == 0
    joined_kinds, kind = np.unique(kind[is_joined], return_inverse=True)
    names, ids = list(_names(pairs[joined_kinds], words)), dict(words.ids)
    own = np.array([ids.setdefault(name, len(ids)) for name in names], np.int32)
    are_first = np.ones(len(tokens), bool)
    are_first[places[is_joined] + 1] = False
    tokens[places[is_joined]] = own[kind]
    offsets = offsets_of(are_first)[corpus.offsets]
    return Corpus(tokens[are_first], offsets, Vocabulary.from_tokens(ids)), are_first, names


def _names(pairs: np.ndarray, words: Vocabulary) -> Iterator[str]:
    tokens = words.tokens
    return (f"{tokens[a]} {tokens[b]}" for a, b in pairs.tolist())
