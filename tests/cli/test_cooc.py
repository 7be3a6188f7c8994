"""alignkit cooc."""

from __future__ import annotations


def test_cooc(alignkit, text, tmp_path):
    assert alignkit("cooc", *text, "-o", tmp_path / "c.tsv", "--weighting", "presence").code == 0
    counts = dict(line.rsplit("\t", 1) for line in (tmp_path / "c.tsv").read_text().splitlines())
    assert counts["a\tA"] == "4"
    assert counts["b\tA"] == "2"
    assert alignkit("cooc", *text, "-o", tmp_path / "c.npz").code == 0
    assert (tmp_path / "c.npz").stat().st_size > 0


def test_a_name_of_another_format_is_refused(alignkit, failure, text, tmp_path):
    failure(alignkit("cooc", *text, "-o", tmp_path / "c.csv"), "c.csv", "must end in .npz or .tsv")
    assert not (tmp_path / "c.csv").exists()
