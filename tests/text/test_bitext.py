import numpy as np
import pytest

from alignkit.errors import InputError
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary

SENTENCES = [["b", "a", "b"], [], ["c"], ["a", "a"]]


def test_corpus_numbers_tokens_by_first_appearance():
    corpus = Corpus.from_sentences(SENTENCES)
    assert list(corpus.vocabulary) == ["b", "a", "c"]
    assert corpus.tokens.tolist() == [0, 1, 0, 2, 1, 1]
    assert corpus.offsets.tolist() == [0, 3, 3, 4, 6]
    assert corpus.tokens.dtype == np.int32
    assert corpus.offsets.dtype == np.int64
    assert [corpus.words(m) for m in range(4)] == SENTENCES
    assert [sentence.tolist() for sentence in corpus] == [[0, 1, 0], [], [2], [1, 1]]
    assert corpus.lengths.tolist() == [3, 0, 1, 2]


def test_corpus_items_are_views_and_negative_indices_count_from_the_end():
    corpus = Corpus.from_sentences(SENTENCES)
    assert np.shares_memory(corpus[0], corpus.tokens)
    assert corpus[-1].tolist() == [1, 1]
    for m in (4, -5):
        with pytest.raises(IndexError):
            corpus[m]


@pytest.mark.parametrize(
    ("tokens", "offsets"),
    [
        ([0, 1], [0, 1]),
        ([0, 1], [1, 2]),
        ([0, 1], [0, 2, 1, 2]),
        ([0, 2], [0, 2]),
        ([-1, 0], [0, 2]),
        ([0], []),
        ([0, 0, 0], [0, 2**63 - 1, -2, 3]),
    ],
)
def test_corpus_refuses_nonsense(tokens, offsets):
    with pytest.raises(ValueError):
        Corpus(np.array(tokens, np.int32), np.array(offsets, np.int64), Vocabulary.from_tokens(list("ab")))


def test_bitext_shapes_are_target_then_source():
    bitext = Bitext.from_sentences(SENTENCES, [["x"], ["y", "x"], [], ["x"]])
    assert bitext.shapes.tolist() == [[1, 3], [2, 0], [0, 1], [1, 2]]
    assert bitext.shapes.dtype == np.int32
    assert bitext.reversed.shapes.tolist() == [[3, 1], [0, 2], [1, 0], [2, 1]]
    assert len(bitext) == 4
    taken = bitext.take(np.array([2, 0]))
    assert taken.source.words(0) == ["c"]
    assert taken.target.words(1) == ["x"]


def test_bitext_refuses_unequal_counts():
    with pytest.raises(ValueError, match=r"equal sentence counts, not 4 and 1"):
        Bitext.from_sentences(SENTENCES, [["x"]])


def test_fingerprint_differs_for_any_difference():
    variants = [
        Bitext.from_sentences([["a", "b"], ["a"]], [["x"], ["y"]]),
        Bitext.from_sentences([["a"], ["b", "a"]], [["x"], ["y"]]),  # cut elsewhere
        Bitext.from_sentences([["a", "c"], ["a"]], [["x"], ["y"]]),  # another word, the same ids
        Bitext.from_sentences([["x"], ["y"]], [["a", "b"], ["a"]]),
        Bitext.from_sentences([["a", "b"], ["a"]], [["xz"], ["y"]]),
        Bitext.from_sentences([["a", "b"], ["a"]], [["x"], ["zy"]]),  # the same letters, cut elsewhere
    ]
    assert len({bitext.fingerprint() for bitext in variants}) == len(variants)
    again = Bitext.from_sentences([["a", "b"], ["a"]], [["x"], ["y"]])
    assert again.fingerprint() == variants[0].fingerprint()


@pytest.mark.parametrize("shared", [False, True])
def test_save_and_load(tmp_path, shared):
    source = Corpus.from_sentences(SENTENCES)
    target = Corpus.from_sentences(SENTENCES[::-1], source.vocabulary if shared else None)
    bitext = Bitext(source, target)
    bitext.save(tmp_path / "a.npz")
    bitext.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as arrays:
        assert ("target_types" in arrays) == (not shared)
    loaded = Bitext.load(tmp_path / "a.npz")
    assert loaded.fingerprint() == bitext.fingerprint()
    assert (loaded.source.vocabulary is loaded.target.vocabulary) == shared


def test_load_refuses_arrays_that_do_not_fit(tmp_path):
    from alignkit.support.files import load_arrays, save_arrays
    from alignkit.text import bitext as module

    path = tmp_path / "a.npz"
    Bitext.from_sentences(SENTENCES, SENTENCES).save(path)
    arrays, header = load_arrays(path, module.KIND, module.VERSION)
    for name, wrong in (
        ("source_tokens", arrays["source_tokens"] + np.int32(9)),
        ("source_tokens", arrays["source_tokens"].astype(np.float32)),
        ("target_offsets", arrays["target_offsets"][:-1]),
        ("target_offsets", arrays["target_offsets"].reshape(1, -1)),
        ("source_types", arrays["source_types"][:1]),
    ):
        save_arrays(path, module.KIND, module.VERSION, {**arrays, name: wrong}, header)
        with pytest.raises(InputError, match=r"a\.npz: damaged") as caught:
            Bitext.load(path)
        assert "\n" not in str(caught.value)
    del arrays["target_types"]
    save_arrays(path, module.KIND, module.VERSION, arrays, header)
    with pytest.raises(InputError, match="target_types should be uint8, 1-d, is absent"):
        Bitext.load(path)


def test_copies_are_pairs_that_are_equal_on_both_sides():
    pairs = [("a b", "x"), ("a", "b x"), ("a b", "x"), ("a b", "y"), ("", ""), ("", ""), ("a b", "x")]
    bitext = Bitext.from_sentences([x.split() for x, _ in pairs], [y.split() for _, y in pairs])
    assert bitext.copies.tolist() == [3, 1, 3, 1, 2, 2, 3]
