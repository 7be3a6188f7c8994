"""Counts of phrase pairs, of which only a part is in memory at a time; the others are in files."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.support.stages import Stage
from alignkit.support.threads import blocks_of_size
from alignkit.uses.phrases.extraction import PHRASE_PAIR, PhraseSide, PhraseText, extract_phrases
from alignkit.uses.phrases.settings import LONGEST

log = logging.getLogger(__name__)

PART = 1 << 20  #: phrase pairs that are counted at a time, about
BLOCK = 1 << 16  # target words whose phrases are extracted at a time
_SAMPLE = 1 << 20  # words by which the parts are made equally large
# The links of a target word in the order of Moses, which compares them as sorted lists.
_ORDER = np.empty(1 << LONGEST, np.uint8)
_ORDER[sorted(range(1 << LONGEST), key=lambda row: [i for i in range(LONGEST) if row >> i & 1])] = np.arange(256)


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
    best = runs[np.lexsort((runs, sizes, pairs[runs]))]
    starts = np.flatnonzero(is_new)
    merged = found[best[np.append(np.flatnonzero(np.diff(pairs[best])), len(best) - 1)]]
    merged["count"] = np.diff(np.append(starts, len(pairs)))
    merged["probability"] = np.add.reduceat(found["probability"].astype(np.float64), starts) / merged["count"]
    merged["target_count"] = np.bincount(targets)[targets[starts]]
    return merged
