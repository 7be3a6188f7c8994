"""Guided training: a loss that pulls attention towards given links (Chen et al. 2016; Garg et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.neural.batching import Batch, to_device
from alignkit.scores import Scores, token_words
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import EOS, Tokenizer, split_words

LEAST = 0.01  #: the smallest probability that :func:`score_guide` keeps
SMALLEST = 1e-9  #: added to a weight before its logarithm is taken


@dataclass(frozen=True, eq=False)
class Guide:
    """For every sentence pair, the distribution that each linked target token's attention is to have.

    Attributes:
        offsets: int64 (M + 1,), the first element of each pair.
        rows, columns: int64 (K,), target and source token.
        weights: float32 (K,); for links, 1 / the number of source tokens that the target token is linked to.
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

    def mass(self, pairs: np.ndarray) -> float:
        """The sum of the distributions of some pairs; for links, the number of linked target tokens."""
        ranges = zip(self.offsets[pairs].tolist(), self.offsets[pairs + 1].tolist(), strict=True)
        return float(sum(self.weights[low:high].sum(dtype=np.float64) for low, high in ranges))


def text_guide(wanted: Links | Scores, text: LinePairs, bitext: Bitext, tokenizer: Tokenizer) -> Guide:
    """The guide of links (:func:`word_guide`) or of probabilities of links (:func:`score_guide`)."""
    if isinstance(wanted, Links):
        return word_guide(wanted, text, bitext, tokenizer)
    return score_guide(wanted, text, bitext, tokenizer)


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


def score_guide(scores: Scores, text: LinePairs, bitext: Bitext, tokenizer: Tokenizer) -> Guide:
    """The guide that probabilities of links between whitespace words give, such as an aligner's posteriors.

    A word's probability is divided among its tokens. What a row lacks to 1, the probability of no link, goes to
    the source's end token, if it has one; a row that exceeds 1 is scaled down to it. Elements below 0.01 are left
    out.

    Args:
        scores: (T, L) probabilities of M pairs, kind ``alpha``.
        text, bitext, tokenizer: as of :func:`word_guide`.

    Raises:
        AlignkitError: the numbers of pairs or of words differ.
    """
    if len(scores) != len(bitext):
        raise AlignkitError(
            f"the guide has scores of {len(scores)} sentence pairs, the training text has {len(bitext)}"
        )
    rows, columns, weights, sizes = [], [], [], [0]
    for m, matrix in enumerate(scores):
        source, target = bitext.source[m], bitext.target[m]
        of_source = token_words(tokenizer, text.source[m], np.asarray(source))
        of_target = token_words(tokenizer, text.target[m], np.asarray(target))
        words = len(split_words(text.target[m])), len(split_words(text.source[m]))
        if matrix.shape != words:
            raise AlignkitError(
                f"the guide's scores of sentence pair {m + 1} are for {matrix.shape[1]} source and "
                f"{matrix.shape[0]} target words, the pair has {words[1]} and {words[0]}"
            )
        found = _token_distributions(
            matrix, of_source, of_target, int(source[-1]) == EOS if len(source) else False
        )
        t, s = np.nonzero(found >= LEAST)
        rows.append(t)
        columns.append(s)
        weights.append(found[t, s])
        sizes.append(sizes[-1] + len(t))
    parts = [np.concatenate(part) if part else np.zeros(0) for part in (rows, columns, weights)]
    kinds = (np.int64, np.int64, np.float32)
    arrays = (part.astype(kind) for part, kind in zip(parts, kinds, strict=True))
    return Guide(np.array(sizes, np.int64), *arrays)


def _token_distributions(
    matrix: np.ndarray, of_source: np.ndarray, of_target: np.ndarray, has_end: bool
) -> np.ndarray:
    """(target tokens, source tokens): the words' matrix, each column divided among the tokens of its word."""
    found = np.zeros((len(of_target), len(of_source)), np.float32)
    rows, columns = np.flatnonzero(of_target >= 0), np.flatnonzero(of_source >= 0)
    if not len(rows):
        return found
    by_word = matrix / np.maximum(matrix.sum(1, keepdims=True), 1.0)
    if len(columns):
        counts = np.bincount(of_source[columns], minlength=matrix.shape[1])
        found[np.ix_(rows, columns)] = by_word[of_target[rows]][:, of_source[columns]] / counts[of_source[columns]]
    if has_end:
        found[rows, -1] = 1 - found[rows].sum(1)
    return found


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
