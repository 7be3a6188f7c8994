"""The training of networks on sequences: against a plain loop, and when it ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from alignkit.errors import AlignkitError
from alignkit.lab.experiments.copying import SequencePlan, own_attention, random_network, train_on_sequences
from alignkit.neural.networks.encoder_decoder import EncoderDecoder

V, H, L = 12, 8, 7
SMALL = SequencePlan(H, steps=4, batch=6, every=2, learning_rate=1e-2, solved=2.0)


def networks(count, first=0):
    return [random_network(V, H, seed) for seed in range(first, first + count)]


def draw(generator, count):
    words = generator.integers(3, V, (count, L))
    return words, np.hstack([np.ones((count, 1), int), words[:, :-1]]), words


def test_the_first_weights_are_torchs_from_the_seed():
    state = torch.random.get_rng_state()
    found = random_network(V, H, 5).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(5)
    expected = EncoderDecoder(random_network(V, H, 0).settings).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("uniform", [False, True])
def test_training_is_that_of_a_plain_loop(uniform):
    """One of several networks learns as it does alone, from its own sequences."""
    start = networks(1, first=2)[0]
    before = {name: value.clone() for name, value in start.state_dict().items()}
    seeds = [5, 11, 7]
    run = train_on_sequences(
        [*networks(1), start, *networks(1)], seeds, draw, replace(SMALL, steps=5), uniform=uniform
    )[1]
    assert all(torch.equal(before[name], value) for name, value in start.state_dict().items())
    one, stream = networks(1, first=2)[0], np.random.default_rng(11)
    optimizer = torch.optim.Adam(one.parameters(), SMALL.learning_rate)
    losses, accuracies = [], []
    for _ in range(6):
        source, previous, target = (torch.from_numpy(part) for part in draw(stream, SMALL.batch))
        x = one.embedding(source.t())
        h, state = one.encoder(x)
        s, _ = one.decoder(one.embedding(previous.t()), state)
        scores = torch.einsum("lbh,tbh->btl", h, one.attention.score.query(s))
        alpha = torch.full_like(scores, 1 / L) if uniform else torch.softmax(scores, -1)
        context = one.context(torch.einsum("btl,lbh->bth", alpha, h))
        logits = one.output(torch.relu(one.combine(torch.cat([s.transpose(0, 1), context], -1))))
        loss = cross_entropy(logits.flatten(0, 1), target.flatten())
        losses.append(loss.item())
        accuracies.append((logits.argmax(-1) == target).double().mean().item())
        optimizer.zero_grad()
        loss.backward()
        if len(losses) <= 5:
            optimizer.step()
    assert run.steps.tolist() == [0, 2, 4, 5]
    assert run.loss == pytest.approx([losses[step] for step in run.steps], rel=1e-4)
    assert run.accuracy == pytest.approx([accuracies[step] for step in run.steps])
    for name, value in one.state_dict().items():
        torch.testing.assert_close(run.network.state_dict()[name], value, atol=2e-4, rtol=1e-3, msg=name)


def test_no_network_sees_another_whatever_the_threads():
    starts = networks(5)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        together = train_on_sequences(starts, range(5), draw, SMALL)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        alone = [train_on_sequences([start], [seed], draw, SMALL)[0] for seed, start in enumerate(starts)]
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(together, alone, strict=True):
        assert one.loss.tobytes() == other.loss.tobytes()
        for name, value in one.network.state_dict().items():
            assert torch.equal(value, other.network.state_dict()[name])
    assert not np.allclose(together[0].loss, together[1].loss)


@pytest.mark.parametrize("reason", ["solved", "attended"])
def test_a_network_that_is_done_stops_and_the_others_go_on_as_before(reason):
    starts, settings = networks(3), replace(SMALL, steps=30, every=1)
    through = train_on_sequences(starts, range(3), draw, settings)
    curves = [run.accuracy if reason == "solved" else run.attention / run.attention[0] for run in through]
    twice = [np.minimum(curve[1:], curve[:-1]) for curve in curves]
    bar = float(np.median([values.max() for values in twice])) * 0.99
    ends = [int(np.argmax(values >= bar)) + 1 if values.max() >= bar else 30 for values in twice]
    assert len(set(ends)) == 3
    stopped = train_on_sequences(starts, range(3), draw, replace(settings, **{reason: bar}))
    for one, other, end in zip(stopped, through, ends, strict=True):
        assert one.steps.tolist() == list(range(end + 1))
        assert one.loss.tolist() == other.loss[: end + 1].tolist()


def test_an_error_in_one_network_stops_the_others():
    """Also the first one, whose result is waited for."""
    batches = []

    def failing(generator, count):
        batches.append(generator)
        if generator is not batches[0]:
            raise KeyError("of the second network")
        return draw(generator, count)

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(KeyError):
            train_on_sequences(networks(5), range(5), failing, replace(SMALL, steps=400))
    finally:
        torch.set_num_threads(threads)
    assert len(batches) < 400  # of 2005; one network alone has 401


def test_progress_ends_at_the_total():
    told = []
    settings = replace(SMALL, solved=1e-9)  # all stop at their second measurement
    train_on_sequences(networks(3), range(3), draw, settings, lambda *a: told.append(a))
    assert told[-1] == (12, 12, "")
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)


def test_rounded_products_train_nearly_the_same():
    settings = replace(SMALL, steps=8)
    before = torch.backends.mkldnn.matmul.fp32_precision
    exact = train_on_sequences(networks(2), range(2), draw, settings)
    used = []

    def watched(generator, count):
        used.append(torch.backends.mkldnn.matmul.fp32_precision)
        return draw(generator, count)

    rounded = train_on_sequences(networks(2), range(2), watched, replace(settings, products="bfloat16"))
    assert {*used} == {"bf16"}
    for one, other in zip(exact, rounded, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=0.02)
    assert torch.backends.mkldnn.matmul.fp32_precision == before


@pytest.mark.parametrize(
    "changes", [{"products": "float16"}, {"steps": 0}, {"batch": 0}, {"every": 0}, {"learning_rate": 0.0}]
)
def test_impossible_settings(changes):
    with pytest.raises(AlignkitError, match=next(iter(changes))):
        SequencePlan(**changes)


def test_attention_to_the_own_word():
    """The mean over tokens of what a plain loop sums up."""
    rng = np.random.default_rng(0)
    weights = torch.from_numpy(rng.dirichlet(np.ones(4), (3, 4)))
    source, target = (torch.from_numpy(rng.integers(3, 9, (3, 4))) for _ in range(2))
    places = [(b, t, j) for b in range(3) for t in range(4) for j in range(4) if source[b, j] == target[b, t]]
    expected = sum(float(weights[place]) for place in places) / 12
    assert own_attention(weights, source, target) == pytest.approx(expected)
