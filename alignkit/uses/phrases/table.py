"""Phrase tables in the format of Moses."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from alignkit.classical.link_counts import LinkedWords
from alignkit.uses.phrases.extraction import PART, PhraseText, count_phrases
from alignkit.uses.phrases.settings import LONGEST


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
    """Links as bits (:data:`alignkit.uses.phrases.extraction.PHRASE_PAIR`) as ``s-t s-t``, those of the first
    target
    word first."""
    return " ".join(f"{b % LONGEST}-{b // LONGEST}" for b in range(LONGEST**2) if bits >> b & 1)


def lexical_weights(text: PhraseText, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 (n,) each: lex(source | target) and lex(target | source) of phrase pairs.

    The product over the words of a phrase of the mean probability of the word given those that it is linked to, or
    given NULL if there are none.
    """
    bits = np.unpackbits(pairs["links"][:, None].copy().view(np.uint8), axis=1, bitorder="little")
    rows, bit = np.nonzero(bits)
    t, s = np.divmod(bit, LONGEST)
    words = text.words
    x = words.bitext.source.tokens[pairs["source"][rows] + s]
    y = words.bitext.target.tokens[pairs["target"][rows] + t]
    source = _weights(words.reversed, y, x, rows * LONGEST + s, pairs["source"], pairs["source_size"])
    return source, _weights(words, x, y, rows * LONGEST + t, pairs["target"], pairs["target_size"])


def _weights(
    words: LinkedWords, x: np.ndarray, y: np.ndarray, slots: np.ndarray, starts: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """float64 (n,): lex(target | source) of phrase pairs.

    Args:
        words: the text and its links.
        x, y: the source and the target word of each link.
        slots: LONGEST n + the number of its target word in the phrase, of phrase n.
        starts, sizes: of the target phrases.
    """
    lexicon = words.lexicon
    table, null = lexicon.table, lexicon.null
    numbers = np.bincount(slots, minlength=len(starts) * LONGEST)
    means = np.bincount(slots, table.lookup(x, y), len(numbers)) / np.maximum(numbers, 1)
    means[numbers == 0] = 1  # also behind the phrase
    row, n = np.nonzero((numbers == 0).reshape(-1, LONGEST) & (np.arange(LONGEST) < sizes[:, None]))
    assert null is not None
    means[row * LONGEST + n] = null[words.bitext.target.tokens[starts[row] + n]]
    return means.reshape(-1, LONGEST).prod(axis=1)


def gzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts compressed as gzip does, without a date."""
    packer = zlib.compressobj(wbits=31)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()
