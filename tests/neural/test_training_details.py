"""How networks are trained: the optimiser, dropout, the first weights, the epoch that is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.neural.proxy import fit_proxy
from alignkit.neural.scoring.evaluation import translate
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.loop import adam, optimise
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import EOS

from .conftest import small_network


def test_adam_has_its_usual_moments() -> None:
    (group,) = adam([torch.zeros(2, requires_grad=True)], 0.3).param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (0.3, (0.9, 0.999), 1e-8)
    assert (group["weight_decay"], group["amsgrad"]) == (0, False)


def test_random_numbers_of_a_step_depend_on_the_seed_and_the_step_alone() -> None:
    def course(seed: int, start: int) -> tuple[list[int], list[float]]:
        x, drawn = torch.zeros(1, requires_grad=True), []

        def loss(step: int) -> torch.Tensor:
            drawn.append(float(torch.rand(())))
            assert adam_of_x.param_groups[0]["lr"] == 0.1 * (step + 1)
            return (x - 1).square().sum()

        adam_of_x = adam([x], 9.0)
        steps = list(optimise(adam_of_x, loss, 5, start=start, seed=seed, rate=lambda step: 0.1 * (step + 1)))
        return steps, drawn

    before = torch.get_rng_state()
    steps, drawn = course(3, 0)
    assert steps == [0, 1, 2, 3, 4, 5]
    assert len(set(drawn)) == 5
    assert course(3, 2) == ([2, 3, 4, 5], drawn[2:])
    assert not set(course(4, 0)[1]) & set(drawn)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_is_between_the_layers_of_both_lstms() -> None:
    """In training, half of what the first layer gives to the second is dropped, in the encoder and the decoder."""
    network = small_network(dropout=0.5).train()
    source, previous, lengths = torch.tensor([[4], [5], [6]]), torch.tensor([[1], [7], [8]]), np.array([3])
    start = network.encode(source, lengths).start
    decoded = [network.states(previous, start)[0] for _ in range(2)]
    assert not torch.equal(*decoded)
    assert not torch.equal(network.encode(source, lengths).h, network.encode(source, lengths).h)
    network.eval()
    assert torch.equal(network.states(previous, start)[0], network.states(previous, start)[0])
    without = small_network(dropout=0.0).train()
    assert torch.equal(without.states(previous, start)[0], without.states(previous, start)[0])


def test_the_epoch_of_the_proxy_with_the_lowest_validation_loss_is_kept() -> None:
    """On little text with a large rate the validation loss soon rises again."""
    rng = np.random.default_rng(3)
    sides = [[[f"{mark}{i}" for i in rng.integers(0, 15, 5)] for _ in range(40)] for mark in "st"]
    text = Bitext.from_sentences(*sides)
    train, held = text.take(np.arange(20)), text.take(np.arange(20, 40))
    settings = ProxySettings(embedding=16, learning_rate=0.05, batch=4)
    fitted = [fit_proxy(train, held, replace(settings, epochs=n), device="cpu") for n in range(1, 13)]
    losses, proxy = [each.loss for each in fitted], fitted[-1]
    best = losses.index(min(losses))
    assert best < 8  # the epochs after it were worse, and changed nothing
    assert proxy.loss == losses[best]
    assert torch.equal(proxy.embedding, fitted[best].embedding)
    again = fit_proxy(train, held, ProxySettings(embedding=16, epochs=0), device="cpu")
    assert proxy.loss <= again.loss
    # what is kept are the weights of that epoch, not of the last
    logits = [
        proxy.embedding[torch.from_numpy(x.astype(np.int64))].mean(0) @ proxy.output.t() for x in held.source
    ]
    parts = [
        -torch.log_softmax(row, 0)[torch.from_numpy(y.astype(np.int64))]
        for row, y in zip(logits, held.target, strict=True)
    ]
    assert float(torch.cat(parts).mean()) == pytest.approx(proxy.loss, abs=1e-4)


def test_the_proxy_starts_from_weights_as_torch_draws_them() -> None:
    """Standard normal embeddings, and an output layer uniform within 1/sqrt K."""
    words = [[f"s{i}" for i in range(300)]]
    text = Bitext.from_sentences(words, [[f"t{i}" for i in range(200)]])
    proxy = fit_proxy(text, text, ProxySettings(embedding=64, epochs=0), device="cpu")
    assert float(proxy.embedding.std()) == pytest.approx(1, abs=0.03)
    assert float(proxy.output.abs().max()) == pytest.approx(1 / 8, abs=1e-3)
    assert float(proxy.output.std()) == pytest.approx(1 / 8 / 3**0.5, abs=2e-3)


def test_a_translation_that_does_not_end_has_twice_as_many_tokens_as_its_source_and_ten() -> None:
    network = small_network()
    with torch.no_grad():
        network.output.bias[EOS] = -1e9
    text = Bitext.from_sentences([["a"], ["b", "c", "d"]], [["x"], ["y"]])
    lengths = [len(x) for x in text.source]
    assert [len(ids) for ids in translate(network, text.source)] == [2 * length + 10 for length in lengths]
