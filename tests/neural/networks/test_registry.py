"""The seam for networks: networks that a user registers train, score, translate and are saved."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from alignkit.neural.aligners import NeuralAligner, load_checkpoint
from alignkit.neural.networks.attention import uniform_weights
from alignkit.neural.networks.encoder_decoder import Decoded, EncoderDecoder, Encoding, TranslationNetwork
from alignkit.neural.scoring.evaluation import beam_search, translate
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import NETWORKS, NetworkSettings, new_network
from alignkit.text.tokenization import EOS

from ..conftest import log_probability, small_network, small_settings


def weighted_mean(scores, h, mask):
    """Contexts and weights of softmax attention by scores (B, T, L)."""
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
    weights = torch.softmax(scores, 2)
    return weights @ h, weights


@dataclass(frozen=True)
class BagSettings(NetworkSettings):
    place = f"{__name__}:BagNetwork"
    architecture: str = field(default="bag", init=False)
    longest: int = 200


class BagNetwork(TranslationNetwork):
    """Embeddings and places alone: encoder states x_l + place_l, decoder states of the two last tokens."""

    def __init__(self, settings):
        super().__init__(settings)
        size = settings.embedding
        self.embedding = nn.Embedding(settings.vocabulary, size)
        self.place = nn.Embedding(settings.longest, size)
        self.state = nn.Linear(2 * size, size)
        self.output = nn.Linear(size, settings.vocabulary)

    def encode(self, source, lengths, omega=None):
        x = self.embedding(source)
        x = x if omega is None else x * omega.unsqueeze(2)
        h = (x + self.place(torch.arange(len(source)))[:, None]).transpose(0, 1)
        mask = torch.arange(len(source)) < torch.from_numpy(lengths)[:, None]
        return Encoding(h, (h.new_zeros(1, len(h), h.shape[2]),), mask)

    def decode(self, previous, encoding, state, uniform=False):
        x = torch.cat([state[0], self.embedding(previous)])
        s = torch.tanh(self.state(torch.cat([x[:-1], x[1:]], 2))).transpose(0, 1)
        copies = len(s) // len(encoding.h)
        h = encoding.h.repeat_interleave(copies, 0)
        mask = None if encoding.mask is None else encoding.mask.repeat_interleave(copies, 0)
        if uniform:
            weights = uniform_weights(h, mask).expand(-1, s.shape[1], -1)
            return Decoded(s + weights @ h, weights, (x[-1:],))
        context, weights = weighted_mean(s @ h.transpose(1, 2), h, mask)
        return Decoded(s + context, weights, (x[-1:],))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(NETWORKS, "bag", BagSettings)


def settings_of(name, **training):
    if name in NETWORKS:
        return small_settings(**training).change(network={"architecture": name, "embedding": 12})
    return small_settings(**training).change(network={"attention": name, "dropout": 0.0})


def larger(network, seed=3):
    """The network with weights large enough to matter."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return network.eval()


def test_a_registered_network_scores_translates_and_is_saved(tmp_path, bitext, tokenizer):
    settings = settings_of("bag").change(network={"vocabulary": 24})
    found = NeuralAligner(larger(new_network(settings.network)), tokenizer, settings, 0, {}, "")
    found.save(tmp_path / "x.pt")
    again = load_checkpoint(tmp_path / "x.pt", "cpu")
    assert (again.name, again.settings, type(again.network)) == ("bag", settings, BagNetwork)
    few = bitext.take(np.arange(8))
    for kind in ("alpha", "beta", "delta", "loo"):
        scores = found.score(few, kind)
        assert np.ptp(scores.values) > 0.01
        assert np.array_equal(again.score(few, kind).values, scores.values)
    for beam in (1, 3):
        assert translate(again.network, few.source, beam) == translate(found.network, few.source, beam)


@pytest.mark.parametrize("name", ["dot", "additive", "bag"])
def test_the_probability_of_a_hypothesis_is_that_of_its_tokens(name):
    """Step by step with a state, K hypotheses to a sentence, as at once under teacher forcing."""
    network = larger(new_network(settings_of(name).change(network={"vocabulary": 9}).network))
    with torch.no_grad():
        network.output.bias[EOS] = -50.0  # no hypothesis ends before its 5 tokens
    source, lengths = torch.tensor([[1, 1, 4], [4, 3, 2], [2, 6, 2]]), np.array([3, 3, 3])
    tokens, scores = beam_search(network, source, lengths, 4, 5)
    for m in range(3):
        for ids, score in zip(tokens[m], scores[m], strict=True):
            wanted = log_probability(network, source[:, m : m + 1], lengths[:1], ids[:, None])
            assert score.item() == pytest.approx(wanted.item(), abs=1e-4)


@pytest.mark.parametrize(
    "changes", [{}, {"output": "sum"}, {"attention": "uniform"}, {"attention": "dot", "layers": 1}], ids=str
)
def test_the_fast_probe_is_the_plain_one(bitext, changes, monkeypatch):
    """One encoder state at a time in place of all."""
    network = small_network(**changes)
    fast = network_scores(network, bitext, "beta")
    monkeypatch.setattr(EncoderDecoder, "lexical_features", TranslationNetwork.lexical_features)
    np.testing.assert_allclose(network_scores(network, bitext, "beta").values, fast.values, atol=1e-6)
