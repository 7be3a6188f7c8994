"""The texts of experiments, and the split of labelled text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from alignkit.errors import AlignkitError, InputError
from alignkit.lab.experiments.classifiers import ClassifierPlan, labelled_lines, read_split, sentence_taus
from alignkit.lab.experiments.networks import bitext_lines
from alignkit.scores import Scores


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


def test_the_split_is_disjoint_and_in_one_vocabulary(one_telling_word):
    split = read_split(ClassifierPlan(labelled=one_telling_word, held=30))
    assert (len(split.training), len(split.valid)) == (450, 30)
    assert split.training.corpus.vocabulary == split.valid.corpus.vocabulary == split.tokenizer.vocabulary
    whole = labelled_lines(one_telling_word).encode(split.tokenizer, ("no", "yes"))
    assert whole.labels[:480].tolist() == [*split.training.labels, *split.valid.labels]
    assert whole.corpus[450].tolist() == split.valid.corpus[0].tolist()


def test_what_is_wrong_with_a_text(tmp_path):
    path = tmp_path / "labelled.tsv"
    path.write_text("yes\tone\nno two\n")
    with pytest.raises(InputError, match="line 2"):
        labelled_lines(str(path))
    path.write_text("a\tx\nb\ty\nc\tz\n" * 10)
    with pytest.raises(AlignkitError, match="two labels"):
        read_split(ClassifierPlan(labelled=str(path)))
    path.write_text("a\tx\nb\ty\n")
    with pytest.raises(AlignkitError, match="at least 20 sentences and two labels are needed, not 2 with a, b"):
        labelled_lines(str(path))
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
