"""Attention rollout and attention flow (Abnar and Zuidema 2020): self-attention of many layers seen as one.

Each layer's weights, averaged over heads, are mixed with the residual connection in equal shares, (A + I) / 2, and
give the edges between its tokens and those of the layer below. Rollout multiplies the layers: the share of all
paths from a token of the last layer that end at an input token. Flow is the most that can flow between the two if
each edge carries at most its weight. Imports no torch.
"""

from __future__ import annotations

import numpy as np

from alignkit.errors import AlignkitError

RESIDUAL = 0.5  #: the share of the residual connection
UNIT = 1 << 30  #: the capacity that stands for a weight of 1, whole numbers being what the algorithm needs


def mixed_layers(weights: np.ndarray, residual: float = RESIDUAL) -> np.ndarray:
    """float64 (layers, L, L): the edges of every layer.

    Args:
        weights: (layers, L, L), or (layers, K, L, L) with heads, whose mean is taken; rows sum to 1.
        residual: the share of the residual connection.

    Raises:
        AlignkitError: the weights have another shape, or the share is not between 0 and 1.
    """
    found = np.asarray(weights, np.float64)
    if found.ndim == 4:
        found = found.mean(1)
    if found.ndim != 3 or found.shape[1] != found.shape[2]:
        raise AlignkitError(f"self-attention has the shape (layers, L, L), not {np.shape(weights)}")
    if not 0 <= residual <= 1:
        raise AlignkitError(f"the share of the residual connection lies between 0 and 1, not {residual}")
    mixed: np.ndarray = (1 - residual) * found + residual * np.eye(found.shape[1])
    return mixed


def attention_rollout(weights: np.ndarray, residual: float = RESIDUAL) -> np.ndarray:
    """float64 (L, L): row i has the shares of the input tokens in token i of the last layer; rows sum to 1.

    Arguments and errors as of :func:`mixed_layers`.
    """
    found = mixed_layers(weights, residual)
    total = np.eye(found.shape[1])
    for layer in found:
        total = layer @ total
    return total


def attention_flow(weights: np.ndarray, residual: float = RESIDUAL) -> np.ndarray:
    """float64 (L, L): the maximum flow from token i of the last layer to input token j, from 0 to 1.

    Each of the L^2 flows is a problem of its own: a sentence of 20 tokens and 6 layers takes about a second.
    Weights are rounded to 2^-30. Arguments and errors as of :func:`mixed_layers`.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    found = mixed_layers(weights, residual)
    layers, length = found.shape[:2]
    # Node n * L + i is token i after n layers; an edge leads from each to those of the layer below.
    above, heads, tails = np.nonzero(np.rint(found * UNIT) > 0)
    rows, columns = (above + 1) * length + heads, above * length + tails
    values = np.rint(found[above, heads, tails] * UNIT).astype(np.int32)
    size = (layers + 1) * length
    graph = csr_array((values, (rows.astype(np.int32), columns.astype(np.int32))), shape=(size, size))
    flows = np.empty((length, length))
    for i in range(length):
        for j in range(length):
            flows[i, j] = maximum_flow(graph, layers * length + i, j).flow_value if layers else UNIT * (i == j)
    flows /= UNIT
    return flows
