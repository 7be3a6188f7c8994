"""Layers chosen by agreement: a planted layer that aligns, among others that do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.heads.layers import choose_layers, readings
from alignkit.links.links import Links
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.networks.transformer import Transformer
from alignkit.neural.settings import Reading, RunSettings, TextSettings, TransformerSettings
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import learn_words

WORDS = [f"w{i}" for i in range(12)]


def planted(layer, seed):
    """A network whose attention in one layer finds equal words, by their embeddings; elsewhere it is at random."""
    tokenizer = learn_words(WORDS)
    size = len(tokenizer.vocabulary)
    fields = {"vocabulary": size, "embedding": 16, "heads": 2, "hidden": 4, "layers": 3, "dropout": 0.0}
    settings = TransformerSettings(**fields, positions="relative", norm="pre")
    torch.manual_seed(seed)
    network = Transformer(settings).eval()
    with torch.no_grad():
        for side in (network.encoder, network.decoder):
            for each in side:
                each.attention.out.weight.zero_()
                each.attention.out.bias.zero_()
                each.feed_forward[3].weight.zero_()
                each.feed_forward[3].bias.zero_()
        network.embedding.weight.copy_(torch.eye(16)[:size] * 5)
        for number, each in enumerate(network.decoder, 1):
            each.out.weight.zero_()
            each.out.bias.zero_()
            scale = 3 * torch.eye(16) if number == layer else torch.randn(16, 16)
            each.cross.query.weight.copy_(scale)
            each.cross.key.weight.copy_(torch.eye(16) if number == layer else torch.randn(16, 16))
    return NeuralAligner(network, tokenizer, RunSettings(TextSettings("words"), settings), 0, {}, "")


def permuted(count, seed):
    """Sentences of distinct words, and the same in another order, with the links."""
    rng = np.random.default_rng(seed)
    source, target, links = [], [], []
    for _ in range(count):
        words = rng.permutation(WORDS)[: rng.integers(3, 8)]
        order = rng.permutation(len(words))
        source.append(list(words))
        target.append(list(words[order]))
        links.append([(int(s), t) for t, s in enumerate(order)])
    return Bitext.from_sentences(source, target), Links.from_lists(links)


@pytest.mark.parametrize(("layer", "reverse_layer"), [(2, 3), (1, 1)])
def test_the_layers_that_align_are_found(layer, reverse_layer):
    bitext, links = permuted(30, 1)
    found = choose_layers(planted(layer, 1), planted(reverse_layer, 2), bitext)
    assert len(found.table) == 9
    reading, other = (each.settings.network.reading for each in (found.forward, found.reverse))
    assert (reading, other) == (Reading(layer, 0, True), Reading(reverse_layer, 0, True))
    assert found.table["f1"].max() == pytest.approx(1.0)
    for each in found.links:
        assert each.to_strings() == links.to_strings()


def test_unshifted_rows_know_nothing_of_their_word():
    """The decoder of step t has only seen y_{t-1}, whose partner it finds instead."""
    bitext, links = permuted(30, 1)
    found = choose_layers(planted(2, 1), planted(2, 2), bitext, shifted=False)
    assert found.links[0].to_strings() != links.to_strings()
    shifted = choose_layers(planted(2, 1), planted(2, 2), bitext)
    assert shifted.table["f1"].max() > 2 * found.table["f1"].max()


def test_single_heads_can_be_chosen():
    aligner = planted(1, 1)
    assert len(readings(aligner, True, heads=True)) == 3 + 6
    bitext, _ = permuted(10, 2)
    assert len(choose_layers(aligner, aligner, bitext, heads=True).table) == 81
