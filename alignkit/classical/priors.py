"""Prior knowledge: a lexicon as pseudo-counts, and the parameters of a fitted model to start from."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from alignkit.aligner import LOADERS
from alignkit.classical.lexical_model import PairTable
from alignkit.classical.lexicon_lines import read_lexicon
from alignkit.classical.settings import GREATEST_PRIOR_WEIGHT, PRIOR_WEIGHT
from alignkit.errors import AlignkitError, InputError
from alignkit.kernels.hmm_m_step import column_sums
from alignkit.kernels.inverted_index import TableRows
from alignkit.support.arrays import brief_repr
from alignkit.support.files import arrays_fingerprint, read_header
from alignkit.support.records import plainly_shown
from alignkit.text.bitext import Bitext
from alignkit.text.units import lowercase
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LexiconPrior:
    """A lexicon from another text, as pseudo-counts: those of a text with ``weight`` occurrences of each word.

    Attributes:
        source, target: its words.
        pairs: int32 (K, 2), (source word, target word).
        values: float32 (K, 2), p(target word | source word) and p(source word | target word).
        weight: how many occurrences of each word the lexicon counts for.
    """

    source: Vocabulary
    target: Vocabulary
    pairs: np.ndarray
    values: np.ndarray
    weight: float = PRIOR_WEIGHT

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= GREATEST_PRIOR_WEIGHT:
            raise AlignkitError(
                f"the weight of a prior must lie in [0, {GREATEST_PRIOR_WEIGHT:g}], not {self.weight}"
            )
        if self.pairs.shape != self.values.shape or self.pairs.ndim != 2 or self.pairs.shape[1] != 2:
            raise ValueError("a prior needs two words and two values for each pair")
        if not (np.isfinite(self.values).all() and (self.values >= 0).all()):
            raise ValueError("a prior's values must be finite and not negative")

    @property
    def reversed(self) -> LexiconPrior:
        """The prior for texts with their sides exchanged."""
        return LexiconPrior(self.target, self.source, self.pairs[:, ::-1], self.values[:, ::-1], self.weight)

    @property
    def lowercased(self) -> LexiconPrior:
        """The prior for texts in lower case."""
        source, target = lowercase(self.source), lowercase(self.target)
        pairs = np.stack([source.ids[self.pairs[:, 0]], target.ids[self.pairs[:, 1]]], axis=1)
        return LexiconPrior(source.vocabulary, target.vocabulary, pairs, self.values, self.weight)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the words, their pairs and values, and the weight."""
        arrays = {"pairs": self.pairs, "values": self.values, "weight": np.array([self.weight])}
        for name, words in (("source", self.source), ("target", self.target)):
            arrays |= {name: words.text, f"{name}_offsets": words.offsets}
        return arrays_fingerprint(arrays)

    def pseudo_counts(self, bitext: Bitext, rows: TableRows) -> np.ndarray:
        """float32 (2, K): for every word pair of a text's rows, ``weight`` times p(o|i), and times p(i|o).

        Of a pair that is there more than once the highest values count. If the text has none of the lexicon's
        pairs, that is logged.
        """
        ids = (bitext.source.vocabulary.translate(self.source), bitext.target.vocabulary.translate(self.target))
        found, indices = find_pairs(ids[0][self.pairs[:, 0]], ids[1][self.pairs[:, 1]], rows, bitext)
        if len(columns := rows.columns) and not len(found):
            log.warning("none of the lexicon's word pairs occurs in the text; are its sides exchanged?")
        counts = np.zeros((2, len(columns)), np.float32)
        for each, values in zip(counts, self.values[found].T, strict=True):
            np.maximum.at(each, indices, np.float32(self.weight) * values)
        return counts


def find_pairs(i: np.ndarray, o: np.ndarray, rows: TableRows, bitext: Bitext) -> tuple[np.ndarray, np.ndarray]:
    """Find word pairs (i, o) in the rows of a text; an id of -1 is a word that the text does not have.

    Returns:
        which of the pairs are there, and their indices into the rows' columns.
    """
    offsets, columns, _ = rows
    width = max(len(bitext.target.vocabulary), 1)
    keys = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets)) * width + columns
    known = np.flatnonzero((i >= 0) & (o >= 0))
    wanted = i[known].astype(np.int64) * width + o[known]
    indices = np.searchsorted(keys, wanted)
    there = indices < len(keys)
    there[there] = keys[indices[there]] == wanted[there]
    return known[there], indices[there]


def start_values(
    table: PairTable,
    vocabularies: tuple[Vocabulary, Vocabulary],
    values: np.ndarray,
    bitext: Bitext,
    rows: TableRows,
    by_target: bool = False,
) -> np.ndarray:
    """float32 (K,): p(o|i) of a fitted model for every word pair of a text's rows.

    A pair that the model does not have is initialised with 1/V_tgt; the values of a word with such pairs are then
    divided by their sum. Those of other words stay as they are, to the bit. Pruned pairs are treated in the same
    way: they cannot be told from pairs that never occurred together, of which another text has far more, and with
    a lower value those could hardly be learned.

    Args:
        table: the pairs of the model, with words of ``vocabularies``.
        values: float32, its probability for each of them.
        rows: of the text; the values are not looked at.
        by_target: the values are p(i|o): they sum to 1 by target word, and new ones are 1/V_src.
    """
    offsets, columns, _ = rows
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    ids = (
        bitext.source.vocabulary.translate(vocabularies[0]),
        bitext.target.vocabulary.translate(vocabularies[1]),
    )
    found, indices = find_pairs(ids[0][table.rows], ids[1][table.columns], rows, bitext)
    start = np.full(len(columns), 1 / max(types[0 if by_target else 1], 1), np.float32)
    start[indices] = values[found]
    is_new = np.ones(len(columns), bool)
    is_new[indices] = False
    of = columns if by_target else np.repeat(np.arange(types[0]), np.diff(offsets))
    count = types[1 if by_target else 0]
    changed = np.bincount(of[is_new], minlength=count) > 0
    sums = np.zeros(count)
    column_sums(0, count, of, start, sums)
    divisor = np.where(changed, np.maximum(sums, 1e-30), 1.0)
    return (start / divisor[of]).astype(np.float32)


def start_null(null: np.ndarray, known: Vocabulary, words: Vocabulary) -> np.ndarray:
    """float32 (V,): p(o|NULL) of a fitted model for a text's words; new ones as in :func:`start_values`.

    Args:
        null: float32, of the model.
        known, words: the target vocabularies of the model and of the text.
    """
    ids = known.translate(words)
    start = np.where(ids >= 0, np.append(null, np.float32(0))[ids], np.float32(1 / max(len(words), 1)))
    if (ids < 0).any():
        start = start / max(float(start.sum()), 1e-30)
    return start.astype(np.float32)


def read_prior(path: PathLike, weight: float = PRIOR_WEIGHT) -> LexiconPrior:
    """Read a lexicon in one of :data:`alignkit.classical.lexicon_lines.FORMATS`, which its first line shows.

    Raises:
        InputError: the file is a saved model, or has no pair of words; or a line has another form than the first,
            has no probability, or repeats a pair of probabilities.
    """
    header = read_header(path) if Path(path).is_file() else None  # a pipe can be read only once
    if header is not None:
        kind = plainly_shown(header.get("kind"))
        what = "is a saved model" if kind in LOADERS else f"holds {kind}"
        raise InputError(
            path, f"{what}, not a lexicon", remedy="write the lexicon of a model with `alignkit lexicon`"
        )
    words, numbers = read_lexicon(path)
    source, target = (Vocabulary.from_tokens(dict.fromkeys(side)) for side in zip(*words, strict=True))
    pairs = np.array([(source.id(x), target.id(y)) for x, y in words], np.int32)
    values = np.array(numbers, np.float32)
    if values.ndim == 1:  # counts, of which each word's share is its probability
        shares = [values / np.maximum(np.bincount(ids, values), 1e-30)[ids] for ids in pairs.T]
        values = np.stack(shares, axis=1).astype(np.float32)
    return LexiconPrior(source, target, pairs, values, weight)
