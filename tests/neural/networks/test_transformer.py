"""The transformer against one written with NumPy, a sentence and a position at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import Batcher, BatchSizes
from alignkit.neural.networks.transformer import Transformer
from alignkit.neural.scoring.evaluation import beam_search
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import Reading, RunSettings, TransformerSettings
from alignkit.neural.training.translation import batch_loss
from alignkit.text.tokenization import EOS

from ..conftest import check_gradients, log_probability, small_network, untrained_aligner

CHANGES = [
    {},
    {"attention": "additive+sparsemax"},
    {"attention": "uniform", "layers": 1},
    {"attention": "general+entmax15", "heads": 1},
]


def small_transformer(vocabulary=24, seed=3, **changes):
    """In evaluation mode, with weights large enough to matter."""
    torch.manual_seed(seed)
    fields = {"embedding": 8, "heads": 2, "hidden": 10, "layers": 2, "dropout": 0.0}
    network = Transformer(TransformerSettings(**{"vocabulary": vocabulary, **fields, **changes}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return network.double().eval()


class NaiveTransformer:
    """The same network in NumPy: loops over positions, heads and layers."""

    def __init__(self, network):
        self.w = {name: value.numpy() for name, value in network.state_dict().items()}
        self.network, self.settings = network, network.settings

    def linear(self, name, x):
        return self.w[f"{name}.weight"] @ x + self.w[f"{name}.bias"]

    def norm(self, name, x):
        x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def around(self, name, states, function):
        """x + f(norm(x)) of all states."""
        given = [self.norm(f"{name}.norm", x) for x in states]
        return [x + f for x, f in zip(states, function(given), strict=True)]

    def feed_forward(self, name, states):
        return [self.linear(f"{name}.3", np.maximum(self.linear(f"{name}.0", x), 0)) for x in states]

    def position(self, place):
        size = self.settings.embedding
        rates = [10000 ** (-2 * (i // 2) / size) for i in range(size)]
        return np.array([np.cos(place * r) if i % 2 else np.sin(place * r) for i, r in enumerate(rates)])

    def embed(self, ids):
        size = self.settings.embedding
        return [self.w["embedding.weight"][i] * size**0.5 + self.position(n) for n, i in enumerate(ids)]

    def to_itself(self, name, states, causal):
        size, heads = self.settings.embedding, self.settings.heads
        part = size // heads
        q, k, v = np.split(np.array([self.linear(f"{name}.maps", x) for x in states]), 3, axis=1)
        out = []
        for i in range(len(states)):
            contexts = []
            for head in range(heads):
                own = slice(head * part, (head + 1) * part)
                seen = range(i + 1 if causal else len(states))
                scores = [q[i, own] @ k[j, own] / np.sqrt(part) for j in seen]
                weights = np.exp(scores) / np.exp(scores).sum()
                contexts.append(weights @ v[: len(weights), own])
            out.append(self.linear(f"{name}.out", np.concatenate(contexts)))
        return out

    def encode(self, ids):
        states = self.embed(ids)
        for n in range(self.settings.layers):
            name = f"encoder.{n}"
            states = self.around(
                f"{name}.residuals.0", states, lambda x, name=name: self.to_itself(f"{name}.attention", x, False)
            )
            states = self.around(
                f"{name}.residuals.1", states, lambda x, name=name: self.feed_forward(f"{name}.feed_forward", x)
            )
        return [self.norm("last_norms.0", x) for x in states]

    def matrices(self, source, target, seen=None):
        """alpha of every layer (layers, T, L), and the distributions (T, V); of ``seen`` encoder states only."""
        h = seen if seen is not None else self.encode(source)
        states, alpha = self.embed([1, *target][: len(target)]), []
        for n in range(self.settings.layers):
            name = f"decoder.{n}"
            states = self.around(
                f"{name}.residuals.0", states, lambda x, name=name: self.to_itself(f"{name}.attention", x, True)
            )
            rows = []

            def to_source(given, name=name, n=n, rows=rows):
                out = []
                for x in given:
                    contexts, weights = self.look(n, x, h)
                    rows.append(weights.mean(0))
                    out.append(self.linear(f"{name}.out", contexts))
                return out

            states = self.around(f"{name}.residuals.1", states, to_source)
            states = self.around(
                f"{name}.residuals.2", states, lambda x, name=name: self.feed_forward(f"{name}.feed_forward", x)
            )
            alpha.append(rows)
        logits = [self.linear("output", self.norm("last_norms.1", x)) for x in states]
        return np.array(alpha), np.array([np.exp(z) / np.exp(z).sum() for z in logits])

    def look(self, layer, x, h):
        """Contexts (E,) and weights (K, L) of one state; scores and normalizers have tests of their own."""
        heads, part = self.settings.heads, self.settings.embedding // self.settings.heads
        name, cross = f"decoder.{layer}.cross", self.network.decoder[layer].cross
        q = self.linear(f"{name}.query", x)
        k, v = (np.array([self.linear(f"{name}.{each}", one) for one in h]) for each in ("key", "value"))
        weights, contexts = [], []
        for head in range(heads):
            own = slice(head * part, (head + 1) * part)
            if self.settings.attention == "uniform":
                alpha = np.full(len(h), 1 / len(h))
            else:
                with torch.no_grad():
                    scores = cross.score(torch.tensor(q[None, None, own]), torch.tensor(k[None, :, own]), None)
                    alpha = cross.normalizer(scores[:, None], None)[0, 0, 0].numpy()
            weights.append(alpha)
            contexts.append(alpha @ v[:, own])
        return np.concatenate(contexts), np.array(weights)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_scores_of_a_batch_are_those_of_a_loop(bitext, changes):
    network = small_transformer(**changes)
    naive = NaiveTransformer(network)
    sizes = BatchSizes(7, equal_lengths=False)  # with padding
    found = [network_scores(network, bitext, kind, sizes=sizes) for kind in ("alpha", "beta")]
    one = network_scores(network, bitext, "alpha", reading=Reading(layer=network.settings.layers))
    for m, (source, target) in enumerate(zip(bitext.source, bitext.target, strict=True)):
        if m > 2 or not len(source) or not len(target):
            continue
        alpha, _ = naive.matrices(source, target)
        np.testing.assert_allclose(found[0][m], alpha.mean(0), atol=1e-6)
        np.testing.assert_allclose(one[m], alpha[-1], atol=1e-6)
        states = naive.encode(source)
        for place in range(len(source)):
            _, seen = naive.matrices(source, target, states[place : place + 1])
            np.testing.assert_allclose(found[1][m][:, place], seen[range(len(target)), target], atol=1e-6)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("reading", [Reading(), Reading(layer=1), Reading(layer=1, head=1), Reading(head=1)])
def test_ov_circuits_are_those_of_a_loop(bitext, changes, reading):
    network = small_transformer(**changes)
    naive, found = NaiveTransformer(network), network_scores(network, bitext, "ov", reading=reading)
    layers, part = network.settings.layers, network.settings.embedding // network.settings.heads
    for m in (0, 2, 3):
        for place, h in enumerate(naive.encode(bitext.source[m])):
            total = np.zeros(network.settings.embedding)
            for layer in range(layers) if not reading.layer else [reading.layer - 1]:
                value = naive.linear(f"decoder.{layer}.cross.value", h)
                for head in range(network.settings.heads) if not reading.head else [reading.head - 1]:
                    own = slice(head * part, (head + 1) * part)
                    total += naive.w[f"decoder.{layer}.out.weight"][:, own] @ value[own]
            odds = np.exp(naive.linear("output", naive.norm("last_norms.1", total)))
            np.testing.assert_allclose(found[m][:, place], (odds / odds.sum())[bitext.target[m]], atol=1e-6)


def test_only_transformers_have_ov_circuits(bitext, tokenizer):
    network = small_transformer()
    own = NeuralAligner(network, tokenizer, RunSettings(network=network.settings), 0, {}, "")
    assert [*own.kinds] == [*untrained_aligner(tokenizer, bitext).kinds, "ov"]
    with pytest.raises(AlignkitError, match="no OV circuits"):
        network_scores(small_network(), bitext, "ov")


@pytest.mark.parametrize("changes", CHANGES[:2], ids=str)
def test_saliency_equals_finite_differences(bitext, changes):
    network = small_transformer(**changes)
    scores = network_scores(network, bitext, "delta")
    for m in (0, 2):
        batch = Batcher(bitext, torch.device("cpu"))(np.array([m]))
        for place in range(len(batch.source)):
            step = torch.zeros(batch.source.shape, dtype=torch.float64)
            step[place] = 1e-5
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    encoding = network.encode(batch.source, batch.source_lengths, 1 + sign * step)
                    logits = network.output(network.decode(batch.previous, encoding, encoding.start).features[0])
                    ends.append(torch.log_softmax(logits, 1).gather(1, batch.target)[:, 0].numpy())
            np.testing.assert_allclose(scores[m][:, place], (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-6)


def test_leave_one_out_removes_a_token(bitext):
    network = small_transformer()
    found, naive = network_scores(network, bitext, "loo"), NaiveTransformer(network)
    for m in (0, 2):
        source, target = bitext.source[m], bitext.target[m]
        whole = naive.matrices(source, target)[1][range(len(target)), target]
        for place in range(len(source)):
            less = naive.matrices(np.delete(source, place), target)[1][range(len(target)), target]
            np.testing.assert_allclose(found[m][:, place], np.log(whole) - np.log(less), atol=1e-5)


@pytest.mark.parametrize("changes", CHANGES[:3], ids=str)
def test_step_by_step_is_as_at_once(changes):
    """The cache of keys and values, K hypotheses to a sentence, and padding."""
    network = small_transformer(vocabulary=9, **changes)
    with torch.no_grad():
        network.output.bias[EOS] = -50.0  # no hypothesis ends before its 5 tokens
    source, lengths = torch.tensor([[1, 1, 4], [4, 3, 2], [2, 6, 0]]), np.array([3, 3, 2])
    tokens, scores = beam_search(network, source, lengths, 4, 5)
    for m, length in enumerate(lengths):
        for ids, score in zip(tokens[m], scores[m], strict=True):
            wanted = log_probability(network, source[:length, m : m + 1], lengths[m : m + 1], ids[:, None])
            assert score.item() == pytest.approx(wanted.item(), abs=1e-9)


@pytest.mark.parametrize(("changes", "constant"), [(CHANGES[0], "key"), (CHANGES[1], "score.value")])
def test_the_loss_reaches_every_parameter(bitext, changes, constant):
    network = small_transformer(**changes).train()
    batch = Batcher(bitext, torch.device("cpu"))(np.arange(8))
    idle = [f"decoder.{layer}.cross.{constant}.bias" for layer in (0, 1)]
    check_gradients(network, lambda: batch_loss(network, batch), idle)


def test_what_it_refuses():
    with pytest.raises(AlignkitError, match="reinforce is for networks whose later tokens"):
        small_transformer(attention="dot+reinforce")


def test_a_shifted_row_is_that_of_the_step_whose_input_is_the_word(bitext):
    """Row t is the naive network's row t + 1 when some word follows."""
    network = small_transformer()
    naive = NaiveTransformer(network)
    for reading in (Reading(shifted=True), Reading(layer=1, shifted=True)):
        found = network_scores(network, bitext, "alpha", reading=reading)
        for m in (0, 2, 3):
            alpha, _ = naive.matrices(bitext.source[m], np.append(bitext.target[m], 7))
            expected = alpha[reading.layer - 1] if reading.layer else alpha.mean(0)
            np.testing.assert_allclose(found[m], expected[1:], atol=1e-6)


def test_single_heads_have_the_mean_of_the_layer(bitext):
    network = small_transformer()
    heads = [network_scores(network, bitext, "alpha", reading=Reading(layer=2, head=k)).values for k in (1, 2)]
    layer = network_scores(network, bitext, "alpha", reading=Reading(layer=2)).values
    np.testing.assert_allclose(np.mean(heads, 0), layer, atol=1e-6)
    assert np.abs(heads[0] - heads[1]).max() > 0.05
