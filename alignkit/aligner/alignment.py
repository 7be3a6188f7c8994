"""The alignment of a text by an aligner: links, their probabilities, and the probabilities of sentences."""

from __future__ import annotations

import numpy as np

from alignkit.aligner.protocol import (
    Aligner,
    GivesLinks,
    GivesLinksAndProbabilities,
    HasLikelihood,
    HasLinkProbabilities,
    HasReverseLikelihood,
)
from alignkit.errors import AlignkitError
from alignkit.links.formats import Alignment
from alignkit.links.from_scores import best_links
from alignkit.links.links import Links
from alignkit.parallel import blocks_of_size
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import RELEASED, release

_OTHER_PAIRS = "links and scores are not of the same sentence pairs"


def links_of(aligner: Aligner, bitext: Bitext) -> Links:
    """The links of a bitext by the aligner's own rule, or else by its alpha scores.

    Raises:
        AlignkitError: the aligner has neither.
    """
    return aligner.links(bitext) if isinstance(aligner, GivesLinks) else best_links(aligner.score(bitext, "alpha"))


def link_probabilities(aligner: Aligner, bitext: Bitext, links: Links) -> np.ndarray:
    """float64 (K,): the probability of each link of M pairs, its alpha score unless the aligner says otherwise."""
    if isinstance(aligner, HasLinkProbabilities):
        return aligner.link_probabilities(bitext, links)
    return scores_of_links(links, aligner.score(bitext, "alpha"))


def scores_of_links(links: Links, scores: Scores, *, transposed: bool = False) -> np.ndarray:
    """float64 (K,): the score of each link.

    Args:
        links: of M pairs.
        scores: of the same pairs, (T, L) each.
        transposed: the scores are those of the reversed pairs, (L, T) each.

    Raises:
        AlignkitError: a link is outside its matrix.
    """
    if len(scores) != len(links):
        raise AlignkitError(_OTHER_PAIRS)
    found, offsets = np.empty(len(links.pairs)), links.offsets
    for low, high in blocks_of_size(offsets, RELEASED // 16):  # few elements are links
        part = slice(offsets[low], offsets[high])
        sentence = np.repeat(np.arange(low, high), np.diff(offsets[low : high + 1]))
        pairs = links.pairs[part].astype(np.int64)
        column, row = pairs.T[::-1] if transposed else pairs.T
        T, L = scores.shapes[sentence].T
        if (row >= T).any() or (column >= L).any():
            raise AlignkitError(_OTHER_PAIRS)
        found[part] = scores.values[scores.offsets[sentence] + row * L + column]
        release(scores.values)
    return found


def target_log_probabilities(aligner: Aligner, bitext: Bitext) -> np.ndarray:
    """float64 (M,): log p(target | source) of each pair, natural logarithm.

    Raises:
        AlignkitError: the aligner gives no probability of a sentence.
    """
    if not isinstance(aligner, HasLikelihood):
        raise AlignkitError(f"{aligner.name} gives no probability of a sentence, and so no sentence scores")
    return aligner.log_probabilities(bitext)


def sentence_scores(aligner: Aligner, bitext: Bitext) -> np.ndarray:
    """float64 (M, C): log p(target | source) per target word, log p(source | target) per source word, or both.

    NaN for a pair with a blank side.

    Raises:
        AlignkitError: the aligner gives no probability of a sentence.
    """
    columns = []
    if isinstance(aligner, HasLikelihood) or not isinstance(aligner, HasReverseLikelihood):
        columns.append(per_word(target_log_probabilities(aligner, bitext), bitext.shapes))
    if isinstance(aligner, HasReverseLikelihood):
        columns.append(per_word(aligner.reverse_log_probabilities(bitext), bitext.reversed.shapes))
    return np.stack(columns, axis=1)


def per_word(totals: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """float64 (M,): logarithms of probabilities divided by the number of target words, to compare short with long.

    NaN for a pair with a blank side, where nothing is predicted, or from nothing.

    Args:
        totals: float64 (M,), log p(target | source).
        shapes: int (M, 2), T and L of the pairs in whitespace words.
    """
    return np.where((shapes == 0).any(axis=1), np.nan, totals / np.maximum(shapes[:, 0], 1))


def linked(aligner: Aligner, bitext: Bitext) -> tuple[Links, np.ndarray]:
    """The links of a bitext, and the probability of each, float64 (K,); see :func:`link_probabilities`.

    Raises:
        AlignkitError: the aligner has no rule for links and no alpha scores.
    """
    if isinstance(aligner, GivesLinksAndProbabilities):
        return aligner.links_and_probabilities(bitext)
    if not isinstance(aligner, GivesLinks):
        alpha = aligner.score(bitext, "alpha")
        links = best_links(alpha)
        return links, scores_of_links(links, alpha)
    links = aligner.links(bitext)
    return links, link_probabilities(aligner, bitext, links)


def alignment_of(
    aligner: Aligner,
    bitext: Bitext,
    links: Links | None = None,
    known: np.ndarray | None = None,
    *,
    probabilities: bool = False,
    scored: bool = False,
    words: bool = False,
) -> Alignment:
    """The links of a bitext with what is known about them.

    Args:
        aligner: of whitespace words.
        bitext: M pairs of whitespace words.
        links: of the bitext, if they are known already.
        known: their probabilities, float64 (K,), likewise.
        probabilities, scored, words: whether the result is to have the probabilities of the links, the scores of
            the sentences, and the words of both sides. Words come with sentence scores where the aligner has them.

    Raises:
        AlignkitError: the aligner does not give what is asked for.
    """
    if links is None and probabilities:
        links, known = linked(aligner, bitext)
    elif links is None:
        links = links_of(aligner, bitext)
    elif probabilities and known is None:
        known = link_probabilities(aligner, bitext, links)
    scored = scored or (words and isinstance(aligner, HasLikelihood | HasReverseLikelihood))
    return Alignment(
        links,
        [bitext.source.words(m) for m in range(len(bitext))] if words else (),
        [bitext.target.words(m) for m in range(len(bitext))] if words else (),
        known if probabilities else None,
        sentence_scores(aligner, bitext) if scored else None,
        is_reverse=isinstance(aligner, HasReverseLikelihood) and not isinstance(aligner, HasLikelihood),
    )
