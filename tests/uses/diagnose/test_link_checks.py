"""Each check of an alignment on a text where it is known what there is to find."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.links.links import Links
from alignkit.metrics.aer import link_keys
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.uses.diagnose.checks import (
    Check,
    LinkedText,
    equal_tokens,
    length_deviations,
    likeness_of_linked_words,
    linked_information,
    run_checks,
    word_tokens,
)
from alignkit.uses.diagnose.evidence import Evidence

SOURCE = ["im Jahr 1878 kam Anna .", "das Haus", "x y", "1 und 1", "ein Wort", ""]
TARGET = ["in 1878 anna came .", "the house !", "a b c", "1 and 1", "a word", "blank"]
LINKS = ["0-0 1-4 3-3 4-0", "0-0 1-1 1-2", "", "0-0", "0-0 1-1", ""]


def linked(source=SOURCE, target=TARGET, links=LINKS, sure=()):
    """The text, where the views find the links ``sure`` (m, s, t) for certain, and nothing else."""
    bitext = Bitext.from_sentences([x.split() for x in source], [x.split() for x in target])
    matrices = [np.zeros((T, L)) for T, L in bitext.shapes]
    for m, s, t in sure:
        matrices[m][t, s] = 1
    scores = Scores.from_matrices(matrices)
    evidence = Evidence(scores, scores.values > 0.5)
    return LinkedText(bitext, Links.from_strings(links), evidence, word_tokens(bitext))


@pytest.fixture
def found():
    sure = [(0, 0, 0), (0, 3, 3), (1, 0, 0), (1, 1, 1), (4, 0, 0), (4, 1, 1)]
    return {check.name: check for check in run_checks(linked(sure=sure))}


@pytest.mark.parametrize(
    ("name", "counts", "of"),
    [
        ("links that are more likely wrong than right", [2, 1, 0, 1, 0, 0], 10),
        ("missing links that all views find", [0, 0, 0, 0, 0, 0], 6),
        ("links of punctuation with words", [1, 1, 0, 0, 0, 0], 10),  # Jahr with a full stop, Haus with !
        ("equal numbers that are not linked", [1, 0, 0, 0, 0, 0], 1),  # 1 is there twice: which is which?
        ("equal words that are both without links", [0, 0, 0, 0, 0, 0], 1),  # Anna has a link
        ("words with 5 links or more", [0, 0, 0, 0, 0, 0], 18),
        ("pairs without a link", [0, 0, 1, 0, 0, 0], 5),
        ("pairs that may be no translations", [0, 0, 0, 0, 0, 0], 1),
    ],
)
def test_what_is_found(found, name, counts, of):
    assert (found[name].counts.tolist(), found[name].of) == (counts, of)


def test_missing_links():
    text = linked(sure=[(0, 3, 3), (0, 4, 2), (2, 0, 0)])
    missing = run_checks(text)[1]
    assert (missing.counts.tolist(), missing.of) == ([1, 0, 1, 0, 0, 0], 3)


def test_a_word_without_links_in_both():
    (words,) = [
        check for check in run_checks(linked(links=["0-0 1-4", *LINKS[1:]])) if "equal words" in check.name
    ]
    assert (words.counts.tolist(), words.of) == ([1, 0, 0, 0, 0, 0], 1)


def test_words_with_many_links():
    text = linked(["a", "b c"], ["1 2 3 4 5 6", "d e"], ["0-0 0-1 0-2 0-3 0-4", "0-0 1-0"])
    (many,) = [check for check in run_checks(text) if "links or more" in check.name]
    assert (many.counts.tolist(), many.of) == ([1, 0], 1 + 5 + 2 + 1)


def test_equal_tokens():
    bitext = linked().bitext
    assert sorted(equal_tokens(bitext)) == [(0, 2, 1, True), (0, 4, 2, False)]


def test_token_classes():
    links = Links.from_lists([[(2, 1), (4, 2), (0, 0)], [], [], [(0, 2)], [], []])
    assert likeness_of_linked_words(linked().bitext, link_keys(links)).tolist() == [2, 0, 1, 0]


def test_lines_are_those_with_most():
    check = Check("x", np.array([0, 2, 0, 5, 2]), 9)
    assert check.lines(2) == [4, 2]
    assert check.lines(9) == [4, 2, 5]


def test_unlikely_lengths():
    draw = np.random.default_rng(0)
    lengths = draw.integers(5, 30, 200)
    target = np.maximum(1, lengths * 2 + draw.integers(-3, 4, 200))  # the target is twice as long
    target[[17, 60]] = [lengths[17] * 8, 1]
    bitext = Bitext.from_sentences([["a"] * n for n in lengths], [["b"] * n for n in target])
    deviations = length_deviations(bitext)
    assert set(np.flatnonzero(np.abs(deviations) > 4)) == {17, 60}
    assert deviations[17] > 0 > deviations[60]
    assert np.isnan(length_deviations(Bitext.from_sentences([[], ["a"]], [["b"], ["c"]]))).tolist() == [
        True,
        False,
    ]


def test_linked_information():
    """Rare words count for more, punctuation for nothing."""
    text = linked(["a a a b ."], ["c ."], ["0-0"], sure=[(0, 0, 0), (0, 3, 0)])
    common, rare, target = -np.log(3 / 5), -np.log(1 / 5), -np.log(1 / 2)
    wanted = (common + rare + target) / (3 * common + rare + target)
    assert linked_information(text)[0] == pytest.approx(wanted, abs=1e-3)
    assert np.isnan(linked_information(linked(["."], ["."], [""]))[0])
