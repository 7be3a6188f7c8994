"""Texts that break aligners: very little of it, other word orders, long lines, repetition, single letters."""

import numpy as np
import pytest
from planted import bitext_of, permuted_copy

import alignkit_data
from alignkit.aligner import Symmetrized
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.views import View
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_lines


def sample(size=None):
    """(source, target, gold) of the embedded sample, the test pairs first, with ``size`` pairs for learning."""
    sides = []
    for side in ("de", "en"):
        lines = [line for part in ("test", "train") for line in read_lines(alignkit_data.path(f"{part}.{side}"))]
        sides.append([line.lower().split() for line in lines][: None if size is None else 100 + size])
    gold = str(alignkit_data.path("test.gold"))
    return *sides, parse_links(gold, read_lines(gold))


def aer(links, gold):
    return evaluate(gold, links.block(0, len(gold))).aer


def symmetrized_ibm1(bitext):
    return Symmetrized(fit_ibm1(bitext), fit_ibm1(bitext.reversed))


def test_it_is_better_than_ibm1_on_the_sample():
    source, target, gold = sample()
    bitext = Bitext.from_sentences(source, target)
    joint = aer(fit_joint(bitext).fitted_links, gold)
    assert joint < 0.08
    assert joint < aer(symmetrized_ibm1(bitext).links(bitext), gold) - 0.02


def test_without_evidence_from_spelling_the_script_does_not_matter():
    """Words are only compared within a side, so spelling one side in other letters changes no link."""
    unspelled = {"spelling": 0.0, "punctuation": 1.0, "views": (View(), View(letters=4))}
    source, target, _ = sample(200)
    letters = {letter: chr(0x4E00 + ord(letter)) for letter in map(chr, range(0x250)) if letter.isalnum()}
    other = [["".join(letters.get(letter, letter) for letter in word) for word in words] for words in target]
    links = [
        fit_joint(Bitext.from_sentences(source, side), **unspelled).fitted_links.pairs.tobytes()
        for side in (target, other)
    ]
    assert links[0] == links[1]


@pytest.mark.parametrize("copies", [1, 2, 1000])
def test_one_sentence_alone_is_linked_in_order(copies):
    pair = ["das", "Haus", "ist", "klein"], ["the", "house", "is", "small"]
    links = fit_joint(bitext_of([pair] * copies)).fitted_links
    assert all(links[m].tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]] for m in range(copies))


def test_a_handful_of_pairs():
    for pairs in ([(["a"], ["x"])], [(["a", "b"], ["x", "y"])] * 2, permuted_copy(1, pairs=5)[0]):
        fitted = fit_joint(bitext_of(pairs))
        assert len(fitted.fitted_links) == len(pairs)
        assert np.isfinite(fitted.fitted_probabilities.values).all()
    assert fit_joint(bitext_of([(["a"], ["x"])])).fitted_links[0].tolist() == [[0, 0]]


@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_probabilities_stay_probabilities_where_jumps_become_impossible(prior):
    """Copies in order leave all weight on one jump, and then come sentences that need others."""
    words = [f"w{n}" for n in range(40)]
    copies = [words[n : n + 8] for n in range(0, 32, 2)] * 20
    swapped = [[*line[4:], *line[:4]] for line in copies[:5]] + [line[::-1] for line in copies[:5]]
    bitext = Bitext.from_sentences(copies + copies[:10] + [["w0"]] * 3, copies + swapped + [["w0"] * 30] * 3)
    fitted = fit_joint(bitext, transition_prior=prior)
    values = fitted.fitted_probabilities.values
    assert np.isfinite(values).all()
    assert values.min() >= 0
    assert values.max() <= 1
    right = GoldLinks(*[Links.from_lists([[(n, n) for n in range(8)]] * len(copies))] * 2)
    assert aer(fitted.fitted_links, right) < 0.05
