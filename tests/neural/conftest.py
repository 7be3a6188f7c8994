"""Small texts and networks for the tests of the neural aligners."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import evaluation_mode
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.settings import LstmSettings, RunSettings, TextSettings, TrainingSettings
from alignkit.text.tokenization import BOS, encode_bitext, learn_words

WORDS = [f"w{i}" for i in range(20)]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def at_one_thread_and_two(compute):
    """What a function returns at each number of threads."""
    before, found = torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(compute())
    torch.set_num_threads(before)
    return found


def random_lines(count, seed, longest=8):
    """Sentences of random words; among the first six one is empty."""
    rng = np.random.default_rng(seed)
    lines = [" ".join(rng.choice(WORDS, rng.integers(1, longest + 1))) for _ in range(count)]
    if count > 5:
        lines[5] = ""
    return lines


@pytest.fixture
def tokenizer():
    return learn_words(WORDS)


@pytest.fixture
def bitext(tokenizer):
    """24 pairs of unlike lengths, one side empty here and there."""
    return encode_bitext(tokenizer, random_lines(24, 1), random_lines(24, 2)[::-1])


def small_network(vocabulary=24, seed=3, **changes):
    """An untrained network of H = 6 and embedding 5, in evaluation mode, with weights large enough to matter."""
    torch.manual_seed(seed)
    fields = {"vocabulary": vocabulary, "embedding": 5, "hidden": 6, "layers": 2, **changes}
    network = EncoderDecoder(LstmSettings(**fields))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return network.eval()


def untrained_aligner(tokenizer, bitext, **changes):
    """A small network as if it had been trained on a bitext for three steps."""
    network = small_network(**changes)
    settings, measured = RunSettings(TextSettings("words"), network.settings), {"valid.loss": 2.0}
    return NeuralAligner(network, tokenizer, settings, 3, measured, bitext.fingerprint())


def small_settings(**training):
    """Three epochs of a tiny network over words, with dropout."""
    fields = {"batch": 4, "epochs": 3, "schedule": "dense", "bleu": "never", **training}
    return RunSettings(
        TextSettings("words"),
        LstmSettings(embedding=8, hidden=8, layers=2, dropout=0.3),
        TrainingSettings(**fields),
    )


def log_probability(network, source, lengths, target):
    """log p(y | x), float (B,), of targets (T, B), all of one length, under teacher forcing."""
    previous = torch.cat([torch.full_like(target[:1], BOS), target[:-1]])
    with evaluation_mode(network):
        logs = torch.log_softmax(network.output(network(source, lengths, previous)), 2)
        return logs.gather(2, target.t().unsqueeze(2)).sum((1, 2))


def check_gradients(network, loss, idle=(), smooth=True):
    """All parameters but the idle ones have a gradient, and the loss rises along it as fast as it says."""
    names, parameters = zip(*network.named_parameters(), strict=True)
    found = torch.autograd.grad(loss(), parameters, allow_unused=True, materialize_grads=True)
    moving = {name for name, each in zip(names, found, strict=True) if each.abs().max() > 1e-9}
    assert {*names} - moving == {*names} & {*idle}
    if smooth:
        values = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                torch._foreach_add_(parameters, found, alpha=step)
                values.append(loss().item())
        wanted = 2e-5 * sum(each.square().sum().item() for each in found)
        assert values[0] - values[1] == pytest.approx(wanted, rel=1e-4)


def parameter_count(network):
    """The number of trained parameters."""
    return sum(p.numel() for p in network.parameters())
