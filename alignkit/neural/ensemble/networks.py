"""An ensemble of encoder-decoders of one shape: the seeds of an experiment as one batched model.

Every parameter has a first dimension S, the networks, so that small networks together keep a processor busy.
The networks are independent: each gives what it would give alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from alignkit.neural.ensemble.recurrent import EnsembleLSTM
from alignkit.neural.networks.attention import dot_product_attention
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.settings import LstmSettings

#: torch orders the gates input, forget, candidate, output; EnsembleLSTM has the candidate last
_GATES = (0, 1, 3, 2)
Parameters = dict[str, Tensor]  #: by name, each (S, ...)


def copying_settings(vocabulary: int, hidden: int = 256, attention: str = "general") -> LstmSettings:
    """The copying network of the paper (section 3.3): one layer each, the encoder one way, no dropout."""
    return LstmSettings(
        vocabulary=vocabulary,
        embedding=hidden,
        hidden=hidden,
        layers=1,
        bidirectional=False,
        attention="general" if attention == "general" else "uniform",
        dropout=0.0,
    )


def _reorder(weight: Tensor, hidden: int) -> Tensor:
    """The rows of the four gates in the other order; its own inverse."""
    return weight.view(4, hidden, *weight.shape[1:])[list(_GATES)].reshape(weight.shape)


def initial_parameters(settings: LstmSettings, seed: int) -> Parameters:
    """The parameters (S = 1) with which an :class:`EncoderDecoder` is initialised from this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return from_network(EncoderDecoder(settings))


def random_head(hidden: int, seed: int) -> Parameters:
    """The parameters of one head, a query and a projection of its context, each (1, 1, ...), from this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _head(torch.nn.Linear(hidden, hidden), torch.nn.Linear(hidden, hidden))


def _head(query: torch.nn.Linear, context: torch.nn.Linear) -> Parameters:
    parts = {
        "query": query.weight.t(),
        "query_bias": query.bias,
        "context": context.weight.t(),
        "context_bias": context.bias,
    }
    return {name: part.detach().clone()[None, None] for name, part in parts.items()}


HEAD = ("query", "query_bias", "context", "context_bias")  #: the names of a head's parameters


def replace_heads(parameters: Parameters, heads: Sequence[Parameters]) -> Parameters:
    """The network (S = 1) with these heads instead of its own."""
    return {
        name: torch.cat([head[name] for head in heads], 1) if name in HEAD else value
        for name, value in parameters.items()
    }


def stack(parts: Sequence[Parameters]) -> Parameters:
    """One ensemble of several networks, or ensembles, of one shape."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def from_network(network: EncoderDecoder) -> Parameters:
    """The parameters (S = 1) of a network with one layer and a unidirectional encoder."""
    hidden = network.settings.hidden
    found: Parameters = {"embedding": network.embedding.weight}
    for name, lstm in (("encoder", network.encoder), ("decoder", network.decoder)):
        own = {key: _reorder(value, hidden) for key, value in lstm.named_parameters()}
        found[f"{name}_input"], found[f"{name}_state"] = own["weight_ih_l0"].t(), own["weight_hh_l0"].t()
        # torch has two biases where one would do, and Adam updates each
        found[f"{name}_bias"] = torch.stack([own["bias_ih_l0"], own["bias_hh_l0"]])
    found["combine"], found["combine_bias"] = network.combine.weight.t(), network.combine.bias
    found["output"], found["output_bias"] = network.output.weight.t(), network.output.bias
    found = {name: value.detach().clone().contiguous()[None] for name, value in found.items()}
    if network.settings.attention == "general":
        return found | _head(network.attention.score.query, network.context)  # type: ignore[union-attr,arg-type]
    context = {"context": network.context.weight.t(), "context_bias": network.context.bias}
    return found | {name: value.detach().clone()[None, None] for name, value in context.items()}


def to_network(parameters: Parameters, at: int, settings: LstmSettings) -> EncoderDecoder:
    """Network ``at`` of an ensemble as an :class:`EncoderDecoder`; it must have one head."""
    network = EncoderDecoder(settings)
    one = {name: value[at].detach() for name, value in parameters.items()}
    with torch.no_grad():
        network.embedding.weight.copy_(one["embedding"])
        for name, lstm in (("encoder", network.encoder), ("decoder", network.decoder)):
            own = dict(lstm.named_parameters())
            own["weight_ih_l0"].copy_(_reorder(one[f"{name}_input"].t(), settings.hidden))
            own["weight_hh_l0"].copy_(_reorder(one[f"{name}_state"].t(), settings.hidden))
            for key, value in zip(("bias_ih_l0", "bias_hh_l0"), one[f"{name}_bias"], strict=True):
                own[key].copy_(_reorder(value, settings.hidden))
        for name, layer in (("combine", network.combine), ("output", network.output)):
            layer.weight.copy_(one[name].t())
            layer.bias.copy_(one[f"{name}_bias"])
        network.context.weight.copy_(one["context"][0].t())
        network.context.bias.copy_(one["context_bias"][0])
        if settings.attention == "general":
            network.attention.score.query.weight.copy_(one["query"][0].t())  # type: ignore[union-attr,operator]
            network.attention.score.query.bias.copy_(one["query_bias"][0])  # type: ignore[union-attr,operator]
    return network


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """The output of S networks.

    Attributes:
        logits: (S, B, T, V).
        weights: attention weights of each head, (S, B, T, L); empty with uniform attention.
    """

    logits: Tensor
    weights: tuple[Tensor, ...]


def run_lstm(
    p: Parameters, name: str, tokens: Tensor, start: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """The states h (S, T, B, H) of the LSTM ``name`` over tokens int64 (S, T, B), and its last cell state c.

    ``start`` is the initial (h, c), each (S, B, H); zero if not given.
    """
    table = torch.baddbmm(p[f"{name}_bias"].sum(1, keepdim=True), p["embedding"], p[f"{name}_input"])
    weight = p[f"{name}_state"]
    if start is None:
        zero = weight.new_zeros(len(weight), tokens.shape[2], weight.shape[1])
        start = zero, zero
    h, c = EnsembleLSTM.apply(table, weight, tokens, *start)
    return h, c


def forward(p: Parameters, source: Tensor, previous: Tensor) -> ForwardPass:
    """All logits under teacher forcing; attention is uniform if the networks have no query.

    Args:
        p: S networks.
        source: int64 (S, B, L), without padding.
        previous: int64 (S, B, T), the token before each y_t.
    """
    networks, batch, length = source.shape
    steps = previous.shape[2]
    h, c = run_lstm(p, "encoder", source.transpose(1, 2).contiguous(), None)
    s, _ = run_lstm(p, "decoder", previous.transpose(1, 2).contiguous(), (h[:, -1], c))
    hidden = h.shape[3]
    h, s = h.transpose(1, 2).contiguous(), s.transpose(1, 2).reshape(networks, -1, hidden)
    total, weights = 0.0 * s[:1, :1, :1], []
    for k in range(p["context"].shape[1]):
        if "query" in p:
            query = torch.baddbmm(p["query_bias"][:, k, None], s, p["query"][:, k])
            seen, alpha = dot_product_attention(query.view(-1, steps, hidden), h.view(-1, length, hidden), None)
            weights.append(alpha.view(networks, batch, steps, length))
            seen = seen.view(networks, -1, hidden)
        else:
            seen = h.mean(2)
        total = total + torch.baddbmm(p["context_bias"][:, k, None], seen, p["context"][:, k])
    by_context = torch.bmm(total, p["combine"][:, hidden:])
    if "query" not in p:
        by_context = by_context.repeat_interleave(steps, 1)
    by_state = torch.baddbmm(p["combine_bias"][:, None], s, p["combine"][:, :hidden])
    logits = torch.baddbmm(p["output_bias"][:, None], torch.relu(by_state + by_context), p["output"])
    return ForwardPass(logits.view(networks, batch, steps, -1), tuple(weights))


def losses(found: ForwardPass, target: Tensor) -> Tensor:
    """(S,): mean cross-entropy of each network in nats per token; target is int64 (S, B, T)."""
    logs = torch.log_softmax(found.logits, -1).gather(-1, target.unsqueeze(-1))
    return -logs.mean((1, 2, 3))


def token_accuracies(found: ForwardPass, target: Tensor) -> np.ndarray:
    """float64 (S,): the share of target tokens that are the most probable word."""
    return (found.logits.argmax(-1) == target).double().mean((1, 2)).numpy()
