"""Guided training: a loss that pulls attention towards given links (Chen et al. 2016; Garg et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.neural.devices import Batch, to_device
from alignkit.scores import token_words
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import Tokenizer, split_words

SMALLEST = 1e-9  #: added to a weight before its logarithm is taken


@dataclass(frozen=True, eq=False)
class Guide:
    """For every sentence pair, the distribution that each linked target token's attention is to have.

    Attributes:
        offsets: int64 (M + 1,), the first element of each pair.
        rows, columns: int64 (K,), target and source token.
        weights: float32 (K,), 1 / the number of source tokens that the target token is linked to.
    """

    offsets: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray

    def matrices(self, batch: Batch) -> Tensor:
        """(B, T, L): the distributions for a batch; rows of tokens without links, and of padding, are zeros."""
        length, size = batch.source.shape
        found = np.zeros((size, len(batch.target), length), np.float32)
        for place, m in enumerate(batch.pairs.tolist()):
            part = slice(self.offsets[m], self.offsets[m + 1])
            found[place, self.rows[part], self.columns[part]] = self.weights[part]
        return to_device(found, batch.source.device)


def word_guide(links: Links, text: LinePairs, bitext: Bitext, tokenizer: Tokenizer) -> Guide:
    """The guide that links between whitespace words give: a token is linked to all tokens of the linked words.

    Args:
        links: of M pairs of lines.
        text: the lines.
        bitext: the lines as the tokenizer encoded them.
        tokenizer: the network's.

    Raises:
        AlignkitError: the numbers of pairs differ, or a link is outside of its pair.
    """
    if len(links) != len(bitext):
        raise AlignkitError(
            f"the guide has links of {len(links)} sentence pairs, the training text has {len(bitext)}"
        )
    rows, columns, weights, sizes = [], [], [], [0]
    for m, pairs in enumerate(links):
        of_source = _tokens_by_word(tokenizer, text.source[m], bitext.source[m])
        of_target = _tokens_by_word(tokenizer, text.target[m], bitext.target[m])
        linked: dict[int, list[int]] = {}
        for s, t in pairs.tolist():
            if s >= len(of_source) or t >= len(of_target):
                shape = f"{len(of_source)} source and {len(of_target)} target words"
                raise AlignkitError(f"the guide links {s}-{t} in sentence pair {m + 1}, which has {shape}")
            for token in of_target[t]:
                linked.setdefault(token, []).extend(of_source[s])
        for token, found in linked.items():
            rows += [token] * len(found)
            columns += found
            weights += [1 / len(found)] * len(found)
        sizes.append(len(rows))
    arrays = np.array(rows, np.int64), np.array(columns, np.int64), np.array(weights, np.float32)
    return Guide(np.array(sizes, np.int64), *arrays)


def _tokens_by_word(tokenizer: Tokenizer, line: str, ids: Sequence[int] | np.ndarray) -> list[list[int]]:
    """The tokens of every whitespace word of an encoded line."""
    words = token_words(tokenizer, line, np.asarray(ids))
    found: list[list[int]] = [[] for _ in split_words(line)]
    for token, word in enumerate(words.tolist()):
        if word >= 0:
            found[word].append(token)
    return found


def guide_loss(weights: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy between given distributions and attention, the mean over the rows by their sums, nats.

    Weights that are exactly 0, as sparse normalizers give them, have no gradient.

    Args:
        weights: (B, T, L), the attention.
        wanted: (B, T, L), of :meth:`Guide.matrices`.
    """
    losses = -(wanted * torch.log(weights + SMALLEST)).sum(2)
    return losses.sum() / wanted.sum().clamp_min(SMALLEST)
