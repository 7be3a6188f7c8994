"""Scores from elsewhere, fitted to the tokens of a bitext: as they are, or through words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.bitext import Bitext, Corpus
from alignkit.errors import InputError
from alignkit.external import ExternalScores
from alignkit.pieces import check_words, corpus_groups, join_words, style_of, word_groups
from alignkit.scores import Scores
from alignkit.words import merge_groups, spread_groups

Groups = list[tuple[np.ndarray, int]]


def fit_scores(
    found: ExternalScores,
    bitext: Bitext,
    pieces: tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]] | None = None,
    *,
    specials: bool = True,
) -> Scores:
    """The scores on the tokens of ``bitext``.

    Scores of the bitext's own tokens are taken as they are. Those of other subwords are merged to words, if their
    pieces are known, and those of words are spread over the bitext's tokens (:mod:`alignkit.words`).

    Args:
        found: scores of kind ``alpha``.
        bitext: M pairs of words or pieces.
        pieces: (source, target) tokens of the scores' M pairs, if the file of the scores does not tell them.
        specials: whether BOS and EOS at the ends of the bitext's sentences are no words.

    Raises:
        InputError: the scores are not of this text, with the first line where that shows.
    """
    path, scores = found.path, found.scores
    if len(scores) != len(bitext):
        raise InputError(path, f"has scores for {len(scores)} sentence pairs, the text has {len(bitext)}")
    if pieces is None and found.source is not None and found.target is not None:
        pieces = found.source, found.target
    shapes = bitext.shapes
    own_tokens = first_misfit(scores, shapes) is None and (pieces is None or _same_tokens(pieces, bitext))
    if own_tokens:
        return _reshaped(scores, shapes)
    columns, rows = token_groups(bitext.source, specials), token_groups(bitext.target, specials)
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


def token_groups(corpus: Corpus, specials: bool = True) -> Groups:
    """Per sentence, the word of each token (-1: of none), and the number of words."""
    return [(group, int(group.max(initial=-1)) + 1) for group in corpus_groups(corpus, specials=specials)]


def _own_groups(path: str, sentences: Sequence[Sequence[str]], corpus: Corpus) -> Groups:
    if len(sentences) != len(corpus):
        raise InputError(path, f"has pieces of {len(sentences)} sentences, the text has {len(corpus)}")
    style = style_of(sentences)
    groups = [word_groups(tokens, style) for tokens in sentences]
    return [(group, int(group.max(initial=-1)) + 1) for group in groups]


def _words(corpus: Corpus, specials: bool) -> list[list[str | None]]:
    """The words of every sentence; None where a piece of it is unknown."""
    groups = corpus_groups(corpus, specials=specials)
    return [join_words(corpus.words(m), group) for m, group in enumerate(groups)]


def _same_tokens(pieces: tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]], bitext: Bitext) -> bool:
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


def without_specials(scores: Scores, rows: Groups, columns: Groups) -> Scores:
    """Scores without the rows and columns of tokens that belong to no word (BOS, EOS)."""
    lines = zip(scores, rows, columns, strict=True)
    return Scores.from_matrices(matrix[row[0] >= 0][:, column[0] >= 0] for matrix, row, column in lines)
