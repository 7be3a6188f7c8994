"""Amounts of memory, and texts that are too large for the machine."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical import cooccurrence as cooccurrence_module
from alignkit.classical.cooccurrence import HMM, LEXICAL, check_memory, cooccurrence, parse_size, show_size
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.pipeline.align import align


def large_text(pairs=3000):
    """A text whose words are distributed as in Zipf's law, and the number of pairs of words in it."""
    draw = np.random.default_rng(5)
    sides = (
        ([f"s{i}" for i in draw.zipf(1.3, 10)] for _ in range(pairs)),
        ([f"t{j}" for j in draw.zipf(1.3, 10)] for _ in range(pairs)),
    )
    text = [(list(source), list(target)) for source, target in zip(*sides, strict=True)]
    return bitext_of(text), len({(x, y) for source, target in text for x in source for y in target})


def test_a_text_that_is_too_large_is_refused_with_the_sample_that_fits(monkeypatch):
    assert cooccurrence_module.machine_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    text, pairs = large_text()
    monkeypatch.setattr(cooccurrence_module, "BASE", 0)
    monkeypatch.setattr(cooccurrence_module, "_SAMPLED", 600)
    needed = 16 * pairs + 24 * 20 * len(text) + 30 * len(text)
    needed += sum(len(side.vocabulary.text) + 16 * len(side.vocabulary) for side in (text.source, text.target))
    monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda: int(needed * 1.2))
    check_memory(text)  # though every meeting of two words as a pair of its own would not fit
    with pytest.raises(AlignkitError, match="--fit-on"):
        check_memory(text, models=2)
    monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda: needed // 2)
    for fit in (fit_ibm1, fit_diagonal, cooccurrence):
        with pytest.raises(AlignkitError, match=r"needs about \S+ of memory, more than the \S+ of this") as caught:
            fit(text)
    (found,) = re.findall("about ([^ ]+) of", str(caught.value))
    assert parse_size(found) == pytest.approx(needed, rel=0.2)
    (sample,) = map(int, re.findall(r"--fit-on (\d+) ", str(caught.value)))
    assert 300 < sample < len(text)
    check_memory(text.take(np.arange(sample * 3 // 4)))


def test_a_hidden_markov_model_that_is_too_large_is_refused_with_the_sample_that_fits(monkeypatch):
    text, pairs = large_text(600)
    monkeypatch.setattr(cooccurrence_module, "BASE", 0)
    types = sum(len(side.vocabulary) for side in (text.source, text.target))
    needed = 16 * pairs + 12 * 20 * len(text) + 50 * len(text) + 600 * types + 4 * 100 * len(text)
    needed += sum(len(side.vocabulary.text) for side in (text.source, text.target))
    monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda: needed)
    fit_hmm(text, lexical_iterations=0, iterations=1)
    monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda: needed // 2)
    for fit in (fit_hmm, fit_joint):
        with pytest.raises(AlignkitError, match="more than the") as caught:
            fit(text, fold_case=False)
    (sample,) = map(int, re.findall(r"--fit-on (\d+) ", str(caught.value)))
    assert 100 < sample < 250


def test_two_directions_need_twice_as_much(monkeypatch):
    text, _ = large_text(600)
    monkeypatch.setattr(cooccurrence_module, "BASE", 0)
    for method, needs in (("ibm1", LEXICAL), ("hmm", HMM)):
        monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda: 0)
        with pytest.raises(AlignkitError) as caught:
            check_memory(text, needs)
        (found,) = re.findall("about ([^ ]+) of", str(caught.value))
        monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda size=found: parse_size(size))
        align(text, method=method, iterations=1)
        with pytest.raises(AlignkitError, match="more than the"):
            align(text, method=method, iterations=1, symmetrization="union")


@pytest.mark.parametrize("needs", [LEXICAL, HMM])
def test_the_estimate_of_one_pair_is_exact(monkeypatch, needs):
    monkeypatch.setattr(cooccurrence_module, "BASE", 0)
    monkeypatch.setattr(cooccurrence_module, "machine_memory", lambda: 0)
    tokens, elements = 300 + 400, 300 * 400
    needed = needs.pair + needs.token * tokens + needs.sentence + 2 * needs.type + needs.element * elements
    with pytest.raises(AlignkitError, match=rf"about {show_size(needed)} of .* --fit-on 1 of"):
        check_memory(bitext_of([(["s"] * 300, ["t"] * 400)]), needs)


def test_small_texts_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(cooccurrence_module, "IndexedBitext", None)
    check_memory(large_text(30)[0])
    check_memory(bitext_of([]))


def test_sizes():
    sizes = {"100": 100, "1k": 1024, "800M": 800 << 20, "4G": 4 << 30, "1.5 GiB": 3 << 29, "2tb": 2 << 40}
    for text, size in sizes.items():
        assert parse_size(text) == size
    for text in ("", "0", "0.1", "G", "-1G", "4X", "1e9", "8388608T", "9" * 400):
        with pytest.raises(AlignkitError, match="not an amount of memory"):
            parse_size(text)
    assert [show_size(n) for n in (1, 800 << 20, 3 << 30)] == ["1K", "800M", "3.0G"]
