"""Aligners as SIL's machine.py uses them."""

from __future__ import annotations

import pytest

from alignkit.aligner import load_aligner
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.support.packages import MissingPackageError
from alignkit.text.bitext import Bitext
from alignkit.uses.sil import SilAligner

SOURCE, TARGET = [["a", "b c"], ["a"], ["b c", "d"], ["d"]], [["A", "B"], ["A"], ["B", "D"], ["D"]]


@pytest.fixture
def aligner():
    pytest.importorskip("machine", reason="needs sil-machine")
    return SilAligner(fit_ibm1(Bitext.from_sentences(SOURCE, TARGET), iterations=10))


def test_it_is_one_of_their_aligners(aligner):
    from machine.translation import WordAligner, WordAlignmentMatrix

    for method in WordAligner.__abstractmethods__:
        assert callable(getattr(aligner, method))
    matrix = aligner.align(["b c", "a", "?"], ["A", "B"])
    assert isinstance(matrix, WordAlignmentMatrix)
    assert (matrix.row_count, matrix.column_count) == (3, 2)
    assert matrix == WordAlignmentMatrix.from_word_pairs(3, 2, [(0, 1), (1, 0)])
    batch = aligner.align_batch([(["a"], ["A"]), ([], ["A"]), (["d"], [])])
    assert [str(each) for each in batch] == ["0-0", "", ""]
    assert aligner.align_batch([]) == []


def test_their_symmetrization_takes_it(aligner):
    from machine.translation import SymmetrizedWordAligner

    turned = SilAligner(fit_ibm1(Bitext.from_sentences(TARGET, SOURCE), iterations=10))
    both = SymmetrizedWordAligner(aligner, turned)
    assert str(both.align(["a", "d"], ["D", "A"])) == "0-1 1-0"
    assert [str(each) for each in both.align_batch([(["a", "d"], ["D", "A"])])] == ["0-1 1-0"]


def test_every_link_has_a_score(aligner):
    found = aligner.get_best_aligned_word_pairs(["b c", "a", "?"], ["A", "B"])
    assert [(each.source_index, each.target_index) for each in found] == [(0, 1), (1, 0)]
    posterior = aligner.aligner.score(Bitext.from_sentences([["b c", "a", "?"]], [["A", "B"]]), "alpha")[0]
    assert [each.alignment_score for each in found] == [
        pytest.approx(posterior[1, 0]),
        pytest.approx(posterior[0, 1]),
    ]
    assert aligner.get_best_aligned_word_pairs([], ["A"]) == []


def test_translations_are_numbers_of_target_words(aligner, tmp_path):
    found = list(aligner.get_translations("b c"))
    assert aligner.target_words[found[0][0]] == "B"
    assert found[0][1] > 0.9
    assert found == sorted(found, key=lambda each: -each[1])
    assert list(aligner.get_translations("b c", 0.5)) == found[:1]
    assert list(aligner.get_translations("unknown")) == []
    aligner.aligner.save(tmp_path / "m.npz")
    assert list(SilAligner(load_aligner(tmp_path / "m.npz")).get_translations("b c")) == found


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "machine", None)
    with pytest.raises(MissingPackageError, match="pip install sil-machine"):
        SilAligner(fit_ibm1(Bitext.from_sentences([["a"]], [["A"]]), iterations=1))
