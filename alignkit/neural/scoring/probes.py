"""Scores out of a trained network: attention (alpha) and the lexical probe (beta) of section 2.2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from alignkit.neural.batching import Batch, Batcher, scoring_batches, to_device
from alignkit.neural.devices import precision
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext

#: bytes of logits at a time: smaller products use a CPU less well, larger sums leave its cache
CPU_LOGITS = 16 << 20
GPU_LOGITS = 512 << 20


def attention_scores(network: EncoderDecoder, bitext: Bitext) -> Scores:
    """alpha[t, l], the attention weights while y_t is predicted under teacher forcing; rows sum to 1."""
    return score_batches(network, bitext, _alpha)


def lexical_scores(network: EncoderDecoder, bitext: Bitext) -> Scores:
    """beta[t, l] = N([h_l, s_t])[y_t]: the probability of the right word if the network sees only h_l.

    The context of the output layer is replaced by h_l alone, through the same projection (section 2.2). Per
    (t, l) this costs a product of H x V; the halves of the hidden layer that depend on t or l alone are made
    once per token.
    """
    return score_batches(network, bitext, _beta)


@torch.inference_mode()
def score_batches(
    network: EncoderDecoder,
    bitext: Bitext,
    score: Callable[[EncoderDecoder, Batch], Tensor],
    cpu_sizes: tuple[int, int] = (64, 1 << 14),
    gpu_sizes: tuple[int, int] = (1024, 1 << 20),
    equal: bool = False,
) -> Scores:
    """Scores of a bitext, batch by batch, in evaluation mode.

    Args:
        network: on the device that computes.
        bitext: M pairs of the network's own tokens.
        score: gives the matrix elements of a batch, pair by pair and row by row (see :func:`ragged`).
        cpu_sizes: pairs and matrix elements in a batch on a CPU.
        gpu_sizes: the same on a GPU.
        equal: batches hold pairs of one source length, on a GPU too.
    """
    device = next(network.parameters()).device
    gpu = device.type == "cuda"
    shapes = bitext.shapes
    offsets = flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device)
    was_training = network.training
    network.eval()
    batches = scoring_batches(bitext, *(gpu_sizes if gpu else cpu_sizes), equal=equal or not gpu)
    with precision(device, tf32=False):
        parts = [(pairs, score(network, batcher(pairs))) for pairs in batches]
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


def elements_of(matrices: Tensor, batch: Batch) -> Tensor:
    """The real elements of padded matrices (B, T, L), pair by pair and row by row."""
    row, column = ragged(batch, matrices.device)
    length = matrices.shape[2]
    return matrices.reshape(-1, length)[row, column % length]


def _alpha(network: EncoderDecoder, batch: Batch) -> Tensor:
    encoding = network.encode(batch.source, batch.source_lengths)
    s, _ = network.states(batch.previous, encoding.start)
    return elements_of(network.attention(s, encoding.h, encoding.mask)[1], batch)


def _beta(network: EncoderDecoder, batch: Batch) -> Tensor:
    encoding = network.encode(batch.source, batch.source_lengths)
    s, _ = network.states(batch.previous, encoding.start)
    part_s, part_h = network.halves(s, network.context(encoding.h))
    part_s, part_h = part_s.flatten(0, 1), part_h.flatten(0, 1)
    row, column = ragged(batch, s.device)
    y = batch.target.t().reshape(-1)[row]
    return chosen_logs(network, y, lambda part: network.activate(part_s[row[part]] + part_h[column[part]])).exp_()


def chunk_rows(like: Tensor, vocabulary: int) -> int:
    """How many rows of logits to make at a time on the device of a tensor."""
    return max(16, (GPU_LOGITS if like.is_cuda else CPU_LOGITS) // (4 * vocabulary))


def chosen_logs(network: EncoderDecoder, y: Tensor, features: Callable[[slice | Tensor], Tensor]) -> Tensor:
    """log p (N,) of tokens y (N,), nats.

    Args:
        network: its output layer is used.
        y: int64.
        features: what that layer multiplies, (R, H), of some of the N: those of a slice, or at places int64 (R,).
    """
    # Contiguous in the order of the product: oneDNN would rearrange it for every chunk.
    weight, bias = network.output.weight.t().contiguous(), network.output.bias
    step = chunk_rows(weight, len(bias))
    buffer = weight.new_empty(min(step, len(y)), len(bias))

    def products(part: slice | Tensor) -> Tensor:
        """W x (R, V) of some elements, without the bias; each call overwrites the last."""
        x = features(part)
        return torch.mm(x, weight, out=buffer[: len(x)])

    # sum over v of exp(product + bias) = exp(product) · exp(bias): no pass for the bias, and none for the
    # maximum. float32 holds such sums for logits up to about 80, with one relative precision at any scale.
    # As a product of matrices with empty columns: that of a matrix and a vector has other last bits with other
    # numbers of threads, whatever MKL is told.
    factor = torch.nn.functional.pad(bias.exp().unsqueeze(1), (0, 3))
    chosen, totals = weight.new_empty(len(y)), weight.new_empty(len(y))
    for low in range(0, len(y), step):
        part = slice(low, low + step)
        chunk = products(part)
        chosen[part] = chunk.gather(1, y[part].unsqueeze(1)).squeeze(1)
        totals[part] = torch.mm(chunk.exp_(), factor)[:, 0]
    logs = chosen + bias[y] - totals.log()
    # Where that was not enough, once more with the maximum. One question per batch stops a GPU's queue little.
    again = ((totals < 1e-30) | ~(totals < 1e37)).nonzero().squeeze(1)
    for some in again.split(step):
        logits = products(some).add_(bias)
        logs[some] = logits.gather(1, y[some].unsqueeze(1)).squeeze(1) - torch.logsumexp(logits, 1)
    return logs
