"""Rationales: their scores by hand, and those of networks on a planted text."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.explain.selection import (
    RATIONALIZERS,
    rationale_effects,
    rationale_rows,
    top_words,
)
from alignkit.neural.training.rationales import SelectionPenalty, rationales_of, train_rationalizer

from .conftest import rows_of
from .test_trained import deciding


def test_sufficiency_and_comprehensiveness_text_by_text(subject_of):
    subject = subject_of()
    rng = np.random.default_rng(0)
    selected = [rng.random(length) < 0.4 for length in subject.text.corpus.lengths]
    selected[0][:] = True  # nothing is left without it
    alone, without = rationale_effects(subject, selected)
    names = subject.classifier.labels

    def p(words, m):
        if not len(words):
            return 1 / (1 + np.exp(-subject.network.output.bias.item()))
        text = type(subject.text.bitext).from_sentences([words], [[names[1]]])
        return 1 / (1 + np.exp(-subject.classifier.logits(text)[0]))

    for m in (0, 3, 11):
        words = np.array(subject.text.corpus.words(m))
        whole, some, rest = (p(list(part), m) for part in (words, words[selected[m]], words[~selected[m]]))
        sign = 1 if whole > 0.5 else -1
        assert alone[m] == pytest.approx(sign * (whole - some), abs=1e-5)
        assert without[m] == pytest.approx(sign * (whole - rest), abs=1e-5)


def test_top_words_are_a_share_of_them():
    found = top_words([np.array([0.1, 0.5, 0.2, 0.3, 0.0]), np.array([1.0])], 0.4)
    assert [row.tolist() for row in found] == [[False, True, False, True, False], [True]]


@pytest.mark.parametrize("selector", RATIONALIZERS)
def test_networks_select_the_word_that_decides(subject_of, selector):
    subject = subject_of()
    settings = subject.run_settings(0).change(training={"steps": 250})
    penalty = SelectionPenalty(share=0.1, short=1.0, contiguous=0.1)
    network = train_rationalizer(selector, subject.training_text, settings, penalty)
    found = rationales_of(network, subject.text)
    right = (found.logits > 0) == (subject.text.labels == 1)
    assert right.mean() > 0.9
    hits = np.array(
        [chosen[mark].all() for chosen, mark in zip(found.selected, deciding(subject.text), strict=True)]
    )
    # The word of one label is enough: its absence tells of the other.
    assert max(hits[subject.text.labels == y].mean() for y in (0, 1)) == 1
    assert np.mean([chosen.mean() for chosen in found.selected]) < 0.3


def test_the_table_compares_all_kinds(subject_of):
    found = rows_of(rationale_rows(subject_of(steps=10, share=0.2)))
    names = (*RATIONALIZERS.values(), "attention", "gradient", "leave-one-out", "random")
    assert {test.split(", ")[0] for test in found} == set(names)
    for name in ("attention", "leave-one-out"):
        assert found[f"{name}, comprehensiveness"] > found["random, comprehensiveness"] + 0.1
