"""Bilingual terms of several words: phrase pairs that occur together more often than by chance."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd

from alignkit.text.bitext import Corpus
from alignkit.text.vocabulary import punctuation_types
from alignkit.uses.phrases.extraction import PHRASE_PAIR, PhraseText, count_phrases
from alignkit.uses.phrases.settings import FUNCTION_WORDS, LEAST_COUNT


def find_terms(
    text: PhraseText,
    least: int = LEAST_COUNT,
    function_words: float = FUNCTION_WORDS,
    best: int | None = None,
) -> pd.DataFrame:
    """The terms of a text, ranked by log-likelihood ratio, times the mean probability of their links if known.

    A term is a phrase pair with at least two words on one side. None begins or ends with punctuation or a function
    word, and none is part of another one that is as frequent.

    Args:
        text: with its links.
        least: the least count of a term.
        function_words: a word that there is more often than in this share of the sentence pairs is one.
        best: the number of terms; None: all.

    Returns:
        a row for each term: source, target, count, log_likelihood (:func:`log_likelihood_ratios`), probability
        (mean of the links, NaN without), line (from 1) of the first sentence pair with it, source_example,
        target_example.
    """
    content = [_content_words(side.corpus, function_words) for side in text.sides]
    parts, total = [np.empty(0, PHRASE_PAIR)], 0
    for pairs in count_phrases(text):
        total += int(pairs["count"].sum())
        chosen = (pairs["count"] >= least) & (np.maximum(pairs["source_size"], pairs["target_size"]) > 1)
        for side, words in zip(text.sides, content, strict=True):
            starts, sizes = side.spans(pairs)
            chosen &= words[side.corpus.tokens[starts]] & words[side.corpus.tokens[starts + sizes - 1]]
        parts.append(pairs[chosen])
    pairs = np.concatenate(parts)
    columns = {side.name: side.phrases(pairs) for side in text.sides}
    count = pairs["count"]
    ratios = log_likelihood_ratios(count, pairs["source_count"], pairs["target_count"], total)
    known = np.full(len(pairs), np.nan) if text.probabilities is None else pairs["probability"].astype(np.float64)
    ranked = np.argsort(-ratios * np.nan_to_num(known, nan=1.0), kind="stable")  # equals by their bytes
    ranked = ranked[_not_contained(columns, count)[ranked]][:best]
    sentences = np.searchsorted(text.words.bitext.source.offsets, pairs["source"][ranked], "right") - 1
    table = pd.DataFrame({**columns, "count": count, "log_likelihood": ratios, "probability": known}).iloc[ranked]
    examples = {f"{side.name}_example": [" ".join(side.corpus.words(m)) for m in sentences] for side in text.sides}
    return table.assign(line=sentences + 1, **examples)


def log_likelihood_ratios(both: np.ndarray, first: np.ndarray, second: np.ndarray, total: int) -> np.ndarray:
    """float64 (n,): the log-likelihood ratios of co-occurrences (Dunning 1993), negative for those below chance.

    Args:
        both: int64 (n,), the counts of phrase pairs.
        first, second: those of their source and target phrases, with any other.
        total: that of all phrase pairs.
    """
    cells = _entropies(both, first - both, second - both, total - first - second + both)
    margins = _entropies(first, total - first, second, total - second)
    return 2 * np.sign(both - first / max(total, 1) * second) * (cells - margins + _entropies(total))


def _entropies(*counts: np.ndarray | int) -> np.ndarray:
    """The sum of n log n of several counts n."""
    return np.sum([n * np.log(np.maximum(n, 1)) for n in counts], axis=0)


def _content_words(corpus: Corpus, function_words: float) -> np.ndarray:
    """bool (V,): the words at which a term may begin or end."""
    counts = np.bincount(corpus.tokens, minlength=len(corpus.vocabulary))
    return (counts <= function_words * len(corpus)) & ~punctuation_types(corpus.vocabulary)


def _not_contained(phrases: dict[str, list[str]], counts: np.ndarray) -> np.ndarray:
    """bool (n,): which phrase pairs are no part of another one that there is at least as often."""
    pairs = list(zip(*phrases.values(), strict=True))
    places = {pair: k for k, pair in enumerate(pairs)}
    chosen = np.ones(len(pairs), bool)
    for k, pair in enumerate(pairs):
        for part in product(*map(_parts, pair)):
            inner = places.get(part, k)
            chosen[inner] &= inner == k or counts[inner] > counts[k]
    return chosen


def _parts(phrase: str) -> list[str]:
    words = phrase.split(" ")
    return [" ".join(words[low:high]) for low, high in combinations(range(len(words) + 1), 2)]
