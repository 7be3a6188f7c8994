"""Aligners as SIL's machine.py uses them; without that package, its classes are stand-ins."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NamedTuple

import pytest

from alignkit.aligner import load_aligner
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.support.packages import MissingPackageError, is_here
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext, train_subwords
from alignkit.uses.sil import SilAligner

SOURCE, TARGET = [["a", "b c"], ["a"], ["b c", "d"], ["d"]], [["A", "B"], ["A"], ["B", "D"], ["D"]]


class Matrix(NamedTuple):
    row_count: int
    column_count: int
    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def from_word_pairs(cls, row_count, column_count, pairs):
        return cls(row_count, column_count, tuple(map(tuple, pairs)))

    def __str__(self):
        return " ".join(f"{s}-{t}" for s, t in self.pairs)


class WordPair(NamedTuple):
    source_index: int
    target_index: int
    alignment_score: float


@pytest.fixture
def machine(monkeypatch):
    if not is_here("machine"):
        contents = {
            "machine": {},
            "machine.corpora": {"AlignedWordPair": WordPair},
            "machine.translation": {"WordAlignmentMatrix": Matrix},
        }
        for name, classes in contents.items():
            monkeypatch.setitem(sys.modules, name, module := ModuleType(name))
            module.__spec__ = ModuleSpec(name, None)
            vars(module).update(classes)


@pytest.fixture
def aligner(machine):
    return SilAligner(fit_ibm1(Bitext.from_sentences(SOURCE, TARGET), iterations=10))


def test_links_are_matrices(aligner):
    from machine.translation import WordAlignmentMatrix

    matrix = aligner.align(["b c", "a", "?"], ["A", "B"])
    assert isinstance(matrix, WordAlignmentMatrix)
    assert (matrix.row_count, matrix.column_count) == (3, 2)
    assert matrix == WordAlignmentMatrix.from_word_pairs(3, 2, [(0, 1), (1, 0)])
    batch = aligner.align_batch([(["a"], ["A"]), ([], ["A"]), (["d"], [])])
    assert [str(each) for each in batch] == ["0-0", "", ""]
    assert aligner.align_batch([]) == []


def test_an_aligner_of_subwords_links_words(machine, monkeypatch):
    sides = [["ab cd", "ab", "cd ef", "ef"] * 3, ["CD AB", "AB", "CD EF", "EF"] * 3]
    subwords = train_subwords(sides[0] + sides[1], 20)
    model = fit_ibm1(encode_bitext(subwords, *sides), iterations=10)
    monkeypatch.setattr(type(model), "tokenizer", subwords)
    pair = ["ab", "cd", "ef"], ["EF", "CD", "AB"]
    links = model.on_words().links(Bitext.from_sentences([pair[0]], [pair[1]])).to_strings()
    assert [str(SilAligner(model).align(*pair))] == links != [""]


def test_it_is_one_of_their_aligners():
    pytest.importorskip("machine", reason="needs sil-machine")
    from machine.translation import WordAligner

    for method in WordAligner.__abstractmethods__:
        assert callable(getattr(SilAligner, method))


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
    words = [(aligner.target_words[number], p) for number, p in found]
    assert words == aligner.aligner.translations("b c", None)
    assert len(found) == 3
    assert list(aligner.get_translations("b c", found[1][1])) == found[:1]
    assert list(aligner.get_translations("unknown")) == []
    aligner.aligner.save(tmp_path / "m.npz")
    assert list(SilAligner(load_aligner(tmp_path / "m.npz")).get_translations("b c")) == found


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "machine", None)
    with pytest.raises(MissingPackageError, match="pip install sil-machine"):
        SilAligner(fit_ibm1(Bitext.from_sentences([["a"]], [["A"]]), iterations=1))
