"""Scores out of a trained network: attention (alpha) and the lexical probe (beta) of section 2.2."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from alignkit.bitext import Bitext
from alignkit.neural.batching import Batch, Batcher, scoring_batches, to_device
from alignkit.neural.devices import precision
from alignkit.neural.seq2seq import EncoderDecoder, Encoding
from alignkit.scores import Scores, flat_offsets

#: bytes of logits at a time: smaller products use a CPU less well, larger sums leave its cache
CPU_LOGITS = 16 << 20
GPU_LOGITS = 512 << 20


def attention_scores(network: EncoderDecoder, bitext: Bitext) -> Scores:
    """alpha[t, l], the attention weights while y_t is predicted under teacher forcing; rows sum to 1."""
    return _score(network, bitext, "alpha")


def lexical_scores(network: EncoderDecoder, bitext: Bitext) -> Scores:
    """beta[t, l] = N([h_l, s_t])[y_t]: the probability of the right word if the network sees only h_l.

    The context of the output layer is replaced by h_l alone, through the same projection (section 2.2). Per
    (t, l) this costs a product of H x V; the halves of the hidden layer that depend on t or l alone are made
    once per token.
    """
    return _score(network, bitext, "beta")


@torch.inference_mode()
def _score(network: EncoderDecoder, bitext: Bitext, kind: str) -> Scores:
    device = next(network.parameters()).device
    gpu = device.type == "cuda"
    shapes = bitext.shapes
    offsets = flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device)
    was_training = network.training
    network.eval()
    parts = []
    sizes = (1024, 1 << 20) if gpu else (64, 1 << 14)
    with precision(device, tf32=False):
        for pairs in scoring_batches(bitext, *sizes, equal=not gpu):
            batch = batcher(pairs)
            encoding = network.encode(batch.source, batch.source_lengths)
            s, _ = network.states(batch.previous, encoding.start)
            rows = ragged(batch, device)
            if kind == "alpha":
                parts.append((pairs, _alpha(network, s, encoding, rows)))
            else:
                parts.append((pairs, _beta(network, s, encoding, batch, rows)))
    network.train(was_training)
    elements = np.diff(offsets)
    for pairs, flat in parts:  # only now does the host wait for the device
        values[_runs(offsets[pairs], elements[pairs])] = flat.cpu().numpy()
    return Scores(values, offsets, shapes)


def _runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """int64: the places of runs of the given starts and sizes, one run after another."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)


def ragged(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each of the sum of T*L matrix elements of a batch, pair by pair and row by row, its token places.

    Returns:
        int64 places of t in a flattened (B, T) array and of l in a flattened (B, L) one.
    """
    tall, wide = batch.target_lengths, batch.source_lengths
    sizes = tall * wide
    inside = _runs(np.zeros_like(sizes), sizes)  # place of the element in its own matrix
    width = np.repeat(wide, sizes)
    pair = np.repeat(np.arange(len(sizes)), sizes)
    row = pair * batch.target.shape[0] + inside // width
    column = pair * batch.source.shape[0] + inside % width
    return to_device(row, device), to_device(column, device)


def _alpha(network: EncoderDecoder, s: Tensor, encoding: Encoding, rows: tuple[Tensor, Tensor]) -> Tensor:
    _, weights = network.attention(s, encoding.h, encoding.mask)
    length = weights.shape[2]
    flat = weights.reshape(-1, length)
    return cast(Tensor, flat[rows[0], rows[1] % length])


def _beta(
    network: EncoderDecoder, s: Tensor, encoding: Encoding, batch: Batch, rows: tuple[Tensor, Tensor]
) -> Tensor:
    part_s, part_h = network.halves(s, network.context(encoding.h))
    part_s, part_h = part_s.flatten(0, 1), part_h.flatten(0, 1)
    y = batch.target.t().reshape(-1)[rows[0]]
    # Contiguous in the order of the product: oneDNN would rearrange it for every chunk.
    weight, bias = network.output.weight.t().contiguous(), network.output.bias
    step = max(16, (GPU_LOGITS if s.is_cuda else CPU_LOGITS) // (4 * len(bias)))
    buffer = s.new_empty(min(step, len(y)), len(bias))

    def products(t: Tensor, at: Tensor) -> Tensor:
        """W x (R, V) of some elements, without the bias; each call overwrites the last."""
        x = network.activate(part_s[t] + part_h[at])
        return torch.mm(x, weight, out=buffer[: len(t)])

    # sum over v of exp(product + bias) = exp(product) · exp(bias): no pass for the bias, and none for the
    # maximum. float32 holds such sums for logits up to about 80, with one relative precision at any scale.
    factor = bias.exp()
    chosen, totals = s.new_empty(len(y)), s.new_empty(len(y))
    for low in range(0, len(y), step):
        part = slice(low, low + step)
        chunk = products(rows[0][part], rows[1][part])
        chosen[part] = chunk.gather(1, y[part].unsqueeze(1)).squeeze(1)
        totals[part] = chunk.exp_().mv(factor)
    logs = chosen + bias[y] - totals.log()
    # Where that was not enough, once more with the maximum. One question per batch stops a GPU's queue little.
    again = ((totals < 1e-30) | ~(totals < 1e37)).nonzero().squeeze(1)
    for some in again.split(step):
        logits = products(rows[0][some], rows[1][some]).add_(bias)
        logs[some] = logits.gather(1, y[some].unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, 1)
    return logs.exp_()
