"""Models with any of their fields changed work, or are refused in one line: no traceback, no warning, no NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tampering import changed_npz, failures, npz_content, some, write_npz

from alignkit.aligner import Reversed, Symmetrized, load_aligner
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.views import View
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import InputError
from alignkit.lab.interop.other_systems import read_scores
from alignkit.metrics.agreement import agreement
from alignkit.pipeline.aligned_text import AlignedText
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit_cli.main import run

TEXT = Bitext.from_sentences(
    [["das", "Haus"], ["das", "Buch"], ["ein", "Buch"], [], ["ein", "Haus", "."]],
    [["the", "house"], ["the", "book"], ["a", "book"], ["x"], ["a", "house", "."]],
)
NEW = Bitext.from_sentences(
    [["das", "Buch", "neu"], ["Haus"], ["."]], [["the", "book"], ["a", "new", "house"], []]
)


def both(bitext: Bitext) -> Symmetrized:
    return Symmetrized(fit_ibm1(bitext), fit_ibm1(bitext.reversed), "product")


FITTED = {
    "ibm1": fit_ibm1,
    "ibm1-null-probability": lambda text: fit_ibm1(text, null_probability=0.1),
    "diagonal": fit_diagonal,
    "hmm": fit_hmm,
    "joint": fit_joint,
    "views": lambda text: fit_joint(text, views=(View(), View(letters=2))),
    "reversed": lambda text: Reversed(fit_ibm1(text.reversed)),
    "symmetrized": both,
}


def use(path: Path) -> None:
    """All that a saved aligner is used for; what it gives must be finite."""
    aligner = load_aligner(path, threads=1)
    assert repr(aligner).count("\n") == 0
    for kind in aligner.kinds:
        assert np.isfinite(aligner.score(NEW, kind).values).all()
    found = next(AlignedText(NEW, aligner).alignments(probabilities=True, scored=True))
    assert np.isfinite(found.probabilities).all()
    assert np.isfinite(found.sentence_scores[:2]).all()  # the last pair has a blank side, and none
    aligner.save(path.with_name("again.npz"))


@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", FITTED)
def test_a_changed_model(tmp_path, kind, most):
    path = tmp_path / "m.npz"
    FITTED[kind](TEXT).save(path)
    use(path)
    changes = some(changed_npz(npz_content(path)), most)
    found = failures(changes, lambda content: write_npz(path, content), lambda: use(path), kind)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_changed_scores(tmp_path, most):
    path = tmp_path / "s.npz"
    fit_ibm1(TEXT).score(TEXT, "alpha").save(path)

    def use():
        scores = Scores.load(path)
        assert agreement(scores, scores).rows == sum(len(matrix) for matrix in scores if matrix.size)
        read_scores(path, TEXT.shapes)

    use()
    found = failures(some(changed_npz(npz_content(path)), most), lambda each: write_npz(path, each), use, "scores")
    assert not found, "\n".join(found)


def test_a_file_within_a_file_that_is_cut_is_not_taken_for_it(tmp_path):
    path = tmp_path / "m.npz"
    for kind in ("reversed", "symmetrized"):
        FITTED[kind](TEXT).save(path)
        data = path.read_bytes()
        path.write_bytes(data[: data.rindex(b"PK\1\2")])  # the outer directory comes after the inner file
        with pytest.raises(InputError, match="damaged"):
            load_aligner(path)


def test_the_command_says_it_in_one_line(tmp_path, capfd):
    path, text = tmp_path / "m.npz", tmp_path / "text"
    text.write_text("das Haus ||| the house\n")
    fit_ibm1(TEXT).save(path)
    content = npz_content(path)
    content["arrays"]["values"] = np.full_like(content["arrays"]["values"], np.inf)
    write_npz(path, content)
    assert run(["align", "--model", str(path), str(text), "-o", str(tmp_path / "links")]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"alignkit: error: {path}: damaged: translation probabilities must lie between 0 and 1\n"
    assert not (tmp_path / "links").exists()
