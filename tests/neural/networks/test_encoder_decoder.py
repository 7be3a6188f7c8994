"""The network and its probes against the same written out for one position at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.neural.devices import BatchSizes
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.scoring.evaluation import evaluate_network
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import PRESETS, LstmSettings
from alignkit.text.bitext import Bitext, Corpus

from ..conftest import parameter_count, small_network
from ..naive import NaiveNetwork

VARIANTS = [
    {},
    {"output": "sum"},
    {"attention": "uniform"},
    {"bidirectional": False, "layers": 1},
    {"attention": "uniform", "output": "sum", "layers": 1},
]


def test_the_papers_network_has_the_papers_size():
    network = EncoderDecoder(PRESETS["paper"].change(network={"vocabulary": 8000}).network)
    assert parameter_count(network) == 8_180_544
    assert parameter_count(network) - parameter_count(network.embedding) == 6_132_544


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_scores_equal_the_naive_ones(bitext, changes):
    network = small_network(**changes)
    naive = NaiveNetwork(network)
    # Batches of one length; and of unlike lengths, padded and packed, as on a GPU, with logits in several chunks.
    for sizes in (None, BatchSizes(7, equal_lengths=False, logits=17 * 24 * 4)):
        alpha, beta = (network_scores(network, bitext, kind, sizes=sizes) for kind in ("alpha", "beta"))
        for m in range(len(bitext)):
            wanted = naive.matrices(bitext.source[m], bitext.target[m])
            np.testing.assert_allclose(alpha[m], wanted[0], atol=1e-5)
            np.testing.assert_allclose(beta[m], wanted[1], atol=1e-5)
        assert beta.values.max() > 0.2
        assert np.ptp(alpha.values) > 0.1


@pytest.mark.parametrize("shift", [200, 0, -200])
def test_probe_survives_huge_logits(bitext, shift):
    network = small_network()
    with torch.no_grad():
        network.output.weight *= 60
        network.output.bias += shift
    naive = NaiveNetwork(network)
    beta = network_scores(network, bitext, "beta")
    wanted = naive.matrices(bitext.source[0], bitext.target[0])[1]
    np.testing.assert_allclose(beta[0], wanted, atol=1e-3)


def test_evaluation_equals_a_loop(bitext):
    network = small_network()
    naive = NaiveNetwork(network)
    right, losses = 0, []
    for source, target in zip(bitext.source, bitext.target, strict=True):
        for y, p in zip(target, naive.matrices(source, target)[2], strict=True):
            right += p.argmax() == y
            losses.append(-np.log(p[y]))
    loss, accuracy = evaluate_network(network, bitext, BatchSizes(5))
    assert accuracy == pytest.approx(right / len(losses), abs=1e-9)
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_empty_sides_give_empty_matrices(tokenizer):
    def corpus(*sentences):
        offsets = np.cumsum([0, *(len(s) for s in sentences)])
        return Corpus(np.concatenate([np.array(s, np.int32) for s in sentences]), offsets, tokenizer.vocabulary)

    text = Bitext(corpus([], [5, 6], [1, 5, 2], []), corpus([7, 2], [], [2], []))
    for kind in ("alpha", "beta", "delta", "loo"):
        assert [m.shape for m in network_scores(small_network(), text, kind)] == [(2, 0), (0, 2), (1, 3), (0, 0)]
    assert evaluate_network(small_network(), text) == evaluate_network(small_network(), text.take(np.array([2])))
    empty = text.take(np.array([0]))
    assert evaluate_network(small_network(), empty) == (0, 0)
    sure = small_network()
    torch.nn.init.constant_(sure.output.weight, 0)
    sure.output.bias.data = 1000.0 * torch.eye(len(sure.output.bias))[2]
    assert evaluate_network(sure, text.take(np.array([2]))) == (0, 1)  # of one token
    assert [len(network_scores(small_network(), empty, kind)) for kind in ("beta", "delta", "loo")] == [1, 1, 1]


def test_a_network_needs_its_vocabulary():
    with pytest.raises(AlignkitError, match="vocabulary"):
        EncoderDecoder(LstmSettings())
