"""The texts of experiments: the user's files, or the sample that comes with the package."""

from __future__ import annotations

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.text.labelled import LabelledLines, read_labelled
from alignkit.text.pairs import LinePairs, read_line_pairs
from alignkit.text.tokenization import split_words

PLACE_WORDS = frozenset({"in", "on", "at"})  #: prepositions by which the sentences of the sample are labelled
FEWEST = 20  #: labelled sentences


def bitext_lines(source: str, target: str, part: str = "train") -> LinePairs:
    """The lines of both sides of a bitext, in lower case.

    Args:
        source, target: two files; both empty for the German-English sample.
        part: of the sample, ``train`` or ``test``.

    Raises:
        InputError: as :func:`alignkit.text.pairs.read_line_pairs`.
        AlignkitError: only one of the two is given.
    """
    if bool(source) != bool(target):
        raise AlignkitError("give both settings, source and target, or neither (the sample bitext)")
    if not source:
        from alignkit_data import path

        source, target = str(path(f"{part}.de")), str(path(f"{part}.en"))
    return read_line_pairs(source, target, lowercase=True)


def labelled_lines(path: str, sentences: int = 0, longest: int = 0) -> LabelledLines:
    """Labelled sentences in a fixed random order, in lower case, with punctuation marks as words of their own.

    Args:
        path: as :func:`alignkit.text.labelled.read_labelled`. Empty for the sample, which has no labels: its
            German sentences, labelled by whether the English one has a preposition of place (in, on or at).
        sentences: the number to take; 0 for all.
        longest: sentences with more words are truncated; 0 for no limit.

    Raises:
        InputError: the file cannot be read or is malformed.
        AlignkitError: fewer than two labels, or fewer than 20 sentences with words.
    """
    lines = (read_labelled(path, lowercase=True) if path else _labelled_sample()).split_punctuation()
    with_words = np.flatnonzero([bool(split_words(text)) for text in lines.texts])
    order = np.random.default_rng([0, 11]).permutation(len(with_words))[: sentences or None]
    lines = lines.take(with_words[order])
    if len(lines.names) < 2 or len(lines) < FEWEST:
        raise AlignkitError(
            f"{path or 'the sample'}: at least {FEWEST} sentences and two labels are needed, not {len(lines)} "
            f"with {', '.join(lines.names) or 'none'}"
        )
    return lines.cut(longest) if longest else lines


def _labelled_sample() -> LabelledLines:
    german, english = bitext_lines("", "")
    return LabelledLines(german, ["place" if PLACE_WORDS & set(line.split()) else "none" for line in english])
