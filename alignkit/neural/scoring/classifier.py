"""The trained classifier as an aligner of texts with their labels: alpha, beta, delta and leave-one-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from alignkit.neural.batching import DeviceCorpus, scoring_batches, to_device
from alignkit.neural.devices import one_thread, precision
from alignkit.neural.networks.classifier import Classifier
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.text.labelled import LabelledText

#: texts, and matrix elements with padding, in a batch
CPU_SIZES, GPU_SIZES = (64, 1 << 13), (512, 1 << 18)


@dataclass(frozen=True, eq=False)
class _Batch:
    """B texts on the device: ``words`` int64 (L, B), ``lengths`` int64 (B,), ``sign`` (B,), 2y - 1."""

    texts: np.ndarray
    words: Tensor
    lengths: np.ndarray
    sign: Tensor


def _batches(network: Classifier, text: LabelledText) -> Iterator[_Batch]:
    device = next(network.parameters()).device
    corpus = DeviceCorpus(text.corpus, device)
    signs = (2 * text.labels - 1).astype(np.float32)
    sizes = GPU_SIZES if device.type == "cuda" else CPU_SIZES
    for texts in scoring_batches(text.bitext, *sizes, equal=False):
        words, lengths = corpus.gather(texts)
        yield _Batch(texts, words, lengths, to_device(signs[texts], device))


Row = Callable[[Classifier, _Batch], Tensor]  #: (B, L) of a batch


def _alpha(network: Classifier, batch: _Batch) -> Tensor:
    h, mask = network.encode(batch.words, batch.lengths)
    with one_thread(h.device):
        return network.weights(h, mask)


def _beta(network: Classifier, batch: _Batch) -> Tensor:
    h, _ = network.encode(batch.words, batch.lengths)
    with one_thread(h.device):
        return torch.sigmoid(batch.sign.unsqueeze(1) * network.evidence(h))


def _relevance(network: Classifier, batch: _Batch) -> Tensor:
    h, _ = network.encode(batch.words, batch.lengths)
    with one_thread(h.device):
        return batch.sign.unsqueeze(1) * (network.evidence(h) - network.output.bias)


def _delta(network: Classifier, batch: _Batch) -> Tensor:
    omega = torch.ones(batch.words.shape, device=batch.words.device, requires_grad=True)
    h, mask = network.encode(batch.words, batch.lengths, omega)
    right = logsigmoid(batch.sign * network.logits(h, mask)).sum()  # no text depends on another
    return torch.autograd.grad(right, omega)[0].t()


def _loo(network: Classifier, batch: _Batch) -> Tensor:
    out = torch.zeros(len(batch.texts), len(batch.words), device=batch.words.device)
    whole = logsigmoid(batch.sign * network(batch.words, batch.lengths))
    less: Tensor
    for b, length in enumerate(batch.lengths.tolist()):
        if length == 1:
            # Nothing is left to read: what is known without any context is the bias.
            less = network.output.bias.detach()
        else:
            kept = torch.arange(length - 1, device=out.device).unsqueeze(1)
            gone = torch.arange(length, device=out.device).unsqueeze(0)
            words = batch.words[:length, b][kept + (kept >= gone)]
            most = max(1, GPU_SIZES[1] // length) if out.is_cuda else max(1, 4 * CPU_SIZES[1] // length)
            parts = [network(w, np.full(w.shape[1], length - 1)) for w in words.split(most, 1)]
            less = torch.cat(parts)
        out[b, :length] = whole[b] - logsigmoid(batch.sign[b] * less)
    return out


_ROWS: dict[str, Row] = {
    "alpha": _alpha,
    "beta": _beta,
    "delta": _delta,
    "loo": _loo,
    "relevance": _relevance,
}


def classifier_scores(network: Classifier, text: LabelledText, kind: str) -> Scores:
    """A (1, L) matrix per text.

    ``alpha``: the attention. ``beta``: sigmoid((2y - 1)(W · h_l + b)), how likely the label is if the classifier
    sees h_l alone. ``delta``: d log p(y) / d omega_l at omega = 1, where omega_l scales the embedding of x_l.
    ``loo``: log p(y) minus the same of the text without x_l (for a text of one word, of the bias alone).
    ``relevance``: (2y - 1) W · h_l, what h_l adds to the log-odds of the label if it is attended.

    Args:
        network: of the text's vocabulary.
        text: M texts; those without words have a (1, 0) matrix.
        kind: one of these.
    """
    shapes = text.bitext.shapes
    offsets = flat_offsets(shapes)
    values = np.zeros(offsets[-1], np.float32)
    device = next(network.parameters()).device
    was_training = network.training
    # cuDNN has no gradient for an LSTM in evaluation mode; nothing in this network differs between the two.
    network.train(kind == "delta")
    with precision(device, tf32=False), torch.inference_mode(kind != "delta"):
        for batch in _batches(network, text):
            rows = _ROWS[kind](network, batch).cpu().numpy()
            for m, row, length in zip(batch.texts, rows, batch.lengths, strict=True):
                values[offsets[m] : offsets[m] + length] = row[:length]
    network.train(was_training)
    return Scores(values, offsets, shapes)


@torch.inference_mode()
def classifier_logits(network: Classifier, text: LabelledText) -> np.ndarray:
    """float64 (M,): log p(y = 1) - log p(y = 0) of each text; NaN for a text without words."""
    out = np.full(len(text), np.nan)
    was_training = network.training
    network.eval()
    for batch in _batches(network, text):
        out[batch.texts] = network(batch.words, batch.lengths).double().cpu().numpy()
    network.train(was_training)
    return out


def judge_logits(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean loss (nats) and accuracy of logits (M,) for labels 0 and 1; texts with NaN are left out.

    A logit of 0 counts as label 0.
    """
    known = ~np.isnan(logits)
    z, y = logits[known], labels[known]
    if not len(z):
        return float("nan"), float("nan")
    return float(np.logaddexp(0, np.where(y == 1, -z, z)).mean()), float(((z > 0) == (y == 1)).mean())
