"""The proxy against its formula, its gradient at the start, and a text with a planted lexicon."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.neural import proxy
from alignkit.neural.devices import CPU, BatchSizes
from alignkit.neural.proxy import fit_proxy, proxy_of
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.loop import adam
from alignkit.text.bitext import Bitext

from .naive import softmax

SMALL = ProxySettings(embedding=8, batch=8, epochs=3)


@pytest.fixture
def text():
    """Two vocabularies of their own; an empty side here and there."""
    rng = np.random.default_rng(0)
    source = [[f"s{i}" for i in rng.integers(0, 15, rng.integers(0, 7))] for _ in range(30)]
    target = [[f"t{i}" for i in rng.integers(0, 11, rng.integers(0, 7))] for _ in range(30)]
    return Bitext.from_sentences(source, target)


def test_scores_equal_the_formula(text, monkeypatch):
    monkeypatch.setitem(CPU, "proxy", BatchSizes(256, logits=4 * 11 * 4))  # several chunks
    proxy = fit_proxy(text, text, SMALL, device="cpu")
    e, w = proxy.embedding.double().numpy(), proxy.output.double().numpy()
    scores = proxy.score(text, "beta")
    for source, target, matrix in zip(text.source, text.target, scores, strict=True):
        for t, y in enumerate(target):
            for at, x in enumerate(source):
                assert matrix[t, at] == pytest.approx(softmax(w @ e[x])[y], abs=1e-5)


def test_unknown_words_score_zero(text):
    proxy = fit_proxy(text, text, SMALL, device="cpu")
    new = Bitext.from_sentences([["s1", "new", "s2"]], [["t1", "new"]])
    known = Bitext.from_sentences([["s1", "s2"]], [["t1"]])
    scores = proxy.score(new, "beta")[0]
    assert np.array_equal(scores[:1, [0, 2]], proxy.score(known, "beta")[0])
    assert (scores[:, 1] == 0).all()
    assert (scores[1] == 0).all()
    assert (scores[0, [0, 2]] > 0).all()


def test_loss_is_that_of_a_loop_and_falls(text, monkeypatch):
    monkeypatch.setitem(CPU, "proxy", BatchSizes(7))  # several batches
    seen: list[tuple[int, int, str]] = []
    proxy = fit_proxy(text, text, SMALL, lambda *row: seen.append(row), device="cpu")
    assert [row[:2] for row in seen] == [(n, 9) for n in range(1, 10)]  # three batches in each of three epochs
    e, w = proxy.embedding.double().numpy(), proxy.output.double().numpy()
    losses = [
        -np.log(softmax(w @ e[source].mean(0))[y])
        for source, target in zip(text.source, text.target, strict=True)
        if len(source)
        for y in target
    ]
    assert proxy.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert proxy.loss < fit_proxy(text, text, ProxySettings(embedding=8, epochs=0), device="cpu").loss


def test_a_bias_is_trained_and_then_left_out(text):
    """What all words share goes into the bias, which beta lacks."""
    common = Bitext.from_sentences(
        [[f"s{i % 5}", f"s{i % 3}"] for i in range(40)], [["the", f"t{i % 5}"] for i in range(40)]
    )
    plain, biased = (
        fit_proxy(common, common, ProxySettings(embedding=4, batch=8, epochs=30, learning_rate=6e-2, bias=bias))
        for bias in (False, True)
    )
    assert biased.settings.bias
    e, w = biased.embedding.double().numpy(), biased.output.double().numpy()
    one = common.target.vocabulary.id("the")
    matrix = biased.score(common, "beta")[0]  # of the words s0, s0 and the, t0
    first = common.source.vocabulary.id("s0")
    assert matrix[0, 0] == pytest.approx(softmax(w @ e[first])[one], abs=1e-5)
    # The bias holds what all words share, so that "the" is less probable without it.
    means = [np.mean([rows[0].mean() for rows in each.score(common, "beta")]) for each in (biased, plain)]
    assert means[0] < means[1] - 0.05


def test_a_planted_lexicon_is_found_for_every_word():
    rng = np.random.default_rng(1)
    source = [rng.permutation(30)[: rng.integers(3, 9)] for _ in range(600)]
    text = Bitext.from_sentences(
        [[f"s{i}" for i in x] for x in source], [[f"t{i}" for i in rng.permutation(x)] for x in source]
    )
    held, train = text.take(np.arange(50)), text.take(np.arange(50, 600))
    settings = ProxySettings(embedding=32, learning_rate=1e-2, batch=16, epochs=8)
    proxy = fit_proxy(train, held, settings, device="cpu")
    for m, matrix in enumerate(proxy.score(held, "beta")):
        answer = [held.source.words(m)[at][1:] for at in matrix.argmax(1)]
        assert answer == [word[1:] for word in held.target.words(m)]


def test_equal_seeds_give_equal_bits(text):
    def weights(seed):
        return fit_proxy(text, text, ProxySettings(embedding=8, epochs=2, seed=seed), device="cpu")

    assert torch.equal(weights(1).output, weights(1).output)
    assert not torch.equal(weights(1).output, weights(2).output)


def test_what_the_proxy_refuses(text):
    other = Bitext.from_sentences([["a"]], [["b"]])
    with pytest.raises(AlignkitError, match="share their vocabularies"):
        fit_proxy(text, other, SMALL)
    with pytest.raises(AlignkitError, match="no pair"):
        fit_proxy(text.take(np.empty(0, np.int64)), text, SMALL)
    with pytest.raises(AlignkitError, match="no alpha scores; it has beta"):
        fit_proxy(text, text, SMALL, device="cpu").score(text, "alpha")


def test_the_best_epoch_is_kept():
    """Validation text that says the contrary of the training text: every epoch makes it worse."""
    both = Bitext.from_sentences([["s0"], ["s1"]] * 16, [["t0"], ["t1"]] * 8 + [["t1"], ["t0"]] * 8)
    sides = both.block(0, 16), both.block(16, 32)
    settings = ProxySettings(embedding=8, batch=16, learning_rate=0.1, epochs=1)
    first = fit_proxy(*sides, settings, device="cpu")
    last = fit_proxy(*sides, replace(settings, epochs=5), device="cpu")
    assert torch.equal(first.embedding, last.embedding)
    assert first.loss == last.loss
    assert not torch.equal(first.embedding, fit_proxy(sides[0], sides[0], replace(settings, epochs=5)).embedding)


def test_weights_start_as_torchs_layers_do(monkeypatch):
    words = [[f"w{i}"] for i in range(3000)]
    bitext = Bitext.from_sentences(words, words)
    drawn = []

    def start(parameters, rate):
        drawn.extend(part.detach().clone() for part in parameters)
        return adam(parameters, rate)

    monkeypatch.setattr(proxy, "adam", start)
    fit_proxy(bitext, bitext, ProxySettings(embedding=64, bias=True, epochs=0), device="cpu")
    layers = torch.nn.Embedding(3000, 64).weight, *torch.nn.Linear(64, 3000).parameters()
    for found, wanted in zip(drawn, layers, strict=True):
        assert found.std().item() == pytest.approx(wanted.std().item(), rel=0.05)
        assert found.abs().max().item() == pytest.approx(wanted.abs().max().item(), rel=0.2)


def test_a_kept_proxy_of_other_words_is_not_taken(tmp_path):
    """As a folder of `classify` can hold one from before its runs were deleted: ids would be other words."""
    settings = ProxySettings(embedding=4, epochs=1)
    texts = [Bitext.from_sentences([word.split() for word in side], [["x"], ["y"]]) for side in ("ab", "cd")]
    kept = [proxy_of(tmp_path, text, text, settings, device="cpu") for text in texts]
    assert [list(one.source.tokens) for one in kept] == [["a", "b"], ["c", "d"]]
    told: list[str] = []
    proxy_of(tmp_path, texts[1], texts[1], settings, lambda *said: told.append(said[2]), "cpu")
    assert not told  # of the same words it is
    biased = proxy_of(tmp_path, texts[1], texts[1], replace(settings, bias=True), device="cpu")
    assert biased.settings.bias
    assert {place.name for place in tmp_path.iterdir()} == {"proxy.pt", "proxy-bias.pt"}
