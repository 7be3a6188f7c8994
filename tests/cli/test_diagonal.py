"""alignkit diagonal."""

from __future__ import annotations

from .conftest import DIAGONAL


def test_diagonal(alignkit, text, tmp_path):
    outcome = alignkit(
        "diagonal", "-v", *text, "--save-model", tmp_path / "m", "--save-scores", tmp_path / "x.npz"
    )
    assert (outcome.code, outcome.lines) == (0, DIAGONAL)
    assert "tension" in outcome.err
    assert alignkit("align", "-q", "--model", tmp_path / "m", *text).lines == DIAGONAL
    assert (tmp_path / "x.npz").stat().st_size > 0
    for options in (
        ["--reverse"],
        ["--no-null", "--set", "dirichlet=null"],
        ["--symmetrize", "union", "--set", "tension=2"],
    ):
        assert alignkit("diagonal", "-q", *text, *options).lines == DIAGONAL
