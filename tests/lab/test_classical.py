"""Classical aligners against other systems, without a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.comparison import CompareSettings, compare_classical, head_differences
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice
from alignkit.metrics.agreement import agreement, count_agreement
from alignkit.metrics.intervals import resampled_sums
from alignkit.pipeline.align import align
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs


@pytest.fixture(scope="module")
def pairs():
    found, _ = permuted_copy(3, pairs=120, types=12, longest=5)
    return LinePairs([" ".join(x) for x, _ in found], [" ".join([*y, "."]) for _, y in found])


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


def test_heads_are_beside_the_diagonal_the_aligner_and_their_lexicons(pairs, diagonal, heads, tmp_path):
    """The one that is chosen, or the three with most hits on the aligner's links; lexicons are not shifted."""
    known, beta = AttentionHeads.load(heads), tmp_path / "beta.npz"
    lexicon = replace(known, values=np.random.default_rng(1).random(known.values.shape, np.float32))
    lexicon.save(beta)
    for place, names in ((f"{heads}:2.2+1", ["2.2+1"]), (heads, ["2.1", "2.2+1", "2.0+1"])):
        found = compare_classical(pairs, heads=place, beta=beta, threads=1, metric="tau")
        betas = dict.fromkeys(f"{name[:3]}.beta" for name in names)
        assert [name for name in found.scores if name[0] == "2"] == [*(f"{name}.alpha" for name in names), *betas]
        assert {*found.table.u} == {*found.scores} > {"ibm1.beta", "align.alpha", "diagonal"}
        assert found.scores["diagonal"].values == pytest.approx(diagonal.values)
        for name in names:
            choice = HeadChoice(2, int(name[2]), name.endswith("+1"))
            assert found.scores[f"{name}.alpha"] == known.word_scores(choice)
            assert found.scores[f"{name[:3]}.beta"] == lexicon.word_scores(replace(choice, shifted=False))
        compared = found.differences[found.differences.u == "2.2+1.alpha"]
        assert {*compared.v} == {"ibm1.beta", "align.alpha", "2.2.beta"}


def test_differences_are_of_agreements_above_chance():
    """Of scores with many ties, by naive sums over the resamples that all have in common."""
    rng, settings = np.random.default_rng(2), CompareSettings(seed=3, resamples=50)
    own = ["align.alpha", "diagonal", "0.1+1.alpha", "0.2.alpha", "0.1.beta", "0.2.beta"]
    shapes = rng.integers(2, 7, (40, 2))
    scores = {
        name: Scores.from_matrices(rng.integers(0, n + 2, shape) for shape in shapes)
        for n, name in enumerate([*own, "ibm1.beta"])
    }

    def above_chance(u, v):
        counts = count_agreement(scores[u], scores[v])
        columns = np.stack([counts.hits - counts.expected, counts.rows], axis=1)
        sums = np.concatenate([columns.sum(axis=0)[None], resampled_sums(columns, 3, 50)])
        return sums[:, 0] / sums[:, 1]

    wanted = {}
    for u, beta in (("0.1+1.alpha", "0.1.beta"), ("0.2.alpha", "0.2.beta")):
        for w, others in (("diagonal", ["align.alpha"]), ("align.alpha", [])):
            for v in (*others, beta, "ibm1.beta"):
                values = above_chance(u, v) - above_chance(u, w)
                wanted[u, v, w] = [values[0], *np.percentile(values[1:], (2.5, 97.5))]
    found = head_differences(scores, own, settings).set_index(["u", "v", "w"])
    assert [*found.index] == [*wanted]
    assert found.to_numpy() == pytest.approx(np.array([*wanted.values()]))


def test_another_text_to_fit_on(pairs, copies, heads, tmp_path):
    few = LinePairs(pairs.source[:40], pairs.target[:40])
    text, bitext = (
        Bitext.from_sentences(*([line.split() for line in side] for side in each)) for each in (pairs, few)
    )
    AttentionHeads.from_pairs(AttentionHeads.load(heads).pair(m)[None] for m in range(40)).save(tmp_path / "few")
    ibm1, aligner = fit_ibm1(text, iterations=3, null=False), align(text, threads=1).aligner
    wanted = {f"ibm1.{kind}": ibm1.score(bitext, kind) for kind in ("beta", "alpha")}
    wanted["align.alpha"] = aligner.score(bitext)
    for more in ({}, {"heads": f"{tmp_path / 'few'}:0.1"}):
        found = compare_classical(few, training=pairs, also=("ibm1.alpha",), iterations=3, threads=1, **more)
        assert {name: found.scores[name] for name in wanted} == wanted
        assert (len(found.training), len(found.pairs)) == (120, 40)
    with pytest.raises(AlignkitError, match="scores for 120 pairs, the text has 40"):
        compare_classical(few, {"copy": copies}, training=pairs)


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
