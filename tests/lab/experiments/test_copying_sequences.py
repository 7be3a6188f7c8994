"""Sequences to copy: what they are made of, their counts against closed forms, and what can be guessed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.experiments.copying import (
    SequenceRun,
    Sequences,
    contrast,
    curves,
    exact_count_table,
    left_uniform,
    reached,
)
from alignkit.text.tokenization import BOS, EOS

LENGTH, COUNT = 6, 4000
ALL = [
    Sequences("permutation", LENGTH, LENGTH),
    Sequences("subset", 9, LENGTH),
    Sequences("independent", 6, LENGTH),
    Sequences("mixture", 2 * LENGTH, LENGTH),
]


def rng():
    return np.random.default_rng(0)


def count_table(sequences, count, seed):
    return sequences.counts(np.random.default_rng(seed), count) / count


@pytest.mark.parametrize("sequences", ALL, ids=lambda s: s.kind)
def test_sequences_are_what_their_name_says(sequences):
    drawn = sequences.sources(rng(), COUNT)
    assert drawn.shape == (COUNT, LENGTH)
    shares = np.bincount(drawn.ravel(), minlength=sequences.types) / drawn.size
    assert shares == pytest.approx(np.full(sequences.types, 1 / sequences.types), abs=0.01)
    distinct = {len(set(row)) for row in drawn.tolist()}
    if sequences.kind == "independent":
        assert len(distinct) > 1
        assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(0, abs=0.05)
        return
    assert distinct == {LENGTH}
    if sequences.kind == "mixture":
        assert {tuple(sorted(row)) for row in drawn.tolist()} == {tuple(range(6)), tuple(range(6, 12))}
    if sequences.kind == "permutation":
        assert min(Counter(map(tuple, drawn[:, :2].tolist())).values()) > 80  # of 133 expected


def test_a_batch_has_ends_and_the_decoders_input():
    order = np.array([2, 0, 1])
    sequences = Sequences("permutation", 3, 3, order)
    source, previous, target = sequences.draw(rng(), 5)
    assert source.shape == previous.shape == target.shape == (5, 4)
    assert (source[:, -1] == EOS).all()
    assert (target[:, :-1] == source[:, order]).all()
    assert (previous[:, 0] == BOS).all()
    assert (previous[:, 1:] == target[:, :-1]).all()
    assert source[:, :-1].min() > max(BOS, EOS)
    assert source.max() < sequences.vocabulary
    assert (target == np.take_along_axis(source, sequences.gold()[None], 1)).all()


@pytest.mark.parametrize("sequences", ALL, ids=lambda s: s.kind)
def test_counts_are_those_of_a_loop(sequences):
    table = count_table(sequences, 30, seed=1)
    expected = np.zeros_like(table)
    for row in sequences.sources(np.random.default_rng(1), 30):
        for i in row:
            for o in row:
                expected[i, o] += 1 / LENGTH / 30
    assert table == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("sequences", ALL, ids=lambda s: s.kind)
def test_chance_is_what_the_best_guesser_gets(sequences):
    """A guesser that sees the target's past alone and knows the distribution."""
    right = 0
    for row in sequences.sources(rng(), COUNT).tolist():
        for t, word in enumerate(row):
            pool = set(range(sequences.types))
            if sequences.kind == "mixture" and t:
                pool = set(range(6)) if row[0] < 6 else set(range(6, 12))
            if sequences.kind != "independent":
                pool -= set(row[:t])
            right += min(pool) == word
    assert sequences.chance() == pytest.approx((right / COUNT + 1) / (LENGTH + 1), abs=0.01)


@pytest.mark.parametrize(
    ("kind", "types", "length"),
    [
        ("permutation", 5, 4),
        ("subset", 3, 4),
        ("mixture", 9, 4),
        ("nothing", 4, 4),
        ("independent", 0, 4),
        ("text", 4, 4),
    ],
)
def test_impossible_sequences(kind, types, length):
    with pytest.raises(AlignkitError, match=kind):
        Sequences(kind, types, length, sentences=np.empty((0, length), int) if kind == "text" else None)
    with pytest.raises(AlignkitError, match="no independent sequences of 0 tokens"):
        Sequences("independent", 4, 0)
    assert Sequences("subset", 4, 4).chance() == Sequences("permutation", 4, 4).chance()


def test_sentences_of_a_text_are_drawn_with_replacement():
    sentences = np.array([[0, 1], [1, 1], [2, 0]])
    drawn = Sequences("text", 3, 2, sentences=sentences).sources(rng(), 300)
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == {(0, 1), (1, 1), (2, 0)}
    assert min(counts.values()) > 70


def test_leaving_uniform_is_for_good():
    run = SequenceRun(np.arange(5), np.zeros(5), np.zeros(5), np.array([0.1, 0.4, 0.1, 0.3, 0.9]))
    assert [left_uniform(run, level) for level in (0.05, 0.3, 0.5)] == [0, 3, 4]
    assert np.isnan(left_uniform(run, 0.95))


def test_rows_and_first_step():
    run = SequenceRun(np.array([0, 10, 20]), np.array([0.1, 0.95, 0.5]), np.array([3.0, 1.0, 2.0]))
    assert [reached(run.steps, run.accuracy, level) for level in (0.4, 0.95)] == [10, 10]
    assert np.isnan(reached(run.steps, run.accuracy, 0.96))
    rows = curves([run, run], kind="x")
    assert rows.columns.tolist() == ["kind", "run", "step", "accuracy", "loss"]
    assert rows.run.tolist() == [0, 0, 0, 1, 1, 1]
    assert rows.step.tolist() == [0, 10, 20] * 2


def test_the_smallest_example_exactly():
    """Three of three is flat; of three of five, each word co-occurs twice as often with itself."""
    assert exact_count_table(Sequences("permutation", 3, 3)) == pytest.approx(np.full((3, 3), 1 / 3))
    table = exact_count_table(Sequences("subset", 5, 3))
    assert table == pytest.approx(np.where(np.eye(5), 1 / 5, 1 / 10))
    assert contrast(table) == pytest.approx((5 - 1) / (3 - 1))
    drawn = count_table(Sequences("subset", 5, 3), 20_000, 0)
    assert drawn == pytest.approx(table, abs=0.01)
