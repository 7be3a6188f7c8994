"""Evidence about word pairs beside their counts: spelling, punctuation, embeddings, and how far a text repeats its
words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np

from alignkit.embeddings.levels import LEVELS, STEP, UNKNOWN
from alignkit.kernels.expected_links import UNIT, add_by_level
from alignkit.kernels.hmm_e_step import Likeness
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.spelling import Letters, matrix_similarities, similarities
from alignkit.scores import flat_offsets
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary

#: Words of a lower similarity than this say nothing: so much any two words have in common by chance.
ALIKE = 0.6
#: A text with this share of types among its tokens, or a higher one, hardly repeats any word.
UNREPEATED, STEEPNESS = 0.75, 4
# The ratios of likeness at first, as counted on gold links of Danish-English and Hebrew-English, both as
# logarithms: those of the likeness (levels.likeness_levels), and those of the ratio. They count as much as so many
# links.
LOG_LIKENESS = -np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.25, 4.5, 6.5, 7.75])
LOG_RATIO = np.array([7.5, 5.5, 4.5, 3.8, 3.2, 2.4, 1.8, 0.1, -1.4, -4.0, -4.5])
PRIOR_LINKS = 200.0
#: Marks that scripts have in common, by words of their Unicode names; the first that fits counts.
MARKS = {
    "COMMA": ",",
    "LITTLE SECTION": ",",
    "FULL STOP": ".",
    "DANDA": ".",
    "SHAD": ".",
    "MYANMAR SIGN": ".",
    "KHAN": ".",
    "QUESTION MARK": "?",
    "EXCLAMATION MARK": "!",
    "SEMICOLON": ";",
    "COLON": ":",
    "SINGLE QUOTATION MARK": "'",
    "QUOTATION MARK": '"',
    "CORNER BRACKET": '"',
    "DASH": "-",
    "HYPHEN": "-",
}
#: A level below this is of two tokens that are more alike than 1/e, each among all of the other's sentence.
SURE = 4


def leave_one_out_share(bitext: Bitext) -> float:
    """The share of a link's own expectation that is taken out of the counts that judge it.

    1 - (r / 0.75)^4, at least 0, where r is the larger of both sides' ratios of types to tokens, each pair counted
    once however often it is there. In a text of a few sentences nearly every link is the only evidence for itself:
    without it, nothing is left to choose by.
    """
    weights = 1 / np.maximum(bitext.copies, 1)
    return share_of_repetition(max(_types_per_token(side, weights) for side in (bitext.source, bitext.target)))


def share_of_repetition(ratio: float) -> float:
    """:func:`leave_one_out_share` of a text with this number of types for each token."""
    return max(0.0, 1 - (ratio / UNREPEATED) ** STEEPNESS)


def _types_per_token(corpus: Corpus, weights: np.ndarray) -> float:
    tokens = round(float(corpus.lengths @ weights))  # a whole number, that of the tokens of different pairs
    types = np.count_nonzero(np.bincount(corpus.tokens, minlength=len(corpus.vocabulary)))
    return types / tokens if tokens > 0 else 0.0


def are_words(vocabulary: Vocabulary) -> np.ndarray:
    """bool (V,): the tokens that are words (:func:`is_word`)."""
    return np.fromiter(map(is_word, vocabulary), bool, len(vocabulary))


def is_word(token: str) -> bool:
    """True if it has a letter or a digit; others are punctuation and symbols."""
    return any(map(str.isalnum, token))


def spelling_counts(bitext: Bitext, rows: TableRows, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The word pairs that are spelled alike, and by how much.

    The similarity of two words is the length of their longest common subsequence divided by that of the longer
    word (Melamed 1995), marks such as accents apart. Identical words count 1; words of three letters and more with
    a similarity s above 0.6 count (s - 0.6) / 0.4.

    Args:
        bitext: the text.
        rows: its K word pairs, by source word.
        threads: how many to use; no result depends on it.

    Returns:
        (int64 (N,), indices of such pairs in ``rows``; float32 (N,), above 0 and at most 1).
    """
    source, target, letters = letters_of(bitext)
    offsets = rows.offsets

    def compare(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        found = np.zeros(offsets[high] - offsets[low], np.float32)
        masks = np.zeros(letters, np.uint64)
        similarities(low, high, rows.offsets, rows.columns, source, target, masks, found)
        counts = (found - np.float32(ALIKE)) / np.float32(1 - ALIKE)
        places = np.flatnonzero(counts > 0)
        return places + offsets[low], counts[places]

    parts = run_blocks(compare, blocks(np.diff(offsets), 8 * threads) or [(0, 0)], threads)
    places, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
    return places, counts


def spelling_of_new_pairs(bitext: Bitext, is_new: np.ndarray, threads: int) -> np.ndarray:
    """float32 (P,): counts as in :func:`spelling_counts`, for the elements of the (T, L) matrices that are new.

    Args:
        bitext: M pairs.
        is_new: bool (P,), the elements whose pair of words a model does not know; the others get 0.
        threads: how many to use; no result depends on it.
    """
    source, target, letters = letters_of(bitext)
    text = bitext.source.tokens, bitext.source.offsets, bitext.target.tokens, bitext.target.offsets
    values, offsets = np.where(is_new, np.float32(-1), np.float32(0)), flat_offsets(bitext.shapes)

    def compare(low: int, high: int) -> None:
        masks = np.zeros(letters, np.uint64)
        matrix_similarities(low, high, text, source, target, masks, (values, offsets))

    run_blocks(compare, blocks(np.diff(offsets), threads), threads)
    return np.maximum((values - np.float32(ALIKE)) / np.float32(1 - ALIKE), np.float32(0))


def letters_of(bitext: Bitext) -> tuple[Letters, Letters, int]:
    """The letters of both sides' words, in lower case and without accents, and how many there are."""
    words = plain_words(bitext.source.vocabulary), plain_words(bitext.target.vocabulary)
    alphabet = alphabet_of(*words)
    return spelled(words[0], alphabet), spelled(words[1], alphabet), len(alphabet)


def plain_words(words: Iterable[str]) -> list[str]:
    """Words in lower case and without accents."""
    lower = [word.lower() for word in words]
    plain = _plain_letters("".join(lower))
    return [_plain(word, plain) for word in lower]


def alphabet_of(*sides: list[str]) -> np.ndarray:
    """uint32 (A,): the letters of words, rising."""
    codes = [_codes(words) for words in sides]
    is_there = np.zeros(max(int(side.max(initial=0)) for side in codes) + 1, bool)
    for side in codes:
        is_there[side] = True
    return np.flatnonzero(is_there).astype(np.uint32)


def spelled(words: list[str], alphabet: np.ndarray) -> Letters:
    """The letters of words by their number in an alphabet uint32 (A,); those that it does not have are A."""
    numbers = np.full(int(alphabet.max(initial=0)) + 2, len(alphabet), np.int32)
    numbers[alphabet] = np.arange(len(alphabet))
    ids = numbers[np.minimum(_codes(words), np.uint32(len(numbers) - 1))]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=offsets[1:])
    return Letters(ids, offsets)


def _codes(words: list[str]) -> np.ndarray:
    return np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)


def _plain(word: str, plain: dict[int, str]) -> str:
    return word if word.isascii() else word.translate(plain) or word


def _plain_letters(text: str) -> dict[int, str]:
    """What the letters of a text with marks, such as accents, are without them."""
    found = {}
    for letter in set(text):
        parts = unicodedata.normalize("NFKD", letter)
        found[ord(letter)] = "".join(_plain_mark(part) for part in parts if not unicodedata.combining(part))
    return found


def _plain_mark(letter: str) -> str:
    """A mark of any script as that of :data:`MARKS`; other letters as they are."""
    if not unicodedata.category(letter).startswith("P"):
        return letter
    name = set(unicodedata.name(letter, "").split())
    return next((mark for words, mark in MARKS.items() if name.issuperset(words.split())), letter)


class LevelRatios:
    """How much likelier each level of likeness is where there is a link than elsewhere, estimated with the links.

    An encoder knows some languages less well than others: the ratios count with an exponent that falls with the
    share of target tokens to which a source token is much alike.

    Args:
        levels: uint8 (P,), of every element of the text's matrices (:mod:`alignkit.embeddings.levels`).
        shapes: int (M, 2), T and L of each matrix.
        exponent: of the ratios if all target tokens have such a source token, and in proportion; at most 1 in all.
    """

    def __init__(self, levels: np.ndarray, shapes: np.ndarray, exponent: float) -> None:
        self.levels, self.exponent = levels, min(exponent * _share_of_sure(levels, shapes), 1.0)
        counts = _counted(levels) + 1
        self.shares = counts / counts.sum()
        first = np.interp(STEP * np.arange(LEVELS), -LOG_LIKENESS, LOG_RATIO)
        expected = self.shares * np.exp(first)
        self.prior = PRIOR_LINKS * expected / expected.sum()
        self.ratios = np.ones(LEVELS + 1, np.float32)
        self._set(np.exp(first))

    @property
    def likeness(self) -> Likeness:
        """As the kernels take it; :meth:`update` changes it."""
        return Likeness(self.levels, self.ratios)

    def update(self, elements: np.ndarray) -> None:
        """New ratios from the expected links of elements uint32 (P,)."""
        sums = np.zeros(LEVELS + 1)
        add_by_level(self.levels, elements, sums)
        linked = sums[:LEVELS] * UNIT + self.prior
        self._set(linked / linked.sum() / self.shares)

    def _set(self, ratios: np.ndarray) -> None:
        self.ratios[:LEVELS] = np.maximum(ratios, 1e-6) ** self.exponent


def _share_of_sure(levels: np.ndarray, shapes: np.ndarray) -> float:
    """The share of rows, of those with any known level, that have one below :data:`SURE`; 0 if there are none."""
    widths = np.repeat(shapes[:, 1], shapes[:, 0])
    widths = widths[widths > 0].astype(np.int64)
    if not len(widths):
        return 0.0
    best = np.minimum.reduceat(levels, np.cumsum(widths) - widths)
    return float((best < SURE).sum() / max((best < UNKNOWN).sum(), 1))


def _counted(levels: np.ndarray) -> np.ndarray:
    """float64 (LEVELS,): the number of elements of each level."""
    counts, step = np.zeros(LEVELS + 1), 1 << 22
    for low in range(0, len(levels), step):
        counts += np.bincount(levels[low : low + step], minlength=LEVELS + 1)
    return counts[:LEVELS]
