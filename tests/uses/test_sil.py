"""Aligners as SIL's machine.py uses them: its own functions get from them what they expect of its models."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from alignkit.aligner import Reversed
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError, InputError
from alignkit.support.packages import MissingPackageError
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext, train_subwords
from alignkit.uses import sil
from alignkit.uses.sil import SilAligner, TransductiveSilAligner

SOURCE, TARGET = [["a", "b c"], ["a"], ["b c", "d"], ["d"], []], [["A", "B"], ["A"], ["B", "D"], ["D"], ["A"]]
LINKS = ["0-0 1-1", "0-0", "0-0 1-1", "0-0", ""]


@pytest.fixture
def machine():
    pytest.importorskip("machine", reason="needs sil-machine")
    return import_module("machine.translation")


@pytest.fixture
def model():
    return fit_ibm1(Bitext.from_sentences(SOURCE, TARGET), iterations=10)


@pytest.fixture
def aligner(machine, model):
    return SilAligner(model)


def corpus_of(sources, targets, texts="ttttt"):
    from machine.corpora import ParallelTextCorpus, ParallelTextRow

    pairs = enumerate(zip(texts, sources, targets, strict=True))
    return ParallelTextCorpus.from_parallel_rows([ParallelTextRow(t, [n], [n], x, y) for n, (t, x, y) in pairs])


def trained(aligner, corpus):
    with aligner.create_trainer(corpus) as trainer:
        trainer.train()
        trainer.save()
    return aligner


def test_links_are_matrices(machine, aligner):
    matrix = aligner.align(["b c", "a", "?"], ["A", "B"])
    assert (matrix.row_count, matrix.column_count) == (3, 2)
    assert matrix == machine.WordAlignmentMatrix.from_word_pairs(3, 2, [(0, 1), (1, 0)])
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


def test_they_are_models_of_machine(machine, aligner):
    assert isinstance(aligner, machine.WordAlignmentModel)
    # word_align_corpus gives the pairs of any corpus the links of the training if a model is transductive.
    assert not isinstance(aligner, machine.TransductiveWordAlignmentModel)
    assert isinstance(TransductiveSilAligner(), machine.TransductiveWordAlignmentModel)
    corpus = corpus_of(SOURCE[::-1], TARGET[::-1])
    for rows in (
        machine.word_align_corpus(corpus, aligner),
        machine.word_align_corpus(corpus, aligner, batch_size=2),
    ):
        assert [" ".join(f"{s}-{t}" for s, t in row.aligned_word_pairs) for row in rows] == LINKS[::-1]


def test_every_pair_of_places_has_scores(aligner):
    from machine.corpora import AlignedWordPair

    words = ["b c", "a", "?"], ["A", "B"]
    found = aligner.get_best_aligned_word_pairs(*words)
    others = [AlignedWordPair(*places) for places in ((0, 0), (0, 1), (2, 1), (0, -1), (-1, 1))]
    aligner.compute_aligned_word_pair_scores(*words, others)
    posterior = aligner.aligner.score(Bitext.from_sentences(*([side] for side in words)), "alpha")[0]
    p = {(x, y): dict(aligner.aligner.translations(x, None)).get(y, 0) for x in words[0] for y in words[1]}
    null = aligner.aligner.null[aligner.aligner.target.id("B")]
    assert [(each.source_index, each.target_index) for each in found] == [(0, 1), (1, 0)]
    for pair in [*found, *others[:3]]:
        s, t = pair
        assert pair.alignment_score == pytest.approx(posterior[t, s])
        assert pair.translation_score == pytest.approx(p[words[0][s], words[1][t]])
    assert [(each.translation_score, each.alignment_score) for each in others[3:]] == [(0, 0), (null, 0)]
    assert aligner.get_best_aligned_word_pairs([], ["A"]) == []


def test_words_have_numbers(aligner):
    words = aligner.target_words
    assert list(aligner.source_words) == ["NULL", "UNKNOWN_WORD", "a", "b c", "d"]
    assert list(words) == [words[n] for n in range(len(words))] == ["NULL", "UNKNOWN_WORD", "A", "B", "D"]
    assert [words.index(word) for word in (None, "?", "A", "D")] == [0, 1, 2, 4]
    assert [words[n] for n in aligner.special_symbol_indices] == ["NULL", "UNKNOWN_WORD"]
    assert aligner.source_words.index("A") == 2  # in lower case


def test_translations_are_numbers_of_target_words(aligner, tmp_path):
    found = list(aligner.get_translations("b c"))
    words = [(aligner.target_words[number], p) for number, p in found]
    assert words == aligner.aligner.translations("b c", None)
    assert len(found) == 3
    assert list(aligner.get_translations(3)) == found
    assert list(aligner.get_translations("b c", found[1][1])) == found[:1]
    assert aligner.get_translation_score("b c", words[1][0]) == found[1][1]
    assert aligner.get_translation_probability(3, found[1][0]) == found[1][1]
    assert list(aligner.get_translations("unknown")) == list(aligner.get_translations(1)) == []
    null = {aligner.target_words[n]: p for n, p in aligner.get_translations(None)}
    assert null == dict(zip("ABD", aligner.aligner.null.tolist(), strict=True))
    table = aligner.get_translation_table()
    assert table == {"NULL": null, "UNKNOWN_WORD": {}} | {
        x: dict(aligner.aligner.translations(x, None)) for x in ("a", "b c", "d")
    }
    aligner.aligner.save(tmp_path / "m.npz")
    assert SilAligner(tmp_path / "m.npz").get_translation_table() == table


def test_a_transductive_model_gives_the_links_of_its_training(machine, tmp_path):
    corpus = corpus_of(SOURCE * 20, TARGET * 20, "t" * 80 + "u" * 20)
    steps = []
    aligner = TransductiveSilAligner(tmp_path / "m.npz", method="ibm1", iterations=7)
    with aligner.create_trainer(corpus) as trainer:
        trainer.train(steps.append, lambda: steps.append(None))
        assert (trainer.stats.train_corpus_size, aligner.training_alignment_count) == (80, 0)
        trainer.save()
    assert [(each.step, each.step_count) for each in steps[::2]] == [(n, 7) for n in range(1, 8)]
    assert steps[1::2] == [None] * 7
    assert aligner.training_alignment_count == 100
    assert [str(aligner.get_training_alignment(n)) for n in range(100)] == LINKS * 20
    rows = list(machine.word_align_corpus(corpus, aligner).get_rows(["u"]))
    assert [str(machine.WordAlignmentMatrix.from_parallel_text_row(row)) for row in rows] == LINKS * 4
    assert all(pair.alignment_score > 0.5 for row in rows for pair in row.aligned_word_pairs)
    again = TransductiveSilAligner(tmp_path / "m.npz")
    assert again.get_translation_table() == aligner.get_translation_table()
    assert again.training_alignment_count == 0
    with pytest.raises(AlignkitError, match="not trained here"):
        again.get_training_alignment(0)


def test_links_of_a_joint_fit_are_its_own(machine):
    aligner = trained(TransductiveSilAligner(quality="fast"), corpus := corpus_of(SOURCE, TARGET))
    links, probabilities = aligner.aligner.fitted_links_and_probabilities
    assert [str(aligner.get_training_alignment(n)) for n in range(5)] == links.to_strings() == LINKS
    pairs = [pair for row in machine.word_align_corpus(corpus, aligner) for pair in row.aligned_word_pairs]
    assert [pair.alignment_score for pair in pairs] == probabilities.tolist()
    assert aligner.source_words.index("A") == aligner.source_words.index("a") == 2
    trained(aligner, corpus_of([["e\u0301"]], [["y"]], "t"))
    assert (aligner.source_words[2], aligner.training_alignment_count) == ("\u00e9", 1)
    assert aligner.source_words.index("E\u0301") == 2  # its accent a character of its own


def test_a_corpus_that_is_not_tokenized_has_words_between_spaces(machine):
    from machine.corpora import DictionaryTextCorpus, MemoryText, StandardParallelTextCorpus, TextRow

    sides = [DictionaryTextCorpus(MemoryText("t", [TextRow("t", 1, [text])])) for text in ("a b", "A")]
    corpus = StandardParallelTextCorpus(*sides)
    assert list(trained(SilAligner(method="ibm1"), corpus).source_words)[2:] == ["a", "b"]


def test_two_directions_are_symmetrized_by_machine(machine):
    both = machine.SymmetrizedWordAlignmentModel(SilAligner(method="ibm1"), SilAligner(method="ibm1"))
    trained(both, corpus_of(SOURCE, TARGET))
    assert str(both.align(["d", "a"], ["A", "D"])) == "0-1 1-0"
    # Words have the same numbers in both.
    best = max(both.get_translations("b c"), key=lambda each: each[1])
    assert both.target_words[best[0]] == "B"


def test_what_is_missing_is_said(machine, model, tmp_path):
    untrained = SilAligner()
    for use in (lambda: untrained.align(["a"], ["A"]), lambda: untrained.source_words):
        with pytest.raises(AlignkitError, match="not trained yet: call create_trainer"):
            use()
    with pytest.raises(AlignkitError, match=r"call train\(\) first"):
        untrained.create_trainer(corpus_of(SOURCE, TARGET)).save()
    with pytest.raises(AlignkitError, match="a model must be an aligner or its file"):
        SilAligner(3)
    (tmp_path / "text").write_text("a text")
    with pytest.raises(InputError, match="not a saved aligner"):
        SilAligner(tmp_path / "text")
    with pytest.raises(AlignkitError, match="no translations of source words"):
        SilAligner(Reversed(model)).get_translations("a")


def test_a_cancelled_training_changes_nothing(machine, aligner):
    def cancel():
        raise KeyboardInterrupt

    trainer = aligner.create_trainer(corpus_of(SOURCE, TARGET))
    with pytest.raises(KeyboardInterrupt):
        trainer.train(check_canceled=cancel)
    assert aligner.trained is None
    assert str(aligner.align(["a"], ["A"])) == "0-0"


def test_without_the_package_it_says_how_to_get_it(monkeypatch, model):
    monkeypatch.setitem(sys.modules, "machine", None)
    monkeypatch.delitem(sys.modules, sil.__name__)
    alone = import_module(sil.__name__)
    for each in (alone.SilAligner, alone.TransductiveSilAligner):
        with pytest.raises(MissingPackageError, match="pip install sil-machine"):
            each(model)
