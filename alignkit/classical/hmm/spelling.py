"""Word pairs compared by their letters: words that are spelled alike, and transliterations, as names in different
alphabets are."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np

from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.spelling import (
    ALIKE,
    IMBALANCE,
    LEAST_RATIO,
    LONGEST_WORD,
    RARE,
    SHORTEST_WORD,
    SPAN,
    UNSURE,
    Edits,
    Letters,
    SpelledWords,
    expected_edits,
    log_ratios,
    similarities,
)
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import run_evenly
from alignkit.text.vocabulary import ExtendedVocabulary, Vocabulary

#: Texts in which more pairs of words meet repeat their words; there it costs time and gains nothing.
MOST_PAIRS = 1 << 19
#: Transliterations are learned from pairs of words of which each has this share of the other's links, and which
#: have this many; from so many pairs at most.
SHARE, LEAST_LINKS, LEARNED_FROM = 0.3, 0.5, 2000
ITERATIONS = 6
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


def is_word(token: str) -> bool:
    """True if it has a letter or a digit; others are punctuation and symbols."""
    return any(map(str.isalnum, token))


def are_words(vocabulary: Vocabulary) -> np.ndarray:
    """bool (V,): the tokens that are words (:func:`is_word`); kept with the vocabulary, not to be changed."""
    if isinstance(vocabulary, ExtendedVocabulary):
        known, new = are_words(vocabulary.known), vocabulary.new
        return np.append(known, [is_word(token) for token in new]) if new else known
    kept = vars(vocabulary)
    if "are_words" not in kept:
        kept["are_words"] = np.fromiter(map(is_word, vocabulary), bool, len(vocabulary))
    found: np.ndarray = kept["are_words"]
    return found


def spelling_counts(
    letters: tuple[Letters, Letters, np.ndarray], rows: TableRows, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The word pairs that are spelled alike, and by how much.

    The similarity of two words is the length of their longest common subsequence divided by that of the longer
    word (Melamed 1995), marks such as accents apart. Identical words count 1; words of three letters and more with
    a similarity s above 0.6 count (s - 0.6) / 0.4.

    Args:
        letters: of the words of a text (:func:`letters_of`).
        rows: its K word pairs, by source word.
        threads: how many to use; no result depends on it.

    Returns:
        (int64 (N,), indices of such pairs in ``rows``; float32 (N,), above 0 and at most 1).
    """
    source, target, alphabet = letters
    alike = np.zeros(len(rows.columns), np.float32)

    def fill(low: int, high: int) -> None:
        masks = np.zeros(len(alphabet), np.uint64)
        similarities(low, high, rows.offsets, rows.columns, source, target, masks, alike)

    run_evenly(fill, rows.offsets, threads, parts=8)
    alike -= ALIKE
    alike /= SPAN
    places = np.flatnonzero(alike > 0)
    return places, alike[places]


def letters_of(source: Iterable[str], target: Iterable[str]) -> tuple[Letters, Letters, np.ndarray]:
    """The letters of both sides' words (:func:`plain_words`), and uint32 (A,): their alphabet, rising."""
    words = plain_words(source), plain_words(target)
    alphabet = np.array(sorted(map(ord, set[str]().union(*words[0], *words[1]))), np.uint32)
    return spelled(words[0], alphabet), spelled(words[1], alphabet), alphabet


def plain_words(words: Iterable[str]) -> list[str]:
    """Words in lower case and without accents; marks of punctuation as those of Latin script (:data:`MARKS`)."""
    lower, plain = [word.lower() for word in words], {}
    for letter in set("".join(lower)):
        parts = [part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)]
        for n, part in enumerate(parts):
            if unicodedata.category(part).startswith("P"):
                name = set(unicodedata.name(part, "").split())
                parts[n] = next((mark for key, mark in MARKS.items() if name.issuperset(key.split())), part)
        plain[ord(letter)] = "".join(parts)
    return [word if word.isascii() else word.translate(plain) or word for word in lower]


def spelled(words: list[str], alphabet: np.ndarray) -> Letters:
    """The letters of words by their number in an alphabet uint32 (A,); those that it does not have are A."""
    numbers = np.full(int(alphabet.max(initial=0)) + 2, len(alphabet), np.int32)
    numbers[alphabet] = np.arange(len(alphabet))
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)
    ids = numbers[np.minimum(codes, np.uint32(len(numbers) - 1))]
    return Letters(ids, offsets_of([len(word) for word in words]))


class Transliteration:
    """Pseudo-counts for pairs of rare words that correspond letter by letter.

    A pair of words is a sequence of edits: letters that are substituted, left out, or inserted, each with a
    probability of its own. The pairs that have most of each other's links are either such transliterations or
    independent words; EM tells them apart (Sajjad, Fraser and Schmid 2012).

    Args:
        letters: of the words of a text (:func:`letters_of`).
        rows: its word pairs by source word.
        alike: those that :func:`spelling_counts` returns: such pairs get what is missing.
        frequencies: of the source and the target words.
        threads: how many to use; no result depends on it.
    """

    def __init__(
        self,
        letters: tuple[Letters, Letters, np.ndarray],
        rows: TableRows,
        alike: tuple[np.ndarray, np.ndarray],
        frequencies: list[np.ndarray],
        threads: int,
    ) -> None:
        source, target, alphabet = letters
        self._words = SpelledWords(source, target, chances_of(source, target, len(alphabet)))
        self._sources = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
        self._targets, self.threads = rows.columns, threads
        places = np.flatnonzero(are_rare(frequencies[0][self._sources], frequencies[1][self._targets]))
        self._places = places[have_fitting_lengths(self._words, self._sources[places], self._targets[places])]
        spelled = np.zeros(len(rows.columns), np.float32)
        spelled[alike[0]] = alike[1]
        self._spelled = spelled[self._places]

    def counts(self, links: np.ndarray, totals: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The word pairs that are transliterations, and how sure that is.

        Args:
            links: (K,), the expected links of the pairs.
            totals: float64 (V_src,) and (V_tgt,), their sums by word.

        Returns:
            (int64 (N,), indices of such pairs in the rows; float32 (N,), above 0 and at most 1).
        """
        edits = learned_edits(self._sources, self._targets, links, totals, self._words)
        rare = np.stack([self._sources[self._places], self._targets[self._places]], axis=1).astype(np.int64)
        counts = transliterations(rare, self._words, edits, self.threads)
        chosen = counts > self._spelled
        return self._places[chosen], (counts - self._spelled)[chosen].astype(np.float32)


def learned_edits(
    sources: np.ndarray,
    targets: np.ndarray,
    links: np.ndarray,
    totals: tuple[np.ndarray, ...],
    words: SpelledWords,
) -> Edits:
    """The edits' probabilities, by EM on pairs of words of which each has many of the other's links.

    Args:
        sources, targets: int (K,), the words of each pair; links: (K,), its expected links.
        totals: float64 (V_src,) and (V_tgt,), the sums of the links by word.
        words: their letters.
    """
    mutual = links >= LEAST_LINKS
    mutual &= (links >= SHARE * totals[0][sources]) & (links >= SHARE * totals[1][targets])
    sources, targets = sources[mutual], targets[mutual]
    pairs = np.stack([sources, targets], axis=1)[have_fitting_lengths(words, sources, targets)].astype(np.int64)
    if len(pairs) > LEARNED_FROM:
        pairs = pairs[np.linspace(0, len(pairs) - 1, LEARNED_FROM).astype(np.int64)]
    source, target = words.chances
    prior = Edits(np.outer(source, target), source, target)
    edits = Edits(0.6 * prior.substituted, 0.2 * prior.deleted, 0.2 * prior.inserted)
    tables = np.zeros((2, LONGEST_WORD + 1, LONGEST_WORD + 1))
    # At first every pair is taken to be a transliteration; then a share of them, which is estimated.
    share = 1.0
    for iteration in range(ITERATIONS):
        counts = Edits(*map(np.zeros_like, prior))
        expected = expected_edits(pairs, words, share, edits, tables, counts)
        total = sum(float(count.sum()) for count in counts) + len(counts)
        edits = Edits(*((count + each) / total for count, each in zip(counts, prior, strict=True)))
        share = 0.3 if iteration < 2 else min(max(expected / max(len(pairs), 1), 0.01), 0.99)
    return edits


def transliterations(pairs: np.ndarray, words: SpelledWords, edits: Edits, threads: int) -> np.ndarray:
    """float64 (N,): how sure it is that pairs of words int64 (N, 2) are transliterations, from 0 to 1."""
    lengths = [np.diff(side.offsets)[pairs[:, n]] for n, side in enumerate((words.source, words.target))]
    ratios, shape = np.empty(len(pairs)), (LONGEST_WORD + 1, LONGEST_WORD + 1)
    run_evenly(
        lambda low, high: log_ratios(low, high, pairs, words, edits, np.zeros(shape), ratios),
        np.arange(len(pairs) + 1),
        threads,
    )
    least = np.maximum(LEAST_RATIO, np.maximum(*lengths))
    counts: np.ndarray = 1 / (1 + np.exp(np.minimum(least - ratios, 50.0)))
    return np.where(counts > UNSURE, counts, 0.0)


def chances_of(source: Letters, target: Letters, letters: int) -> np.ndarray:
    """float64 (2, letters): of each letter in a word of either side."""
    counts = [np.bincount(side.ids, minlength=letters) + 0.1 for side in (source, target)]
    return np.stack([count / count.sum() for count in counts])


def have_fitting_lengths(words: SpelledWords, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """bool (N,): the pairs of words of which neither is too short or too long."""
    lengths = np.diff(words.source.offsets)[sources], np.diff(words.target.offsets)[targets]
    fitting: np.ndarray = (np.minimum(*lengths) >= SHORTEST_WORD) & (np.maximum(*lengths) <= LONGEST_WORD)
    return fitting


def are_rare(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """bool (N,): the pairs of words that may need help, by how often each word is seen."""
    fewer, more = np.minimum(source, target), np.maximum(source, target)
    rare: np.ndarray = (fewer <= RARE) & (more <= IMBALANCE * fewer)
    return rare
