"""Search: greedy against a loop, the beam against a loop that keeps the best beginnings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.neural.devices import BatchSizes
from alignkit.neural.scoring.evaluation import beam_search, bleu, longest, translate
from alignkit.text.bitext import Corpus
from alignkit.text.tokenization import EOS, PAD

from ..conftest import small_network
from ..naive import NaiveNetwork


@pytest.mark.parametrize("attention", ["general", "uniform"])
def test_greedy_equals_a_loop(bitext, attention):
    network = small_network(attention=attention)
    naive = NaiveNetwork(network)
    bitext = bitext.take(np.arange(7))
    found = translate(network, bitext.source, 1, BatchSizes(5))
    assert len({len(ids) for ids in found}) > 2
    assert translate(network, bitext.source, 1, BatchSizes(5, equal_lengths=False)) == found  # as on a GPU
    assert [longest(length) for length in (1, 3)] == [12, 16]
    for source, ids in zip(bitext.source, found, strict=True):
        wanted: list[int] = []
        while len(wanted) < longest(len(source)):
            p = naive.matrices(source, np.array([*wanted, 0]))[2][-1]
            wanted.append(int(p.argmax()))
            if wanted[-1] == EOS:
                wanted.pop()
                break
        assert ids == wanted


@pytest.mark.parametrize(("beam", "steps"), [(2, 7), (3, 7), (30, 3)])  # of 24 tokens
def test_a_beam_keeps_the_best_beginnings(bitext, beam, steps):
    network = small_network(seed=4)
    with torch.no_grad():  # flatter distributions, so that the greedy choice is often wrong
        network.output.weight *= 0.3
        network.output.bias *= 0.3
    naive, source = NaiveNetwork(network), [ids for ids in bitext.source if len(ids) == 6]
    x = torch.from_numpy(np.stack(source, 1).astype(np.int64))
    tokens, scores = beam_search(network, x, np.full(len(source), 6), beam, steps)
    greedy = beam_search(network, x, np.full(len(source), 6), 1, steps)[1]
    for m, ids in enumerate(source):
        found: list[tuple[float, list[int]]] = [(0.0, [])]
        while not (found[0][1][-1:] == [EOS] or len(found[0][1]) == steps):
            longer = [each for each in found if each[1][-1:] == [EOS]]
            for total, begun in (each for each in found if each not in longer):
                p = naive.matrices(ids, np.array([*begun, 0]))[2][-1]
                longer += [(total + float(np.log(p[y])), [*begun, y]) for y in range(len(p))]
            found = sorted(longer, reverse=True)[:beam]
        assert tokens[m, 0].tolist() == found[0][1] + [PAD] * (steps - len(found[0][1]))
        assert scores[m].tolist() == pytest.approx([total for total, _ in found], abs=1e-4)
    assert (scores[:, 0] > greedy[:, 0] + 1e-4).any()


def test_an_empty_sentence_has_no_translation(tokenizer):
    corpus = Corpus(np.array([1, 5, 2], np.int32), np.array([0, 0, 3, 3]), tokenizer.vocabulary)
    first, _, last = translate(small_network(), corpus, beam=2)
    assert first == last == []


def test_bleu_of_its_own_translations_is_100(bitext, tokenizer):
    network = small_network()
    own = [tokenizer.decode(ids) for ids in translate(network, bitext.source, beam=3)]
    assert bleu(network, tokenizer, bitext, own, beam=3) == pytest.approx(100)
    assert bleu(network, tokenizer, bitext, own[1:] + own[:1], beam=3) < 99
    with pytest.raises(AlignkitError, match="24 pairs, 1 lines"):
        bleu(network, tokenizer, bitext, own[:1])
