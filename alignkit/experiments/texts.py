"""The texts of experiments: files of the user's, or the sample that comes with the package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.reading import read_line_pairs, read_lines
from alignkit.text.vocabulary import Vocabulary

UNKNOWN_WORD = "<unk>"  #: stands for every word that is too rare
PLACES = frozenset({"in", "on", "at"})  #: what the labels of the sample ask for
_TOKEN = re.compile(r"\w+|[^\w\s]")


def bitext_lines(source: str, target: str, part: str = "train") -> tuple[list[str], list[str]]:
    """The lines of both sides of a bitext, lower-cased.

    Args:
        source, target: two files; both empty for the German-English sample.
        part: of the sample, ``train`` or ``test``.

    Raises:
        InputError: as :func:`alignkit.text.reading.read_line_pairs`.
        AlignkitError: only one of the two is given.
    """
    if bool(source) != bool(target):
        raise AlignkitError("give both settings, source and target, or neither (the sample bitext)")
    if not source:
        from alignkit_data import path

        source, target = str(path(f"{part}.de")), str(path(f"{part}.en"))
    return read_line_pairs(source, target, lowercase=True)


def frequent(sentences: Sequence[Sequence[str]], most: int = 0, minimum: int = 1) -> Corpus:
    """The corpus of tokenised sentences over their frequent words; all others are one word, ``<unk>``.

    Args:
        sentences: M lists of tokens.
        most: keep so many words at most; 0 for no limit.
        minimum: a word seen fewer times is not kept.
    """
    counts = Counter(word for sentence in sentences for word in sentence)
    kept = [word for word, count in counts.most_common(most or None) if count >= minimum]
    words = dict.fromkeys([UNKNOWN_WORD, *kept])
    coded = [[word if word in words else UNKNOWN_WORD for word in sentence] for sentence in sentences]
    return Corpus.from_sentences(coded, Vocabulary.from_tokens(words))


def word_bitext(source: str, target: str, pairs: int = 0, words: int = 0) -> Bitext:
    """The first ``pairs`` pairs (0: all) as words, the ``words`` most frequent of each side (0: all).

    Other arguments and errors as :func:`bitext_lines`.
    """
    sides = bitext_lines(source, target)
    cut = [[line.split() for line in side[: pairs or None]] for side in sides]
    return Bitext(*(frequent(side, words) for side in cut))


@dataclass(frozen=True, eq=False)
class Labelled:
    """M labelled sentences.

    Attributes:
        text: the sentences.
        labels: int64 (M,), places in ``names``.
        names: the classes.
    """

    text: Corpus
    labels: np.ndarray
    names: tuple[str, ...]

    def take(self, sentences: np.ndarray) -> Labelled:
        """These sentences (indices), in this order."""
        return Labelled(self.text.take(sentences), self.labels[sentences], self.names)


def read_labelled(path: str, sentences: int = 0, minimum: int = 1, longest: int = 0, seed: int = 0) -> Labelled:
    """Sentences with a label, in an order that the seed decides.

    Lower-cased; a token is a run of letters and digits, or any other character that is not white space.

    Args:
        path: a file of lines LABEL TAB TEXT. Empty for the sample, which has no labels of its own: German
            sentences, labelled by whether the English one has a preposition of place (in, on or at).
        sentences: how many to take; 0 for all.
        minimum: a word seen fewer times is ``<unk>``.
        longest: sentences with more tokens are cut there; 0 for no limit.
        seed: of the order.

    Raises:
        InputError: unreadable file, or a line without a tab.
        AlignkitError: fewer than two classes, or fewer than 20 sentences with tokens.
    """
    pairs = _sample_pairs() if not path else _tab_pairs(path)
    tokens = [(label, _TOKEN.findall(text.lower())[: longest or None]) for label, text in pairs]
    tokens = [(label, words) for label, words in tokens if words]
    order = np.random.default_rng([seed, 11]).permutation(len(tokens))[: sentences or None]
    chosen = [tokens[m] for m in order]
    names = sorted({label for label, _ in chosen})
    if len(names) < 2 or len(chosen) < 20:
        place = path or "the sample"
        raise AlignkitError(
            f"{place}: at least 20 sentences and two labels are needed, not {len(chosen)} with {names}"
        )
    labels = np.array([names.index(label) for label, _ in chosen], np.int64)
    return Labelled(frequent([words for _, words in chosen], minimum=minimum), labels, tuple(names))


def _sample_pairs() -> list[tuple[str, str]]:
    german, english = bitext_lines("", "")
    return [("place" if PLACES & set(e.split()) else "none", d) for d, e in zip(german, english, strict=True)]


def _tab_pairs(path: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        label, tab, text = line.partition("\t")
        if not tab:
            raise InputError(path, "no tab between label and text", line=number)
        pairs.append((label, text))
    return pairs
