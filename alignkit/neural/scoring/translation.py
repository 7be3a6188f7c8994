"""Scores of translation networks: attention, lexical probe (section 2.2), OV circuits, saliency, leave-one-out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from alignkit.errors import AlignkitError
from alignkit.neural.devices import (
    Batch,
    Batcher,
    BatchSizes,
    batch_sizes,
    device_of,
    evaluation_mode,
    scoring_batches,
    to_device,
)
from alignkit.neural.networks.encoder_decoder import Encoding, TranslationNetwork
from alignkit.neural.scoring.saliency import autograd_saliency, has_derivatives, lstm_saliency
from alignkit.neural.settings import Reading
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import in_runs
from alignkit.text.bitext import Bitext


def network_scores(
    network: TranslationNetwork,
    bitext: Bitext,
    kind: str,
    reading: Reading = Reading(),  # noqa: B008  # it is frozen
    sizes: BatchSizes | None = None,
) -> Scores:
    """A (T, L) matrix per pair, under teacher forcing and in evaluation mode.

    ``alpha``: the attention weights at the prediction of y_t. Rows sum to 1, except with normalizers whose rows do
    not (:data:`alignkit.neural.settings.NORMALIZERS`). ``beta``: N([h_l, s_t])[y_t], the probability of y_t if the
    network sees only h_l (section 2.2), which takes the context's place, through the same projection, and those of
    the heads if there are several. ``ov``:
    softmax(U norm(sum of W_O W_V h_l))[y_t], what attention heads that see h_l alone say of y_t. ``delta``: d log
    p(y_t | y_<t, x) / d omega_l at omega = 1, where omega_l scales the embedding of x_l; it is total, through the
    attention, the encoder's states and the decoder's initial state, and may be negative (Snell et al. 2021,
    section 3.1). ``loo``: log p(y_t | y_<t, x) - log p(y_t | y_<t, x without x_l), nats; a source without its only
    token is empty (:meth:`TranslationNetwork.encode`).

    The OV circuit of a head (Elhage et al. 2021) is the map by which an encoder state that it attends to reaches
    the decoder's states, and through the last layer normalization the output layer: a lexicon of the head,
    whatever the decoder's state is.

    Args:
        network: on the device that computes.
        bitext: M pairs of the network's own tokens.
        kind: one of the five.
        reading: the layer and head of ``alpha``, by default the means over them; of ``ov``, the sums.
        sizes: of the batches; by default those of :mod:`alignkit.neural.devices`.

    Raises:
        AlignkitError: the network has no OV circuits, or gives scores that are not finite.
    """
    score, purpose = KINDS[kind]
    device, shapes = device_of(network), bitext.shapes
    sizes, offsets = sizes or batch_sizes(purpose, device), flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device)
    with evaluation_mode(network, gradients=kind == "delta" and not has_derivatives(network)):
        parts = [(p, score(network, batcher(p), reading, sizes)) for p in scoring_batches(bitext, sizes)]
    elements = np.diff(offsets)
    for pairs, flat in parts:  # the host waits for the device only now
        values[in_runs(offsets[pairs], elements[pairs])] = flat.cpu().numpy()
    return finite_scores(values, offsets, shapes)


def finite_scores(values: np.ndarray, offsets: np.ndarray, shapes: np.ndarray) -> Scores:
    """The scores of a network; arguments as of :class:`Scores`.

    Raises:
        AlignkitError: one of them is not finite.
    """
    if not np.isfinite(values).all():
        raise AlignkitError(
            "the network gives scores that are not finite, so its weights are damaged or its training diverged; "
            "train it again, with a smaller learning rate"
        )
    return Scores(values, offsets, shapes)


def element_places(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """The indices of the two tokens of every matrix element of a batch, pair by pair and row by row.

    Returns:
        int64 indices of t in a flattened (B, T) array, and of l in a flattened (B, L) array.
    """
    tall, wide = batch.target_lengths, batch.source_lengths
    sizes = tall * wide
    inside = in_runs(np.zeros_like(sizes), sizes)  # index of the element in its own matrix
    width = np.repeat(wide, sizes)
    pair = np.repeat(np.arange(len(sizes)), sizes)
    row = pair * batch.target.shape[0] + inside // width
    column = pair * batch.source.shape[0] + inside % width
    return to_device(row, device), to_device(column, device)


def elements_of(matrices: Tensor, batch: Batch) -> Tensor:
    """The elements of padded matrices (B, T, L) that are not padding, pair by pair and row by row."""
    row, column = element_places(batch, matrices.device)
    length = matrices.shape[2]
    return matrices.reshape(-1, length)[row, column % length]


def alpha(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    encoding = network.encode(batch.source, batch.source_lengths)
    return elements_of(read_weights(network, encoding, batch, reading), batch)


def read_weights(network: TranslationNetwork, encoding: Encoding, batch: Batch, reading: Reading) -> Tensor:
    """The weights (B, T, L) that a reading chooses, under teacher forcing."""
    previous = batch.previous
    if reading.shifted:  # the inputs are then y_1..y_T, after BOS
        previous = torch.cat([previous[:1], batch.target])
    if reading.layer or reading.head:
        weights = chosen_map(network.attention_maps(encoding, previous), reading)
    else:
        weights = network.attention_weights(encoding, previous)
    return weights[:, 1:] if reading.shifted else weights


def chosen_map(maps: Tensor, reading: Reading) -> Tensor:
    """(B, T, L): the layer and head of weights (B, layers, K, T, L) that a reading names, or their means."""
    layers = maps[:, reading.layer - 1] if reading.layer else maps.mean(1)
    return layers[:, reading.head - 1] if reading.head else layers.mean(1)


def beta(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    # The cost is a product of H x V for each (t, l).
    encoding = network.encode(batch.source, batch.source_lengths)
    features = network.lexical_features(encoding, batch.previous)
    row, column = element_places(batch, encoding.h.device)
    y = batch.target.t().reshape(-1)[row]
    logs = log_probabilities_of(network.output, y, lambda part: features(row[part], column[part]), sizes)
    return logs.exp_()


def log_probabilities_of(
    output: nn.Linear, y: Tensor, features: Callable[[slice | Tensor], Tensor], sizes: BatchSizes
) -> Tensor:
    """log p (N,) of tokens y (N,), nats.

    Args:
        output: the output layer.
        y: int64.
        features: gives that layer's input, (R, F), of R of the N tokens: of a slice, or at indices int64 (R,).
        sizes: its number of logits at a time is used.
    """
    # Contiguous in the order of the product; otherwise oneDNN rearranges it for every chunk.
    weight, bias = output.weight.t().contiguous(), output.bias
    step = sizes.rows(output)
    buffer = weight.new_empty(min(step, len(y)), len(bias))

    def products(part: slice | Tensor) -> Tensor:
        """W x (R, V) of some elements, without the bias; each call overwrites the last."""
        x = features(part)
        return torch.mm(x, weight, out=buffer[: len(x)])

    # sum over v of exp(product + bias) = exp(product) · exp(bias), which takes no pass to add the bias and none to
    # find the maximum. In float32 this works for logits up to about 80, with the same relative precision at any
    # scale. It is a product of matrices with padded columns, because the last bits of a product of a matrix and a
    # vector depend on the number of threads, whatever MKL is told.
    factor = nn.functional.pad(bias.exp().unsqueeze(1), (0, 3))
    chosen, totals = weight.new_empty(len(y)), weight.new_empty(len(y))
    for low in range(0, len(y), step):
        part = slice(low, low + step)
        chunk = products(part)
        chosen[part] = chunk.gather(1, y[part].unsqueeze(1)).squeeze(1)
        totals[part] = torch.mm(chunk.exp_(), factor)[:, 0]
    logs = chosen + bias[y] - totals.log()
    # Sums out of range are computed again with the maximum. One such test per batch hardly stalls a GPU.
    again = ((totals < 1e-30) | ~(totals < 1e37)).nonzero().squeeze(1)
    for some in again.split(step):
        shifted = products(some).add_(bias)
        logs[some] = shifted.gather(1, y[some].unsqueeze(1)).squeeze(1) - torch.logsumexp(shifted, 1)
    return logs


def ov(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    h = network.encode(batch.source, batch.source_lengths).h
    parts = []
    for own, y in zip(network.ov_features(h, reading), batch.target.t(), strict=True):
        # (L, T) of a pair, some of its source tokens at a time
        columns = [torch.softmax(network.output(part), 1)[:, y] for part in own.split(sizes.rows(network.output))]
        parts.append(torch.cat(columns).t())
    return elements_of(torch.stack(parts), batch)


def delta(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    find = lstm_saliency if has_derivatives(network) else autograd_saliency
    return elements_of(find(network, batch, sizes), batch)


def leave_one_out(network: TranslationNetwork, batch: Batch, reading: Reading, sizes: BatchSizes) -> Tensor:
    # The sources of a batch are of one length.
    (length, size), device = batch.source.shape, batch.source.device
    x = network(batch.source, batch.source_lengths, batch.previous)
    y, output = batch.targets, network.output
    whole = log_probabilities_of(output, y, x.flatten(0, 1)[batch.places].__getitem__, sizes)
    lost = x.new_zeros(size * len(batch.previous), length)
    left = np.arange(length - 1)[:, None]
    places = max(1, sizes.derivatives // (length * size * output.in_features))
    for low in range(0, length, places):
        # The sources without the token at each of R holes, one after another.
        holes = np.arange(low, min(low + places, length))
        kept = torch.from_numpy(left + (left >= holes)).to(device)
        lengths = np.full(len(holes) * size, length - 1, np.int64)
        previous = batch.previous.unsqueeze(1).expand(-1, len(holes), -1).flatten(1)
        x = network(batch.source[kept].flatten(1), lengths, previous)
        rows = x.reshape(len(holes), -1, x.shape[2])[:, batch.places].flatten(0, 1)
        logs = log_probabilities_of(output, y.repeat(len(holes)), rows.__getitem__, sizes)
        lost[batch.places, low : low + len(holes)] = (whole - logs.view(len(holes), -1)).t()
    return elements_of(lost.view(size, -1, length), batch)


#: kind of score -> what gives the matrix elements of a batch, in the order of :func:`element_places`; and the
#: purpose for which :func:`alignkit.neural.devices.batch_sizes` has the sizes of batches
KINDS: dict[str, tuple[Callable[[TranslationNetwork, Batch, Reading, BatchSizes], Tensor], str]] = {
    "alpha": (alpha, "probes"),
    "beta": (beta, "probes"),
    "ov": (ov, "probes"),
    "delta": (delta, "saliency"),
    "loo": (leave_one_out, "leave_one_out"),
}
