"""Maps between two tokenizations of the same text, found through the characters that they share.

Words of tokenized text, subwords and the words between the spaces of untokenized text are all runs of the same
characters. Two tokens belong together if they share a character. Marks of subwords and spaces are no characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from alignkit.support.arrays import brief_repr, in_runs, offsets_of, places_of
from alignkit.text.bitext import Corpus
from alignkit.text.tokenization import style_of, without_mark

BLOCK = 50_000  # sentences compared at a time

#: What Moses' tokenizer writes for other characters.
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&#91;": "[", "&#93;": "]", "&#124;": "|"}
_ENTITY = re.compile("|".join(_ENTITIES))
_SPLIT_MARK = re.compile(r"@(.)@\Z")  # @-@, Moses' mark of a hyphen that it split off
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")  # a byte of a character that a SentencePiece model does not know


@dataclass(frozen=True, eq=False)
class TokenMap:
    """The tokens of a new tokenization that each token of an old one shares a character with.

    Attributes:
        old, new: the same M sentences in both tokenizations.
        first, end: int32 (N_old,), for each old token the range [first, end) of its new tokens within the
            sentence; empty if there are none.
        differs: bool (M,), sentences whose characters are not the same in both; their ranges are empty.
    """

    old: Corpus
    new: Corpus
    first: np.ndarray
    end: np.ndarray
    differs: np.ndarray

    __repr__ = brief_repr


def token_map(old: Corpus, new: Corpus) -> TokenMap:
    """The map from the tokens of one tokenization to those of another.

    The characters are compared as they are, without the marks of subwords; where they differ, after normalization
    as by SentencePiece (compatibility characters, white space, control characters), without case and Moses'
    escapes; where they still differ, without accents, which some models for uncased text drop.

    A token without characters, such as a lone ``▁``, belongs to the character after it, or to the last one.

    Args:
        old, new: M sentences each. Marks of subwords are recognized (:mod:`alignkit.text.tokenization`).
    """
    first, end = np.zeros((2, len(old.tokens)), np.int32)
    open_sentences = np.arange(len(old))
    styles = [dict.fromkeys((_style(corpus), "words")) for corpus in (old, new)]
    for level, *pair in product(_LEVELS, *styles):
        if not len(open_sentences):
            break
        forms = [_Forms(corpus, style, level) for corpus, style in zip((old, new), pair, strict=True)]
        blocks = [open_sentences[low : low + BLOCK] for low in range(0, len(open_sentences), BLOCK)]
        left = [_match(forms[0], forms[1], block, first, end) for block in blocks]
        open_sentences = np.concatenate([open_sentences[:0], *left])
    differs = np.zeros(len(old), bool)
    differs[open_sentences] = True
    return TokenMap(old, new, first, end, differs)


def _match(old: _Forms, new: _Forms, sentences: np.ndarray, first: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Fill in the ranges of those of the sentences whose characters are equal; return the others."""
    equal = old.sizes(sentences) == new.sizes(sentences)
    chosen = sentences[equal]
    unlike = old.text(chosen) != new.text(chosen)
    before = offsets_of(unlike)
    bounds = offsets_of(old.sizes(chosen))
    equal[equal] = before[bounds[1:]] == before[bounds[:-1]]
    chosen = sentences[equal]
    filled = chosen[old.sizes(chosen) > 0]  # tokens of sentences without any character stay unmapped
    places, starts, ends = old.intervals(filled)
    _, new_starts, new_ends = new.intervals(filled)
    sizes, new_sizes = old.corpus.lengths[filled], new.corpus.lengths[filled]
    base = np.repeat(np.cumsum(new_sizes) - new_sizes, sizes)
    first[places] = np.searchsorted(new_ends, starts, "right") - base
    end[places] = np.searchsorted(new_starts, ends, "left") - base
    return sentences[~equal]


class _Forms:
    """The characters of a corpus's tokens, as bytes.

    Args:
        corpus: M sentences.
        style: of the marks of subwords (:func:`_style`).
        level: one of ``_LEVELS``.
    """

    def __init__(self, corpus: Corpus, style: str, level: Callable[[str], str]) -> None:
        self.corpus = corpus
        forms = [_characters(token, style, level) for token in corpus.vocabulary.tokens]
        self.lengths = np.fromiter(map(len, forms), np.int64, len(forms))
        self.starts = offsets_of(self.lengths)[:-1]
        self.bytes = np.frombuffer(b"".join(forms), np.uint8)
        self.sentence_sizes = np.diff(offsets_of(self.lengths[corpus.tokens])[corpus.offsets])

    def sizes(self, sentences: np.ndarray) -> np.ndarray:
        """int64: the number of bytes of these sentences."""
        return self.sentence_sizes[sentences]

    def text(self, sentences: np.ndarray) -> np.ndarray:
        """uint8: the characters of these sentences, one after another."""
        tokens = self.corpus.take(sentences).tokens
        return self.bytes[in_runs(self.starts[tokens], self.lengths[tokens])]

    def intervals(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of the sentences' tokens in the corpus, and the bytes [start, end) of :meth:`text` of each.

        A token without bytes gets the next one of its sentence, or the last.
        """
        sizes = self.corpus.lengths[sentences]
        places = places_of(self.corpus, sentences)
        lengths = self.lengths[self.corpus.tokens[places]]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        last = np.repeat(np.cumsum(self.sizes(sentences)), sizes) - 1
        starts = np.minimum(starts, last)
        return places, starts, np.maximum(ends, starts + 1)


def _style(corpus: Corpus) -> str:
    """The style of a corpus's marks; ``bytes`` for byte-level BPE, whose tokens are bytes shown as letters."""
    tokens = corpus.vocabulary.tokens
    style = style_of([tokens])
    if style == "sentencepiece" and not any("▁" in token for token in tokens):
        return "bytes"
    return style


def _characters(token: str, style: str, level: Callable[[str], str]) -> bytes:
    if style == "bytes":
        letters = _byte_letters()
        if all(letter in letters for letter in token):
            raw = bytes(letters[letter] for letter in token).replace(b" ", b"")
            return raw if level is _as_it_is else level(raw.decode("utf-8", "surrogateescape")).encode(*_ENCODING)
    if style == "sentencepiece":
        match = _BYTE.match(token)
        if match is not None:
            return bytes.fromhex(match[1])
        token = token.replace("▁", "")
    elif style != "words":
        token = without_mark(token)
    return level(token).encode(*_ENCODING)


_ENCODING = ("utf-8", "surrogateescape")


@cache
def _byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE (Radford et al. 2019) shows bytes as -> the bytes.

    Printable bytes of Latin-1 stand for themselves, the others for the letters from U+0100 on.
    """
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {chr(byte): byte for byte in shown}
    others = [byte for byte in range(256) if byte not in shown]
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}


def _as_it_is(text: str) -> str:
    return text


def _normalized(text: str) -> str:
    """Compatibility characters decomposed, case folded, without white space, controls and Moses' escapes."""
    text = _SPLIT_MARK.sub(r"\1", _ENTITY.sub(lambda match: _ENTITIES[match[0]], text)).replace("&amp;", "&")
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(letter for letter in folded if unicodedata.category(letter) not in _INVISIBLE)


def _without_accents(text: str) -> str:
    return "".join(letter for letter in _normalized(text) if unicodedata.category(letter) != "Mn")


_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))
_LEVELS: tuple[Callable[[str], str], ...] = (_as_it_is, _normalized, _without_accents)


def first_difference(old: Sequence[str], new: Sequence[str]) -> tuple[str, str]:
    """The places from which on the normalized characters of two tokenizations differ, twenty of each."""
    texts = ["".join(_texts(tokens)) for tokens in (old, new)]
    at = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    return texts[0][at : at + 20], texts[1][at : at + 20]


def _texts(tokens: Sequence[str]) -> Iterator[str]:
    style = style_of([tokens])
    return (_characters(token, style, _normalized).decode("utf-8", "replace") for token in tokens)
