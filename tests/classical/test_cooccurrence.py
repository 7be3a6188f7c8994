from typing import get_args

import naive
import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.cooccurrence import KIND, VERSION, PairTable, cooccurrence, save_table
from alignkit.classical.settings import Weighting
from alignkit.errors import AlignkitError
from alignkit.support.files import load_arrays
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import Vocabulary


def as_dict(table, bitext):
    """{(source word, target word): value} of the pairs the table holds."""
    source, target = bitext.source.vocabulary, bitext.target.vocabulary
    return {
        (source[i], target[o]): float(value)
        for i in range(len(source))
        for o, value in zip(*table.row(i), strict=True)
    }


def skewed_pairs():
    """A text with rows of all lengths: "the" meets all of 600 target words, hapaxes meet a few."""
    draw = np.random.default_rng(3)
    pairs = []
    for m in range(250):
        extra = [f"s{k}" for k in draw.integers(0, 40, 3)] + [f"once{m}"]
        pairs.append(
            (["the", *extra, "the"], [f"t{k}" for k in draw.permutation(600)[:5]] + [f"t{m}", f"t{m + 300}"])
        )
    return pairs


@pytest.mark.parametrize("weighting", get_args(Weighting))
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_naive_count(weighting, seed):
    pairs = random_pairs(seed)
    bitext = bitext_of(pairs)
    found = as_dict(cooccurrence(bitext, weighting), bitext)
    expected = naive.cooccurrence(pairs, weighting)
    assert found.keys() == expected.keys()
    for pair, value in expected.items():
        assert found[pair] == pytest.approx(value, rel=1e-6)


def test_long_rows_and_short_rows_are_sorted_and_complete():
    """fill_rows reads long rows off its stamps and sorts short ones; both branches are taken here."""
    pairs = skewed_pairs()
    bitext = bitext_of(pairs)
    # With ids in order of first appearance, the row of an ever-present word would be sorted from the start.
    order = np.random.default_rng(4).permutation(len(bitext.target.vocabulary))
    shuffled = Vocabulary.from_tokens([bitext.target.vocabulary[o] for o in order])
    bitext = Bitext(bitext.source, Corpus.from_sentences([y for _, y in pairs], shuffled))
    table = cooccurrence(bitext, "one")
    sizes = np.diff(table.offsets)
    assert (sizes * 16 > table.width).any()
    assert (sizes * 16 <= table.width).any()
    for i in range(table.shape[0]):
        assert (np.diff(table.row(i)[0]) > 0).all()
    assert as_dict(table, bitext) == naive.cooccurrence(pairs, "one")


@pytest.mark.parametrize("weighting", get_args(Weighting))
def test_threads_do_not_change_a_bit(weighting):
    bitext = bitext_of(skewed_pairs())
    tables = [cooccurrence(bitext, weighting, threads) for threads in (1, 2, 3, 8)]
    for table in tables[1:]:
        assert np.array_equal(table.offsets, tables[0].offsets)
        assert np.array_equal(table.columns, tables[0].columns)
        assert table.values.tobytes() == tables[0].values.tobytes()


def test_nothing_to_count():
    for pairs in ([], [([], [])], [(["a"], [])], [([], ["x"])]):
        table = cooccurrence(bitext_of(pairs))
        assert len(table.values) == 0
        assert table.shape == (len(pairs) and len(pairs[0][0]), len(pairs) and len(pairs[0][1]))


def test_unknown_weighting_and_threads():
    bitext = bitext_of([(["a"], ["x"])])
    with pytest.raises(AlignkitError, match="unknown weighting 'tf'; choose from source-length"):
        cooccurrence(bitext, "tf")
    with pytest.raises(AlignkitError, match=r"must lie in .1, 1024., not 0"):
        cooccurrence(bitext, threads=0)


# Tables.


def test_values_of_pairs():
    table = cooccurrence(Bitext.from_sentences([["a", "b"], ["b"]], [["x"], ["y", "z"]]), "one")
    assert [[table.value(i, o) for o in range(3)] for i in range(2)] == [[1, 0, 0], [1, 1, 1]]
    assert table.to_dense().tolist() == [[1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    ("offsets", "columns"),
    [
        ([0, 1], [0, 1]),
        ([1, 2], [0, 1]),
        ([0, 2, 1, 2], [0, 1]),
        ([0, 2], [0, 2]),
        ([0, 2], [-1, 0]),
        ([], []),
    ],
)
def test_a_table_refuses_nonsense(offsets, columns):
    values = np.ones(len(columns), np.float32)
    with pytest.raises(ValueError):
        PairTable(np.array(offsets, np.int64), np.array(columns, np.int32), values, 2)


def test_a_table_refuses_offsets_whose_differences_wrap_around():
    offsets = np.array([0, 2**63 - 1, -2, 3])
    with pytest.raises(ValueError):
        PairTable(offsets, np.zeros(3, np.int32), np.ones(3, np.float32), 1)


def test_save_as_npz_and_tsv(tmp_path, messy_bitext):
    table = cooccurrence(messy_bitext)
    source, target = messy_bitext.source.vocabulary, messy_bitext.target.vocabulary
    for name in ("a.npz", "b.npz", "c.tsv"):
        save_table(tmp_path / name, table, source, target, "source-length")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    arrays, header = load_arrays(tmp_path / "a.npz", KIND, VERSION)
    assert header["weighting"] == "source-length"
    assert np.array_equal(arrays["values"], table.values)
    assert bytes(arrays["source_types"]) == bytes(source.text)
    assert bytes(arrays["target_types"]) == bytes(target.text)
    rows = [line.split("\t") for line in (tmp_path / "c.tsv").read_text(encoding="utf-8").splitlines()]
    assert {(x, y): np.float32(value) for x, y, value in rows} == as_dict(table, messy_bitext)
