"""An ensemble of networks against the single networks that it consists of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import ensemble as networks
from alignkit.lab.experiments.ensemble import (
    EnsembleLSTM,
    ForwardPass,
    SequencePlan,
    own_attention,
    train_ensemble,
)
from alignkit.neural.networks.encoder_decoder import EncoderDecoder

V, H, B, L, T = 12, 8, 5, 7, 6
SMALL = SequencePlan(H, steps=4, batch=6, every=2, learning_rate=1e-2, solved=2.0)


def network(seed=0, attention="general"):
    torch.manual_seed(seed)
    return EncoderDecoder(networks.copying_settings(V, H, attention))


def leaves(parameters):
    return {name: value.requires_grad_() for name, value in parameters.items()}


def draw(generator, count):
    words = generator.integers(3, V, (count, L))
    return words, np.hstack([np.ones((count, 1), int), words[:, :-1]]), words


def logits_of(one, source, previous):
    """(B, T, V) by the plain network."""
    return one.output(one(source.t(), np.full(len(source), source.shape[1]), previous.t()))


@pytest.mark.parametrize("attention", ["general", "uniform"])
def test_logits_and_gradients_are_the_plain_networks(attention):
    plain = [network(seed, attention) for seed in (3, 4, 5)]
    ours = leaves(networks.stack([networks.from_network(one) for one in plain]))
    torch.manual_seed(9)
    source, previous, target = (torch.randint(V, (3, B, n)) for n in (L, T, T))
    found = networks.forward(ours, source, previous)
    losses = networks.losses(found, target)
    losses.sum().backward()
    for s, one in enumerate(plain):
        logits = logits_of(one, source[s], previous[s])
        torch.testing.assert_close(found.logits[s], logits, atol=1e-5, rtol=1e-5)
        loss = cross_entropy(logits.flatten(0, 1), target[s].flatten())
        assert losses[s].item() == pytest.approx(loss.item(), rel=1e-5)
        loss.backward()
        gradients = network(0, attention)
        with torch.no_grad():
            for mine, its in zip(gradients.parameters(), one.parameters(), strict=True):
                mine.copy_(its.grad)
        for name, value in networks.from_network(gradients).items():
            torch.testing.assert_close(ours[name].grad[s : s + 1], value, atol=1e-6, rtol=1e-4, msg=name)
    accuracy = networks.token_accuracies(found, target)
    assert accuracy == pytest.approx((found.logits.argmax(-1) == target).double().mean((1, 2)).numpy())


@pytest.mark.parametrize("attention", ["general", "uniform"])
def test_there_and_back(attention):
    one = network(7, attention)
    stacked = networks.stack([networks.from_network(network(8, attention)), networks.from_network(one)])
    back = networks.to_network(stacked, 1, one.settings)
    for name, value in one.state_dict().items():
        assert torch.equal(back.state_dict()[name], value), name


def test_the_start_is_the_plain_networks():
    expected = networks.from_network(network(5))
    state = torch.random.get_rng_state()
    found = networks.initial_parameters(networks.copying_settings(V, H), 5)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_lstms_gradient_is_the_differences():
    torch.manual_seed(0)
    shapes = [(2, 4, 12), (2, 3, 12), (2, 5, 3), (2, 5, 3)]
    table, weight, h, c = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    tokens = torch.randint(4, (2, 6, 5))
    assert torch.autograd.gradcheck(
        lambda *a: EnsembleLSTM.apply(a[0], a[1], tokens, a[2], a[3]), (table, weight, h, c)
    )


def test_contexts_of_heads_are_added():
    """Two heads that look alike are one head whose projection is the sum of theirs."""
    start = networks.initial_parameters(networks.copying_settings(V, H), 1)
    head = networks.random_head(H, 2)
    alike = head | {name: start[name] for name in ("query", "query_bias")}
    first = {name: start[name] for name in networks.HEAD}
    two = networks.replace_heads(start, [first, alike])
    summed = start | {name: start[name] + head[name] for name in ("context", "context_bias")}
    source, previous, _ = (torch.from_numpy(part)[None] for part in draw(np.random.default_rng(0), B))
    found = networks.forward(two, source, previous)
    torch.testing.assert_close(
        found.logits, networks.forward(summed, source, previous).logits, atol=1e-5, rtol=1e-5
    )
    assert len(found.weights) == 2
    torch.testing.assert_close(found.weights[0].sum(-1), torch.ones(1, B, L))


def test_training_is_that_of_the_plain_network():
    [run] = train_ensemble([networks.from_network(network(2))], [11], draw, SMALL)
    one, stream = network(2), np.random.default_rng(11)
    optimizer = torch.optim.Adam(one.parameters(), SMALL.learning_rate)
    losses = []
    for _ in range(SMALL.steps + 1):
        source, previous, target = (torch.from_numpy(part) for part in draw(stream, SMALL.batch))
        loss = cross_entropy(logits_of(one, source, previous).flatten(0, 1), target.flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if len(losses) <= SMALL.steps:
            optimizer.step()
    assert run.steps.tolist() == [0, 2, 4]
    assert run.loss == pytest.approx(losses[::2], rel=1e-4)
    for name, value in networks.from_network(one).items():
        torch.testing.assert_close(run.parameters[name], value, atol=2e-4, rtol=1e-3, msg=name)


def test_no_network_sees_another_whatever_the_threads():
    starts = [networks.initial_parameters(networks.copying_settings(V, H), seed) for seed in range(5)]
    together = train_ensemble(starts, range(5), draw, SMALL, together=3)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        alone = train_ensemble(starts, range(5), draw, SMALL, together=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(together, alone, strict=True):
        assert one.accuracy == pytest.approx(other.accuracy, abs=0.03)  # a token whose two best words nearly tie
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        for name, value in one.parameters.items():
            torch.testing.assert_close(value, other.parameters[name], atol=1e-4, rtol=1e-4)
    assert not np.allclose(together[0].loss, together[1].loss)


@pytest.mark.parametrize("reason", ["solved", "attended"])
def test_a_network_that_is_done_stops_and_the_others_go_on_as_before(reason):
    starts = [networks.initial_parameters(networks.copying_settings(V, H), seed) for seed in range(3)]
    settings = replace(SMALL, steps=30, every=1)
    through = train_ensemble(starts, range(3), draw, settings)
    curves = [run.accuracy if reason == "solved" else run.attention / run.attention[0] for run in through]
    twice = [np.minimum(curve[1:], curve[:-1]) for curve in curves]
    bar = float(np.median([values.max() for values in twice])) * 0.99
    ends = [int(np.argmax(values >= bar)) + 1 if values.max() >= bar else 30 for values in twice]
    assert len(set(ends)) == 3
    stopped = train_ensemble(starts, range(3), draw, replace(settings, **{reason: bar}))
    for one, other, end in zip(stopped, through, ends, strict=True):
        assert one.steps.tolist() == list(range(end + 1))
        assert one.loss == pytest.approx(other.loss[: end + 1], rel=1e-4)
        assert one.at(np.array([0, 30])).tolist() == [one.accuracy[0], one.accuracy[-1]]


def test_progress_ends_at_the_total():
    told = []
    starts = [networks.initial_parameters(networks.copying_settings(V, H), seed) for seed in range(3)]
    settings = replace(SMALL, solved=1e-9)  # all stop at their second measurement
    train_ensemble(starts, range(3), draw, settings, lambda *a: told.append(a), together=2)
    assert told[-1] == (12, 12, "")


def test_rounded_products_train_nearly_the_same():
    starts = [networks.initial_parameters(networks.copying_settings(V, H), seed) for seed in range(2)]
    settings = replace(SMALL, steps=20)
    before = torch.backends.mkldnn.matmul.fp32_precision
    exact = train_ensemble(starts, range(2), draw, settings)
    rounded = train_ensemble(starts, range(2), draw, replace(settings, products="bfloat16"))
    for one, other in zip(exact, rounded, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=0.02)
    assert torch.backends.mkldnn.matmul.fp32_precision == before
    again = train_ensemble(starts, range(2), draw, settings)
    assert [run.loss.tobytes() for run in again] == [run.loss.tobytes() for run in exact]


@pytest.mark.parametrize(
    "changes", [{"products": "float16"}, {"steps": 0}, {"batch": 0}, {"every": 0}, {"learning_rate": 0.0}]
)
def test_impossible_settings(changes):
    with pytest.raises(AlignkitError, match=next(iter(changes))):
        SequencePlan(**changes)


def test_attention_to_the_own_word():
    """The mean over heads and tokens of what a plain loop sums up."""
    rng = np.random.default_rng(0)
    weights = [torch.from_numpy(rng.dirichlet(np.ones(4), (2, 3, 4))) for _ in range(2)]
    source, target = (torch.from_numpy(rng.integers(3, 9, (2, 3, 4))) for _ in range(2))
    expected = [
        np.mean(
            [
                sum(float(head[s, b, t, j]) for j in range(4) if source[s, b, j] == target[s, b, t])
                for head in weights
                for b in range(3)
                for t in range(4)
            ]
        )
        for s in range(2)
    ]
    found = ForwardPass(torch.zeros(2, 3, 4, 9), tuple(weights))
    assert own_attention(found, source, target) == pytest.approx(expected)
    without = own_attention(ForwardPass(found.logits, ()), target, target)
    same = (target[..., :, None] == target[..., None, :]).double()
    assert without == pytest.approx(same.mean((1, 2, 3)).numpy())
