"""Selectors against their distribution functions, enumeration and each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch.nn.functional import binary_cross_entropy_with_logits

from alignkit.neural.networks.selectors import SELECTORS, Rationalizer, scattering
from alignkit.neural.settings import ClassifierSettings
from alignkit.neural.training.rationales import SelectionPenalty, rationalizer_loss

SIZES = ClassifierSettings(vocabulary=6, embedding=3, hidden=2, attention_hidden=2)


@pytest.mark.parametrize("name", ["hardkuma", "hard-concrete"])
@pytest.mark.parametrize("scores", [(-1.0, 0.5), (2.0, 1.0)])
def test_draws_have_the_distribution_function(name, scores):
    selector = SELECTORS[name]()
    torch.manual_seed(0)
    rows = torch.tensor(scores[: selector.scores]).expand(1, 4000, -1)
    mask = torch.ones(1, 4000, dtype=torch.bool)
    found = selector.draw(rows, mask)
    z, kept = found.z[0].double().numpy(), found.kept[0, 0].item()

    def cumulative(z):  # of the stretched variable, at z
        x = (np.asarray(z) + 0.1) / 1.2
        if name == "hardkuma":
            a, b = np.log1p(np.exp(np.array(scores) + 0.5413))
            return 1 - (1 - x**a) ** b
        return 1 / (1 + np.exp(-(np.log(x / (1 - x)) * 2 / 3 - scores[0])))

    assert kept == pytest.approx(1 - cumulative(0.0), abs=1e-5)
    assert np.mean(z > 0) == pytest.approx(kept, abs=0.03)
    assert np.mean(z == 1) == pytest.approx(1 - cumulative(1.0), abs=0.03)
    inside = z[(z > 0) & (z < 1)]
    low, high = cumulative(0.0), cumulative(1.0)
    assert kstest(inside, lambda z: (cumulative(z) - low) / (high - low)).pvalue > 1e-3


@pytest.mark.parametrize("name", SELECTORS)
def test_padding_is_never_selected_and_decisions_follow_scores(name):
    selector = SELECTORS[name]()
    torch.manual_seed(1)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    scores = torch.randn(2, 4, selector.scores)
    for found in (selector.draw(scores, mask), selector.decide(scores, mask)):
        assert not found.z[1, 2:].any()
        assert not found.kept[1, 2:].any()
        assert ((found.z >= 0) & (found.z <= 1)).all()
    strong = torch.full((1, 3, selector.scores), -6.0)
    strong[0, 1] = torch.tensor([6.0, -6.0][: selector.scores])  # of Kumaraswamy: a large, b small
    assert selector.decide(strong, torch.ones(1, 3, dtype=torch.bool)).z[0, 1] == 1


def test_expected_scattering_equals_enumeration():
    p = torch.tensor([[0.2, 0.7, 0.4, 0.9], [0.5, 0.1, 0.8, 0.3]])
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    found = scattering(p * mask, mask, independent=True)
    for row, length in enumerate((4, 3)):
        total = 0.0
        for z in itertools.product((0, 1), repeat=length):
            probability = np.prod([p[row, i].item() if z[i] else 1 - p[row, i].item() for i in range(length)])
            total += probability * np.mean(np.abs(np.diff(z)))
        assert found[row].item() == pytest.approx(total, abs=1e-6)
    z = torch.tensor([[0.0, 1.0, 1.0, 0.25]])
    assert scattering(z, z >= 0, independent=False).item() == pytest.approx(1.75 / 3)


def test_the_estimated_gradient_is_that_of_the_expectation():
    """REINFORCE, on average, against the gradient of the loss summed over all selections of three words."""
    torch.manual_seed(2)
    network = Rationalizer(SIZES, "reinforce")
    words, lengths, y = torch.tensor([[1], [2], [5]]), np.array([3]), torch.ones(1)
    weights = [network.scores.weight, network.predictor.output.weight, network.predictor.embedding.weight]
    penalty = SelectionPenalty(share=0.1, short=0.7, contiguous=0.4)
    first, mask = network.select(words, lengths)
    kept, exact = first.kept[0], torch.zeros(())
    for z in itertools.product((0.0, 1.0), repeat=3):
        probability = torch.stack([k if one else 1 - k for k, one in zip(kept, z, strict=True)]).prod()
        logits = network.predict(words, lengths, torch.tensor([z]))
        exact = exact + probability * binary_cross_entropy_with_logits(logits, y)
    exact = exact + 0.7 * (kept.mean() - 0.1).clamp(min=0) + 0.4 * scattering(first.kept, mask, True).mean()
    wanted = torch.autograd.grad(exact, weights)
    many = 4000
    loss = rationalizer_loss(network, words.expand(-1, many), np.full(many, 3), torch.ones(many), penalty)
    assert loss.item() == pytest.approx(exact.item(), abs=0.02)
    for found, gradient in zip(torch.autograd.grad(loss, weights), wanted, strict=True):
        torch.testing.assert_close(found, gradient, atol=0.01, rtol=0.1)
    assert wanted[0].abs().max() > 0.02


def test_a_predictor_sees_nothing_of_words_left_out():
    torch.manual_seed(3)
    network = Rationalizer(SIZES, "hardkuma").eval()
    z = torch.tensor([[0.0, 1.0, 0.0]])
    one, other = torch.tensor([[1], [2], [3]]), torch.tensor([[4], [2], [5]])
    lengths = np.array([3])
    assert torch.equal(network.predict(one, lengths, z), network.predict(other, lengths, z))
    nothing = network.predict(one, lengths, torch.zeros(1, 3))
    torch.testing.assert_close(nothing, network.predictor.output.bias)
