"""alignkit cooc."""

from __future__ import annotations


def test_cooc(alignkit, text, tmp_path):
    assert alignkit("cooc", *text, "-o", tmp_path / "c.tsv", "--weighting", "presence").code == 0
    counts = dict(line.rsplit("\t", 1) for line in (tmp_path / "c.tsv").read_text().splitlines())
    assert counts["a\tA"] == "4"
    assert counts["b\tA"] == "2"
    assert alignkit("cooc", *text, "-o", tmp_path / "c.npz").code == 0
    assert (tmp_path / "c.npz").stat().st_size > 0


def test_a_limit_of_memory_is_kept_or_refused(alignkit, failure, text, tmp_path):
    """On disk, the text takes hardly more than the program itself."""
    limits = {"whole": (), "parts": ("--max-memory", "230M", "--temp-dir", tmp_path)}
    for name, options in limits.items():
        assert alignkit("cooc", *text, *options, "-o", tmp_path / f"{name}.npz").code == 0
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "parts.npz").read_bytes()
    failure(alignkit("cooc", *text, "--max-memory", "100M", "-o", tmp_path / "c.npz"), "of memory", "--max-memory")
    assert not (tmp_path / "c.npz").exists()


def test_a_name_of_another_format_is_refused(alignkit, failure, text, tmp_path):
    failure(alignkit("cooc", *text, "-o", tmp_path / "c.csv"), "c.csv", "must end in .npz or .tsv")
    assert not (tmp_path / "c.csv").exists()
