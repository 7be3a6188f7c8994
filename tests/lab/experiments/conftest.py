"""The bounds of claims, and labelled sentences of which only planted words say anything about the label."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.lab import experiments


@pytest.fixture
def bounds(monkeypatch):
    """A list that fills with the bounds (above, below) of every claim that is judged."""
    given, judge = [], experiments.judge

    def recorded(low, high, *, above=None, below=None):
        given.append((above, below))
        return judge(low, high, above=above, below=below)

    monkeypatch.setattr(experiments, "judge", recorded)
    return given


def planted_lines(pairs_of_words, shortest):
    """500 lines LABEL TAB TEXT of noise; of each pair of words, the one of the label stands at a random place."""
    rng = np.random.default_rng(5)
    lines = []
    for label in rng.integers(0, 2, 500):
        words = [f"w{i}" for i in rng.integers(0, 15, rng.integers(shortest, 9))]
        for place, pair in zip(rng.permutation(len(words)), pairs_of_words, strict=False):
            words[place] = pair[label]
        lines.append(f"{('no', 'yes')[label]}\t{' '.join(words)}\n")
    return lines


@pytest.fixture(scope="session")
def one_telling_word(tmp_path_factory):
    """A file in which bad or good tells the label."""
    path = tmp_path_factory.mktemp("labelled") / "one.tsv"
    path.write_text("".join(planted_lines([("bad", "good")], 3)))
    return str(path)


@pytest.fixture(scope="session")
def two_telling_words(tmp_path_factory):
    """A file in which two words of every sentence tell the label, so that either of them is enough."""
    path = tmp_path_factory.mktemp("labelled") / "two.tsv"
    path.write_text("".join(planted_lines([("bad", "good"), ("awful", "fine")], 4)))
    return str(path)
