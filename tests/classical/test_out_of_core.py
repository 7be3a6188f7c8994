"""IBM Model 1 and the diagonal model in blocks: the bits of the whole text, from a disk, within a limit."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.memory import block_ranges, block_tokens, parse_size, show_size, word_pairs
from alignkit.errors import AlignkitError


def bits(model):
    null = None if model.null is None else model.null.tobytes()
    table = model.table
    arrays = (table.offsets, table.columns, table.values)
    return [array.tobytes() for array in arrays], null, model.log_likelihood, getattr(model, "tension", None)


@pytest.mark.parametrize("size", [1, 7, 40, 10**9])
@pytest.mark.parametrize(
    "options",
    [{}, {"null": False}, {"null_probability": 0.08, "dirichlet": 0.01}, {"prune": 0.1, "tolerance": 1e-3}],
)
def test_blocks_of_any_size_give_the_same_bits(messy_bitext, size, options):
    whole = fit_ibm1(messy_bitext, threads=1, **options)
    for threads in (1, 3):
        assert bits(fit_ibm1(messy_bitext, threads=threads, block_tokens=size, **options)) == bits(whole)


@pytest.mark.parametrize("size", [1, 7, 40, 10**9])
@pytest.mark.parametrize(
    "options", [{}, {"null": False, "dirichlet": None}, {"optimize_tension": False, "tension": 2.0, "prune": 0.1}]
)
def test_the_diagonal_model_has_the_same_bits_in_blocks_of_any_size(messy_bitext, size, options):
    whole = fit_diagonal(messy_bitext, threads=1, **options)
    for threads in (1, 3):
        assert bits(fit_diagonal(messy_bitext, threads=threads, block_tokens=size, **options)) == bits(whole)


def test_long_rows_are_merged_like_short_ones():
    """One source word that meets thousands of target words, some new in every block, beside rare ones."""
    draw = np.random.default_rng(3)
    pairs = [
        ([*(f"s{i}" for i in draw.integers(0, 300, 3)), "every"], [f"t{j}" for j in draw.zipf(1.3, 12) % 5000])
        for _ in range(600)
    ]
    text = bitext_of(pairs)
    whole = fit_ibm1(text, iterations=3, threads=1)
    for size in (50, 1000, 4000):
        assert bits(fit_ibm1(text, iterations=3, threads=2, block_tokens=size)) == bits(whole)


@pytest.mark.parametrize("pairs", [[([], [])], [([], ["a"]), (["b"], [])], []])
def test_a_text_without_any_pair_of_words(pairs):
    text = bitext_of(pairs)
    for fit in (fit_ibm1, fit_diagonal):
        assert bits(fit(text, block_tokens=1)) == bits(fit(text))


def test_block_ranges_cover_every_sentence_once():
    ends = np.array([0, 0, 5, 5, 6, 30, 31, 31])
    for tokens in (1, 4, 10, 31, 100):
        ranges = block_ranges(ends, tokens)
        assert [low for low, _ in ranges] == [0, *(high for _, high in ranges[:-1])]
        assert ranges[-1][1] == 7
        assert all(low < high for low, high in ranges)


def test_the_number_of_word_pairs_is_estimated():
    draw = np.random.default_rng(5)
    pairs = [
        ([f"s{i}" for i in draw.integers(0, 4000, 30)], [f"t{j}" for j in draw.integers(0, 4000, 30)])
        for _ in range(1500)
    ]
    met = len({(x, y) for source, target in pairs for x in source for y in target})
    text = bitext_of(pairs * 3)  # what meets again does not count
    for threads in (1, 3):
        assert word_pairs(text, threads) == pytest.approx(met, rel=0.06)
    assert word_pairs(text, 1) == word_pairs(text, 3)


def test_a_limit_decides_between_whole_blocks_and_refusal():
    text = bitext_of(random_pairs(4))
    for both in (False, True):
        assert block_tokens(text, 8 << 30, both=both, threads=1, strict=True) is None
    with pytest.raises(AlignkitError, match=r"needs about \d+M of memory.*more than the 10M"):
        block_tokens(text, 10 << 20, both=False, threads=1, strict=True)
    assert block_tokens(text, 10 << 20, both=False, threads=1, strict=False) > 0


def test_sizes():
    sizes = {"100": 100, "1k": 1024, "800M": 800 << 20, "4G": 4 << 30, "1.5 GiB": 3 << 29, "2tb": 2 << 40}
    for text, size in sizes.items():
        assert parse_size(text) == size
    for text in ("", "0", "0.1", "G", "-1G", "4X", "1e9", "8388608T", "9" * 400):
        with pytest.raises(AlignkitError, match="not an amount of memory"):
            parse_size(text)
    assert [show_size(n) for n in (1, 800 << 20, 3 << 30)] == ["1K", "800M", "3.0G"]


def test_words_counted_once(messy_pairs):
    """The sketch of a small text is never too small to matter: at least the number of its buckets."""
    met = Counter((x, y) for source, target in messy_pairs for x in source for y in target)
    assert word_pairs(bitext_of(messy_pairs), 1) >= min(len(met), 4000)
