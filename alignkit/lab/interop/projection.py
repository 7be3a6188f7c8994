"""Projection of other systems' scores onto the tokens of a bitext, directly or through words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.errors import InputError, counted
from alignkit.lab.interop.other_systems import ExternalScores, words_of_tokens
from alignkit.scores import Grouping, Scores, grouping_of, merge_to_words, spread_to_tokens
from alignkit.text.bitext import Bitext, Corpus, kept_tokens
from alignkit.text.tokenization import SPECIALS, UNK, check_words, corpus_groups, join_words

#: The tokens of M sentence pairs: (source, target).
TokenLists = tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]]


def project_scores(found: ExternalScores, bitext: Bitext, *, specials: bool = True) -> Scores:
    """The scores between the tokens of ``bitext``.

    Scores between the bitext's own tokens are taken unchanged. Scores between other subwords are merged to
    words, if their file has the subwords, and scores between words are spread over the tokens of the bitext
    (:mod:`alignkit.scores`).

    Args:
        found: scores of kind ``alpha``.
        bitext: M pairs of words or subwords.
        specials: the bitext consists of subwords with BOS and EOS, as a network reads it; otherwise its tokens are
            words.

    Raises:
        InputError: the scores do not belong to this text, with the first line where this shows.
    """
    path, scores, shapes = found.path, found.scores, bitext.shapes
    if len(scores) != len(bitext):
        raise InputError(path, f"has scores for {counted(len(scores), 'pair')}, the text has {len(bitext):,}")
    if is_between_tokens(found, bitext):
        return Scores(scores.values, scores.offsets, np.ascontiguousarray(shapes, np.int32))
    if found.words is not None:
        scores = merge_to_words(scores, found.words[1], found.words[0])
    elif found.source is not None and found.target is not None:
        scores = _merged(path, scores, (found.source, found.target), bitext, specials)
    columns, rows = (word_grouping(side, specials, specials) for side in (bitext.source, bitext.target))
    scores = _checked(path, scores, _sizes(rows, columns), "words", shapes)
    return spread_to_tokens(scores, rows, columns)


def is_between_tokens(found: ExternalScores, bitext: Bitext) -> bool:
    """True if the scores are between the bitext's own tokens, with BOS and EOS."""
    if found.words is not None or len(found.scores) != len(bitext):
        return False
    if first_mismatch(found.scores, bitext.shapes) is not None:
        return False
    if found.source is None or found.target is None:
        return True
    sides = (found.source, bitext.source), (found.target, bitext.target)
    if any(len(tokens) != len(text) for tokens, text in sides):
        return False
    return all(list(tokens[m]) == text.words(m) for tokens, text in sides for m in range(len(text)))


def _merged(path: str, scores: Scores, tokens: TokenLists, bitext: Bitext, specials: bool) -> Scores:
    """Scores between subwords to scores between words, which must be those of the bitext."""
    for side, text in zip(tokens, (bitext.source, bitext.target), strict=True):
        if len(side) != len(text):
            raise InputError(path, f"has subwords of {counted(len(side), 'sentence')}, the text has {len(text):,}")
    groupings = words_of_tokens(*tokens)
    wanted = np.array([(len(t), len(s)) for s, t in zip(*tokens, strict=True)], np.int32).reshape(-1, 2)
    scores = _checked(path, scores, wanted, "subwords")
    for side, grouping, text in zip(tokens, groupings, (bitext.source, bitext.target), strict=True):
        joined = [join_words(sentence, group) for sentence, (group, _) in zip(side, grouping, strict=True)]
        check_words(path, joined, _words(text, specials))
    return merge_to_words(scores, groupings[1], groupings[0])


def word_grouping(corpus: Corpus, specials: bool = True, marked: bool = True) -> Grouping:
    """The words of a corpus; arguments as for :func:`alignkit.text.tokenization.corpus_groups`."""
    return grouping_of(corpus_groups(corpus, specials=specials, marked=marked))


def word_shapes(bitext: Bitext, specials: bool = True, marked: bool = True) -> np.ndarray:
    """int32 (M, 2): the numbers of target and source words of each pair of a bitext of words or subwords."""
    columns, rows = (word_grouping(side, specials, marked) for side in (bitext.source, bitext.target))
    return _sizes(rows, columns)


def _sizes(rows: Grouping, columns: Grouping) -> np.ndarray:
    return np.array([(t, s) for (_, t), (_, s) in zip(rows, columns, strict=True)], np.int32).reshape(-1, 2)


def word_bitext(bitext: Bitext, specials: bool = True) -> Bitext:
    """The words of a bitext of subwords with BOS and EOS; a word with an unknown subword is the token UNK.

    Args:
        bitext: M pairs.
        specials: true if it consists of subwords; a bitext of words is returned as it is.
    """
    if not specials:
        return bitext
    unknown = SPECIALS[UNK]
    sides = (_words(side, specials) for side in (bitext.source, bitext.target))
    source, target = ([[w if w is not None else unknown for w in words] for words in side] for side in sides)
    return Bitext.from_sentences(source, target)


def _words(corpus: Corpus, specials: bool) -> list[list[str | None]]:
    """The words of every sentence; None for a word with an unknown subword."""
    if not specials:
        return [list(corpus.words(m)) for m in range(len(corpus))]
    return [join_words(corpus.words(m), group) for m, group in enumerate(corpus_groups(corpus))]


def first_mismatch(scores: Scores, wanted: np.ndarray) -> int | None:
    """The first pair whose matrix does not have the wanted shape; all shapes without elements are equal."""
    differs = (scores.shapes != wanted).any(axis=1)
    differs &= (scores.shapes.prod(axis=1) > 0) | (wanted.prod(axis=1) > 0)
    return int(differs.argmax()) if differs.any() else None


def _checked(path: str, scores: Scores, wanted: np.ndarray, unit: str, tokens: np.ndarray | None = None) -> Scores:
    """The scores with the wanted shapes; raises InputError if a matrix has another one, unless both are empty."""
    m = first_mismatch(scores, wanted)
    if m is None:
        return Scores(scores.values, scores.offsets, np.ascontiguousarray(wanted, np.int32))
    (t, s), (rows, columns) = scores.shapes[m].tolist(), wanted[m].tolist()
    problem = f"a matrix of {t} by {s} for {rows} target and {columns} source {unit}"
    if tokens is not None and tokens[m].tolist() != [rows, columns]:
        problem += f" ({tokens[m, 0]} and {tokens[m, 1]} tokens)"
    remedy = "scores between other subwords need these in their file, as a JSON object has them"
    if [s, t] == [rows, columns]:
        remedy = "rows must be target tokens, but here they seem to be source tokens"
    raise InputError(path, problem, line=m + 1, remedy=remedy)


def without_specials(bitext: Bitext) -> Bitext:
    """The bitext without BOS and EOS."""
    sides = bitext.source, bitext.target
    groups = (np.concatenate([np.zeros(0, np.int64), *corpus_groups(side)]) for side in sides)
    return Bitext(*(kept_tokens(side, own >= 0) for side, own in zip(sides, groups, strict=True)))


def scores_without_specials(scores: Scores, bitext: Bitext) -> Scores:
    """The scores of ``bitext`` without the rows and columns of BOS and EOS.

    Systems that only know words have no scores there, and a row of zeros would agree with every other row.
    """
    lines = zip(scores, corpus_groups(bitext.target), corpus_groups(bitext.source), strict=True)
    return Scores.from_matrices(matrix[row >= 0][:, column >= 0] for matrix, row, column in lines)
