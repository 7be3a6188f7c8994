"""Subword pieces told by their marks: which whitespace word each piece belongs to, without the tokenizer.

SentencePiece (``▁Haus``) and byte-level BPE (``ĠHaus``) mark where a word starts, BPE (``Ha@@ us``) where it goes
on, WordPiece (``Ha ##us``) what goes on. Specials are known at the ends of a sentence only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.text.bitext import Corpus
from alignkit.text.tokenization import SPECIALS

STYLES = ("words", "sentencepiece", "bpe", "wordpiece")
_STARTS = ("▁", "Ġ")
_OPENING = frozenset({SPECIALS[1], "[CLS]", "<bos>"})
_CLOSING = frozenset({SPECIALS[2], "[SEP]", "<eos>"})
_PADDING = frozenset({SPECIALS[0], "[PAD]"})
UNKNOWN_PIECES = frozenset({SPECIALS[3], "[UNK]", "<UNK>"})


def style_of(sentences: Iterable[Sequence[str]]) -> str:
    """The name in ``STYLES`` of how these pieces are marked; ``words`` if nothing is."""
    starts = goes_on = continued = False
    for tokens in sentences:
        for token in tokens:
            starts = starts or token.startswith(_STARTS)
            goes_on = goes_on or (len(token) > 2 and token.endswith("@@"))
            continued = continued or (len(token) > 2 and token.startswith("##"))
    return "sentencepiece" if starts else "bpe" if goes_on else "wordpiece" if continued else "words"


def word_groups(tokens: Sequence[str], style: str, *, specials: bool = True) -> np.ndarray:
    """The word of each piece of a sentence, counted from 0; -1 for BOS, EOS and padding: int64 (L,).

    Args:
        tokens: the L pieces.
        style: a name in ``STYLES``.
        specials: whether BOS, EOS and padding at the ends are specials, and not words that look like them.

    Raises:
        AlignkitError: there is no such style.
    """
    if style not in STYLES:
        raise AlignkitError(f"pieces are marked in one of the styles {', '.join(STYLES)}, not {style!r}")
    groups = np.full(len(tokens), -1, np.int64)
    start, end = _inner(tokens) if specials else (0, len(tokens))
    word = -1
    joins = False  # to the piece before it, in the style of BPE
    for i in range(start, end):
        token = tokens[i]
        begins = {
            "words": True,
            "sentencepiece": token.startswith(_STARTS),
            "bpe": not joins,
            "wordpiece": not token.startswith("##"),
        }[style]
        word += begins or i == start
        joins = token.endswith("@@")
        groups[i] = word
    return groups


def _inner(tokens: Sequence[str]) -> tuple[int, int]:
    """The part of a sentence without the specials at its ends."""
    start, end = 0, len(tokens)
    while end > 0 and tokens[end - 1] in _PADDING:
        end -= 1
    while start < end and tokens[start] in _PADDING:
        start += 1
    start += start < end and tokens[start] in _OPENING
    end -= start < end and tokens[end - 1] in _CLOSING
    return start, end


def corpus_groups(corpus: Corpus, *, specials: bool = True, marked: bool = True) -> list[np.ndarray]:
    """:func:`word_groups` of every sentence of a corpus, whose vocabulary tells the style.

    Args:
        corpus: of pieces or words.
        specials: as in :func:`word_groups`.
        marked: whether tokens may be pieces; otherwise each is a word, whatever it looks like.
    """
    style = style_of([corpus.vocabulary.tokens]) if marked else "words"
    return [word_groups(corpus.words(m), style, specials=specials) for m in range(len(corpus))]


def plain(token: str) -> str:
    """A piece without its mark."""
    if token.startswith(_STARTS):
        return token[1:]
    if len(token) > 2 and token.endswith("@@"):
        return token[:-2]
    return token[2:] if len(token) > 2 and token.startswith("##") else token


def join_words(tokens: Sequence[str], groups: np.ndarray) -> list[str | None]:
    """The words of a sentence of pieces; None for one that holds an unknown piece."""
    words: list[str | None] = [""] * (int(groups.max(initial=-1)) + 1)
    for token, word in zip(tokens, groups.tolist(), strict=True):
        if word >= 0:
            before = words[word]
            words[word] = None if token in UNKNOWN_PIECES or before is None else before + plain(token)
    return words


def check_words(
    path: str | os.PathLike[str],
    sentences: Sequence[Sequence[str | None]],
    lines: Sequence[Sequence[str | None]],
) -> None:
    """Raises InputError, with the line, unless joined pieces are the words of the text; None fits any.

    Args:
        path: where the pieces come from.
        sentences: the joined words of M sentences.
        lines: the words of the M lines of the text.
    """
    if len(sentences) != len(lines):
        raise InputError(path, f"has pieces of {len(sentences)} sentences, the text has {len(lines)} lines")
    for number, (found, words) in enumerate(zip(sentences, lines, strict=True), 1):
        if len(found) != len(words):
            problem = f"its pieces make {len(found)} words, the text has {len(words)}"
            raise InputError(path, problem, line=number, remedy="give the pieces of this text")
        for one, word in zip(found, words, strict=True):
            if one is not None and word is not None and one != word:
                problem = f"its pieces make the word {one!r} where the text has {word!r}"
                raise InputError(path, problem, line=number, remedy="give the pieces of this text")
