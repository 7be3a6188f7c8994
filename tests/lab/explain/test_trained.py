"""Networks that are trained under a guide, and the words that tell most, on a planted text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.explain.trained import telling_words, train_guided
from alignkit.neural.scoring.classifier import classifier_logits
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines
from alignkit.text.tokenization import learn_words


def deciding(text):
    """Per text bool (L,), True at the word that decides."""
    words = [text.corpus.vocabulary.id(word) for word in ("good", "bad")]
    return [np.isin(each, words) for each in text.corpus]


def one_hot(text, right):
    """A guide with all weight on the deciding word, or on one of the others."""
    places = [np.flatnonzero(mark if right else ~mark)[0] for mark in deciding(text)]
    rows = [
        np.eye(length, dtype=np.float32)[None, place]
        for place, length in zip(places, text.corpus.lengths, strict=True)
    ]
    return Scores.from_matrices(rows)


def test_a_guide_helps_by_what_it_points_to(subject_of):
    """Without recurrence, a guide to the deciding word tells all, and one to another word nothing."""
    subject = subject_of()
    accuracy = {}
    for right in (True, False):
        pair = one_hot(subject.training, right), one_hot(subject.text, right)
        network = train_guided(subject, "planted", int(right), pair)
        logits = classifier_logits(network, subject.text, pair[1])
        accuracy[right] = np.mean((logits > 0) == (subject.text.labels == 1))
        for m in (0, 7):  # the logit is that of the one state
            place = int(pair[1][m][0].argmax())
            x = network.embedding.weight[subject.text.corpus[m][place]]
            alone = network.output(network.encoder.maps[0](x).tanh())
            assert logits[m] == pytest.approx(alone.item(), abs=1e-5)
    assert accuracy[True] == 1
    assert accuracy[False] < 0.8  # the best of several steps on 50 texts


def test_telling_words_by_hand():
    lines = LabelledLines(["a b", "a c", "a b b", "c d"], ["y", "y", "n", "n"])
    text = lines.encode(learn_words(lines.texts, 1), ("n", "y"))

    def z(with_y, with_n):
        counts = [with_y + 0.5, 2.5 - with_y, with_n + 0.5, 2.5 - with_n]
        odds = math.log(counts[0] / counts[1]) - math.log(counts[2] / counts[3])
        return abs(odds) / math.sqrt(sum(1 / count for count in counts))

    expected = {"a": z(2, 1), "b": z(1, 1), "c": z(1, 1), "d": z(0, 1)}
    order = sorted(expected, key=lambda word: -expected[word])
    found = [text.corpus.vocabulary.tokens[word] for word in telling_words(text, 9)]
    assert found == order[:2]


def test_a_word_to_avoid_must_be_known(subject_of):
    with pytest.raises(AlignkitError, match="'absent' to avoid is not in"):
        subject_of(avoid=("absent",))
