"""Scores of a trained network: attention (alpha) and the lexical probe (beta) of section 2.2."""

from __future__ import annotations

import torch
from torch import Tensor

from alignkit.neural.attention_reading import Reading
from alignkit.neural.batch_sizes import BatchSizes, batch_sizes
from alignkit.neural.batching import Batch
from alignkit.neural.devices import device_of
from alignkit.neural.networks.base import Encoding, TranslationNetwork
from alignkit.neural.scoring.matrices import element_places, elements_of, score_batches
from alignkit.neural.scoring.output_layer import log_probabilities_of, rows_at_a_time
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


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
        sizes: of the batches; by default those of :mod:`alignkit.neural.batch_sizes`.
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
