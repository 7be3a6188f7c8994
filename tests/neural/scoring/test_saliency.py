"""Saliency against autograd, which scores of transformers compare with finite differences, and leave-one-out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.neural.devices import Batcher, batch_sizes
from alignkit.neural.scoring import saliency
from alignkit.neural.scoring.saliency import lstm_saliency
from alignkit.neural.scoring.translation import network_scores
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext

from ..conftest import WORDS, at_one_thread_and_two, random_lines, small_network
from ..naive import NaiveNetwork, delta_by_autograd

SIZES = batch_sizes("saliency", torch.device("cpu"))
VARIANTS = [
    {},
    {"output": "sum"},
    {"attention": "uniform"},
    {"layers": 3},
    {"bidirectional": False, "layers": 1},
    {"bidirectional": False, "layers": 2, "output": "sum"},
    {"attention": "uniform", "output": "sum", "layers": 1},
]


def log_probabilities(network, naive, x, y, scales):
    """float64 (T,): log p(y_t) with every source embedding scaled, from the paper's equations."""
    h, start = naive.encode(x, scales)
    out = []
    for s, token in zip(naive.decode(y, start), y, strict=True):
        weights = naive.attention(s, h)
        mixed = sum((a * one for a, one in zip(weights, h, strict=True)), np.zeros(network.settings.encoding))
        out.append(np.log(naive.predict(s, mixed)[token]))
    return np.array(out)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_delta_equals_autograd(bitext, changes):
    """In batches of one source length and unlike target lengths, to float64's last digits."""
    network = small_network(**changes).double()
    batcher = Batcher(bitext, torch.device("cpu"))
    lengths = bitext.source.lengths
    for length in np.unique(lengths)[::3]:
        pairs = np.flatnonzero(lengths == length)
        with torch.inference_mode():
            found = lstm_saliency(network, batcher(pairs), SIZES).numpy()
        for one, m in zip(found, pairs, strict=True):
            wanted = delta_by_autograd(network, bitext.source[m], bitext.target[m])
            np.testing.assert_allclose(one[: len(wanted)], wanted, rtol=1e-9, atol=1e-12)


def test_long_sentences_in_several_passes(tokenizer):
    text = encode_bitext(tokenizer, random_lines(3, 4, longest=12), random_lines(3, 5, longest=12))
    network = small_network()
    whole = network_scores(network, text, "delta"), network_scores(network, text, "loo")
    for limit in (1, 6 * 8 * 3, 6 * 14 * 7):
        sizes = SIZES._replace(derivatives=limit)
        parts = (
            network_scores(network, text, "delta", sizes=sizes),
            network_scores(network, text, "loo", sizes=sizes),
        )
        for one, other in zip(whole, parts, strict=True):
            np.testing.assert_allclose(one.values, other.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_leave_one_out_equals_the_network_without_each_token(bitext, changes):
    network = small_network(**changes)
    naive = NaiveNetwork(network)
    scores = network_scores(network, bitext, "loo")
    for m in range(0, len(bitext), 5):
        x, y = bitext.source[m], bitext.target[m]
        whole = log_probabilities(network, naive, x, y, None)
        for place in range(len(x)):
            without = log_probabilities(network, naive, np.delete(x, place), y, None)
            np.testing.assert_allclose(scores[m][:, place], whole - without, rtol=1e-4, atol=1e-4)
    assert np.abs(scores.values).max() > 0.1


def test_a_source_of_one_token(tokenizer):
    """Without it nothing is left: no state, a decoder that starts from zeros, a context of its bias alone."""
    text = Bitext.from_sentences([["a"], ["b"]], [["c", "d"], ["e"]])
    for changes in ({}, {"attention": "uniform", "output": "sum"}, {"bidirectional": False}):
        network = small_network(**changes)
        naive = NaiveNetwork(network)
        scores = network_scores(network, text, "loo")
        zero = [(np.zeros(6), np.zeros(6))] * 2
        for m in range(2):
            y = text.target[m]
            whole = log_probabilities(network, naive, text.source[m], y, None)
            states = naive.decode(y, zero)
            nothing = np.zeros(network.settings.encoding)
            empty = [np.log(naive.predict(s, nothing)[token]) for s, token in zip(states, y, strict=True)]
            np.testing.assert_allclose(scores[m][:, 0], whole - np.array(empty), atol=1e-4)


def test_the_number_of_threads_changes_no_bit(tokenizer):
    """At sizes where the libraries share the work: 4 sentences of 17 tokens in a batch, H = 128, V = 2,000."""
    lines = [" ".join(np.random.default_rng(seed).choice(WORDS, 15)) for seed in range(8)]
    text = encode_bitext(tokenizer, lines[:4], lines[4:])
    network = small_network(2000, embedding=64, hidden=128)
    one, two = at_one_thread_and_two(
        lambda: [network_scores(network, text, kind).values.tobytes() for kind in ("delta", "loo")]
    )
    assert one == two


def test_derivatives_that_fade_away_become_zero(tokenizer):
    """Over 200 tokens they would fall below float32's normal numbers, which are many times slower."""
    text = encode_bitext(tokenizer, [" ".join(["w1", "w2"] * 100)], [" ".join(["w3"] * 2)])
    network = small_network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= 0.3
    network.double()
    batch = Batcher(text, torch.device("cpu"))(np.array([0]))
    with torch.inference_mode():
        x = network.embedding(batch.source)
        cell = saliency.Cell.of(network.encoder, 0)
        found = saliency.tangents(cell, saliency.trace(cell, x), 0, len(x))
        delta = lstm_saliency(network, batch, SIZES)[0].numpy()
    at = found.dh[:: saliency.FLUSH_EVERY].abs()
    assert ((at == 0) | (at >= saliency.TINY)).all()
    assert (at[-1, :20] == 0).all()  # the first tokens no longer matter to the last state
    assert (at[-1, 180] > 0).any()
    wanted = delta_by_autograd(network, text.source[0], text.target[0])
    np.testing.assert_allclose(delta, wanted, rtol=1e-8, atol=1e-18)
