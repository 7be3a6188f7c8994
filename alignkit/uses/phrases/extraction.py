"""Phrase pairs that are consistent with links (Koehn, Och and Marcu 2003).

A source and a target phrase are a pair if they have a link, and no word of either is linked outside of the other.
So the words at their ends may be without links. They are counted with only a part of them in memory at a time; the
others are in files.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.classical.lexicon import LinkedWords, linked_around
from alignkit.errors import AlignkitError
from alignkit.links.gold import read_links_of
from alignkit.pipeline.align import align
from alignkit.pipeline.settings import AlignSettings, ReadSettings
from alignkit.support.arrays import in_runs, offsets_of
from alignkit.support.stages import Stage
from alignkit.support.threads import blocks_of_size
from alignkit.text.bitext import Corpus
from alignkit.text.pairs import read_text
from alignkit.types import PathLike
from alignkit.uses.phrases import LONGEST, PHRASE_LENGTH

log = logging.getLogger(__name__)

#: What ends the phrases of a phrase table, and so cannot be in one.
END = b"|||"

#: Phrase pairs: the places of their first words in the text and the numbers of their words; their links, of which
#: (i, j) is bit 8 j + i; their mean probability; how often there is the pair, and each phrase with any other.
PHRASE_PAIR = np.dtype(
    [
        *(("source", np.int64), ("target", np.int64), ("source_size", np.uint8), ("target_size", np.uint8)),
        *(("links", np.uint64), ("probability", np.float32), ("count", np.int64)),
        *(("source_count", np.int64), ("target_count", np.int64)),
    ]
)
_FAR = np.int64(1) << 62
PART = 1 << 20  #: phrase pairs that are counted at a time, about
BLOCK = 1 << 16  # target words whose phrases are extracted at a time
_SAMPLE = 1 << 20  # words by which the parts are made equally large
# The links of a target word in the order of Moses, which compares them as sorted lists.
_ORDER = np.empty(1 << LONGEST, np.uint8)
_ORDER[sorted(range(1 << LONGEST), key=lambda row: [i for i in range(LONGEST) if row >> i & 1])] = np.arange(256)


@dataclass(frozen=True, eq=False)
class PhraseSide:
    """One side of a text, whose words are numbered in the order of their bytes.

    Attributes:
        name: ``source`` or ``target``.
        corpus: the side.
        tokens: int32 (N,), the number of each word.
        end: the number of :data:`END` in the same order: ``a b`` stands before ``a |||``, that before ``a ~``.
        unwritable: int64 (N + 1,), how many words before each place cannot stand between the spaces and bars of a
            phrase table: they have such a bar, or a control character, which other programs may take for a space.
    """

    name: str
    corpus: Corpus
    tokens: np.ndarray
    end: int
    unwritable: np.ndarray

    @classmethod
    def of(cls, name: str, corpus: Corpus) -> PhraseSide:
        words = [*(word.encode() for word in corpus.vocabulary), END]
        ranks = np.empty(len(words), np.int32)
        ranks[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
        bad = [not word or END in word or min(word) <= ord(" ") for word in words[:-1]]
        unwritable = offsets_of(np.array(bad, bool)[corpus.tokens])
        return cls(name, corpus, ranks[corpus.tokens], int(ranks[-1]), unwritable)

    def spans(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the phrases of this side start, and the numbers of their words."""
        return pairs[self.name], pairs[f"{self.name}_size"]

    def column(self, starts: np.ndarray, sizes: np.ndarray, n: int) -> np.ndarray:
        """int64: the number of word n of phrases, that of the end behind their last words."""
        last = len(self.tokens) - 1
        return np.where(n < sizes, self.tokens[np.minimum(starts + n, last)].astype(np.int64), self.end)

    def ranks(self, pairs: np.ndarray) -> np.ndarray:
        """int64: the place of each phrase among the different ones of these, in the order of their bytes."""
        starts, sizes = self.spans(pairs)
        found, span, width = np.zeros(len(pairs), np.int64), 1, len(self.corpus.vocabulary) + 1
        for n in range(int(sizes.max(initial=0))):
            if span * width > _FAR:
                different, found = np.unique(found, return_inverse=True)
                span = len(different)
            found = found * width + self.column(starts, sizes, n)
            span *= width
        return np.unique(found, return_inverse=True)[1]

    def phrases(self, pairs: np.ndarray) -> list[str]:
        """The words of each phrase, with spaces between them."""
        words = self.corpus.vocabulary.tokens
        spans = zip(*(each.tolist() for each in self.spans(pairs)), strict=True)
        return [" ".join([words[i] for i in self.corpus.tokens[start : start + size]]) for start, size in spans]


@dataclass(frozen=True, eq=False)
class PhraseText:
    """A text with the links that its phrases are to be consistent with.

    Attributes:
        words: M pairs and their links.
        probabilities: float64 (K,), of the links, or None.
        longest: the most words of a phrase, at most :data:`LONGEST`.
    """

    words: LinkedWords
    probabilities: np.ndarray | None = None
    longest: int = PHRASE_LENGTH

    @cached_property
    def sides(self) -> tuple[PhraseSide, PhraseSide]:
        """Source and target."""
        bitext = self.words.bitext
        return PhraseSide.of("source", bitext.source), PhraseSide.of("target", bitext.target)

    @classmethod
    def read(
        cls,
        source: PathLike,
        target: PathLike | None = None,
        links: PathLike | None = None,
        longest: int = PHRASE_LENGTH,
        reading: ReadSettings | None = None,
        fitting: Mapping[str, Any] | None = None,
    ) -> PhraseText:
        """Read a text and its links, or link it.

        Args:
            source, target: the files of the text.
            links: of its links; None: they are those of :func:`alignkit.align`.
            longest: the most words of a phrase.
            reading: how to read the text.
            fitting: further arguments of :func:`alignkit.align`.

        Raises:
            AlignkitError: a file cannot be read, or is not of the same text as the others.
        """
        reading = reading or ReadSettings()
        if links is None:
            aligned = align(source, target, settings=AlignSettings(reading), **(fitting or {}))
            return cls(LinkedWords(aligned.bitext, aligned.links), aligned.probabilities, longest)
        bitext = read_text(source, target, **vars(reading))
        found, probabilities = read_links_of(links, bitext.shapes)
        return cls(LinkedWords(bitext, found), probabilities, longest)


def extract_phrases(text: PhraseText, low: int, high: int) -> np.ndarray:
    """The phrase pairs of the sentence pairs low <= m < high, ``PHRASE_PAIR`` (n,), each with a count of 1.

    Left out are phrases with words that are ``unwritable`` (:class:`PhraseSide`).
    """
    bitext, links = text.words.bitext.block(low, high), text.words.links.block(low, high)
    x, y = bitext.source, bitext.target
    m, (s, t) = links.sentences, links.pairs.T
    s, t = x.offsets[m] + s, y.offsets[m] + t
    ends = np.repeat(y.offsets[1:], y.lengths)
    first, last = np.full(len(y.tokens), _FAR), np.full(len(y.tokens), -1)  # source words of each target word
    np.minimum.at(first, t, s)
    np.maximum.at(last, t, s)
    degrees = np.bincount(s, minlength=len(x.tokens)), np.bincount(t, minlength=len(y.tokens))
    links_s, links_t = map(offsets_of, degrees)
    # A source phrase reaches over words without links: from after the linked word before, to that behind.
    before, behind = linked_around(degrees[0] > 0, x)

    parts = []
    start, lo, hi = np.arange(len(ends)), first, last
    for size in range(1, text.longest + 1):
        kept = start + size <= ends[start]
        start = start[kept]
        lo = np.minimum(lo[kept], first[start + size - 1])
        hi = np.maximum(hi[kept], last[start + size - 1])
        chosen = np.flatnonzero(hi >= 0)
        p, a, b = start[chosen], lo[chosen], hi[chosen]
        # All links of the target words are of the source words a to b; these have no more.
        inside = links_s[b + 1] - links_s[a] == links_t[p + size] - links_t[p]
        p, a, b = p[inside], a[inside], b[inside]
        for width in range(1, text.longest + 1):
            leftmost = np.maximum(before[a] + 1, b + 1 - width)
            ways = np.maximum(np.minimum(a, behind[b] - width) - leftmost + 1, 0)
            part = np.zeros(ways.sum(), PHRASE_PAIR)
            part["source"], part["source_size"] = in_runs(leftmost, ways), width
            part["target"], part["target_size"], part["count"] = np.repeat(p, ways), size, 1
            parts.append(part)
    found = np.concatenate(parts)
    # The links of each target word as bits, counted from its first; a word that has others is in no phrase.
    bits = np.minimum(np.bincount(t, 2.0 ** np.minimum(s - first[t], LONGEST), len(ends)), 255).astype(np.uint64)
    link_bits = np.zeros(len(found), np.uint64)
    for j in range(LONGEST):
        own = np.flatnonzero(found["target_size"] > j)
        own = own[bits[found["target"][own] + j] > 0]
        place = found["target"][own] + j
        link_bits[own] |= bits[place] << (first[place] - found["source"][own] + 8 * j).astype(np.uint64)
    found["links"] = link_bits
    if text.probabilities is not None:
        span = slice(*text.words.links.offsets[[low, high]])
        known = ~np.isnan(text.probabilities[span])
        weights = np.array([known, np.where(known, text.probabilities[span], 0.0)])
        number, total = (np.append(0, np.cumsum(np.bincount(t, each, len(ends)))) for each in weights)
        p, q = found["target"], found["target"] + found["target_size"]
        with np.errstate(invalid="ignore"):  # NaN without any
            found["probability"] = (total[q] - total[p]) / (number[q] - number[p])
    for side in text.sides:
        found[side.name] += side.corpus.offsets[low]
        starts, sizes = side.spans(found)
        found = found[side.unwritable[starts] == side.unwritable[starts + sizes]]
    return found


def count_phrases(text: PhraseText, part: int = PART) -> Iterator[np.ndarray]:
    """The different phrase pairs of a text with their counts, ``PHRASE_PAIR`` (n,), in parts.

    They are in the order of the bytes of ``source ||| target``, each at one of its places in the text, with the
    links that it has most often. They are sorted twice into files of a temporary folder: by target phrase to count
    the pairs and the targets, then by source phrase. A file has the phrases between two pairs of first words, so
    that the memory depends on ``part`` and on the text, not on the number of phrase pairs.

    Args:
        text: with its links.
        part: the number of phrase pairs in memory at a time, about. The result does not depend on it.

    Raises:
        AlignkitError: the temporary folder is full.
    """
    if not len(text.words.links.pairs):
        return
    source, target = text.sides
    unwritable = int(source.unwritable[-1] + target.unwritable[-1])
    if unwritable:
        log.warning("left out phrases of words that have ||| or a control character; words: %d", unwritable)
    offsets = target.corpus.offsets
    with tempfile.TemporaryDirectory(prefix="alignkit-") as folder, Stage("phrases") as stage:
        parts = 1 + int(offsets[-1]) * text.longest // part
        by_source, by_target = (Parts(folder, side, parts) for side in text.sides)
        for low, high in blocks_of_size(offsets, BLOCK):
            by_target.add(extract_phrases(text, low, high))
            stage(high, len(offsets) - 1, "extracting")
        for k, found in enumerate(by_target):
            by_source.add(_merged(text, found))
            stage(k + 1, parts, "counting")
        for found in by_source:
            ranks = source.ranks(found)
            found["source_count"] = np.bincount(ranks, found["count"])[ranks]
            yield found[np.lexsort((target.ranks(found), ranks))]


class Parts:
    """Phrase pairs in files, by the first two words of the phrases of one side.

    Args:
        folder: of the files.
        side: whose phrases they are.
        count: of the files.
    """

    def __init__(self, folder: str, side: PhraseSide, count: int) -> None:
        self.side, self.paths = side, [Path(folder, f"{side.name}-{k}") for k in range(count)]
        starts = np.arange(0, len(side.tokens), max(1, len(side.tokens) // _SAMPLE))
        keys = np.sort(self._keys(starts, np.array(2)))
        self.bounds = keys[len(keys) * np.arange(1, count) // count]

    def _keys(self, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        first, second = (self.side.column(starts, sizes, n) for n in range(2))
        return first * (len(self.side.corpus.vocabulary) + 1) + second

    def add(self, found: np.ndarray) -> None:
        """Append phrase pairs to their files; raises AlignkitError if they cannot be written."""
        numbers = np.searchsorted(self.bounds, self._keys(*self.side.spans(found)), "right")
        try:
            for k in np.unique(numbers).tolist():
                with open(self.paths[k], "ab") as stream:
                    stream.write(found[numbers == k].tobytes())
        except OSError as error:
            problem = f"cannot write to {self.paths[0].parent}: {error.strerror}"
            raise AlignkitError(f"{problem}; set TMPDIR to a folder with more room") from error

    def __iter__(self) -> Iterator[np.ndarray]:
        """The phrase pairs of each file that has some, ``PHRASE_PAIR`` (n,), in the order in which they came."""
        for path in filter(Path.exists, self.paths):
            yield np.fromfile(path, PHRASE_PAIR)
            path.unlink()


def _merged(text: PhraseText, found: np.ndarray) -> np.ndarray:
    """The different ones of phrase pairs that have all of their target phrases, with their counts.

    Each has the place where it first has its most frequent links; of equally frequent ones, the last in Moses'
    order.
    """
    sources, targets = (side.ranks(found) for side in text.sides)
    pairs = sources * (int(targets.max(initial=0)) + 1) + targets
    # The row of the first target word decides first.
    links = _ORDER[np.ascontiguousarray(found["links"]).view(np.uint8)].view(np.dtype(">u8")).astype(np.uint64)
    order = np.lexsort((links, pairs))
    pairs, links, found, targets = pairs[order], links[order], found[order], targets[order]
    is_new = np.append(True, pairs[1:] != pairs[:-1])
    runs = np.flatnonzero(is_new | np.append(True, links[1:] != links[:-1]))
    sizes = np.diff(np.append(runs, len(pairs)))
    best = runs[np.lexsort((sizes, pairs[runs]))]
    starts = np.flatnonzero(is_new)
    merged = found[best[np.append(np.flatnonzero(np.diff(pairs[best])), len(best) - 1)]]
    merged["count"] = np.diff(np.append(starts, len(pairs)))
    merged["probability"] = np.add.reduceat(found["probability"].astype(np.float64), starts) / merged["count"]
    merged["target_count"] = np.bincount(targets)[targets[starts]]
    return merged
