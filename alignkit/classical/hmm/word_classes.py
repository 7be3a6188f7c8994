"""Back-off to classes of words with the same first or last letters, from which rare words learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.classical.exchange import ALONE, Exchange, MovedRows
from alignkit.kernels.hmm_m_step import BackOffClasses, add_back_off
from alignkit.kernels.inverted_index import TableRows
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

#: Added to what the other words of a class sum to, in divisors: classes that have hardly been seen say little.
FEW = 8.0


@dataclass(frozen=True, eq=False)
class Classes:
    """A partition of V words.

    Attributes:
        of: int32 (V,), the class of each word.
        first: int64 (A + 1,), where each class starts in ``members``.
        members: int32 (V,), the words in order of their class.
    """

    of: np.ndarray
    first: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1

    def sums(self, values: np.ndarray) -> np.ndarray:
        """float64 (V,): for each word the sum of the values (V,) of all words of its class."""
        return np.bincount(self.of, values, minlength=len(self))[self.of]


def affix_part(letters: int, suffix: bool) -> slice:
    """The place of a word's first (or last) letters."""
    return slice(-letters, None) if suffix else slice(letters)


def affix_classes(vocabulary: Vocabulary, letters: int, suffix: bool) -> Classes:
    """Classes of words that share this number of first (or last) letters; a shorter word is its own affix."""
    known: dict[str, int] = {}
    part = affix_part(letters, suffix)
    of = np.array([known.setdefault(word[part], len(known)) for word in vocabulary], np.int32)
    first = np.zeros(len(known) + 1, np.int64)
    np.cumsum(np.bincount(of, minlength=len(known)), out=first[1:])
    return Classes(of, first, np.argsort(of, kind="stable").astype(np.int32))


class BackOff:
    """Pseudo-counts of word pairs from the counts of other pairs of the same two classes.

    With a, b the classes of i, o, the pair (i, o) gets, in the row of i, a share of ``weight`` in proportion to
    count(a, b) - count(i, o), and to how frequent o is in its class.

    Args:
        bitext: the text.
        affixes: numbers of letters that make classes.
        weight: what each row gets in all at most, where much is known of its classes.
        exchange: with the processes that have the rest of the text, and of the rows.
    """

    def __init__(
        self, bitext: Bitext, affixes: tuple[int, ...], weight: float, exchange: Exchange = ALONE
    ) -> None:
        sides = bitext.source, bitext.target
        self.exchange, self._moved = exchange, list[MovedRows]()
        self.classes = [
            (affix_classes(sides[0].vocabulary, *kind), affix_classes(sides[1].vocabulary, *kind))
            for kind in self.affix_kinds(affixes)
        ]
        self.weight = weight / max(len(self.classes), 1)
        self.frequencies = [
            exchange.summed(np.bincount(side.tokens, minlength=len(side.vocabulary))).astype(np.float64)
            for side in sides
        ]

    @staticmethod
    def affix_kinds(affixes: tuple[int, ...]) -> list[tuple[int, bool]]:
        """The ways to class words, as (number of letters, whether they are the last)."""
        return [(letters, suffix) for letters in affixes for suffix in (False, True)]

    def add(
        self, rows: TableRows, totals: tuple[np.ndarray, np.ndarray], evidence: np.ndarray, threads: int
    ) -> None:
        """Adds to the pseudo-counts of both directions.

        Args:
            rows: counts of the word pairs by source word.
            totals: float64, their sums by source word, and by target word.
            evidence: float32 (K, 3), see kernels.hmm_e_step.LinkArrays.
        """
        if not self._moved:
            self._moved = [self.exchange.move_rows(rows, source.of) for source, _ in self.classes]
        for n, ((source, target), moved) in enumerate(zip(self.classes, self._moved, strict=True)):
            (source_rest, source_share), (target_rest, target_share) = (
                self._factors(side, n, totals[side]) for side in (0, 1)
            )
            source_factors = np.stack([source_rest, source_share], axis=1).astype(np.float32)
            target_factors = np.stack([target_share, target_rest], axis=1).astype(np.float32)
            pairs = BackOffClasses(source.members, source.first, target.of, source_factors, target_factors)
            if not self.exchange.is_shared:
                self._add(n, pairs, rows, evidence, threads)
                continue
            moved.move(rows.values)
            more = np.zeros((len(moved.rows.columns), 3), np.float32)
            self._add(n, pairs, moved.rows, more, threads)
            moved.add_back(more[:, 1:], evidence)

    def _factors(self, side: int, n: int, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each word of a side: weight / what the rest of its class sums to, and its share in its class."""
        frequency, classes = self.frequencies[side], self.classes[n][side]
        factor, whole = self.weight / (self._rest(side, n, totals) + FEW), np.maximum(classes.sums(frequency), 1)
        return factor, frequency / whole

    def _rest(self, side: int, n: int, totals: np.ndarray) -> np.ndarray:
        """float64 (V,): what the other words of each word's class sum to."""
        return np.maximum(self.classes[n][side].sums(totals) - totals, 0)

    def _add(self, n: int, pairs: BackOffClasses, rows: TableRows, evidence: np.ndarray, threads: int) -> None:
        targets = len(self.classes[n][1])
        work = np.add.reduceat(np.diff(rows.offsets)[pairs.members], pairs.first[:-1])

        def add(low: int, high: int) -> None:
            sums, labels = np.zeros(targets, np.float64), np.empty(work[low:high].max(), np.int32)
            self._add_classes(n, (low, high), pairs, rows, (sums, labels), evidence)

        run_blocks(add, blocks(work, 1 if threads == 1 else 8 * threads), threads)

    def _add_classes(
        self,
        n: int,
        span: tuple[int, int],
        pairs: BackOffClasses,
        rows: TableRows,
        space: tuple[np.ndarray, np.ndarray],
        evidence: np.ndarray,
    ) -> None:
        """Adds for a span of source classes; ``space`` is that of the kernel."""
        add_back_off(*span, pairs, rows, *space, evidence)
