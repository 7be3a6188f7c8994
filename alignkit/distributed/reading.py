"""Reads a text that ranks share: each a part, with one vocabulary, in parts of even work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from alignkit.distributed.arrays import ArrayGroup
from alignkit.distributed.exchange import shared_bounds
from alignkit.distributed.shards import LineRange, assigned, shard_paths
from alignkit.errors import InputError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.on_disk import GrowingVocabulary
from alignkit.text.pair_formats import BARS, TAB
from alignkit.text.reading import check_counts, encode_text, open_input
from alignkit.text.utf8 import BOM, valid_text
from alignkit.text.vocabulary import Vocabulary

Work = Callable[[np.ndarray, np.ndarray], np.ndarray]


def read_shared(
    group: ArrayGroup,
    source: str,
    target: str | None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    work: Work | None = None,
    parts: int | None = None,
) -> Bitext:
    """This rank's part of a text, with the vocabularies of all of it: ids in order of first appearance.

    Args:
        group: the ranks, all of which call this.
        source, target: as of :func:`.shard_paths`; without a target, lines ``source ||| target`` or source TAB
            target.
        encoding_errors, lowercase: as of :func:`alignkit.text.reading.read_bitext`.
        work: of pairs with these numbers of source and target tokens int64 (M,); their product by default.
        parts: the number of blocks of even work that ranks take whole ones of; None: one for each.

    Raises:
        AlignkitError: the text cannot be read or is not valid; the same at all ranks.
    """
    given = (source,) if target is None else (source, target)
    sides = group.agreed(lambda: shard_paths(given))
    group.agreed(lambda: _check([path for paths in sides for path in paths]))
    ranges = assigned(group, sides)
    texts = group.agreed(lambda: [_read(each, encoding_errors, lowercase) for each in ranges])
    if target is None:
        texts = _split(group, ranges[0], texts[0])
    else:
        group.agreed(lambda: _check_lines(ranges, texts))
    corpora = [_encode(group, b"".join(side)) for side in texts]
    return rebalanced(group, Bitext(*corpora), work or np.multiply, parts or group.world_size)


def _check(paths: Sequence[str]) -> None:
    """Raises InputError if a file cannot be opened or is empty."""
    for path in paths:
        with open_input(path) as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                raise InputError(path, "is empty")


def _read(ranges: Sequence[LineRange], encoding_errors: str, lowercase: bool) -> list[bytes]:
    """Valid text of each range of lines."""
    texts = []
    for each in ranges:
        data = each.read()
        if each.first_line == 1:
            data = data.removeprefix(BOM)
        texts.append(valid_text(each.path, data, encoding_errors, lowercase, each.first_line))
    return texts


def _check_lines(ranges: Sequence[Sequence[LineRange]], texts: Sequence[Sequence[bytes]]) -> None:
    """Raises AlignkitError if two files do not have equally many lines; plain ones have been compared before."""
    for first, second, x, y in zip(*ranges, *texts, strict=True):
        check_counts(first.path, second.path, (x.count(b"\n"), y.count(b"\n")))


def _split(group: ArrayGroup, ranges: Sequence[LineRange], texts: Sequence[bytes]) -> list[list[bytes]]:
    """Both sides of lines with a separator: ``|||`` if any rank has one, else tabs."""
    has_bars = group.all_reduce(np.array([any(BARS.recognizes(text) for text in texts)])).any()
    known = BARS if has_bars else TAB
    both = group.agreed(
        lambda: [known.split(each.path, text, each.first_line) for each, text in zip(ranges, texts, strict=True)]
    )
    return [[sides[side] for sides in both] for side in (0, 1)]


def _encode(group: ArrayGroup, text: bytes) -> Corpus:
    """The corpus of this rank's lines, with the vocabulary of all ranks."""
    own = encode_text(text)
    known, ids = GrowingVocabulary(), np.empty(0, np.int32)
    sizes = [group.sizes(size) for size in (len(own.vocabulary.text), len(own.vocabulary))]
    for rank, (letters, words) in enumerate(zip(*sizes, strict=True)):
        given = own.vocabulary.text.copy(), own.vocabulary.offsets.copy()
        if rank != group.rank:
            given = np.empty(letters, np.uint8), np.empty(words + 1, np.int64)
        for array in given:
            group.broadcast(array, rank, "vocabulary")
        numbers = known.ids(Vocabulary(*given))
        if rank == group.rank:
            ids = numbers
    return Corpus(ids[own.tokens], own.offsets, known.finish())


def rebalanced(group: ArrayGroup, bitext: Bitext, work: Work, parts: int) -> Bitext:
    """The same text in the same order, cut into parts of even work.

    Args:
        group: the ranks.
        bitext: this one's part; its vocabularies are those of all.
        work: of pairs with these numbers of source and target tokens.
        parts: blocks of :func:`alignkit.parallel.blocks`; each rank gets a run of whole ones.
    """
    bounds = shared_bounds(group, work(bitext.source.lengths, bitext.target.lengths), parts)
    chosen = bounds[parts * np.arange(group.world_size + 1) // group.world_size]
    first = int(group.sizes(len(bitext))[: group.rank].sum())
    cuts = np.clip(chosen - first, 0, len(bitext))
    source, target = (_moved(group, side, cuts) for side in (bitext.source, bitext.target))
    return Bitext(source, target)


def _moved(group: ArrayGroup, corpus: Corpus, cuts: np.ndarray) -> Corpus:
    """The sentences that this rank gets, when each gives cuts[p] <= m < cuts[p + 1] to rank p."""
    offsets = corpus.offsets[cuts]
    lengths = corpus.lengths
    given = np.stack([np.diff(cuts), np.diff(offsets)], axis=1)  # (P, 2): sentences and tokens for each rank
    taken = np.stack(group.all_gather(given[None]))[:, 0, group.rank]
    parts = [lengths[a:b] for a, b in pairwise(cuts.tolist())]
    new = np.empty(int(taken[:, 0].sum()), np.int64)
    group.all_to_all(parts, taken[:, 0].tolist(), new, "text")
    tokens = np.empty(int(taken[:, 1].sum()), np.int32)
    parts = [corpus.tokens[a:b] for a, b in pairwise(offsets.tolist())]
    group.all_to_all(parts, taken[:, 1].tolist(), tokens, "text")
    return Corpus(tokens, np.concatenate([[0], np.cumsum(new)]).astype(np.int64), corpus.vocabulary)
