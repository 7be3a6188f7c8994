"""Scores from elsewhere, fitted to the tokens of a bitext: as they are, or through words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.errors import InputError
from alignkit.interop.other_systems import ExternalScores
from alignkit.scores.scores import Scores
from alignkit.scores.word_groups import merge_groups, spread_groups
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.subword_marks import check_words, corpus_groups, join_words, style_of, word_groups

Groups = list[tuple[np.ndarray, int]]
Pieces = tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]  #: tokens of source and target


def fit_scores(
    found: ExternalScores,
    bitext: Bitext,
    pieces: Pieces | None = None,
    *,
    specials: bool = True,
) -> Scores:
    """The scores on the tokens of ``bitext``.

    Scores of the bitext's own tokens are taken as they are. Those of other subwords are merged to words, if their
    pieces are known, and those of words are spread over the bitext's tokens (:mod:`alignkit.scores.word_groups`).

    Args:
        found: scores of kind ``alpha``.
        bitext: M pairs of words or pieces.
        pieces: (source, target) tokens of the scores' M pairs, if the file of the scores does not tell them.
        specials: whether the bitext is as a network reads it, in pieces and with BOS and EOS; otherwise its tokens
            are words.

    Raises:
        InputError: the scores are not of this text, with the first line where that shows.
    """
    path, scores, shapes = found.path, found.scores, bitext.shapes
    if len(scores) != len(bitext):
        raise InputError(path, f"has scores for {len(scores)} sentence pairs, the text has {len(bitext)}")
    pieces = _pieces(found, pieces)
    if of_tokens(found, bitext, pieces):
        return _reshaped(scores, shapes)
    columns, rows = (token_groups(side, specials, specials) for side in (bitext.source, bitext.target))
    if pieces is not None:
        own = [
            _own_groups(path, side, text)
            for side, text in zip(pieces, (bitext.source, bitext.target), strict=True)
        ]
        wanted = np.array([(len(r[0]), len(c[0])) for c, r in zip(*own, strict=True)], np.int32).reshape(-1, 2)
        scores = _checked(path, scores, wanted, "pieces")
        words = [_words(text, specials) for text in (bitext.source, bitext.target)]
        for (side, groups), text in zip(zip(pieces, own, strict=True), words, strict=True):
            joined = [join_words(tokens, group) for tokens, (group, _) in zip(side, groups, strict=True)]
            check_words(path, joined, text)
        scores = merge_groups(scores, own[1], own[0])
    wanted = np.array([(r[1], c[1]) for r, c in zip(rows, columns, strict=True)], np.int32).reshape(-1, 2)
    return spread_groups(_checked(path, scores, wanted, "words", shapes), rows, columns)


def of_tokens(found: ExternalScores, bitext: Bitext, pieces: Pieces | None = None) -> bool:
    """Whether the scores are of the bitext's own tokens, BOS and EOS included; arguments as in
    :func:`fit_scores`."""
    pieces = _pieces(found, pieces)
    if len(found.scores) != len(bitext) or first_misfit(found.scores, bitext.shapes) is not None:
        return False
    return pieces is None or _same_tokens(pieces, bitext)


def _pieces(found: ExternalScores, pieces: Pieces | None) -> Pieces | None:
    """Those given, or those that the file of the scores tells."""
    if pieces is None and found.source is not None and found.target is not None:
        return found.source, found.target
    return pieces


def token_groups(corpus: Corpus, specials: bool = True, marked: bool = True) -> Groups:
    """Per sentence, the word of each token (-1: of none), and the number of words; arguments as in
    :func:`alignkit.text.subword_marks.corpus_groups`."""
    groups = corpus_groups(corpus, specials=specials, marked=marked)
    return [(group, int(group.max(initial=-1)) + 1) for group in groups]


def word_shapes(bitext: Bitext, specials: bool = True, marked: bool = True) -> np.ndarray:
    """int32 (M, 2): target and source words of each pair of a bitext of words or pieces."""
    sides = (token_groups(side, specials, marked) for side in (bitext.source, bitext.target))
    return np.array([(t, s) for (_, s), (_, t) in zip(*sides, strict=True)], np.int32).reshape(-1, 2)


def _own_groups(path: str, sentences: Sequence[Sequence[str]], corpus: Corpus) -> Groups:
    if len(sentences) != len(corpus):
        raise InputError(path, f"has pieces of {len(sentences)} sentences, the text has {len(corpus)}")
    style = style_of(sentences)
    groups = [word_groups(tokens, style) for tokens in sentences]
    return [(group, int(group.max(initial=-1)) + 1) for group in groups]


def _words(corpus: Corpus, specials: bool) -> list[list[str | None]]:
    """The words of every sentence; None where a piece of it is unknown."""
    if not specials:
        return [list(corpus.words(m)) for m in range(len(corpus))]
    return [join_words(corpus.words(m), group) for m, group in enumerate(corpus_groups(corpus))]


def _same_tokens(pieces: Pieces, bitext: Bitext) -> bool:
    if any(len(side) != len(bitext) for side in pieces):
        return False
    sides = zip(pieces, (bitext.source, bitext.target), strict=True)
    return all(list(side[m]) == text.words(m) for side, text in sides for m in range(len(bitext)))


def first_misfit(scores: Scores, wanted: np.ndarray) -> int | None:
    """The first pair whose matrix is not of the wanted shape; all shapes without elements are alike."""
    differs = (scores.shapes != wanted).any(axis=1)
    differs &= (scores.shapes.prod(axis=1) > 0) | (wanted.prod(axis=1) > 0)
    return int(differs.argmax()) if differs.any() else None


def _reshaped(scores: Scores, wanted: np.ndarray) -> Scores:
    return Scores(scores.values, scores.offsets, np.ascontiguousarray(wanted, np.int32))


def _checked(path: str, scores: Scores, wanted: np.ndarray, unit: str, tokens: np.ndarray | None = None) -> Scores:
    """The scores, if they are of the wanted shapes (those without elements made so); else an error that says what
    shape was wanted where."""
    m = first_misfit(scores, wanted)
    if m is None:
        return _reshaped(scores, wanted)
    (t, s), (rows, columns) = scores.shapes[m].tolist(), wanted[m].tolist()
    problem = f"a matrix of {t} by {s} for {rows} target and {columns} source {unit}"
    if tokens is not None and tokens[m].tolist() != [rows, columns]:
        problem += f" ({tokens[m, 0]} and {tokens[m, 1]} tokens)"
    exchanged = [s, t] == [rows, columns]
    remedy = "rows are target tokens; this looks like the other way round" if exchanged else None
    raise InputError(path, problem, line=m + 1, remedy=remedy or "give the pieces if it is of other subwords")


def inner_text(bitext: Bitext) -> Bitext:
    """The bitext without BOS and EOS."""
    return Bitext(*(_inner(side) for side in (bitext.source, bitext.target)))


def _inner(corpus: Corpus) -> Corpus:
    kept = [group >= 0 for group, _ in token_groups(corpus)]
    flat = np.concatenate([np.zeros(0, bool), *kept])
    offsets = np.concatenate([[0], np.cumsum([int(part.sum()) for part in kept])]).astype(np.int64)
    return Corpus(corpus.tokens[flat], offsets, corpus.vocabulary)


def inner_scores(scores: Scores, bitext: Bitext) -> Scores:
    """The scores of ``bitext`` without the rows and columns of BOS and EOS.

    Systems that know words alone have nothing to say there: a row of zeros would agree with everything.
    """
    lines = zip(scores, token_groups(bitext.target), token_groups(bitext.source), strict=True)
    return Scores.from_matrices(matrix[row >= 0][:, column >= 0] for matrix, (row, _), (column, _) in lines)
