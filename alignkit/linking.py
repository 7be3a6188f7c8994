"""Links between the whitespace words of lines, by any aligner, whatever tokens it works on."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.aligner import Aligner, check_kind
from alignkit.bitext import Bitext
from alignkit.links import Links
from alignkit.scores import Scores
from alignkit.tokenization import encode_bitext, split_words
from alignkit.words import merge_to_words


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
    return Links.from_scores(score_lines(aligner, source, target))


def _words(source: Sequence[str], target: Sequence[str]) -> Bitext:
    return Bitext.from_sentences([split_words(x) for x in source], [split_words(y) for y in target])
