"""Log probabilities of a network's output layer, some rows at a time, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from alignkit.neural.batching import Batch


def rows_at_a_time(output: nn.Linear, logits: int) -> int:
    """The number of rows of the output layer's logits that fit into this number of bytes; at least 16."""
    return max(16, logits // (4 * output.out_features))


def log_probabilities_of(
    output: nn.Linear, y: Tensor, features: Callable[[slice | Tensor], Tensor], logits: int
) -> Tensor:
    """log p (N,) of tokens y (N,), nats.

    Args:
        output: the output layer.
        y: int64.
        features: gives that layer's input, (R, F), of R of the N tokens: of a slice, or at indices int64 (R,).
        logits: bytes of logits at a time.
    """
    # Contiguous in the order of the product; otherwise oneDNN rearranges it for every chunk.
    weight, bias = output.weight.t().contiguous(), output.bias
    step = rows_at_a_time(output, logits)
    buffer = weight.new_empty(min(step, len(y)), len(bias))

    def products(part: slice | Tensor) -> Tensor:
        """W x (R, V) of some elements, without the bias; each call overwrites the last."""
        x = features(part)
        return torch.mm(x, weight, out=buffer[: len(x)])

    # sum over v of exp(product + bias) = exp(product) · exp(bias), which takes no pass to add the bias and none to
    # find the maximum. In float32 this works for logits up to about 80, with the same relative precision at any
    # scale. It is a product of matrices with padded columns, because the last bits of a product of a matrix and a
    # vector depend on the number of threads, whatever MKL is told.
    factor = torch.nn.functional.pad(bias.exp().unsqueeze(1), (0, 3))
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


def feature_gradients(output: nn.Linear, x: Tensor, batch: Batch, logits: int) -> Tensor:
    """The derivatives of log p(y_t) in the features x_t, (B, T, F); 0 where padded.

    Args:
        output: the output layer; no derivatives in its weights are computed.
        x: (B, T, F), the features of the batch.
        batch: whose targets the y_t are.
        logits: bytes of logits at a time.
    """
    flat = x.flatten(0, 1)[batch.places]
    weight, bias, y = output.weight, output.bias, batch.targets
    by_feature = weight[y]
    step = rows_at_a_time(output, logits)
    for low in range(0, len(y), step):
        part = slice(low, low + step)
        shares = torch.softmax(torch.addmm(bias, flat[part], weight.t()), 1)
        by_feature[part].addmm_(shares, weight, alpha=-1)
    rows = torch.zeros_like(x).flatten(0, 1)
    rows[batch.places] = by_feature
    return rows.view_as(x)
