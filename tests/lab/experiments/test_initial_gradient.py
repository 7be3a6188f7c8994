"""The derivative at initialisation: closed form against autograd, limits and their rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import initial_gradient as experiment
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs

SOURCE = [["a", "b", "a"], ["b", "c"], ["d"], ["a", "d", "c", "b"]]
TARGET = [["x", "y"], ["y", "y", "z"], ["z", "x"], ["w"]]


@pytest.fixture
def drawn():
    """A bitext with repeated words, and e and W of a width of 5 that are not small."""
    generator = torch.Generator().manual_seed(3)
    e, W = (torch.randn(4, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    return Bitext.from_sentences(SOURCE, TARGET), e, W


def log_likelihood(bitext, e, W):
    """Token by token, straight from the definition."""
    total = torch.zeros((), dtype=e.dtype)
    for x, y in zip(bitext.source, bitext.target, strict=True):
        logs = torch.log_softmax(W @ e[x.tolist()].mean(0), 0)
        for word in y.tolist():
            total = total + logs[word]
    return total


def test_the_closed_form_is_the_flow_of_autograd(drawn):
    bitext, e, W = drawn
    dz, dtheta = experiment.initial_derivatives(bitext, e, W)
    leaves = e.clone().requires_grad_(), W.clone().requires_grad_()
    log_likelihood(bitext, *leaves).backward()
    de, dW = leaves[0].grad, leaves[1].grad
    assert torch.allclose(dz, de @ W.t() + e @ dW.t(), atol=1e-6)  # C is float32
    expected = torch.func.jvp(lambda e, W: torch.softmax(e @ W.t(), 1), (e, W), (de, dW))[1]
    assert torch.allclose(dtheta, expected, atol=1e-6)


def test_nothing_but_the_table_is_left_where_the_limits_hold_exactly(drawn):
    """Orthonormal rows and spaces apart: W W' = e e' = 1 and e W' = 0, so that p is uniform."""
    bitext, _, _ = drawn
    basis = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    e, W = basis[:4], basis[4:]
    dz, dtheta = experiment.initial_derivatives(bitext, e, W)
    table = experiment.predicted(bitext).double()
    assert torch.allclose(dz, table, atol=1e-6)
    assert torch.allclose(dtheta, table / 4, atol=1e-6)


def test_statistics_on_known_arrays():
    """By numpy, of arrays that are no multiples of one another."""
    table, measured = np.random.default_rng(0).standard_normal((2, 3, 4))
    correlation, slope, error = experiment.compared(*map(torch.from_numpy, (measured, table)))
    assert correlation == pytest.approx(np.corrcoef(table.ravel(), measured.ravel())[0, 1])
    assert slope == pytest.approx(np.linalg.lstsq(table.reshape(-1, 1), measured.ravel(), rcond=None)[0][0])
    assert error == pytest.approx(np.linalg.norm(measured - table) / np.linalg.norm(table))


def test_only_the_frequent_words_have_names():
    lines = ["b a a", "", "c b a"]
    found = experiment.frequent_words(lines, 2)
    assert [[found.vocabulary[int(word)] for word in words] for words in found] == [
        ["b", "a", "a"],
        [],
        ["<unk>", "b", "a"],
    ]
    assert len(found.vocabulary) == 3
    assert len(experiment.frequent_words(lines).vocabulary) == 4


def test_rows_are_of_networks_drawn_from_each_seed(monkeypatch):
    """Three pairs, one of them empty, with 4 source words and the 5 most frequent target words, besides <unk>."""
    lines = LinePairs(["a b a", "", "b c d", "left out"], ["x y z", "y", "y w v u", ""])
    monkeypatch.setattr(experiment, "bitext_lines", lambda *files: lines)
    settings = experiment.InitialGradientSettings(pairs=3, words=5, widths=(8, 32), seeds=2)
    told = []
    result = experiment.run_initial_gradient(settings, lambda *what: told.append(what))
    assert told == [(0, 4, "width 8"), (1, 4, "width 8"), (2, 4, "width 32"), (3, 4, "width 32")]
    bitext = Bitext(*(experiment.frequent_words(side[:3], 5) for side in lines))
    raw = result.rows["draws"].set_index(["width", "seed"])
    for (width, seed), row in raw.iterrows():
        generator = torch.Generator().manual_seed(seed)
        e, W = (torch.randn(size, width, generator=generator) / width**0.5 for size in (5, 6))
        table = experiment.predicted(bitext)
        for name, found in zip(("logit", "theta"), experiment.initial_derivatives(bitext, e, W), strict=True):
            found = row[[f"{name} {what}" for what in ("correlation", "slope", "error")]].tolist(), found
            assert found[0] == pytest.approx(experiment.compared(found[1], table), rel=1e-4)
        assert row["theta slope x O"] == pytest.approx(6 * row["theta slope"])
        assert row["predicted error"] == pytest.approx((13 / (4 * width)) ** 0.5)
    assert result.table["logit error"].tolist() == pytest.approx(
        raw["logit error"].groupby("width").mean().tolist()
    )
    assert result.remarks[0].startswith("3 pairs, 5 source and O = 6 target words")
    monkeypatch.setattr(experiment, "bitext_lines", lambda *files: LinePairs(["a", ""], ["", "x"]))
    with pytest.raises(AlignkitError, match="no pair has words on both sides"):
        experiment.run_initial_gradient(settings)
