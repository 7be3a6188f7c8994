"""Classical aligners against other systems, without a network."""

from __future__ import annotations

import numpy as np
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.comparison import compare_classical
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.metrics.agreement import agreement, count_agreement
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs


@pytest.fixture(scope="module")
def pairs():
    found, _ = permuted_copy(3, pairs=120, types=12, longest=5)
    return LinePairs([" ".join(x) for x, _ in found], [" ".join(y) for _, y in found])


@pytest.fixture(scope="module")
def copies(pairs, tmp_path_factory):
    """Scores that know the planted lexicon: s3 is t3."""
    path = tmp_path_factory.mktemp("scores") / "copies.npz"
    texts = [(x.split(), y.split()) for x, y in zip(*pairs, strict=True)]
    matrices = [
        np.array([[float(a[1:] == b[1:]) + 0.001 * k for k, a in enumerate(x)] for b in y]) for x, y in texts
    ]
    Scores.from_matrices(matrices).save(path)
    return path


def test_values_are_those_of_the_metric(pairs, copies):
    told = []
    found = compare_classical(
        pairs, {"copy": copies}, iterations=3, threads=1, progress=lambda *step: told.append(step)
    )
    assert told
    assert found.network is None
    bitext = Bitext.from_sentences(*([line.split() for line in side] for side in pairs))
    ibm1 = fit_ibm1(bitext, iterations=3, null=False).score(bitext, "beta")
    wanted = agreement(Scores.load(copies), ibm1)
    row = found.table.set_index(["u", "v"]).loc[("copy.alpha", "ibm1.beta")]
    assert (row.agreement, row.chance, row.low, row.high) == pytest.approx(
        (wanted.agreement, wanted.chance, wanted.low, wanted.high)
    )
    assert row.low > row.chance
    assert {*found.table.u} == {"ibm1.beta", "align.alpha", "copy.alpha"}


def test_another_text_to_fit_on(pairs, copies):
    few, names = LinePairs(pairs.source[:40], pairs.target[:40]), {"ibm1.beta", "ibm1.alpha", "align.alpha"}
    found = compare_classical(few, training=pairs, also=("ibm1.alpha",), threads=1)
    assert {*found.table.u} == names
    assert (len(found.training), len(found.pairs)) == (120, 40)
    with pytest.raises(AlignkitError, match="scores for 120 pairs, the text has 40"):
        compare_classical(few, {"copy": copies}, training=pairs)


def test_scores_of_others_are_checked_before_anything_is_fitted(pairs, copies, tmp_path, monkeypatch):
    monkeypatch.setattr("alignkit.classical.ibm1.fit_ibm1", None)
    with pytest.raises(AlignkitError, match=r"already in use: ibm1\.beta, align\.alpha"):
        compare_classical(pairs, {"align": copies}, threads=1)
    Scores.from_matrices([np.zeros((1, 1))] * len(pairs.source)).save(tmp_path / "wrong.npz")
    with pytest.raises(AlignkitError, match=r"wrong\.npz"):
        compare_classical(pairs, {"wrong": tmp_path / "wrong.npz"}, threads=1)


@pytest.fixture(scope="module")
def diagonal(pairs):
    """By its formula."""
    matrices = []
    for x, y in zip(*(map(str.split, side) for side in pairs), strict=True):
        places = (np.arange(len(y)) + 0.5) * len(x) / len(y) - 0.5
        matrices.append(1 / (1 + np.abs(np.arange(len(x)) - places[:, None])))
    return Scores.from_matrices(matrices)


@pytest.fixture(scope="module")
def heads(copies, diagonal, tmp_path_factory):
    """An attention file whose head 2.0 is the diagonal, 2.1 knows the lexicon, and 2.2 does when shifted."""
    copy = Scores.load(copies)
    before = [np.concatenate([matrix[:1], matrix[:-1]]) for matrix in copy]  # the row of the step before
    arrays = [np.stack(each)[None] for each in zip(diagonal, copy, before, strict=True)]
    path = tmp_path_factory.mktemp("heads") / "heads.npz"
    AttentionHeads.from_pairs(arrays, layers=[2]).save(path)
    return path


def test_heads_are_held_against_the_diagonal_and_the_aligner(pairs, copies, diagonal, heads):
    found = compare_classical(pairs, heads=f"{heads}:2.1", beta=heads, iterations=3, threads=1, seed=3)
    names = {"ibm1.beta", "align.alpha", "diagonal", "2.1.alpha", "2.1.beta"}
    assert {*found.table.u} == names
    bitext = Bitext.from_sentences(*([line.split() for line in side] for side in pairs))
    copy, ibm1 = Scores.load(copies), fit_ibm1(bitext, iterations=3, null=False).score(bitext, "beta")
    assert {*found.scores} == names
    assert found.scores["2.1.alpha"].values == pytest.approx(copy.values)
    counts = [count_agreement(copy, v) for v in (ibm1, diagonal)]
    rows = found.differences.set_index(["u", "v", "w"])
    assert {*rows.index} == {
        *(("2.1.alpha", v, "diagonal") for v in ("ibm1.beta", "align.alpha", "2.1.beta")),
        *(("2.1.alpha", v, "align.alpha") for v in ("ibm1.beta", "2.1.beta")),
    }
    row = rows.loc[("2.1.alpha", "ibm1.beta", "diagonal")]
    excess = [(each.hits - each.expected) for each in counts]
    total = counts[0].rows.sum()
    assert row.difference == pytest.approx((excess[0] - excess[1]).sum() / total)
    drawn = np.random.default_rng(0).integers(0, len(bitext), (2000, len(bitext)))
    draws = (excess[0] - excess[1])[drawn].sum(axis=1) / counts[0].rows[drawn].sum(axis=1)
    assert (row.low, row.high) == pytest.approx(np.percentile(draws, (2.5, 97.5)), abs=0.01)
    assert row.low > 0


def test_a_head_that_is_the_diagonal_agrees_with_nothing_more(pairs, heads):
    """Its own beta, the same numbers, is no better in any resample: the differences are paired."""
    found = compare_classical(pairs, heads=f"{heads}:2.0", beta=heads, threads=1)
    rows = found.differences.set_index(["v", "w"])
    assert (rows.loc[("2.0.beta", "diagonal"), ["difference", "low", "high"]] == 0).all()
    assert rows.loc[("ibm1.beta", "diagonal")].high < 0


def test_without_a_choice_the_heads_with_most_hits_are_compared(pairs, heads):
    found = compare_classical(pairs, heads=heads, beta=heads, threads=1, metric="tau")
    names = [name for name in dict.fromkeys(found.table.u) if name[0] == "2"]
    assert [name for name in names if name.endswith("alpha")] == ["2.1.alpha", "2.2+1.alpha", "2.2.alpha"]
    assert {"2.1.beta", "2.2.beta"} < {*names}
    compared = found.differences[found.differences.u == "2.2+1.alpha"]
    assert {*compared.v} == {"ibm1.beta", "align.alpha", "2.2.beta"}


def test_heads_are_checked_before_anything_is_fitted(pairs, copies, heads, tmp_path, monkeypatch):
    few = LinePairs(pairs.source[:40], pairs.target[:40])
    monkeypatch.setattr("alignkit.pipeline.align.align", None)
    for call, problem in [
        ((few, heads), r"heads\.npz: .*the heads are of 120 pairs, the text has 40"),
        ((pairs, f"{heads}:7.1"), r"heads\.npz: .*there is no head 7\.1"),
    ]:
        with pytest.raises(AlignkitError, match=problem):
            compare_classical(call[0], heads=call[1], threads=1)


def test_names_of_heads_are_taken(pairs, copies, heads):
    with pytest.raises(AlignkitError, match=r"already in use: align\.alpha, diagonal, 2\.1\.alpha"):
        compare_classical(pairs, {"2.1": copies}, heads=f"{heads}:2.1", threads=1)
