"""Phrase tables in the format of Moses; and bilingual terms, which occur together more often than by chance."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from alignkit.errors import AlignkitError, abbreviated
from alignkit.text.vocabulary import punctuation_types
from alignkit.uses.phrases import FUNCTION_WORDS, LEAST_COUNT, LONGEST
from alignkit.uses.phrases.extraction import PART, PHRASE_PAIR, PhraseText, count_phrases

if TYPE_CHECKING:
    import pandas as pd

_LANGUAGE = r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*"
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def phrase_table(text: PhraseText, part: int = PART) -> Iterator[bytes]:
    """The lines of a phrase table, in the order of their bytes, in parts.

    A line is ``source ||| target ||| p(s|t) lex(s|t) p(t|s) lex(t|s) ||| links ||| count(t) count(s) count(s, t)
    ||| |||``, as Moses writes it: relative frequencies of the phrase pairs; lexical weights (Koehn, Och and Marcu
    2003) of the links that the pair has most often, with the words' probabilities counted from the same links.

    Args:
        text: with its links.
        part: as in :func:`alignkit.uses.phrases.extraction.count_phrases`; raises what that raises.
    """
    for pairs in count_phrases(text, part):
        n, x, y = (pairs[name] for name in ("count", "source_count", "target_count"))
        phrases = (side.phrases(pairs) for side in text.sides)
        reverse, forward = lexical_weights(text, pairs)
        numbers = (n / y, reverse, n / x, forward, pairs["links"], y, x, n)
        columns = [*phrases, *(each.tolist() for each in numbers)]
        yield "".join(
            f"{s} ||| {t} ||| {p:.6g} {a:.6g} {q:.6g} {b:.6g} ||| {links_text(links)} ||| {y} {x} {n} ||| |||\n"
            for s, t, p, a, q, b, links, y, x, n in zip(*columns, strict=True)
        ).encode()


@cache
def links_text(bits: int) -> str:
    """Links as bits (:data:`alignkit.uses.phrases.extraction.PHRASE_PAIR`) as ``s-t s-t``, those of the
    first target word first."""
    return " ".join(f"{b % LONGEST}-{b // LONGEST}" for b in range(LONGEST**2) if bits >> b & 1)


def lexical_weights(text: PhraseText, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 (n,) each: lex(source | target) and lex(target | source) of phrase pairs.

    The product over the words of a phrase of the mean probability of the word given those that it is linked to, or
    given NULL if there are none.
    """
    bits = np.unpackbits(pairs["links"][:, None].copy().view(np.uint8), axis=1, bitorder="little")
    rows, bit = np.nonzero(bits)
    t, s = np.divmod(bit, LONGEST)
    x = text.words.bitext.source.tokens[pairs["source"][rows] + s]
    y = text.words.bitext.target.tokens[pairs["target"][rows] + t]
    weights = []
    ways = (text.words.reversed, y, x, s, "source"), (text.words, x, y, t, "target")
    for words, given, word, place, name in ways:
        table, null = words.lexicon.table, words.lexicon.null
        slots, starts, sizes = rows * LONGEST + place, pairs[name], pairs[f"{name}_size"]
        numbers = np.bincount(slots, minlength=len(pairs) * LONGEST)
        means = np.bincount(slots, table.lookup(given, word), len(numbers)) / np.maximum(numbers, 1)
        means[numbers == 0] = 1  # also behind the phrase
        row, n = np.nonzero((numbers == 0).reshape(-1, LONGEST) & (np.arange(LONGEST) < sizes[:, None]))
        assert null is not None
        means[row * LONGEST + n] = null[words.bitext.target.tokens[starts[row] + n]]
        weights.append(means.reshape(-1, LONGEST).prod(axis=1))
    return weights[0], weights[1]


def gzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts compressed as gzip does, without a date."""
    packer = zlib.compressobj(wbits=31)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


def find_terms(
    text: PhraseText, least: int = LEAST_COUNT, function_words: float = FUNCTION_WORDS, best: int | None = None
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
        (mean of the links, NaN without), line (from 1) of the first sentence pair with it and its most frequent
        links, source_example, target_example.

    Raises:
        AlignkitError: ``function_words`` is not a share.
    """
    import pandas as pd

    if not 0 <= function_words <= 1:
        raise AlignkitError(f"function_words is a share from 0 to 1, not {function_words}")
    content = []  # of each side, bool (V,): the words at which a term may begin or end
    for corpus in (side.corpus for side in text.sides):
        counts = np.bincount(corpus.tokens, minlength=len(corpus.vocabulary))
        content.append((counts <= function_words * len(corpus)) & ~punctuation_types(corpus.vocabulary))
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


def terms_as_tbx(terms: pd.DataFrame, languages: str) -> bytes:
    """Terms as TBX-Basic (ISO 30042:2008): a concept for each, with the term of each language and its example.

    Args:
        terms: as of :func:`find_terms`. Characters that XML cannot have become U+FFFD.
        languages: of source and target, as ``de,en-GB``.

    Raises:
        AlignkitError: as :func:`language_pair`.
    """
    pair = language_pair(languages)
    root = ElementTree.Element("martif", {"type": "TBX-Basic", "xml:lang": pair[0]})
    about = ElementTree.SubElement(ElementTree.SubElement(root, "martifHeader"), "fileDesc")
    ElementTree.SubElement(ElementTree.SubElement(about, "sourceDesc"), "p").text = "alignkit terms"
    body = ElementTree.SubElement(ElementTree.SubElement(root, "text"), "body")
    for number, term in enumerate(terms.to_dict("records"), 1):
        entry = ElementTree.SubElement(body, "termEntry", {"id": f"term-{number}"})
        for side, language in zip(("source", "target"), pair, strict=True):
            of_language = ElementTree.SubElement(entry, "langSet", {"xml:lang": language})
            group = ElementTree.SubElement(of_language, "tig")
            ElementTree.SubElement(group, "term").text = _NOT_IN_XML.sub("\ufffd", term[side])
            context = ElementTree.SubElement(group, "descrip", {"type": "context"})
            context.text = _NOT_IN_XML.sub("\ufffd", term[f"{side}_example"])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True) + b"\n"


def language_pair(text: str) -> list[str]:
    """The two languages of ``de,en-GB``; raises AlignkitError if it is something else."""
    if not re.fullmatch(f"{_LANGUAGE},{_LANGUAGE}", text):
        raise AlignkitError(f"{abbreviated(text)!r} is not two languages with a comma between them, as de,en-GB")
    return text.split(",")


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


def _not_contained(phrases: dict[str, list[str]], counts: np.ndarray) -> np.ndarray:
    """bool (n,): which phrase pairs are no part of another one that there is at least as often."""
    pairs = list(zip(*phrases.values(), strict=True))
    places = {pair: k for k, pair in enumerate(pairs)}
    chosen = np.ones(len(pairs), bool)
    for k, pair in enumerate(pairs):
        sides = [phrase.split(" ") for phrase in pair]
        parts = [[" ".join(x[low:high]) for low, high in combinations(range(len(x) + 1), 2)] for x in sides]
        for part in product(*parts):
            inner = places.get(part, k)
            chosen[inner] &= inner == k or counts[inner] > counts[k]
    return chosen
