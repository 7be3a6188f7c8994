"""Scores of a trained classifier: attention, lexical probe, relevance, saliency and leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from alignkit.neural.devices import batch_sizes, device_of, evaluation_mode, one_thread, text_batches, to_device
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.translation import finite_scores
from alignkit.scores import Scores, flat_offsets
from alignkit.text.labelled import LabelledText


@dataclass(frozen=True, eq=False)
class _Batch:
    """B texts on the device: ``words`` int64 (L, B), ``lengths`` int64 (B,), ``sign`` (B,), 2y - 1."""

    texts: np.ndarray
    words: Tensor
    lengths: np.ndarray
    sign: Tensor


def _batches(network: Classifier, text: LabelledText) -> Iterator[_Batch]:
    device, signs = device_of(network), (2 * text.labels - 1).astype(np.float32)
    for texts, words, lengths in text_batches(text, device):
        yield _Batch(texts, words, lengths, to_device(signs[texts], device))


def _alpha(network: Classifier, batch: _Batch) -> Tensor:
    h, mask = network.encode(batch.words, batch.lengths)
    with one_thread(h.device):
        return network.weights(h, mask)


def _beta(network: Classifier, batch: _Batch) -> Tensor:
    h, _ = network.encode(batch.words, batch.lengths)
    with one_thread(h.device):
        return batch.sign.unsqueeze(1) * network.lexical_logits(h)


def _relevance(network: Classifier, batch: _Batch) -> Tensor:
    h, _ = network.encode(batch.words, batch.lengths)
    with one_thread(h.device):
        return batch.sign.unsqueeze(1) * (network.lexical_logits(h) - network.output.bias)


def _delta(network: Classifier, batch: _Batch) -> Tensor:
    omega = torch.ones(batch.words.shape, device=batch.words.device, requires_grad=True)
    h, mask = network.encode(batch.words, batch.lengths, omega)
    right = logsigmoid(batch.sign * network.judge(h, mask)[0]).sum()  # no text depends on another
    return torch.autograd.grad(right, omega)[0].t()


def _leave_one_out(network: Classifier, batch: _Batch) -> Tensor:
    out = torch.zeros(len(batch.texts), len(batch.words), device=batch.words.device)
    whole = logsigmoid(batch.sign * network(batch.words, batch.lengths))
    elements = (1 if out.is_cuda else 4) * batch_sizes("classifier", out.device).elements
    less: Tensor
    for b, length in enumerate(batch.lengths.tolist()):
        if length == 1:
            # Without any word, the logit is the bias.
            less = network.output.bias.detach()
        else:
            kept = torch.arange(length - 1, device=out.device).unsqueeze(1)
            gone = torch.arange(length, device=out.device).unsqueeze(0)
            words = batch.words[:length, b][kept + (kept >= gone)]
            parts = words.split(max(1, elements // length), 1)
            less = torch.cat([network(part, np.full(part.shape[1], length - 1)) for part in parts])
        out[b, :length] = whole[b] - logsigmoid(batch.sign[b] * less)
    return out


#: kind of score -> (B, L) of a batch
_ROWS: dict[str, Callable[[Classifier, _Batch], Tensor]] = {
    "alpha": _alpha,
    "beta": _beta,
    "relevance": _relevance,
    "delta": _delta,
    "loo": _leave_one_out,
}


def classifier_scores(network: Classifier, text: LabelledText, kind: str) -> Scores:
    """A (1, L) matrix per text.

    ``alpha``: the attention. ``beta``: (2y - 1)(W · h_l + b), the log-odds of the label if the classifier sees
    only h_l (the probabilities of a network that is trained for long round to 1, and words would be tied).
    ``relevance``: (2y - 1) W · h_l, the contribution of h_l to the log-odds of the label if all attention is on
    it. ``delta``: d log p(y) / d omega_l at omega = 1, where omega_l scales the embedding of x_l. ``loo``: log
    p(y) minus log p(y) of the text without x_l (if no word is left, of the bias alone), nats.

    Args:
        network: with the text's vocabulary.
        text: M texts; those without words have a (1, 0) matrix.
        kind: one of the five.
    """
    shapes = text.bitext.shapes
    offsets = flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    with evaluation_mode(network, gradients=kind == "delta"):
        for batch in _batches(network, text):
            rows = _ROWS[kind](network, batch).cpu().numpy()
            for m, row, length in zip(batch.texts, rows, batch.lengths, strict=True):
                values[offsets[m] : offsets[m] + length] = row[:length]
    return finite_scores(values, offsets, shapes)


def classifier_logits(network: Classifier, text: LabelledText) -> np.ndarray:
    """float64 (M,): log p(y = 1) - log p(y = 0) of each text; NaN for a text without words."""
    out = np.full(len(text), np.nan)
    with evaluation_mode(network):
        for batch in _batches(network, text):
            out[batch.texts] = network(batch.words, batch.lengths).double().cpu().numpy()
    return out


def judge_logits(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean loss (nats) and accuracy of logits (M,) for labels 0 and 1; texts with NaN are ignored.

    A logit of 0 counts as label 0.
    """
    known = ~np.isnan(logits)
    z, y = logits[known], labels[known]
    if not len(z):
        return float("nan"), float("nan")
    return float(np.logaddexp(0, np.where(y == 1, -z, z)).mean()), float(((z > 0) == (y == 1)).mean())
