"""How networks are trained: the optimiser, dropout, the first weights, the epoch that is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.lab.experiments.copying import SequencePlan, Sequences, train_networks
from alignkit.lab.experiments.locality import LocalitySettings, run_locality
from alignkit.neural.proxy import fit_proxy
from alignkit.neural.scoring.evaluation import translate
from alignkit.neural.settings import (
    ClassifierRunSettings,
    ClassifierSettings,
    ClassifierTraining,
    LstmSettings,
    ProxySettings,
    RunSettings,
    TextSettings,
    TrainingSettings,
)
from alignkit.neural.training.classification import train_classifier
from alignkit.neural.training.translation import train_translation
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.text.labelled import LabelledLines
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import EOS

from .conftest import random_lines, small_network


def train_a_translator(folder):
    lines = LinePairs(random_lines(12, 1), random_lines(12, 2)[::-1])
    settings = RunSettings(
        TextSettings("words"), LstmSettings(embedding=4, hidden=4), TrainingSettings(epochs=1, bleu="never")
    )
    train_translation(folder, lines, lines, settings, device="cpu")


def train_a_classifier(folder):
    lines = LabelledLines(["a b", "b c", "c a", "b b"] * 3, ["x", "y"] * 6)
    settings = ClassifierRunSettings(
        TextSettings("words"),
        ClassifierSettings(embedding=4, hidden=4, attention_hidden=4),
        ClassifierTraining(batch=4, steps=2),
    )
    train_classifier(folder, lines, lines, ("x", "y"), settings, device="cpu")


def train_a_proxy(folder):
    text = Bitext.from_sentences([["a", "b"]] * 4, [["c", "d"]] * 4)
    fit_proxy(text, text, ProxySettings(embedding=4, epochs=1), device="cpu")


def train_copying_networks(folder):
    sequences, plan = Sequences("permutation", 4, 4), SequencePlan(hidden=4, steps=2, every=1, batch=2)
    train_networks(sequences, plan, 1, no_progress)


def train_for_locality(folder):
    run_locality(LocalitySettings(seeds=1, length=8, types=3, hidden=4, batch=4, steps=2, every=1, measured=4))


@pytest.mark.parametrize(
    "train",
    [train_a_translator, train_a_classifier, train_a_proxy, train_copying_networks, train_for_locality],
)
def test_adam_has_its_usual_moments(monkeypatch: pytest.MonkeyPatch, tmp_path, train) -> None:  # type: ignore[no-untyped-def]
    made = []

    class Recorded(torch.optim.Adam):
        def __init__(self, *arguments, **options):  # type: ignore[no-untyped-def]
            super().__init__(*arguments, **options)
            made.append(self.defaults)

    monkeypatch.setattr(torch.optim, "Adam", Recorded)
    train(tmp_path / "run")
    assert made
    for defaults in made:
        assert defaults["betas"] == (0.9, 0.999)
        assert (defaults["eps"], defaults["weight_decay"], defaults["amsgrad"]) == (1e-8, 0, False)


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
