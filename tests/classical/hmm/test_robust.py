"""Texts that break aligners: very little of it, other word orders, long lines, repetition, single letters."""

import alignkit_data
from alignkit.aligner import Symmetrized
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.links.links import parse_links
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
