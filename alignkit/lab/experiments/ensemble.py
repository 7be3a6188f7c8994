"""An ensemble of small networks that are trained as one: every tensor has a first dimension S, the networks.

For copying and the like, on sequences that are drawn anew for every step: LSTM encoder-decoders with attention.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.lab.experiments.protocol import ExperimentSettings
from alignkit.neural.devices import Products, one_thread, rounded
from alignkit.neural.networks.attention import dot_product_attention
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.settings import LstmSettings
from alignkit.neural.training.loop import adam, descend
from alignkit.support.stages import no_progress
from alignkit.types import Progress

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class EnsembleLSTM(torch.autograd.Function):
    """An LSTM of one layer and one direction, with gates in the order input, forget, output, candidate.

    The backward pass is written out because autograd would keep some ten tensors per step.
    """

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, weight: Tensor, tokens: Tensor, start_h: Tensor, start_c: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes the states.

        Args:
            ctx: autograd's context.
            table: (S, V, 4H), the input to the gates from each type, biases included.
            weight: (S, H, 4H), from the previous state to the gates.
            tokens: int64 (S, T, B).
            start_h, start_c: (S, B, H), the initial state.

        Returns:
            all states h (S, T, B, H), and the last cell state c (S, B, H).
        """
        networks, types, width = table.shape
        steps, batch = tokens.shape[1:]
        size = width // 4
        places = tokens + torch.arange(networks).view(-1, 1, 1) * types
        gates = table.reshape(-1, width).index_select(0, places.view(-1)).view(networks, steps, batch, width)
        h, c, squashed = (table.new_empty(networks, steps, batch, size) for _ in range(3))
        h_before, c_before = start_h, start_c
        for t in range(steps):
            now = gates[:, t].baddbmm_(h_before, weight)
            now[..., : 3 * size].sigmoid_()
            now[..., 3 * size :].tanh_()
            i, f, o, u = now.split(size, -1)
            c_before = torch.mul(f, c_before, out=c[:, t]).addcmul_(i, u)
            torch.tanh(c_before, out=squashed[:, t])
            h_before = torch.mul(o, squashed[:, t], out=h[:, t])
        ctx.save_for_backward(weight, places, start_h, start_c, gates, h, c, squashed)
        ctx.types = types
        return h, c_before.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, places, start_h, start_c, gates, h, c, squashed = ctx.saved_tensors
        networks, steps, batch, size = h.shape
        transposed = weight.transpose(1, 2)
        by_gates = torch.empty_like(gates)
        by_h, by_c = torch.zeros_like(start_h), grads[1]
        scratch = torch.empty_like(start_h)
        for t in range(steps - 1, -1, -1):
            i, f, o, u = gates[:, t].split(size, -1)
            now = by_gates[:, t]
            by_h = by_h + grads[0][:, t]
            by_c = by_c + _tanh_backward(by_h * o, squashed[:, t], grad_input=scratch)
            torch.mul(by_c, u, out=now[..., :size])
            torch.mul(by_c, c[:, t - 1] if t else start_c, out=now[..., size : 2 * size])
            torch.mul(by_h, squashed[:, t], out=now[..., 2 * size : 3 * size])
            squeezed = now[..., : 3 * size]
            _sigmoid_backward(squeezed, gates[:, t, :, : 3 * size], grad_input=squeezed)
            _tanh_backward(by_c * i, u, grad_input=now[..., 3 * size :])
            by_c = by_c * f
            by_h = torch.bmm(now, transposed)
        flat = by_gates.view(networks, -1, 4 * size)
        by_weight = torch.bmm(start_h.transpose(1, 2), by_gates[:, 0])
        if steps > 1:
            before = h[:, :-1].reshape(networks, -1, size)
            by_weight.baddbmm_(before.transpose(1, 2), flat[:, batch:])
        by_table = flat.new_zeros(networks * ctx.types, 4 * size)
        by_table.index_add_(0, places.view(-1), flat.reshape(-1, 4 * size))
        return by_table.view(networks, ctx.types, -1), by_weight, None, by_h, by_c


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


#: names of vectors (S, L, H) that are added to the states at each place, where networks have them; never trained
PLACES = ("encoder_places", "decoder_places")


def states(p: Parameters, source: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """The states h (S, B, L, H) of the encoder and s (S, B, T, H) of the decoder, given what ``forward`` is."""
    h, c = run_lstm(p, "encoder", source.transpose(1, 2).contiguous(), None)
    s, _ = run_lstm(p, "decoder", previous.transpose(1, 2).contiguous(), (h[:, -1], c))
    h, s = h.transpose(1, 2).contiguous(), s.transpose(1, 2).contiguous()
    if PLACES[0] in p:
        h, s = (state + p[name].unsqueeze(1) for state, name in zip((h, s), PLACES, strict=True))
    return h, s


def forward(p: Parameters, source: Tensor, previous: Tensor) -> ForwardPass:
    """All logits under teacher forcing; attention is uniform if the networks have no query.

    Args:
        p: S networks.
        source: int64 (S, B, L), without padding.
        previous: int64 (S, B, T), the token before each y_t.
    """
    networks, batch, length = source.shape
    steps = previous.shape[2]
    h, s = states(p, source, previous)
    hidden = h.shape[3]
    s = s.view(networks, -1, hidden)
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


def own_attention(found: ForwardPass, source: Tensor, target: Tensor) -> np.ndarray:
    """float64 (S,): the mean attention, over heads and target tokens, to source tokens that are the same; without
    attention, that of a uniform one."""
    same = (target[..., :, None] == source[..., None, :]).double()
    uniform = same.new_tensor(1 / source.shape[-1])
    weights = torch.stack(found.weights).detach().mean(0).double() if found.weights else uniform
    return (weights * same).sum(-1).mean((1, 2)).numpy()


#: (generator, B) -> int64 source (B, L), previous (B, T) and target (B, T)
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray, np.ndarray]]
CONFIRMED = 2  #: consecutive measurements at which a network must have solved the task to stop


@dataclass(frozen=True)
class SequencePlan(ExperimentSettings):
    """Settings that the experiments on sequences share, with the paper's values for copying (section 3.3).

    Attributes:
        hidden: size of embeddings, LSTMs and the output layer.
        batch: sequences per step.
        steps: of Adam.
        every: steps between measurements.
        learning_rate: of Adam.
        products: precision of the factors of matrix products, see :func:`alignkit.neural.devices.rounded`. With
            bfloat16, results depend on whether the processor has units for it, but not on the number of threads.
        solved: a network stops once its accuracy was at least this at two consecutive measurements; never if
            above 1.
        attended: it stops, too, once its attention to own tokens was so many times what it was before the first
            step; never if above the length.
        learned: a network with a lower accuracy at its last step has failed.
    """

    hidden: int = 256
    batch: int = 128
    steps: int = 300
    every: int = 10
    learning_rate: float = 1e-3
    products: Products = "float32"
    solved: float = 0.99
    attended: float = 1e6
    learned: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.products not in get_args(Products):
            raise AlignkitError(f"products must be one of {', '.join(get_args(Products))}, not {self.products!r}")


@dataclass(frozen=True, eq=False)
class MemberRun:
    """The training run of one network of the ensemble.

    Attributes:
        steps: int64 (N,), the steps at which it was measured, from 0; fewer if it stopped early.
        accuracy: float64 (N,), token accuracy under teacher forcing, on new sequences.
        loss: float64 (N,), nats per token, on the same sequences.
        parameters: after the last step (S = 1).
        attention: float64 (N,), :func:`own_attention` on the same sequences; empty if that was not measured.
    """

    steps: np.ndarray
    accuracy: np.ndarray
    loss: np.ndarray
    parameters: Parameters
    attention: np.ndarray = field(default_factory=lambda: np.empty(0))

    def at(self, steps: np.ndarray) -> np.ndarray:
        """The accuracies at some of the measured steps; a network that stopped keeps its last."""
        places = np.searchsorted(self.steps, steps, side="right") - 1
        return self.accuracy[places]


def train_ensemble(
    starts: Sequence[Parameters],
    seeds: Sequence[int],
    draw: Draw,
    plan: SequencePlan,
    progress: Progress | None = None,
    *,
    frozen: Sequence[str] = (),
    together: int = 0,
) -> list[MemberRun]:
    """Trains a network from each of these starts by Adam, on batches of its own.

    A network is measured on the batch of a step before it is trained on it, so always on new sequences.

    Args:
        starts: the initial parameters of each network (S = 1), all of one shape.
        seeds: of each network's sequences.
        draw: draws a batch.
        plan: of the training; the networks' sizes are those of ``starts``.
        progress: called with the steps done by all networks together.
        frozen: names of the parameters that keep their initial values.
        together: networks in one batched model; chosen by their size if 0.

    Returns:
        the runs, in the order of ``starts``. They depend neither on the number of threads nor on ``together``.
    """
    counter = _StepCounter(len(starts) * plan.steps, progress)
    # Small networks are faster together; large ones would not fit into the cache.
    together = together or (1 if plan.hidden >= 128 else 8)
    bounds = range(0, len(starts), together)
    chunks = [(starts[low : low + together], seeds[low : low + together]) for low in bounds]

    def work(chunk: tuple[Sequence[Parameters], Sequence[int]]) -> list[MemberRun]:
        with one_thread(torch.device("cpu")):  # torch counts threads per thread
            return _Group(*chunk, plan, frozen, counter).train(draw)

    workers = min(torch.get_num_threads(), len(chunks))
    with rounded(plan.products):
        if workers <= 1:
            found = [work(chunk) for chunk in chunks]
        else:
            with ThreadPoolExecutor(workers) as pool:
                try:
                    found = list(pool.map(work, chunks))
                except BaseException:  # Ctrl-C too: without this the other threads would go on for minutes
                    counter.stop.set()
                    raise
    return [run for chunk in found for run in chunk]


@dataclass(eq=False)
class _StepCounter:
    """The number of steps done by all threads."""

    total: int
    progress: Progress | None
    done: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, steps: int) -> None:
        if self.stop.is_set():
            raise AlignkitError("stopped")
        with self.lock:
            self.done += steps
            (self.progress or no_progress)(self.done, self.total, "")


class _Group:
    """Networks that are trained as one batched model."""

    def __init__(
        self,
        starts: Sequence[Parameters],
        seeds: Sequence[int],
        plan: SequencePlan,
        frozen: Sequence[str],
        counter: _StepCounter,
    ) -> None:
        self.plan, self.frozen, self.counter = plan, frozen, counter
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        self.alive = list(range(len(starts)))
        self.curves: list[list[tuple[int, float, float, float]]] = [[] for _ in starts]
        self.last: list[Parameters] = [{} for _ in starts]
        self._set_parameters({name: value.clone() for name, value in stack(starts).items()})

    def _set_parameters(self, parameters: Parameters) -> None:
        self.parameters = {n: x.detach().requires_grad_(n not in self.frozen) for n, x in parameters.items()}
        trained = [value for value in self.parameters.values() if value.requires_grad]
        self.optimiser = adam(trained, self.plan.learning_rate, fused=False)

    def train(self, draw: Draw) -> list[MemberRun]:
        """Train to the last step, or until every network has solved the task."""
        last, step = self.plan.steps, 0
        solved: list[int] = []

        def loss(step: int) -> Tensor:
            nonlocal solved
            found, source, target = self._forward(draw)
            each = losses(found, target)
            solved = self._measure(step, found, source, target, each) if step % self.plan.every == 0 else []
            return each.sum()

        def measure(step: int) -> bool:
            if step == last and not solved:
                with torch.no_grad():
                    found, source, target = self._forward(draw)
                    self._measure(step, found, source, target, losses(found, target))
            return bool(solved)

        def progress(done: int, total: int, _: str) -> None:
            self.counter.add(len(self.alive) + len(solved) * (total - done))

        while self.alive:
            step = descend(self.optimiser, loss, last, start=step, measure=measure, progress=progress)
            if not solved:
                self._keep(range(len(self.alive)))
                break
            self._drop(solved)
            solved = []
        return [self._member_run(curve, last) for curve, last in zip(self.curves, self.last, strict=True)]

    def _forward(self, draw: Draw) -> tuple[ForwardPass, Tensor, Tensor]:
        """The networks' output for new sequences, and these: sources and targets."""
        drawn = [draw(self.generators[i], self.plan.batch) for i in self.alive]
        source, previous, target = (torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True))
        return forward(self.parameters, source, previous), source, target

    @staticmethod
    def _member_run(curve: list[tuple[int, float, float, float]], parameters: Parameters) -> MemberRun:
        steps, accuracy, loss, attention = (np.array(column) for column in zip(*curve, strict=True))
        return MemberRun(steps, accuracy, loss, parameters, attention)

    def _measure(self, step: int, found: ForwardPass, source: Tensor, target: Tensor, each: Tensor) -> list[int]:
        """Records all measurements; returns the places of the networks that solved the task."""
        accuracy, loss = token_accuracies(found, target), each.detach().double().numpy()
        attention = own_attention(found, source, target)
        solved = []
        for place, i in enumerate(self.alive):
            now = float(accuracy[place]), float(loss[place]), float(attention[place])
            self.curves[i].append((step, *now))
            latest, level = self.curves[i][-CONFIRMED:], self.plan.attended * self.curves[i][0][3]
            done = all(point[1] >= self.plan.solved for point in latest) or all(p[3] >= level for p in latest)
            if len(latest) == CONFIRMED and done:
                solved.append(place)
        return solved

    def _keep(self, places: Sequence[int]) -> None:
        for place in places:
            self.last[self.alive[place]] = {
                name: value.detach()[place : place + 1].clone() for name, value in self.parameters.items()
            }

    def _drop(self, places: list[int]) -> None:
        """Ends the training of some networks; the others keep their moments of Adam."""
        self._keep(places)
        stay = [place for place in range(len(self.alive)) if place not in places]
        self.alive = [self.alive[place] for place in stay]
        if not self.alive:
            return
        old = [self.optimiser.state[value] for value in self.parameters.values()]
        self._set_parameters({name: value.detach()[stay] for name, value in self.parameters.items()})
        for value, state in zip(self.parameters.values(), old, strict=True):
            self.optimiser.state[value] = {
                name: part[stay] if part.dim() else part.clone() for name, part in state.items()
            }
