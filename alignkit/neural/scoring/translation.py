"""Scores of translation networks: attention, the lexical probe of section 2.2, saliency and leave-one-out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.neural.batching import Batch, Batcher, BatchSizes, batch_sizes, scoring_batches, to_device
from alignkit.neural.devices import device_of, evaluation_mode
from alignkit.neural.networks.base import Encoding, TranslationNetwork
from alignkit.neural.scoring.lstm_saliency import has_derivatives, lstm_saliency
from alignkit.neural.scoring.output_layer import feature_gradients, log_probabilities_of, rows_at_a_time
from alignkit.neural.settings import Reading
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import in_runs
from alignkit.text.bitext import Bitext


def score_batches(
    network: TranslationNetwork,
    bitext: Bitext,
    score: Callable[[Batch], Tensor],
    sizes: BatchSizes,
    gradients: bool = False,
) -> Scores:
    """Scores of a bitext, batch by batch, in evaluation mode.

    Args:
        network: on the device that computes.
        bitext: M pairs of the network's own tokens.
        score: gives the matrix elements of a batch, in the order of :func:`element_places`.
        sizes: of the batches.
        gradients: whether ``score`` needs autograd.
    """
    shapes = bitext.shapes
    offsets = flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device_of(network))
    with evaluation_mode(network, gradients):
        parts = [(pairs, score(batcher(pairs))) for pairs in scoring_batches(bitext, sizes)]
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


def attention_scores(
    network: TranslationNetwork,
    bitext: Bitext,
    sizes: BatchSizes | None = None,
    *,
    reading: Reading = Reading(),  # noqa: B008  # it is frozen
) -> Scores:
    """alpha[t, l], the attention weights at the prediction of y_t under teacher forcing.

    Rows sum to 1, except with normalizers whose rows do not
    (:data:`alignkit.neural.networks.mechanisms.NORMALIZERS`).

    Args:
        network: on the device that computes.
        bitext: M pairs of the network's own tokens.
        sizes: of the batches; by default those of :mod:`alignkit.neural.batching`.
        reading: which weights; by default the means over layers and heads.
    """

    def score(batch: Batch) -> Tensor:
        encoding = network.encode(batch.source, batch.source_lengths)
        return elements_of(read_weights(network, encoding, batch, reading), batch)

    return score_batches(network, bitext, score, sizes or batch_sizes("probes", device_of(network)))


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


def ov_scores(
    network: TranslationNetwork,
    bitext: Bitext,
    sizes: BatchSizes | None = None,
    *,
    reading: Reading = Reading(),  # noqa: B008  # it is frozen
) -> Scores:
    """ov[t, l] = softmax(U norm(sum of W_O W_V h_l))[y_t], what attention heads that see h_l alone say of y_t.

    The OV circuit of a head (Elhage et al. 2021) is the map by which an encoder state that it attends to reaches
    the decoder's states, and through the last layer normalization the output layer: a lexicon of the head,
    whatever the decoder's state is. The sum is over the layers and heads of the reading. Arguments as in
    :func:`attention_scores`.

    Raises:
        AlignkitError: the network has no OV circuits.
    """
    sizes = sizes or batch_sizes("probes", device_of(network))

    def score(batch: Batch) -> Tensor:
        h = network.encode(batch.source, batch.source_lengths).h
        features, targets = network.ov_features(h, reading), batch.target.t()
        rows = rows_at_a_time(network.output, sizes.logits)
        parts = []
        for own, wanted in zip(features, targets, strict=True):
            columns = [
                torch.softmax(network.output(part), 1)[:, wanted] for part in own.split(rows)
            ]  # (L, T) of a pair, some of its source tokens at a time
            parts.append(torch.cat(columns).t())
        return elements_of(torch.stack(parts), batch)

    return score_batches(network, bitext, score, sizes)


def lexical_scores(network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None) -> Scores:
    """beta[t, l] = N([h_l, s_t])[y_t], the probability of y_t if the network sees only h_l (section 2.2).

    The context is replaced by h_l, through the same projection. The cost is a product of H x V for each (t, l).
    Arguments as in :func:`attention_scores`.
    """
    sizes = sizes or batch_sizes("probes", device_of(network))

    def score(batch: Batch) -> Tensor:
        encoding = network.encode(batch.source, batch.source_lengths)
        features = network.lexical_features(encoding, batch.previous)
        row, column = element_places(batch, encoding.h.device)
        y = batch.target.t().reshape(-1)[row]
        logs = log_probabilities_of(
            network.output, y, lambda part: features(row[part], column[part]), sizes.logits
        )
        return logs.exp_()

    return score_batches(network, bitext, score, sizes)


def saliency_scores(network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None) -> Scores:
    """delta[t, l] = d log p(y_t | y_<t, x) / d omega_l at omega = 1, where omega_l scales the embedding of x_l.

    The derivative is total: through the attention, the encoder's states and the decoder's initial state. It may be
    negative (Snell et al. 2021, section 3.1). Where the derivatives of a network and its attention are not written
    out (:func:`alignkit.neural.scoring.lstm_saliency.has_derivatives`), autograd computes them: the result is the
    same, but takes a backward pass for every target position. Arguments as in
    :func:`alignkit.neural.scoring.translation.attention_scores`.
    """
    sizes = sizes or batch_sizes("saliency", device_of(network))
    find, gradients = (lstm_saliency, False) if has_derivatives(network) else (autograd_saliency, True)

    def score(batch: Batch) -> Tensor:
        return elements_of(find(network, batch, sizes), batch)

    return score_batches(network, bitext, score, sizes, gradients)


def autograd_saliency(network: TranslationNetwork, batch: Batch, sizes: BatchSizes) -> Tensor:
    """delta (B, T, L) of a batch for any network, by autograd.

    Args:
        network: within :func:`alignkit.neural.devices.evaluation_mode`, with gradients.
        batch: B pairs.
        sizes: its number of logits at a time is used.
    """
    omega = torch.ones(batch.source.shape, dtype=network.output.weight.dtype, device=batch.source.device)
    omega.requires_grad_()
    encoding = network.encode(batch.source, batch.source_lengths, omega)
    x = network.decode(batch.previous, encoding, encoding.start).features
    with torch.no_grad():
        by_feature = feature_gradients(network.output, x, batch, sizes.logits)
    # Pairs are independent of each other, so one pass serves position t of all of them.
    rows = [
        torch.autograd.grad(x[:, t], omega, by_feature[:, t], retain_graph=True)[0].t() for t in range(x.shape[1])
    ]
    return torch.stack(rows, 1)


def leave_one_out_scores(network: TranslationNetwork, bitext: Bitext, sizes: BatchSizes | None = None) -> Scores:
    """loo[t, l] = log p(y_t | y_<t, x) - log p(y_t | y_<t, x without x_l), nats.

    A source without its only token is empty; see :meth:`TranslationNetwork.encode`.
    """
    sizes = sizes or batch_sizes("leave_one_out", device_of(network))
    return score_batches(network, bitext, lambda batch: _leave_one_out(network, batch, sizes), sizes)


def _leave_one_out(network: TranslationNetwork, batch: Batch, sizes: BatchSizes) -> Tensor:
    """The matrix elements of a batch whose sources are of one length."""
    length, size = batch.source.shape
    x = network(batch.source, batch.source_lengths, batch.previous)
    y, output = batch.targets, network.output
    whole = log_probabilities_of(output, y, x.flatten(0, 1)[batch.places].__getitem__, sizes.logits)
    lost = x.new_zeros(size * len(batch.previous), length)
    places = max(1, sizes.derivatives // (length * size * output.in_features))
    for low in range(0, length, places):
        holes = np.arange(low, min(low + places, length))
        rows = _without(network, batch, holes)[:, batch.places].flatten(0, 1)
        logs = log_probabilities_of(output, y.repeat(len(holes)), rows.__getitem__, sizes.logits)
        lost[batch.places, low : low + len(holes)] = (whole - logs.view(len(holes), -1)).t()
    return elements_of(lost.view(size, -1, length), batch)


def _without(network: TranslationNetwork, batch: Batch, holes: np.ndarray) -> Tensor:
    """Features (R, B T, F) of a batch, without the source token at each of the R holes."""
    length, size = batch.source.shape
    left = np.arange(length - 1)[:, None]
    kept = torch.from_numpy(left + (left >= holes)).to(batch.source.device)
    lengths = np.full(len(holes) * size, length - 1, np.int64)
    previous = batch.previous.unsqueeze(1).expand(-1, len(holes), -1).flatten(1)
    x = network(batch.source[kept].flatten(1), lengths, previous)
    return x.reshape(len(holes), -1, x.shape[2])
