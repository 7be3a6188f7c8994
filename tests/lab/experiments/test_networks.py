"""The texts of experiments, and the split of labelled text."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from alignkit.errors import AlignkitError, InputError
from alignkit.lab.experiments.classifiers import (
    ClassifierPlan,
    classifier_settings,
    labelled_lines,
    read_split,
    sentence_taus,
    train_in_memory,
)
from alignkit.lab.experiments.networks import bitext_lines
from alignkit.neural.training.classification import label_loss
from alignkit.scores import Scores
from alignkit.text.tokenization import SPECIALS


def test_labelled_sentences_by_hand(tmp_path):
    path = tmp_path / "labelled.tsv"
    path.write_text("".join(f"A\tNumber {n}, yes!\nB\t{n} no\nB\t \n" for n in range(20)))
    lines = labelled_lines(str(path))
    assert sorted(lines.texts)[:2] == ["0 no", "1 no"]
    assert sorted(lines.texts)[20].split() == ["number", "0", ",", "yes", "!"]
    assert len(lines) == 40  # those without words are left out
    assert [label == "B" for label in lines.labels] == [text.endswith("no") for text in lines.texts]
    assert list(lines.labels) != ["A", "B"] * 20  # shuffled, always alike
    assert lines == labelled_lines(str(path))
    some = labelled_lines(str(path), sentences=25, longest=2)
    assert list(some.texts) == [" ".join(text.split()[:2]) for text in lines.texts[:25]]


def test_the_sample_is_labelled_by_prepositions_of_place():
    lines, (german, english) = labelled_lines(""), bitext_lines("", "")
    assert len(lines) == len(german)
    places = sum(bool({"in", "on", "at"} & set(line.split())) for line in english)
    assert list(lines.labels).count("place") == places
    assert 0.2 < places / len(lines) < 0.8


def test_twenty_sentences_are_enough(tmp_path):
    path = tmp_path / "labelled.tsv"
    lines = [f"{'ab'[i % 2]}\tx {i}\n" for i in range(20)]
    path.write_text("".join(lines))
    assert len(labelled_lines(str(path))) == 20
    path.write_text("".join(lines[1:]))
    with pytest.raises(AlignkitError, match="at least 20 sentences and two labels are needed, not 19 with a, b"):
        labelled_lines(str(path))


def test_training_in_memory_ends_at_the_last_step_however_good(one_telling_word):
    """The loss is turned round, so that the best network is that before the first step."""
    split = read_split(ClassifierPlan(labelled=one_telling_word, held=20))
    settings = classifier_settings(ClassifierPlan(embedding=4, hidden=4, rate=0.05), split, 0, 1)
    looks, told, texts = [], [], []

    def turned(judged):
        texts.append(len(judged.texts))
        return -label_loss(judged)

    network = train_in_memory(
        split,
        settings.change(training={"schedule": "classification"}),
        lambda *what: told.append(what[:2]),
        loss=turned,
        look=lambda now: looks.append((now.step, now.network.output.weight.clone())),
    )
    assert [step for step, *_ in looks] == [0, 10, 15]
    assert torch.equal(network.output.weight, looks[-1][1])
    assert not torch.equal(network.output.weight, looks[0][1])
    assert not network.training
    assert sum(texts) == 450
    assert told[-1] == (15, 15)


def test_the_split_is_disjoint_and_in_one_vocabulary(one_telling_word):
    split = read_split(ClassifierPlan(labelled=one_telling_word, held=30))
    assert (len(split.training), len(split.valid)) == (450, 30)
    assert split.training.corpus.vocabulary == split.valid.corpus.vocabulary == split.tokenizer.vocabulary
    whole = labelled_lines(one_telling_word).encode(split.tokenizer, ("no", "yes"))
    assert whole.labels[:480].tolist() == [*split.training.labels, *split.valid.labels]
    assert whole.corpus[450].tolist() == split.valid.corpus[0].tolist()
    few = read_split(ClassifierPlan(labelled=one_telling_word, sentences=40, longest=2, minimum=4))
    assert (len(few.training), len(few.valid)) == (36, 4)
    assert few.training.corpus.lengths.max() == 2
    counts = Counter(word for text in labelled_lines(one_telling_word, 40, 2).texts for word in text.split())
    assert {word for word, n in counts.items() if n >= 4} == set(few.tokenizer.vocabulary.tokens[len(SPECIALS) :])


def test_what_is_wrong_with_a_text(tmp_path):
    path = tmp_path / "labelled.tsv"
    path.write_text("yes\tone\nno two\n")
    with pytest.raises(InputError, match="line 2"):
        labelled_lines(str(path))
    path.write_text("a\tx\nb\ty\nc\tz\n" * 10)
    with pytest.raises(AlignkitError, match="two labels"):
        read_split(ClassifierPlan(labelled=str(path)))
    with pytest.raises(AlignkitError, match="source and target, or neither"):
        bitext_lines("x", "")


def test_taus_are_scipys():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 4, n).astype(np.float32), rng.random(n, np.float32)) for n in (9, 3, 5, 1)]
    pairs.append((np.ones(4, np.float32), rng.random(4, np.float32)))
    found = sentence_taus(
        *(Scores.from_matrices([row[None] for row in side]) for side in zip(*pairs, strict=True))
    )
    expected = [kendalltau(u, v).statistic for u, v in pairs[:3]]
    assert found == pytest.approx([*expected, math.nan, math.nan], nan_ok=True)
