"""The co-occurrence table C: how often each source word meets each target word."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import get_args

import numpy as np

from alignkit.classical.lexical_model import PairTable
from alignkit.classical.memory import check_memory
from alignkit.classical.settings import TABLE_ENDINGS, Weighting
from alignkit.classical.word_pairs import IndexedBitext, bags_of
from alignkit.errors import check_known
from alignkit.support.files import atomic_write, check_ending, save_arrays
from alignkit.support.threads import thread_count
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary, vocabulary_arrays
from alignkit.types import PathLike

KIND, VERSION = "alignkit.cooccurrence", 1


def cooccurrence(bitext: Bitext, weighting: Weighting = "source-length", threads: int | None = None) -> PairTable:
    """Count C[i, o] = sum over pairs m and positions l, t of w_m 1[x_l = i] 1[y_t = o].

    With the weight w_m = 1/L_m this is the expected count of IBM Model 1's first EM step from the uniform start,
    and the initial gradient of the bag-of-words proxy up to the row mean (Snell et al. 2021, equations 13, 14).

    Args:
        bitext: M pairs.
        weighting: w_m is 1/L_m ("source-length"), 1/T_m ("target-length") or 1 ("one"); "presence" counts the
            sentence pairs that hold both words, once each.
        threads: all there are by default; the result does not depend on it.

    Returns:
        The (V_src, V_tgt) table of the pairs that occur together.

    Raises:
        AlignkitError: unknown weighting, or the text is too large for the machine's memory.

    >>> text = Bitext.from_sentences([["das", "Haus"], ["das", "Buch"]], [["the", "house"], ["the", "book"]])
    >>> cooccurrence(text).to_dense()
    array([[1. , 0.5, 0.5],
           [0.5, 0.5, 0. ],
           [0.5, 0. , 0.5]], dtype=float32)
    """
    check_known(weighting, get_args(Weighting), "weighting")
    check_memory(bitext)
    threads = thread_count(threads)
    source, target = bags_of(bitext, threads)
    if weighting == "presence":
        source, target = (replace(bags, counts=np.ones_like(bags.counts)) for bags in (source, target))
    lengths = {
        "source-length": bitext.source.lengths,
        "target-length": bitext.target.lengths,
    }.get(weighting, np.ones(len(bitext), np.int64))
    weights = np.repeat((1 / np.maximum(lengths, 1)).astype(np.float32), target.sizes)
    weights *= target.counts
    types = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    return PairTable(*IndexedBitext(source, target, types, threads).weighted_pairs(weights), types[1])


def save_table(path: PathLike, table: PairTable, source: Vocabulary, target: Vocabulary, weighting: str) -> None:
    """Write a co-occurrence table: ``.tsv`` with words (source, target, count), or ``.npz``.

    Raises:
        AlignkitError: the name has another ending, or the file cannot be written.
    """
    check_ending(path, TABLE_ENDINGS)
    if os.fspath(path).endswith(".tsv"):
        with atomic_write(path) as stream:
            for i, word in enumerate(source):
                columns, values = table.row(i)
                lines = [f"{word}\t{target[o]}\t{v:.9g}\n" for o, v in zip(columns, values, strict=True)]
                stream.write("".join(lines).encode("utf-8"))
        return
    arrays = {"offsets": table.offsets, "columns": table.columns, "values": table.values}
    arrays |= vocabulary_arrays("source", source) | vocabulary_arrays("target", target)
    save_arrays(path, KIND, VERSION, arrays, {"weighting": weighting}, compress=True)
