"""Normalizers against quadratic programs, enumeration and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from alignkit.neural.networks.attention import score_and_normalizer, score_function_loss
from alignkit.neural.settings import NORMALIZERS, parse_attention

HARD = ("straight-through", "reinforce", "gumbel")
SMOOTH = [name for name in NORMALIZERS if name not in HARD]
LENGTHS = [5, 3, 1]


def normalizer(name, heads=2, training=False, **parameters):
    """In double precision, with these values of its parameters."""
    found = (
        score_and_normalizer(parse_attention("network", f"dot+{name}"), 1, 1, 1, heads)[1].double().train(training)
    )
    with torch.no_grad():
        for parameter, value in parameters.items():
            getattr(found, parameter).copy_(torch.tensor(value, dtype=torch.float64))
    return found


def random_scores(seed=0, scale=2.0):
    """(3, 2, 4, 5), and a mask (3, 5)."""
    scores = torch.from_numpy(np.random.default_rng(seed).normal(size=(3, 2, 4, 5)) * scale)
    return scores, torch.arange(5) < torch.tensor(LENGTHS)[:, None]


def on_the_simplex(objective, length):
    """The minimiser over the simplex of a convex function of p (L,), by SLSQP."""
    bounds, constraint = [(0, 1)] * length, {"type": "eq", "fun": lambda p: p.sum() - 1}
    options = {"ftol": 1e-15, "maxiter": 500}
    start = np.full(length, 1 / length)
    return minimize(objective, start, bounds=bounds, constraints=constraint, options=options).x


def rows(scores, mask, weights):
    """(scores, weights) of every row, without padding."""
    for b, length in enumerate(mask.sum(1).tolist()):
        for a, w in zip(scores[b].flatten(0, 1), weights[b].flatten(0, 1), strict=True):
            yield a[:length].numpy(), w[:length].detach().numpy()


def entropy(p, alpha):
    """Tsallis' entropy, of which entmax is the regularised argmax."""
    return (p - np.clip(p, 0, None) ** alpha).sum() / (alpha * (alpha - 1))


@pytest.mark.parametrize(
    ("name", "alpha"), [("sparsemax", 2), ("entmax15", 1.5), ("entmax:1.2", 1.2), ("entmax:3", 3)]
)
def test_entmax_maximises_the_score_plus_the_entropy(name, alpha):
    scores, mask = random_scores(1, 0.7)
    for a, w in rows(scores, mask, normalizer(name)(scores, mask)):
        best = on_the_simplex(lambda p, a=a: -(p @ a) - entropy(p, alpha), len(a))
        np.testing.assert_allclose(w, best, atol=1e-4)


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("training", [False, True])
def test_padding_has_no_weight_and_no_say(name, training):
    scores, mask = random_scores(5)
    found = []
    for filling in (0.0, 50.0):
        torch.manual_seed(0)
        weights = normalizer(name, training=training)(scores.masked_fill(~mask[:, None, None], filling), mask)
        found.append(weights)
        assert (weights >= 0).all()
        assert (weights.masked_select(~mask[:, None, None].expand_as(weights)) == 0).all()
        if name != "sigmoid":
            torch.testing.assert_close(weights.sum(3), torch.ones(3, 2, 4, dtype=torch.float64))
    torch.testing.assert_close(*found)
    alone = [normalizer(name)(scores[b : b + 1, ..., :length], None) for b, length in enumerate(LENGTHS)]
    whole = normalizer(name)(scores, mask)
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(whole[b : b + 1, ..., :length], alone[b])


@pytest.mark.parametrize("name", NORMALIZERS)
def test_nothing_to_attend_to(name):
    assert normalizer(name)(torch.zeros(2, 2, 3, 0, dtype=torch.float64), None).shape == (2, 2, 3, 0)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_finite_differences(name, masked):
    scores, mask = random_scores(6)
    module = normalizer(name)
    parameters = list(module.parameters())
    inputs = [scores[:, :, :2].clone().requires_grad_(), *parameters]
    assert torch.autograd.gradcheck(lambda a, *_: module(a, mask if masked else None), inputs, eps=1e-7, atol=1e-4)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_the_derivative_that_is_written_out_is_autograds(name):
    module = normalizer(name, heads=2)
    scores, _ = random_scores(8)
    scores.requires_grad_()
    weights = module(scores, None)
    by_weight = torch.randn(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = module.pull_back(weights.detach(), by_weight)
    if name in HARD:
        assert found is None
        assert not weights.requires_grad
        return
    (expected,) = torch.autograd.grad(weights, scores, by_weight)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", HARD)
def test_hard_attention_takes_the_largest_score(name):
    scores, _ = random_scores(9)
    weights = normalizer(name)(scores, None)
    assert torch.equal(weights.argmax(3), scores.argmax(3))
    assert set(weights.unique().tolist()) == {0.0, 1.0}


def test_straight_through_has_the_gradient_of_softmax():
    scores, mask = random_scores(10)
    by_weight = torch.randn(scores.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    grads = []
    for name in ("straight-through", "softmax"):
        own = scores.clone().requires_grad_()
        grads.append(torch.autograd.grad(normalizer(name, training=True)(own, mask), own, by_weight)[0])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", ["reinforce", "gumbel", "gumbel:0.4"])
def test_samples_have_the_probabilities_of_softmax(name):
    torch.manual_seed(4)
    scores = torch.tensor([0.3, -1.0, 1.2, 0.0], dtype=torch.float64)
    weights = normalizer(name, 1, training=True)(scores.expand(1, 1, 40000, 4), None)
    assert set(weights.detach().unique().round(decimals=9).tolist()) <= {0.0, 1.0}
    np.testing.assert_allclose(weights.detach().mean((0, 1, 2)), torch.softmax(scores, 0), atol=0.01)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_gumbel_has_the_gradient_of_the_perturbed_softmax_at_its_temperature(temperature):
    scores, mask = random_scores(10)
    by_weight = torch.randn(scores.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    own, other = (scores.clone().requires_grad_() for _ in range(2))
    torch.manual_seed(3)
    hard = normalizer(f"gumbel:{temperature}", training=True)(own, mask)
    torch.manual_seed(3)
    noise = -torch.empty_like(scores).exponential_().log()
    logits = ((other + noise) / temperature).masked_fill(~mask[:, None, None], -torch.inf)
    soft = torch.softmax(logits, -1)
    torch.testing.assert_close(*(torch.autograd.grad(w, x, by_weight)[0] for w, x in ((hard, own), (soft, other))))


def test_the_score_function_estimator_has_no_bias():
    """The mean over 60,000 samples is the gradient of the expected loss, which enumeration gives."""
    torch.manual_seed(5)
    scores = torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64, requires_grad=True)
    costs = torch.tensor([2.0, 0.5, -1.0], dtype=torch.float64)
    (expected,) = torch.autograd.grad(torch.softmax(scores, 0) @ costs, scores)
    module = normalizer("reinforce", 1, training=True)
    weights = module(scores.expand(1, 1, 60000, 3), None)
    loss = score_function_loss(module, (weights @ costs).flatten(), torch.arange(60000))
    assert loss.item() == 0
    (found,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


def test_the_baseline_is_the_mean_of_the_other_losses():
    torch.manual_seed(0)
    scores = torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64, requires_grad=True)
    module = normalizer("reinforce", 1, training=True)
    sampled = module(scores.expand(1, 1, 3, 3), None).reshape(3, 3)
    assert sampled.argmax(1).unique().numel() > 1  # of equal samples the gradients cancel out
    losses, others = (torch.tensor(x, dtype=torch.float64) for x in ([3.0, 1.0, 5.0], [3.0, 4.0, 2.0]))
    (found,) = torch.autograd.grad(score_function_loss(module, losses, torch.arange(3)), scores)
    by_score = sampled - torch.softmax(scores, 0).detach()  # the gradient of log p(z) in the scores
    torch.testing.assert_close(found, ((losses - others).unsqueeze(1) * by_score).mean(0))
    one, other = (int((sampled.argmax(1) == k).nonzero()[0]) for k in sampled.argmax(1).unique()[:2])
    torch.manual_seed(0)  # the same samples again: of two, each is the baseline of the other
    module(scores.expand(1, 1, 3, 3), None)
    (found,) = torch.autograd.grad(score_function_loss(module, losses[:2], torch.tensor([one, other])), scores)
    torch.testing.assert_close(found, (2 * by_score[one] - 2 * by_score[other]) / 2)


def test_entmax_reaches_sparsemax_and_nearly_softmax():
    scores, mask = random_scores(11)
    torch.testing.assert_close(normalizer("entmax:2")(scores, mask), normalizer("sparsemax")(scores, mask))
    torch.testing.assert_close(normalizer("entmax")(scores, mask), normalizer("entmax15")(scores, mask))
    near = normalizer("entmax:1.01")(scores, mask)
    torch.testing.assert_close(near, normalizer("softmax")(scores, mask), atol=0.02, rtol=0)


def test_every_head_learns_its_own_alpha():
    scores, mask = random_scores(12)
    module = normalizer("learned-entmax", raw_alpha=[-30.0, 30.0])
    weights = module(scores, mask)
    torch.testing.assert_close(weights[:, 1], normalizer("sparsemax")(scores, mask)[:, 1])
    torch.testing.assert_close(weights[:, 0], normalizer("entmax:1.01")(scores, mask)[:, 0])
