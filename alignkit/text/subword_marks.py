"""The whitespace word of each subword, told by the subword's mark, without the tokenizer.

SentencePiece (``▁Haus``) and byte-level BPE (``ĠHaus``) mark the start of a word, BPE (``Ha@@ us``) a subword that
the next one continues, WordPiece (``Ha ##us``) a subword that continues the one before. BOS, EOS and padding are
recognized at the ends of a sentence only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from alignkit.errors import InputError, check_known, check_list, counted
from alignkit.text.bitext import Corpus
from alignkit.text.tokenization import SPECIALS
from alignkit.types import PathLike

STYLES = ("words", "sentencepiece", "bpe", "wordpiece")
_STARTS = ("▁", "Ġ")
_OPENING = frozenset({SPECIALS[1], "[CLS]", "<bos>"})
_CLOSING = frozenset({SPECIALS[2], "[SEP]", "<eos>"})
_PADDING = frozenset({SPECIALS[0], "[PAD]"})
UNKNOWN_SUBWORDS = frozenset({SPECIALS[3], "[UNK]", "<UNK>"})


_SENTENCES = "sentences must be a list of lists of subwords"
_SUBWORDS = "the subwords of a sentence must be a list"


def style_of(sentences: Iterable[Sequence[str]]) -> str:
    """The style of marks in these sentences, a name in ``STYLES``; ``words`` if there are none.

    Raises:
        AlignkitError: a sentence is a string, not a list of subwords.
    """
    start = continued = continuing = False
    check_list(sentences, _SENTENCES)
    for tokens in sentences:
        check_list(tokens, _SUBWORDS)
        for token in tokens:
            start = start or token.startswith(_STARTS)
            continued = continued or (len(token) > 2 and token.endswith("@@"))
            continuing = continuing or (len(token) > 2 and token.startswith("##"))
    return "sentencepiece" if start else "bpe" if continued else "wordpiece" if continuing else "words"


def word_groups(tokens: Sequence[str], style: str, *, specials: bool = True) -> np.ndarray:
    """The index of the word of each subword of a sentence, -1 for BOS, EOS and padding: int64 (L,).

    Args:
        tokens: the L subwords.
        style: a name in ``STYLES``.
        specials: whether BOS, EOS and padding are recognized, or are words like others.

    Raises:
        AlignkitError: there is no such style, or ``tokens`` is a string.
    """
    check_list(tokens, _SUBWORDS)
    check_known(style, STYLES, "style of subword marks")
    groups = np.full(len(tokens), -1, np.int64)
    start, end = _inner(tokens) if specials else (0, len(tokens))
    word = -1
    continued = False  # the subword before, in the style of BPE
    for i in range(start, end):
        token = tokens[i]
        begins = {
            "words": True,
            "sentencepiece": token.startswith(_STARTS),
            "bpe": not continued,
            "wordpiece": not token.startswith("##"),
        }[style]
        word += begins or i == start
        continued = token.endswith("@@")
        groups[i] = word
    return groups


def _inner(tokens: Sequence[str]) -> tuple[int, int]:
    """The range of a sentence without BOS, EOS and padding."""
    start, end = 0, len(tokens)
    while end > 0 and tokens[end - 1] in _PADDING:
        end -= 1
    while start < end and tokens[start] in _PADDING:
        start += 1
    start += start < end and tokens[start] in _OPENING
    end -= start < end and tokens[end - 1] in _CLOSING
    return start, end


def corpus_groups(corpus: Corpus, *, specials: bool = True, marked: bool = True) -> list[np.ndarray]:
    """:func:`word_groups` of every sentence of a corpus; the style is that of its vocabulary.

    Args:
        corpus: of subwords or words.
        specials: as of :func:`word_groups`.
        marked: whether tokens may be subwords; otherwise each is a word, even if it looks marked.
    """
    style = style_of([corpus.vocabulary.tokens]) if marked else "words"
    return [word_groups(corpus.words(m), style, specials=specials) for m in range(len(corpus))]


def without_mark(token: str) -> str:
    """A subword without its mark."""
    if token.startswith(_STARTS):
        return token[1:]
    if len(token) > 2 and token.endswith("@@"):
        return token[:-2]
    return token[2:] if len(token) > 2 and token.startswith("##") else token


def join_words(tokens: Sequence[str], groups: np.ndarray) -> list[str | None]:
    """The words of a sentence of subwords; None for a word with an unknown subword."""
    words: list[str | None] = [""] * (int(groups.max(initial=-1)) + 1)
    for token, word in zip(tokens, groups.tolist(), strict=True):
        if word >= 0:
            before = words[word]
            words[word] = None if token in UNKNOWN_SUBWORDS or before is None else before + without_mark(token)
    return words


def check_words(
    path: PathLike, sentences: Sequence[Sequence[str | None]], lines: Sequence[Sequence[str | None]]
) -> None:
    """Raise InputError, with the line, unless joined subwords are the words of the text; None fits any word.

    Args:
        path: where the subwords come from, for messages.
        sentences: the joined words of M sentences.
        lines: the words of the M lines of the text.
    """
    if len(sentences) != len(lines):
        problem = f"has subwords of {counted(len(sentences), 'sentence')}, the text has {len(lines):,}"
        raise InputError(path, problem)
    for number, (found, words) in enumerate(zip(sentences, lines, strict=True), 1):
        if len(found) != len(words):
            problem = f"number of words: {len(found)} from its subwords, {len(words)} in the text"
            raise InputError(path, problem, line=number, remedy="give the subwords of this text")
        for one, word in zip(found, words, strict=True):
            if one is not None and word is not None and one != word:
                problem = f"its subwords make the word {one!r} where the text has {word!r}"
                raise InputError(path, problem, line=number, remedy="give the subwords of this text")
