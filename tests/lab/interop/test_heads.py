"""Several layers and heads: chosen, shifted, merged to words, saved."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from alignkit.errors import AlignkitError, InputError
from alignkit.lab.interop.heads import AttentionHeads, HeadChoice, HeadCollector, split_choice
from alignkit.lab.interop.other_systems import project_scores, read_heads, read_scores
from alignkit.text.bitext import Bitext

LAYERS, HEADS = 2, 3
SIZES = [(3, 2), (1, 4), (4, 5)]
# words of the tokens of each pair: source, target; the last token is </s>
SOURCE = [[0, -1], [0, 1, 1, -1], [0, 0, 1, 2, -1]]
TARGET = [[0, 1, -1], [-1], [0, 0, 1, -1]]


@pytest.fixture
def pairs():
    rng = np.random.default_rng(5)
    return [rng.dirichlet(np.ones(width), (LAYERS, HEADS, height)).astype(np.float32) for height, width in SIZES]


def words():
    return tuple([(np.array(each), max(each) + 1) for each in side] for side in (SOURCE, TARGET))


def naive_words(matrix, source, target):
    """The attention from word to word, element by element."""
    found = np.zeros((max(target) + 1, max(source) + 1))
    for t, row in enumerate(target):
        for s, column in enumerate(source):
            if row >= 0 and column >= 0:
                found[row, column] += matrix[t, s] / target.count(row)
    return found


def naive_shift(matrix):
    return np.array([*matrix[1:], np.zeros(matrix.shape[1])])


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a.npz:5.0", ("a.npz", HeadChoice(5, 0))),
        ("a.npz:mean.3", ("a.npz", HeadChoice(None, 3))),
        ("x:1.2:mean.mean+1", ("x:1.2", HeadChoice(None, None, shifted=True))),
        ("a.npz", ("a.npz", None)),
        ("a.npz:5", ("a.npz:5", None)),
        ("C:a.npz", ("C:a.npz", None)),
        ("a:-1.0", ("a:-1.0", None)),
    ],
)
def test_a_head_is_named_after_the_file(path, wanted):
    assert split_choice(path) == wanted
    name, choice = wanted
    assert choice is None or f"{name}:{choice}" == path


def test_a_file_of_that_name_is_no_choice(tmp_path):
    (tmp_path / "a:1.0").write_text("x")
    assert split_choice(tmp_path / "a:1.0") == (tmp_path / "a:1.0", None)


def test_heads_are_chosen(pairs):
    heads = AttentionHeads.from_pairs(pairs)
    for m, pair in enumerate(pairs):
        assert np.array_equal(heads.scores(HeadChoice(1, 2))[m], pair[1, 2])
        assert np.allclose(heads.scores(HeadChoice(None, 2))[m], pair[:, 2].mean(axis=0))
        assert np.allclose(heads.scores(HeadChoice(1, None))[m], pair[1].mean(axis=0))
        assert np.allclose(heads.scores(HeadChoice(None, None))[m], pair.mean(axis=(0, 1)))
        assert np.array_equal(heads.scores(HeadChoice(0, 1, shifted=True))[m], naive_shift(pair[0, 1]))
    with pytest.raises(AlignkitError, match=r"no head 2\.0; there are layers 0 to 1, heads 0 to 2"):
        heads.scores(HeadChoice(2, 0))


def test_subwords_are_shifted_before_they_are_merged(pairs):
    heads = AttentionHeads.from_pairs(pairs, words())
    for shifted, each in ((False, heads.on_words), (True, heads.shifted.on_words)):
        for m, pair in enumerate(pairs):
            matrix = naive_shift(pair[1, 0]) if shifted else pair[1, 0]
            wanted = naive_words(matrix, SOURCE[m], TARGET[m])
            assert np.allclose(each.scores(HeadChoice(1, 0))[m], wanted, atol=1e-6)
            assert np.allclose(heads.word_scores(HeadChoice(1, 0, shifted))[m], wanted, atol=1e-6)


def test_a_file_keeps_everything(pairs, tmp_path):
    heads = AttentionHeads.from_pairs(pairs, words(), layers=[0, 4])
    heads.save(tmp_path / "a.npz")
    again = read_heads(tmp_path / "a.npz")
    assert np.array_equal(again.values, heads.values)
    assert again.heads == heads.heads
    assert np.array_equal(again.on_words.values, heads.on_words.values)
    chosen = read_scores(f"{tmp_path / 'a.npz'}:4.1+1")
    assert np.array_equal(chosen.scores[2], naive_shift(pairs[2][1, 1]))


def test_pairs_are_collected_in_any_order_in_memory_and_on_disk(pairs, tmp_path):
    wanted = AttentionHeads.from_pairs(pairs, words(), layers=[0, 4])
    for name, folder in (("memory", None), ("disk", tmp_path)):
        collector = HeadCollector([pair.shape[2:] for pair in pairs], folder)
        for m in reversed(range(len(pairs))):
            if pairs[m].size:
                collector.put(m, pairs[m])
        assert isinstance(collector.values, np.memmap) == (folder is not None)
        assert not list(tmp_path.glob(".*")) + list(tmp_path.glob("tmp*"))  # the file has no name
        found = collector.heads(words(), [0, 4])
        assert found.heads == wanted.heads
        assert np.array_equal(found.values, wanted.values)
        replace(found, made={"model": "x"}).save(tmp_path / name)
    replace(wanted, made={"model": "x"}).save(tmp_path / "whole")
    assert {(tmp_path / name).read_bytes() for name in ("memory", "disk")} == {(tmp_path / "whole").read_bytes()}
    assert len(list(tmp_path.iterdir())) == 3
    assert HeadCollector([(0, 0)], tmp_path).heads(([(np.zeros(0, np.int64), 0)],) * 2).heads == ((0, 0),)


def test_a_full_disk_is_noticed_before_the_array_is_written(tmp_path, monkeypatch):
    if not hasattr(os, "posix_fallocate"):
        pytest.skip("space is not reserved here")

    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(AlignkitError, match=f"cannot write to {tmp_path}: No space left on device"):
        HeadCollector([(1, 2)], tmp_path).put(0, np.ones((1, 1, 1, 2), np.float32))
    assert not list(tmp_path.iterdir())


def test_a_chosen_head_goes_to_the_words_of_a_text(pairs, tmp_path):
    AttentionHeads.from_pairs(pairs[2:], tuple(side[2:] for side in words())).save(tmp_path / "a.npz")
    bitext = Bitext.from_sentences([["a", "b", "c"]], [["x", "y"]])
    found = project_scores(read_scores(f"{tmp_path / 'a.npz'}:0.0"), bitext, specials=False)
    assert np.allclose(found[0], naive_words(pairs[2][0, 0], SOURCE[2], TARGET[2]), atol=1e-6)
    wrong = Bitext.from_sentences([["a", "b"]], [["x", "y"]])
    with pytest.raises(InputError, match="line 1"):
        project_scores(read_scores(f"{tmp_path / 'a.npz'}:0.0"), wrong, specials=False)


def test_without_a_choice_the_error_says_how(pairs, tmp_path):
    AttentionHeads.from_pairs(pairs).save(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"several heads .layers 0 to 1, heads 0 to 2.*a\.npz:1\.0"):
        read_scores(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"no head 7\.0"):
        read_scores(f"{tmp_path / 'a.npz'}:7.0")


def test_arrays_of_four_dimensions(pairs, tmp_path):
    np.savez(tmp_path / "a.npz", *pairs)
    assert np.array_equal(read_scores(f"{tmp_path / 'a.npz'}:1.2").scores[2], pairs[2][1, 2])
    np.savez(tmp_path / "b.npz", pairs[0], pairs[1][:1])
    with pytest.raises(InputError, match="different numbers of layers and heads"):
        read_heads(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"values": np.zeros((2, 6))}, "float32 values and int32 shapes"),
        ({"shapes": np.array([[2, 3]])}, "float32 values and int32 shapes"),
        ({"shapes": np.array([2, 3], np.int32)}, r"shapes \(M, 2\)"),
        ({"shapes": np.array([[-2, -3]], np.int32)}, r"shapes \(M, 2\)"),
        ({"shapes": np.array([[3, 3]], np.int32)}, "has \\(2, 6\\)"),
        ({"heads": ((0, 0), (0, 0))}, "none twice"),
        ({"heads": (), "values": np.zeros((0, 6), np.float32)}, "at least one head"),
        ({"values": np.full((2, 6), np.nan, np.float32)}, "NaN"),
        ({"words": ([([0, 0, 0], 1)], [([0, 0, 0], 1)])}, "a word .or -1. for every token"),
        ({"words": ([([0, 1, 0], 1)], [([0, 0], 1)])}, "not in its sentence"),
        ({"words": ([([0, 0, 0], 1)], [([0, -2], 1)])}, "not in its sentence"),
    ],
)
def test_what_heads_must_be(changes, problem):
    known = {"values": np.zeros((2, 6), np.float32), "shapes": np.array([[2, 3]], np.int32)}
    known |= {"heads": ((0, 0), (0, 1)), **changes}
    if "words" in known:
        known["words"] = tuple([(np.array(groups), n) for groups, n in side] for side in known["words"])
    with pytest.raises((TypeError, ValueError), match=problem):
        AttentionHeads(**known)


def test_heads_without_elements():
    assert AttentionHeads.from_pairs([np.zeros((0, 0, 0, 0))]).heads == ((0, 0),)
    assert AttentionHeads.from_pairs([np.zeros((2, 3, 0, 4))]).heads == ((0, 0), (1, 0))
    assert repr(AttentionHeads.from_pairs([])) == "AttentionHeads(0 pairs, layers 0, heads 0, as LAYER.HEAD)"
    with pytest.raises(ValueError, match="1 layer numbers for 2 layers"):
        AttentionHeads.from_pairs([np.zeros((2, 1, 1, 1))], layers=[5])


@pytest.mark.parametrize("name", ["values", "shapes", "heads", "source_words", "target_word_counts"])
@pytest.mark.parametrize("how", ["missing", "short", "high", "type"])
def test_damaged_files(pairs, tmp_path, monkeypatch, name, how):
    from alignkit.lab.interop import heads as module

    def damaging(path, kind, version, arrays, header, **more):
        array = arrays.pop(name)
        if how == "short":
            arrays[name] = array[:-1]
        elif how == "high":
            arrays[name] = np.full_like(array, np.nan if name == "values" else 10_000)
        elif how == "type":
            arrays[name] = array.astype(np.float64)
        save(path, kind, version, arrays, header, **more)

    save = module.save_arrays
    monkeypatch.setattr(module, "save_arrays", damaging)
    AttentionHeads.from_pairs(pairs, words()).save(tmp_path / "a.npz")
    if (name, how) == ("source_words", "missing"):
        return  # a file of words
    if (name, how) == ("target_word_counts", "high"):
        return  # words at the end that have no tokens
    with pytest.raises(InputError, match="damaged"):
        read_heads(tmp_path / "a.npz")
