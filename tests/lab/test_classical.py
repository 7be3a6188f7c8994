"""Classical aligners against other systems, without a network."""

from __future__ import annotations

import numpy as np
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.comparison import compare_classical
from alignkit.metrics.agreement import agreement
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
