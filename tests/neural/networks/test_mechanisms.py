"""Mechanisms by their names: scores against plain NumPy, and networks and classifiers that have them."""

from __future__ import annotations

from functools import partial
from itertools import cycle

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.neural.devices import Batcher, batch_sizes, evaluation_mode
from alignkit.neural.networks.attention import (
    ComposedAttention,
    GeneralScore,
    Softmax,
    new_attention,
    score_and_normalizer,
)
from alignkit.neural.networks.encoder_decoder import TranslationNetwork
from alignkit.neural.scoring.saliency import autograd_saliency, has_derivatives
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import NORMALIZERS, SCORE_FUNCTIONS, Mechanism
from alignkit.neural.training.translation import batch_loss

from ..conftest import check_gradients, small_network

CPU = torch.device("cpu")


def naive_score(name, own, s, h, place):
    """a_tl of one decoder state s, or of none, and all encoder states h (L, D), from the parameters by name."""
    if name in ("general", "dot", "scaled-dot"):
        query = own["vector"] if s is None else np.tile(s, 2)
        if name == "general" and s is not None:
            query = own["query.weight"] @ s + own["query.bias"]
        return h[place] @ query / (np.sqrt(len(h[place])) if name == "scaled-dot" else 1)
    if name in ("additive", "feed-forward"):
        sums = own["query.weight"] @ h[place] + own["query.bias"] + (0 if s is None else own["state.weight"] @ s)
        hidden = np.tanh(sums) if name == "additive" else np.maximum(sums, 0)
        return own["value.weight"][0] @ hidden + own["value.bias"][0]
    key = own["keys.bias"].copy()
    for step in (-1, 0, 1):
        if 0 <= place + step < len(h):
            key += own["keys.weight"][:, :, step + 1] @ h[place + step]
    return key[0] if s is None else s @ key


@pytest.mark.parametrize("size", [3, 0], ids=["of states", "without"])
@pytest.mark.parametrize("name", SCORE_FUNCTIONS)
def test_scores_are_those_of_the_equation(name, size):
    torch.manual_seed(1)
    module = score_and_normalizer(Mechanism(name), size, 6, 4)[0].double()
    own = {key: value.numpy() for key, value in module.state_dict().items()}
    s, h = torch.randn(2, 5, size).double() if size else None, torch.randn(2, 4, 6).double()
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    h[1, 2:] = 1e6  # padding has no say
    found = module(s, h, mask).detach().numpy()
    for b, length in enumerate((4, 2)):
        states, rows = h[b, :length].numpy(), [None] if s is None else s[b].numpy()
        expected = [[naive_score(name, own, row, states, place) for place in range(length)] for row in rows]
        np.testing.assert_allclose(found[b, :, :length], expected, rtol=1e-9)
    assert module(s, h[:, :0], None).shape == (2, len(expected), 0)


def test_scores_of_a_subclass_with_a_forward_of_its_own_are_used():
    class CosineScore(GeneralScore):
        def forward(self, s, h, mask):
            return torch.cosine_similarity(self.queries(s).unsqueeze(2), h.unsqueeze(1), dim=3)

    torch.manual_seed(3)
    attention = ComposedAttention(CosineScore(3, 6, 4), Softmax(1, None))
    s, h = torch.randn(2, 5, 3), torch.randn(2, 4, 6)
    queries = attention.score.query(s)
    cosines = torch.einsum("btd,bld->btl", queries / queries.norm(dim=2)[..., None], h / h.norm(dim=2)[..., None])
    torch.testing.assert_close(attention(s, h, None)[1], torch.softmax(cosines, 2))
    assert not attention.by_query  # nor are the derivatives that are written out
    assert not attention.exact


@pytest.mark.parametrize("name", ["additive", "feed-forward"])
def test_scores_some_rows_at_a_time_are_those_at_once(name, monkeypatch):
    torch.manual_seed(4)
    module = score_and_normalizer(Mechanism(name), 3, 6, 4)[0].double()
    s, h = torch.randn(2, 5, 3).double(), torch.randn(2, 4, 6).double()
    whole = module(s, h, None)
    for most in (1, 100):
        monkeypatch.setattr("alignkit.neural.networks.attention.MOST_HIDDEN", most)
        with torch.no_grad():
            torch.testing.assert_close(module(s, h, None), whole.detach())


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        (f"{score}+{normalizer}", 1 + number % 2)
        for number, (score, normalizer) in enumerate(zip(cycle(SCORE_FUNCTIONS), NORMALIZERS, strict=False))
    ],
)
def test_the_loss_of_translations_reaches_every_parameter(name, heads, bitext):
    network = small_network(attention=name, heads=heads, dropout=0.0).double().train()
    batch = Batcher(bitext, CPU)(np.arange(8))
    smooth = not name.endswith(("straight-through", "reinforce", "gumbel"))
    # A constant that is added to all scores of a row changes no weights that sum to 1.
    constants = {"additive": "score.value", "feed-forward": "score.value", "convolution": "score.keys"}
    constant = f"attention.{constants.get(name.split('+')[0], 'key')}.bias"
    idle = () if name.endswith("sigmoid") else (constant,)
    check_gradients(network, lambda: batch_loss(network, batch), idle, smooth)


@pytest.mark.parametrize(
    "name",
    [f"general+{n}" for n in NORMALIZERS]
    + ["dot+softmax", "scaled-dot+softmax", "additive+entmax15", "convolution+sigmoid"],
)
@pytest.mark.parametrize("heads", [1, 2])
def test_saliency_is_autograds(name, heads, bitext):
    network = small_network(attention=name, heads=heads).double()
    pair = bitext.take(np.array([2]))
    batch = Batcher(pair, CPU)(np.array([0]))
    with evaluation_mode(network, gradients=True):
        plain = autograd_saliency(network, batch, batch_sizes("saliency", CPU))[0].numpy()
    np.testing.assert_allclose(network_scores(network, pair, "delta")[0], plain, rtol=1e-4, atol=1e-6)
    assert has_derivatives(network) == (heads == 1 and name.startswith(("general", "dot", "scaled-dot")))


@pytest.mark.parametrize("heads", [1, 2])
def test_the_lexical_probe_is_attention_to_one_state_alone(heads, bitext):
    network = small_network(heads=heads)
    found = network_scores(network, bitext, "beta").values
    network.lexical_features = partial(TranslationNetwork.lexical_features, network)
    assert found == pytest.approx(network_scores(network, bitext, "beta").values, abs=1e-5)


def test_heads_have_maps_of_their_own():
    """The weights and contexts of two heads, from the parameters, one head at a time."""
    torch.manual_seed(3)
    attention = new_attention("scaled-dot", 5, 6, heads=2).double()
    s, h = torch.randn(2, 3, 5).double(), torch.randn(2, 4, 6).double()
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    contexts, mean = attention(s, h, mask)
    weights = attention.head_weights(s, h, mask)
    torch.testing.assert_close(mean, weights.mean(1))
    maps = [layer.weight for layer in (attention.query, attention.key, attention.value)]
    biases = [layer.bias for layer in (attention.query, attention.key, attention.value)]
    for b, length in enumerate((4, 3)):
        for k in range(2):
            part = slice(3 * k, 3 * k + 3)
            q, key, value = (
                x @ w[part].t() + v[part]
                for x, w, v in zip((s[b], h[b, :length], h[b, :length]), maps, biases, strict=True)
            )
            alpha = torch.softmax(q @ key.t() / np.sqrt(3), 1)
            torch.testing.assert_close(weights[b, k, :, :length], alpha)
            torch.testing.assert_close(contexts[b, :, part], alpha @ value)


def test_heads_must_divide_the_states():
    with pytest.raises(AlignkitError, match="12 numbers cannot be divided among 5 heads"):
        small_network(heads=5, bidirectional=True)
