"""Guided training: the distributions that links give, their loss, and networks that follow them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.links.links import Links
from alignkit.neural.devices import Batcher
from alignkit.neural.settings import Reading, new_network
from alignkit.neural.training.trainer import Trainer
from alignkit.neural.training.translation import (
    TranslationTask,
    batch_loss,
    guide_loss,
    train_translation,
    word_guide,
)
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import encode_bitext, train_subwords

from ..conftest import random_lines, small_settings

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


@pytest.mark.parametrize("architecture", ["lstm", "transformer"])
def test_shifted_guidance_in_one_pass_has_the_gradients_of_two(architecture, tokenizer):
    bitext = encode_bitext(tokenizer, *TEXT)
    sizes = {"embedding": 16, "hidden": 16, "layers": 2, "dropout": 0.0, "vocabulary": len(tokenizer.vocabulary)}
    sizes |= {"architecture": architecture, "reading": Reading(shifted=True)}
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = new_network(small_settings().change(network=sizes).network)
    guide = word_guide(BACKWARDS, TEXT, bitext, tokenizer)
    batch = Batcher(bitext, torch.device("cpu"))(np.arange(8))
    batch_loss(network, batch, guide=guide, guide_weight=0.7).backward()
    found = [None if p.grad is None else p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    encoding = network.encode(batch.source, batch.source_lengths)
    weights = network.decode(torch.cat([batch.previous[:1], batch.target]), encoding, encoding.start).weights[
        :, 1:
    ]
    loss = 0.7 * guide_loss(weights, guide.matrices(batch))
    (loss + batch_loss(network, batch)).backward()
    assert found[0] is not None
    for own, parameter in zip(found, network.parameters(), strict=True):
        torch.testing.assert_close(own, parameter.grad, atol=1e-6, rtol=1e-4)


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


TRANSFORMER = {"architecture": "transformer", "embedding": 16, "hidden": 16, "heads": 2}
NETWORKS = [
    {},
    {"attention": "additive+entmax15", "heads": 2},
    TRANSFORMER | {"layers": 2, "reading": Reading(1, 1)},
    TRANSFORMER | {"layers": 1, "reading": Reading(shifted=True)},
]


@pytest.mark.parametrize("changes", NETWORKS, ids=str)
def test_attention_follows_its_guide(changes, tokenizer):
    bitext = encode_bitext(tokenizer, *TEXT)
    settings = small_settings(epochs=10, batch=8, learning_rate=3e-2, guide_weight=3.0).change(network=changes)
    guide = word_guide(BACKWARDS, TEXT, bitext, tokenizer)
    found = Trainer(TranslationTask(bitext, bitext, settings, tokenizer, device="cpu", guide=guide)).run()
    alpha = found.score(bitext, "alpha")
    places = [(m, s, t) for m, pairs in enumerate(BACKWARDS) for s, t in pairs]
    share = np.mean([alpha[m][t, s + 1] for m, s, t in places])
    uniform = np.mean([1 / alpha[m].shape[1] for m, _, _ in places])
    assert share > 0.5 > 2 * uniform


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
