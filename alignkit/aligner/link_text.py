"""Links between whitespace words by any aligner, whatever tokens it works on, and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alignkit.aligner.protocol import Aligner, check_kind
from alignkit.errors import AlignkitError
from alignkit.links.formats import Alignment
from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.scores.scores import Scores
from alignkit.scores.word_groups import merge_to_words
from alignkit.text.bitext import Bitext
from alignkit.text.reading import encode_text
from alignkit.text.tokenization import encode_bitext, split_words
from alignkit.text.utf8 import split_lines


def score_lines(aligner: Aligner, source: Sequence[str], target: Sequence[str], kind: str = "alpha") -> Scores:
    """Scores between the whitespace words of M pairs of lines.

    Args:
        aligner: of whitespace words, or one with a ``tokenizer`` (then its pieces are merged to words).
        source, target: M lines each.
        kind: of the scores.

    Raises:
        AlignkitError: the aligner has no scores of this kind.
    """
    check_kind(aligner, kind)
    tokenizer = getattr(aligner, "tokenizer", None)
    if tokenizer is None:
        return aligner.score(_words(source, target), kind)
    bitext = encode_bitext(tokenizer, source, target)
    scores = aligner.score(bitext, kind)
    return merge_to_words(scores, tokenizer, (source, list(bitext.source)), (target, list(bitext.target)))


def link_lines(aligner: Aligner, source: Sequence[str], target: Sequence[str]) -> Links:
    """Links between the whitespace words of M pairs of lines: each target word's likeliest source word.

    Raises:
        AlignkitError: the aligner has no alpha scores to choose by.
    """
    links = getattr(aligner, "links", None)
    if links is not None and getattr(aligner, "tokenizer", None) is None:
        return links(_words(source, target))
    return best_links(score_lines(aligner, source, target))


def link_probabilities(links: Links, forward: Scores | None, reverse: Scores | None = None) -> np.ndarray:
    """How probable each link is by alpha scores: float64 (K,).

    The posterior of the target word's choice (forward) or of the source word's (reverse), or the geometric mean of
    both.

    Args:
        links: of M pairs.
        forward: alpha of the pairs, (T, L) each.
        reverse: alpha of the pairs reversed, (L, T) each.

    Raises:
        AlignkitError: neither is given, or a link is outside its matrix.
    """
    s, t = links.pairs[:, 0].astype(np.int64), links.pairs[:, 1].astype(np.int64)
    found = [
        _values(links, scores, row, column)
        for scores, row, column in ((forward, t, s), (reverse, s, t))
        if scores is not None
    ]
    if not found:
        raise AlignkitError("link probabilities need the scores of one direction at least")
    return found[0] if len(found) == 1 else np.sqrt(found[0] * found[1])


def _values(links: Links, scores: Scores, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    sentence = links.sentences
    shapes = scores.shapes[sentence] if len(scores) == len(links) else np.zeros((len(sentence), 2), np.int32)
    if len(scores) != len(links) or (row >= shapes[:, 0]).any() or (column >= shapes[:, 1]).any():
        raise AlignkitError("links and scores are not of the same sentence pairs")
    return scores.values[scores.offsets[sentence] + row * shapes[:, 1] + column].astype(np.float64)


def log_probabilities(aligner: Aligner, bitext: Bitext) -> np.ndarray:
    """float64 (M,): log p(target | source) of each pair, natural logarithm.

    Raises:
        AlignkitError: the aligner gives no probability of a sentence.
    """
    method = getattr(aligner, "log_probabilities", None)
    if method is None:
        raise AlignkitError(f"{aligner.name} gives no probability of a sentence, and so no sentence scores")
    return method(bitext)


def per_word(totals: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """float64 (M,): logarithms of probabilities divided by the number of target words, to compare short with long.

    NaN for a pair with a blank side, where nothing is predicted, or from nothing.

    Args:
        totals: float64 (M,), of :func:`log_probabilities`.
        shapes: int (M, 2), T and L of the pairs in whitespace words.
    """
    return np.where((shapes == 0).any(axis=1), np.nan, totals / np.maximum(shapes[:, 0], 1))


def describe(
    links: Links,
    bitext: Bitext,
    forward: Aligner | None,
    reverse: Aligner | None = None,
    *,
    probabilities: bool = False,
    sentence_scores: bool = False,
    words: bool = False,
) -> Alignment:
    """Links of a bitext of words with what is to be said of them, by the one or two aligners that made them.

    Args:
        links: of the bitext, source first.
        bitext: M pairs of whitespace words.
        forward, reverse: aligners of the bitext and of the bitext reversed.
        probabilities, sentence_scores, words: what the result is to have beside the links; words bring the scores
            too, where there are any.

    Raises:
        AlignkitError: an aligner does not give what is asked.
    """
    both = [(a, b) for a, b in ((forward, bitext), (reverse, bitext.reversed)) if a is not None]
    alphas: list[Scores | None] = []
    if probabilities:
        sides = ((forward, bitext), (reverse, bitext.reversed))
        alphas = [None if a is None else a.score(b, "alpha") for a, b in sides]
    scored = sentence_scores or (words and all(hasattr(a, "log_probabilities") for a, _ in both))
    columns = [per_word(log_probabilities(a, b), b.shapes) for a, b in both] if scored else []
    other = getattr(forward, "reverse_log_probabilities", None)  # of one aligner for both directions
    if scored and other is not None:
        columns.append(per_word(other(bitext), bitext.reversed.shapes))
    return Alignment(
        links,
        [bitext.source.words(m) for m in range(len(bitext))] if words else (),
        [bitext.target.words(m) for m in range(len(bitext))] if words else (),
        link_probabilities(links, *alphas) if probabilities else None,
        np.stack(columns, axis=1) if columns else None,
    )


def align_text(
    aligner: Aligner, source: bytes, target: bytes, *, probabilities: bool, sentence_scores: bool, words: bool
) -> Alignment:
    """Links of M pairs of lines by a saved aligner; arguments as in :func:`describe`.

    Args:
        aligner: any.
        source, target: clean UTF-8, M lines each.
    """
    tokenizer = getattr(aligner, "tokenizer", None)
    bitext = Bitext(encode_text(source), encode_text(target))
    if tokenizer is None:
        linker = getattr(aligner, "links", None)
        links = linker(bitext) if linker is not None else best_links(aligner.score(bitext, "alpha"))
        return describe(
            links, bitext, aligner, probabilities=probabilities, sentence_scores=sentence_scores, words=words
        )
    lines = split_lines(source), split_lines(target)
    alpha = score_lines(aligner, *lines)
    links = best_links(alpha)
    scored = sentence_scores or (words and hasattr(aligner, "log_probabilities"))
    totals = log_probabilities(aligner, encode_bitext(tokenizer, *lines)) if scored else None
    return Alignment(
        links,
        [split_words(line) for line in lines[0]] if words else (),
        [split_words(line) for line in lines[1]] if words else (),
        link_probabilities(links, alpha) if probabilities else None,
        None if totals is None else per_word(totals, bitext.shapes)[:, None],
    )


def _words(source: Sequence[str], target: Sequence[str]) -> Bitext:
    return Bitext.from_sentences([split_words(x) for x in source], [split_words(y) for y in target])
