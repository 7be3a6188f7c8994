"""Guided training: the distributions that links give, their loss, and networks that follow them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.neural.devices import Batcher
from alignkit.neural.scoring.translation import read_weights
from alignkit.neural.settings import Reading, new_network
from alignkit.neural.training.translation import (
    TranslationTask,
    batch_loss,
    guide_loss,
    train_translation,
    word_guide,
)
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import BOS, UNK, encode_bitext, train_subwords

from ..conftest import random_lines, small_network, small_settings

TEXT = LinePairs(random_lines(40, 1, 5), random_lines(40, 2, 5))
#: every target word to the source word as far from the end as it is from the start
BACKWARDS = Links.from_lists(
    [(len(x.split()) - 1 - t, t) for t in range(min(len(x.split()), len(y.split())))]
    for x, y in zip(*TEXT, strict=True)
)


def test_a_guide_spreads_links_over_the_tokens_of_their_words():
    lines = ["abcabc bca cab", "cabcab abc"]
    tokenizer = train_subwords([*lines * 20, "a b c"], 12)
    text = LinePairs(lines[:1], lines[1:])
    bitext = encode_bitext(tokenizer, *text)
    guide = word_guide(Links.from_lists([[(0, 1), (2, 1)]]), text, bitext, tokenizer)
    found = guide.matrices(Batcher(bitext, torch.device("cpu"))(np.array([0])))[0].numpy()
    columns = np.array([-1, *tokenizer.words(lines[0]), -1])  # BOS and EOS
    rows = np.array([*tokenizer.words(lines[1]), -1])
    linked = np.isin(columns, (0, 2))
    expected = np.outer(rows == 1, linked / linked.sum())
    assert linked.sum() > 2
    np.testing.assert_allclose(found, expected, rtol=1e-6)


TRANSFORMER = {"architecture": "transformer", "heads": 2}
GUIDED = [
    ({}, 0.0),
    ({"heads": 2, "reading": Reading(head=2)}, 0.0),
    ({"reading": Reading(shifted=True)}, 0.0),
    ({"reading": Reading(shifted=True)}, 0.5),
    (TRANSFORMER | {"reading": Reading(1, 1)}, 0.0),
    (TRANSFORMER | {"reading": Reading(2, shifted=True)}, 0.0),
]


@pytest.mark.parametrize(("changes", "word_dropout"), GUIDED, ids=str)
def test_a_guide_adds_its_loss_of_the_weights_that_are_read(changes, word_dropout, tokenizer):
    """In one pass, as far as possible, it has the value and the gradients of two."""
    bitext = encode_bitext(tokenizer, *TEXT)
    sizes = {"embedding": 16, "hidden": 16, "layers": 2, "dropout": 0.0, "vocabulary": len(tokenizer.vocabulary)}
    network = new_network(small_settings().change(network=sizes | changes).network)
    guide = word_guide(BACKWARDS, TEXT, bitext, tokenizer)
    batch = Batcher(bitext, torch.device("cpu"))(np.arange(8))

    def loss(**guided):
        torch.manual_seed(1)
        return batch_loss(network, batch, word_dropout, **guided)

    found = loss(guide=guide, guide_weight=0.7)
    encoding = network.encode(batch.source, batch.source_lengths)
    weights = read_weights(network, encoding, batch, network.settings.reading)
    expected = loss() + 0.7 * guide_loss(weights, guide.matrices(batch))
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(each, network.parameters(), allow_unused=True) for each in (found, expected)]
    for own, other in zip(*grads, strict=True):
        torch.testing.assert_close(own, other, atol=1e-6, rtol=1e-4)


def test_the_loss_of_a_step_is_as_its_settings_say(tokenizer):
    bitext = encode_bitext(tokenizer, *TEXT)
    guide = word_guide(BACKWARDS, TEXT, bitext, tokenizer)
    settings = small_settings(warmup=2, word_dropout=0.4, label_smoothing=0.1, guide_weight=0.7)
    task = TranslationTask(bitext, bitext, settings, tokenizer, guide=guide, device="cpu")
    network, pairs = task.new_network().eval(), task.batches(0)[1]
    batch = Batcher(bitext, task.device)(pairs)
    for step, uniform in ((0, True), (2 * task.epoch_steps - 1, True), (2 * task.epoch_steps, False)):
        torch.manual_seed(1)
        found = task.loss(network, pairs, step)
        torch.manual_seed(1)
        guided = {} if uniform else {"guide": guide, "guide_weight": 0.7}
        assert found == batch_loss(network, batch, 0.4, uniform, smoothing=0.1, **guided)


def test_words_are_dropped_and_attention_is_spread_out(bitext):
    """Dropped words are unk, BOS stays, and uniform attention is that of the network that has no other."""
    network = small_network(dropout=0.0)
    batch = Batcher(bitext, torch.device("cpu"))(np.arange(8))
    torch.manual_seed(1)
    dropped = (torch.rand(batch.previous.shape) < 0.4) & (batch.previous != BOS)
    previous = torch.where(dropped, UNK, batch.previous)
    torch.manual_seed(1)
    found = batch_loss(network, batch, 0.4)
    assert found == batch_loss(network, replace(batch, previous=previous)) != batch_loss(network, batch)
    other = small_network(dropout=0.0, attention="uniform")
    other.load_state_dict(network.state_dict(), strict=False)
    torch.testing.assert_close(batch_loss(network, batch, uniform=True), batch_loss(other, batch))


def test_the_loss_is_the_cross_entropy_of_linked_rows():
    rng = np.random.default_rng(0)
    weights, wanted = rng.dirichlet(np.ones(4), (2, 3)), rng.dirichlet(np.ones(4), (2, 3))
    wanted[0, 1] = 0
    rows = [
        -(p * np.log(a)).sum()
        for a, p in zip(weights.reshape(-1, 4), wanted.reshape(-1, 4), strict=True)
        if p.any()
    ]
    found = guide_loss(torch.from_numpy(weights), torch.from_numpy(wanted))
    assert found.item() == pytest.approx(np.mean(rows), rel=1e-6)


def test_a_guided_run_wants_its_guide_again(tmp_path):
    texts = TEXT, LinePairs(*(side[:10] for side in TEXT))
    settings = small_settings(epochs=1)
    first = train_translation(tmp_path, *texts, settings, device="cpu", guide=BACKWARDS)
    assert train_translation(tmp_path, *texts, settings, device="cpu", guide=BACKWARDS).metrics == first.metrics
    with pytest.raises(AlignkitError, match="run with other settings or text"):
        train_translation(tmp_path, *texts, settings, device="cpu")


def test_impossible_guides(tokenizer):
    bitext = encode_bitext(tokenizer, *TEXT)
    with pytest.raises(AlignkitError, match="links of 1 sentence pairs, the training text has 40"):
        word_guide(BACKWARDS.block(0, 1), TEXT, bitext, tokenizer)
    bad = Links.from_lists([[]] * 39 + [[(9, 0)]])
    with pytest.raises(AlignkitError, match=r"guide\[39\] has the link 9-0; the pair has 3 source"):
        word_guide(bad, TEXT, bitext, tokenizer)
