"""Scores of a trained classifier: attention, lexical probe, relevance, saliency and leave-one-out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.nn.utils.rnn import pad_sequence

from alignkit.neural.devices import batch_sizes, device_of, evaluation_mode, one_thread, text_batches, to_device
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.translation import finite_scores
from alignkit.scores import Scores, flat_offsets
from alignkit.text.labelled import LabelledText


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
    device, signs = device_of(network), (2 * text.labels - 1).astype(np.float32)
    with evaluation_mode(network, gradients=kind == "delta"):
        for texts, words, lengths in text_batches(text, device):
            sign = to_device(signs[texts], device)
            if kind == "loo":
                rows = _leave_one_out(network, words, lengths, sign)
            elif kind == "delta":
                omega = torch.ones(words.shape, device=device, requires_grad=True)
                h, mask = network.encode(words, lengths, omega)
                right = logsigmoid(sign * network.judge(h, mask)[0]).sum()  # no text depends on another
                rows = torch.autograd.grad(right, omega)[0].t()
            else:
                h, mask = network.encode(words, lengths)
                with one_thread(device):
                    if kind == "alpha":
                        rows = network.weights(h, mask)
                    else:
                        bias = network.output.bias if kind == "relevance" else 0
                        rows = sign.unsqueeze(1) * (network.lexical_logits(h) - bias)
            for m, row, length in zip(texts, rows.cpu().numpy(), lengths, strict=True):
                values[offsets[m] : offsets[m] + length] = row[:length]
    return finite_scores(values, offsets, shapes)


def _leave_one_out(network: Classifier, words: Tensor, lengths: np.ndarray, sign: Tensor) -> Tensor:
    out = torch.zeros(len(lengths), len(words), device=words.device)
    whole = logsigmoid(sign * network(words, lengths))
    elements = (1 if out.is_cuda else 4) * batch_sizes("classifier", out.device).elements
    less: Tensor
    for b, length in enumerate(lengths.tolist()):
        if length == 1:
            # Without any word, the logit is the bias.
            less = network.output.bias.detach()
        else:
            kept = torch.arange(length - 1, device=out.device).unsqueeze(1)
            gone = torch.arange(length, device=out.device).unsqueeze(0)
            parts = words[:length, b][kept + (kept >= gone)].split(max(1, elements // length), 1)
            less = torch.cat([network(part, np.full(part.shape[1], length - 1)) for part in parts])
        out[b, :length] = whole[b] - logsigmoid(sign[b] * less)
    return out


def classifier_logits(network: Classifier, text: LabelledText, guide: Scores | None = None) -> np.ndarray:
    """float64 (M,): log p(y = 1) - log p(y = 0) of each text; NaN for a text without words.

    If a ``guide`` is given, its attention is imposed on the network.
    """
    out = np.full(len(text), np.nan)
    with evaluation_mode(network):
        for texts, words, lengths in text_batches(text, device_of(network)):
            alpha = None if guide is None else imposed(guide, texts, words.device)
            out[texts] = network(words, lengths, alpha).double().cpu().numpy()
    return out


def imposed(guide: Scores, texts: np.ndarray, device: torch.device) -> Tensor:
    """The guide's attention of texts as (B, L), 0 at padding."""
    rows = [torch.from_numpy(guide[m][0].astype(np.float32)) for m in texts]
    return pad_sequence(rows, batch_first=True).to(device)


def judge_logits(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean loss (nats) and accuracy of logits (M,) for labels 0 and 1; texts with NaN are ignored.

    A logit of 0 counts as label 0.
    """
    known = ~np.isnan(logits)
    z, y = logits[known], labels[known]
    if not len(z):
        return float("nan"), float("nan")
    return float(np.logaddexp(0, np.where(y == 1, -z, z)).mean()), float(((z > 0) == (y == 1)).mean())
