"""What the sentence pairs of the text that a joint aligner was fitted on have contributed to its counts.

In the fit a link is judged by the evidence of other places (kernels.hmm_emissions.emissions). A fitted aligner
that links the same text again would find a pair's own links among its counts, and rare words would confirm
whatever they were linked to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.evidence import share_of_repetition
from alignkit.classical.hmm.known_model import FittedCounts
from alignkit.classical.hmm.parameters import FittedHMM
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.lexical_model import Lookup
from alignkit.kernels.hmm_rows import TINY
from alignkit.parallel import blocks_of_size
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext

#: A sentence pair with this number of elements (t, l) or more is taken to be one of the text if all its word pairs
#: met there: in a pair of another text some did not, unless it is short.
LEAST_ELEMENTS = 20
BLOCK_ELEMENTS = 1 << 19  # that are changed at a time

Ids = tuple[np.ndarray, np.ndarray]


class OwnPart:
    """The part of a model's counts that is a sentence pair's own.

    Args:
        model: of both directions, between words; a model without pseudo-counts keeps its counts whole.
        counts: those that it was fitted with.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts) -> None:
        self.model, self.counts = model, counts
        links = float(counts.pairs.sum(dtype=np.float64))
        tokens = (links + float(counts.null[1]), links + float(counts.null[0]))
        ratios = [types / max(number, 1.0) for types, number in zip(model.table.shape, tokens, strict=True)]
        self.share = share_of_repetition(max(ratios)) if model.forward.emission_floor.any() else 0.0

    def take_out(
        self,
        bitext: Bitext,
        ids: tuple[np.ndarray, np.ndarray],
        is_new: np.ndarray,
        evidence: np.ndarray,
        threads: int,
    ) -> None:
        """Changes p(y|x) in sentence pairs that are taken to be of the model's text: at most one link of each
        word pair is its own.

        Args:
            bitext, ids, is_new, evidence: as of :meth:`alignkit.classical.hmm.new_pairs.NewPairs.add`.
            threads: how many to use; no result depends on it.
        """
        offsets = flat_offsets(bitext.shapes)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_new)])
        is_own = (before[offsets[1:]] == before[offsets[:-1]]) & (np.diff(offsets) >= LEAST_ELEMENTS)
        if not is_own.any() or self.share <= 0:
            return
        chosen = np.flatnonzero(is_own)
        part = bitext.take(chosen)
        starts = flat_offsets(part.shapes)
        for low, high in blocks_of_size(starts, BLOCK_ELEMENTS):
            inner = starts[low : high + 1] - starts[low]
            places = np.repeat(offsets[chosen[low:high]] - inner[:-1], np.diff(inner)) + np.arange(inner[-1])
            self._take_out(part.block(low, high), inner, ids, places, evidence, threads)

    def _take_out(
        self,
        part: Bitext,
        starts: np.ndarray,
        ids: Ids,
        places: np.ndarray,
        evidence: np.ndarray,
        threads: int,
    ) -> None:
        """:meth:`take_out` of pairs of the model's text, whose elements are at ``places``."""
        values = Lookup(replace(self.model.table, values=self.counts.pairs), part, *ids, threads).scores().values
        own = self.share * np.minimum(values, 1).astype(np.float64)
        m = np.repeat(np.arange(len(part)), np.diff(starts))
        row, column = np.divmod(np.arange(len(own)) - starts[m], part.source.lengths[m])
        tokens = (
            part.source.tokens[part.source.offsets[m] + column],
            part.target.tokens[part.target.offsets[m] + row],
        )
        for side, direction in enumerate(self.model.directions):
            # The floor is the pseudo-count of every pair, divided by the word's count.
            floor = direction.emission_floor[ids[side][tokens[side]]].astype(np.float64)
            totals = JOINT_SETTINGS.lexical_prior / np.maximum(floor, TINY)
            found = evidence[places, 1 + side] * totals - own
            evidence[places, 1 + side] = np.maximum(found, TINY) / np.maximum(totals - own, TINY)
