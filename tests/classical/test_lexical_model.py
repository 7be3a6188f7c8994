"""A line that comes alone is scored through a table of its own words: with the same result as among others."""

from __future__ import annotations

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.cooccurrence import PairTable
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.lexical_model import Lookup, has_converged, normalise_null

FITS = {
    "ibm1": lambda text: fit_ibm1(text, threads=1),
    "ibm1 without NULL": lambda text: fit_ibm1(text, null=False, threads=1),
    "ibm1, p0": lambda text: fit_ibm1(text, null_probability=0.1, dirichlet=0.01, threads=1),
    "diagonal": lambda text: fit_diagonal(text, threads=1),
}


@pytest.mark.parametrize("name", FITS)
def test_a_line_alone_equals_itself_among_others(name):
    rest = [([f"x{i}", f"x{i + 1}", "often"], [f"y{i}", f"y{i + 2}", "oft"]) for i in range(2000)]
    model = FITS[name](bitext_of([*random_pairs(6), *rest]))
    pairs = [*random_pairs(7), *rest[:40], (["often", "unknown", "x3"], ["oft", "new", "other", "y3", "new"])]
    text = bitext_of(pairs)
    lookup = Lookup(model.table, text, np.arange(0), np.arange(0), 1)
    assert lookup.width == 0  # nothing to score: nothing kept
    links, scores = model.links(text), {kind: model.score(text, kind) for kind in model.kinds}
    totals = model.log_probabilities(text)
    reduced = 0
    for m, pair in enumerate(pairs):
        alone = bitext_of([pair])
        reduced += model.lookup(alone).is_reduced
        assert np.array_equal(model.links(alone)[0], links[m])
        for kind in model.kinds:
            assert np.array_equal(model.score(alone, kind)[0], scores[kind][m])
        assert model.log_probabilities(alone)[0] == totals[m]
    assert reduced > len(pairs) / 2
    assert not model.lookup(text).is_reduced  # and not because all of it was reduced


def test_long_rows_are_looked_up_as_short_ones_are():
    """Rows that are laid out whole, for the words of the text only, and not at all, as the kernel chooses."""
    rng = np.random.default_rng(3)
    sizes = [900, 900, *([5] * 60), 0]  # a word that is frequent here, a rare one, words of few pairs, one of none
    columns = [np.sort(rng.choice(1000, size, replace=False)).astype(np.int32) for size in sizes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    table = PairTable(offsets, np.concatenate(columns), rng.random(sum(sizes), dtype=np.float32) + 0.1, 1000)
    words = [f"y{i}" for i in range(0, 1000, 40)]
    pairs = [(["x0", f"x{m + 2}", "x0"], list(rng.choice(words, 5))) for m in range(61)]
    pairs += [(["x1", "x0", "new"], ["y0", "y40", "unknown"])]
    text = bitext_of(pairs)
    source, target = (
        np.array([int(word[1:]) if word[1:].isdigit() else -1 for word in side.vocabulary], np.int32)
        for side in (text.source, text.target)
    )
    lookup = Lookup(table, text, source, target, 2)
    assert not lookup.is_reduced
    for m, matrix in enumerate(lookup.scores()):
        for t, y in enumerate(target[text.target[m]]):
            for s, x in enumerate(source[text.source[m]]):
                assert matrix[t, s] == (table.value(x, y) if min(x, y) >= 0 else 0)


def test_a_tolerance_of_zero_never_stops():
    assert not has_converged([-1.0, -1.0], 0.0)
    assert has_converged([-1.0, -1.0], 1e-9)
    assert not has_converged([-1.0], 1.0)


def test_the_row_of_null_is_in_single_precision():
    row = normalise_null(np.array([1.0, 0.0, 3.0]), None)
    assert (row.dtype, row.tolist()) == (np.float32, [0.25, 0, 0.75])
