"""Gates against the smallest sets of words that suffice, found by trying all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit, rel_entr

from alignkit.explain.selection import gate_rows, ignored_from
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.networks.selectors import Gates
from alignkit.neural.settings import ClassifierSettings
from alignkit.neural.training.rationales import gated_texts, output_divergence, train_gates

from .conftest import rows_of
from .test_trained import deciding

MARGIN = 0.05


def test_the_divergence_is_scipys():
    one, other = torch.tensor([0.3, -4.0, 9.0]), torch.tensor([0.3, 2.0, -1.0])
    found = output_divergence(one, other)
    p, q = expit(one.double().numpy()), expit(other.double().numpy())
    np.testing.assert_allclose(found, rel_entr(p, q) + rel_entr(1 - p, 1 - q), atol=1e-4)


@pytest.mark.parametrize("layer", [0, 1])
def test_open_gates_change_nothing_and_shut_ones_leave_the_baseline(subject_of, layer):
    network = subject_of().network
    gates = Gates(network, layer).eval()
    words, lengths = torch.tensor([[4, 5], [6, 7], [8, 0]]), np.array([3, 2])
    states = gates.states(words, lengths)
    with torch.no_grad():
        gates.baseline.normal_()
    torch.testing.assert_close(gates.judge(words, lengths, states[-1], torch.ones(2, 3)), network(words, lengths))
    one, other = (gates.judge(words, lengths, x, torch.zeros(2, 3)) for x in (states[-1], states[-1] + 1))
    assert torch.equal(one, other)
    if layer == 1:  # all states are the baseline, and so is their mean
        torch.testing.assert_close(one, network.output(gates.baseline).expand(2))


@pytest.mark.parametrize("layer", [0, 1])
def test_gates_let_hardly_more_pass_than_must(subject_of, layer):
    subject = subject_of(margin=MARGIN)
    training = subject.run_settings(0).change(training={"steps": 250}).training
    gates = train_gates(subject.network, layer, subject.training_text, training, MARGIN)
    found = gated_texts(gates, subject.text)
    assert found.divergence.mean() < 3 * MARGIN
    assert np.mean((found.logits > 0) == (subject.probabilities > 0.5)) > 0.95
    sizes, least = [], []
    for m in range(12):
        words = torch.from_numpy(subject.text.corpus[m].astype(np.int64))[:, None]
        length = len(words)
        states = gates.states(words, np.array([length]))
        subsets = torch.tensor(list(itertools.product((0.0, 1.0), repeat=length)))
        count = len(subsets)
        with torch.no_grad():
            logits = gates.judge(
                words.expand(-1, count), np.full(count, length), states[-1].expand(-1, count, -1), subsets
            )
            whole = subject.network(words, np.array([length]))
            apart = output_divergence(whole.expand(count), logits)
        enough = subsets[apart <= max(MARGIN, found.divergence[m] + 1e-6)].sum(1)
        sizes.append(int(found.passed[m].sum()))
        least.append(int(enough.min()))
    assert np.mean(sizes) <= np.mean(least) + 1
    if layer == 0:
        marks = deciding(subject.text)
        hits = np.array([passed[mark].all() for passed, mark in zip(found.passed, marks, strict=True)])
        assert max(hits[subject.text.labels == y].mean() for y in (0, 1)) > 0.9
        assert np.mean([passed.mean() for passed in found.passed]) < 0.4


def test_the_layer_from_which_words_are_ignored():
    rng = np.random.default_rng(0)
    passed = [[rng.random(5) < 0.5 for _ in range(4)] for _ in range(3)]
    for m, found in enumerate(ignored_from(passed)):
        for word in range(5):
            layers = [k for k in range(4) if not any(passed[j][m][word] for j in range(k, 3))]
            assert found[word] == layers[0]


def test_the_table_says_what_passes_at_each_layer(subject_of):
    found = rows_of(gate_rows(subject_of(steps=20)))
    parts = [found[name] for name in ("ignored from embedding", "ignored from state 1", "ignored never")]
    assert sum(parts) == pytest.approx(1)
    assert found["ignored never"] == pytest.approx(found["state 1, share"])
    assert found["embedding, share"] > 0.5  # gates are open at first


def test_open_gates_change_nothing_in_a_hierarchical_classifier():
    torch.manual_seed(0)
    settings = ClassifierSettings(vocabulary=9, embedding=3, hidden=2, attention_hidden=2, hierarchical=True)
    network = Classifier(settings).eval()
    network.mark_sentence_ends(["."] + 8 * ["a"])
    words, lengths = torch.tensor([[4, 5], [0, 7], [8, 0], [3, 3]]), np.array([4, 3])
    gates = Gates(network, 0).eval()
    found = gates.judge(words, lengths, gates.states(words, lengths)[0], torch.ones(2, 4))
    torch.testing.assert_close(found, network(words, lengths))
