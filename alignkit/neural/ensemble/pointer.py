"""Pointer networks (Vinyals et al. 2015) as an ensemble: what they predict are places of the source.

A pointer network has no output layer: the probability of a word is the sum of the attention to its places in the
source, p(y_t = w) = sum over l with x_l = w of alpha_tl. Attention is learned from the first step, with no need to
learn which word translates to which before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from alignkit.neural.ensemble.networks import ForwardPass, Parameters, run_lstm
from alignkit.neural.networks.attention import dot_product_attention

#: the parameters of an encoder-decoder that a pointer network has, too
NEEDED = (
    "embedding",
    *(f"{side}_{part}" for side in ("encoder", "decoder") for part in ("input", "state", "bias")),
    "query",
    "query_bias",
)


def pointer_parameters(parameters: Parameters) -> Parameters:
    """The pointer networks (S, ...) whose embeddings, LSTMs and attention are those of encoder-decoders."""
    return {name: parameters[name] for name in NEEDED}


def point(p: Parameters, source: Tensor, previous: Tensor) -> ForwardPass:
    """Log probabilities of all words under teacher forcing, as the logits; arguments as of :func:`forward`.

    A word that is not in the source has the smallest float number as its probability, not 0.
    """
    networks, batch, length = source.shape
    steps = previous.shape[2]
    h, c = run_lstm(p, "encoder", source.transpose(1, 2).contiguous(), None)
    s, _ = run_lstm(p, "decoder", previous.transpose(1, 2).contiguous(), (h[:, -1], c))
    hidden = h.shape[3]
    h, s = h.transpose(1, 2).contiguous(), s.transpose(1, 2).reshape(networks, -1, hidden)
    query = torch.baddbmm(p["query_bias"][:, 0, None], s, p["query"][:, 0])
    _, alpha = dot_product_attention(query.view(-1, steps, hidden), h.view(-1, length, hidden), None)
    alpha = alpha.view(networks, batch, steps, length)
    words = alpha.new_zeros(networks, batch, steps, p["embedding"].shape[1])
    words = words.scatter_add(3, source.unsqueeze(2).expand_as(alpha), alpha)
    return ForwardPass(words.clamp_min(torch.finfo(words.dtype).tiny).log(), (alpha,))
