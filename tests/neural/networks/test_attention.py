"""General attention: its own gradient against finite differences, and the same bits at any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.neural.networks.attention import dot_product_attention, uniform_weights
from alignkit.neural.proxy import fit_proxy
from alignkit.neural.settings import LstmSettings, ProxySettings, RunSettings, TrainingSettings
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import TranslationTask
from alignkit.text.tokenization import encode_bitext, learn_words

from ..conftest import at_one_thread_and_two


def large_text(count, types, longest):
    """A tokenizer and pairs of many types: large enough products to be shared between threads."""
    lines, rng = ([], []), np.random.default_rng(1)
    for side in lines:
        for length in rng.integers(1, longest + 1, count):
            side.append(" ".join(f"w{w}" for w in rng.integers(0, types, length)))
    tokenizer = learn_words([*lines[0], *lines[1]])
    return tokenizer, encode_bitext(tokenizer, *lines)


@pytest.mark.parametrize("masked", [False, True])
def test_gradient_equals_finite_differences(masked):
    generator = torch.Generator().manual_seed(1)
    query, h = (torch.randn(2, n, 4, dtype=torch.float64, generator=generator) for n in (3, 5))
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]) if masked else None
    inputs = query.requires_grad_(), h.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: dot_product_attention(q, k, mask)[0], inputs)


def test_uniform_weights_are_shared_by_tokens_without_padding():
    mask = torch.tensor([[True] * 4, [True, False, False, False]])
    found = uniform_weights(torch.zeros(2, 4, 3), mask)
    assert found.tolist() == [[[0.25] * 4], [[1, 0, 0, 0]]]


@pytest.mark.parametrize("attention", ["general", "additive+sparsemax"])
def test_training_and_scores_have_the_same_bits_at_any_number_of_threads(attention):
    if not torch.backends.mkl.is_available():
        pytest.skip("only MKL's products are the same at any number of threads")
    tokenizer, bitext = large_text(16, 500, 10)
    network = LstmSettings(attention=attention, layers=1)
    settings = RunSettings(network=network, training=TrainingSettings(steps=1, bleu="never"))

    def trained():
        task = TranslationTask(bitext, bitext.take(np.arange(2)), settings, tokenizer, device="cpu")
        best = Trainer(task).run()
        weights = [w.numpy().tobytes() for w in best.network.state_dict().values()]
        scores = [best.score(bitext.take(np.arange(6)), kind).values.tobytes() for kind in ("alpha", "beta")]
        return weights, scores, best.step

    one, two = at_one_thread_and_two(trained)
    assert one == two


def test_the_proxy_has_the_same_bits_at_any_number_of_threads():
    if not torch.backends.mkl.is_available():
        pytest.skip("only MKL's products are the same at any number of threads")

    _, bitext = large_text(70, 1000, 30)

    def trained():
        proxy = fit_proxy(bitext, bitext, ProxySettings(epochs=1), device="cpu")
        return proxy.embedding.numpy().tobytes(), proxy.score(bitext, "beta").values.tobytes()

    one, two = at_one_thread_and_two(trained)
    assert one == two
