"""Scores of other systems: every format gives the planted matrices back, and every fault names its line."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError, InputError
from alignkit.interop.other_systems import ExternalScores, from_frame, read_scores
from alignkit.interop.projection import fit_scores, inner_scores, inner_text, of_tokens
from alignkit.scores.scores import Scores
from alignkit.scores.word_groups import merge_groups, spread_groups
from alignkit.text.bitext import Bitext
from alignkit.text.subword_marks import join_words, style_of, word_groups

MATRICES = [
    np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], np.float32),
    np.array([[0.125]], np.float32),
    np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]], np.float32),
]
PLANTED = Scores.from_matrices(MATRICES)


def same(found: Scores, wanted: Scores) -> bool:
    return np.array_equal(found.shapes, wanted.shapes) and np.array_equal(found.values, wanted.values)


def write_jsonl(path):
    path.write_text("".join(json.dumps(m.tolist()) + "\n" for m in MATRICES))


def write_objects(path):
    rows = [{"attention": m.tolist(), "src": ["x"] * m.shape[1], "tgt": ["y"] * m.shape[0]} for m in MATRICES]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_soft(path):
    lines = [" ".join(",".join(map(str, row)) for row in m.tolist()) for m in MATRICES]
    path.write_text("".join(f"a translation ||| {line}\n" for line in lines))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.npz", lambda path: PLANTED.save(path)),
        ("b.npz", lambda path: np.savez(path, *MATRICES)),
        ("c.npz", lambda path: np.savez_compressed(path, *MATRICES)),
        ("d.jsonl", write_jsonl),
        ("e.jsonl", write_objects),
        ("f.txt", write_soft),
        ("g.csv", lambda path: PLANTED.to_frame().sample(frac=1, random_state=1).to_csv(path, index=False)),
    ],
)
def test_every_format_gives_the_same_matrices(tmp_path, name, write):
    write(tmp_path / name)
    assert same(read_scores(tmp_path / name).scores, PLANTED)


def test_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        path.write_bytes(b"PAR1")
        with pytest.raises(AlignkitError, match="pip install pyarrow"):
            read_scores(path)
        return
    PLANTED.to_frame().to_parquet(path)
    assert same(read_scores(path).scores, PLANTED)


def test_arrays_come_in_the_order_of_their_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", *[np.full((1, 1), i) for i in range(12)])
    assert read_scores(tmp_path / "a.npz").scores.values.tolist() == list(range(12))


def test_links_are_ones(tmp_path):
    (tmp_path / "a.links").write_text("0-1 2-0\n\n1-2:0.25 0p0\n")
    found = read_scores(tmp_path / "a.links", PLANTED.shapes).scores
    assert [matrix.tolist() for matrix in found] == [
        [[0, 0, 1], [1, 0, 0]],
        [[0]],
        [[1, 0], [0, 0], [0, 1]],
    ]


def test_a_frame_may_leave_zeros_out():
    frame = PLANTED.to_frame()
    assert same(from_frame("x", frame[frame["value"] != 0], PLANTED.shapes), PLANTED)


FAULTS = {
    "text": ("[[1]]\nhello\n", "line 2: not JSON"),
    "ragged": ("[[1, 2]]\n[[1, 2], [3]]\n", "line 2: row 2 has 1 numbers, row 1 2"),
    "flat": ("[1, 2]\n", "line 1: not a matrix"),
    "words": ('[["a"]]\n', "line 1: not a matrix"),
    "nan": ("[[1]]\n[[NaN]]\n", "line 2: a score that is not a number"),
    "no key": ('{"matrices": [[1]]}\n', "line 1: no matrix under any of"),
    "tokens": (
        '{"scores": [[1, 2]], "source": ["a"], "target": ["b"]}\n',
        "line 1: 2 columns for 1 source tokens",
    ),
    "soft": ("0.5,0.5\n0.5,x\n", "line 2: '0.5,x' is no row of scores"),
    "soft ragged": ("0.5,0.5 1\n", "line 1: row 2 has 1 numbers"),
    "outside": ("0-0\n0-0\n0-0 2-0\n", "line 3: link 2-0 points outside"),
    "count": ("0-0\n", "links for 1 sentence pairs, the text has 3"),
    "no link": ("0-0\nx\n\n", "line 2: 'x' is not a link"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_their_line(tmp_path, name):
    text, message = FAULTS[name]
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        read_scores(tmp_path / "file", PLANTED.shapes)
    assert message in str(caught.value)


pieces_of_files = st.sampled_from(
    [
        *(
            b"[",
            b"]",
            b"[[",
            b"]]",
            b",",
            b" ",
            b"\n",
            b"0",
            b"1",
            b"0-0",
            b"1p0",
            b"-",
            b".5",
            b"1e999",
            b"9" * 400,
        ),
        *(
            b"NaN",
            b"inf",
            b'"',
            b"{",
            b"}",
            b'{"scores":',
            b"|||",
            b"\xff",
            b"\0",
            b"PK\x03\x04",
            b"true",
            b"null",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces_of_files, max_size=25).map(b"".join))
def test_any_bytes_are_scores_or_one_clear_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        with suppress(AlignkitError):
            assert not np.isnan(read_scores(path, PLANTED.shapes).scores.values).any()


def test_nesting_without_end(tmp_path):
    (tmp_path / "a").write_text("[" * 100_000)
    with pytest.raises(InputError, match="line 1: not JSON"):
        read_scores(tmp_path / "a")


def test_links_without_a_text(tmp_path):
    (tmp_path / "a").write_text("0-0\n")
    with pytest.raises(InputError, match="give the text as well"):
        read_scores(tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t": 5}, r"row 4 \(sentence 0, t 5, s 0\) is out of range"),
        ({"sentence": -1}, "is out of range"),
        ({"t": 0}, r"row 4 \(sentence 0, t 0, s 0\) comes twice"),
        ({"value": np.nan}, "has no value"),
    ],
)
def test_a_frame_that_does_not_fit(change, message):
    frame = PLANTED.to_frame()
    for column, value in change.items():
        frame.loc[3, column] = value
    with pytest.raises(InputError, match=message):
        from_frame("x", frame, PLANTED.shapes)


def test_a_frame_of_two_things():
    frame = PLANTED.to_frame().assign(step=[0] + [1] * (len(PLANTED.values) - 1))
    with pytest.raises(InputError, match="column step varies"):
        from_frame("x", frame)
    with pytest.raises(InputError, match="needs the columns"):
        from_frame("x", frame.drop(columns=["s", "step"]))


def test_an_archive_with_objects_in_it_is_not_opened(tmp_path):
    np.savez(tmp_path / "a.npz", np.array([{"x": 1}], object))
    with pytest.raises(InputError, match="damaged, or with objects"):
        read_scores(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", np.zeros(3))
    with pytest.raises(InputError, match="no matrix of numbers"):
        read_scores(tmp_path / "b.npz")


STYLED = {
    "sentencepiece": ["<s>", "▁Don", "au", "▁", "dampf", "▁.", "</s>"],
    "bpe": ["<s>", "Don@@", "au", "dam@@", "pf", ".", "</s>"],
    "wordpiece": ["[CLS]", "Don", "##au", "dam", "##pf", ".", "[SEP]", "[PAD]"],
}


@pytest.mark.parametrize("style", STYLED)
def test_marks_of_pieces(style):
    tokens = STYLED[style]
    assert style_of([tokens]) == style
    groups = word_groups(tokens, style)
    assert join_words(tokens, groups) == ["Donau", "dampf", "."]
    assert groups[0] == -1
    assert all(groups[len([t for t in tokens if t not in ("</s>", "[SEP]", "[PAD]")]) :] == -1)


def test_specials_in_the_middle_are_words():
    assert word_groups(["a", "</s>", "b"], "words").tolist() == [0, 1, 2]
    assert word_groups(["<s>", "a"], "words", specials=False).tolist() == [0, 1]


def test_merging_and_spreading():
    """By hand: columns of a word are added, rows averaged; spreading shares a column out and repeats a row."""
    pieces = Scores.from_matrices([np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.0, 0.5, 0.2]])])
    rows, columns = [(np.array([0, 0]), 1)], [(np.array([-1, 0, 0, 1]), 2)]
    merged = merge_groups(pieces, rows, columns)
    assert np.allclose(merged[0], [[0.5, 0.3]])
    spread = spread_groups(merged, rows, columns)
    assert np.allclose(spread[0], [[0, 0.25, 0.25, 0.3]] * 2)
    assert np.allclose(merge_groups(spread, rows, columns)[0], merged[0])


def pieces_bitext():
    """Words 'ab c' / 'd efg' as a network reads them."""
    return Bitext.from_sentences(
        [["<s>", "▁a", "b", "▁c", "</s>"], ["<s>", "▁c", "</s>"]], [["▁d", "▁e", "fg", "</s>"], ["▁d", "</s>"]]
    )


def test_scores_of_other_pieces_go_through_words():
    """BPE pieces with a planted mass come out on our pieces, word by word; back to words nothing is lost."""
    bitext = pieces_bitext()
    theirs = ExternalScores(
        "x",
        Scores.from_matrices([np.array([[0.7, 0.3], [0.2, 0.8], [0.4, 0.6]]), np.array([[1.0]])]),
        (("ab", "c"), ("c",)),
        (("d", "ef@@", "g"), ("d",)),
    )
    found = fit_scores(theirs, bitext)
    assert not of_tokens(theirs, bitext)
    assert np.allclose(
        found[0],
        [[0, 0.35, 0.35, 0.3, 0], [0, 0.15, 0.15, 0.7, 0], [0, 0.15, 0.15, 0.7, 0], [0, 0, 0, 0, 0]],
    )
    inner = inner_scores(found, bitext)
    assert inner.shapes.tolist() == [[3, 3], [1, 1]]
    assert inner_text(bitext).source.words(0) == ["▁a", "b", "▁c"]
    assert np.array_equal(inner_text(bitext).shapes, inner.shapes)


def test_scores_of_our_own_tokens_stay():
    bitext = pieces_bitext()
    own = Scores.from_matrices([np.random.default_rng(0).random(shape) for shape in bitext.shapes])
    assert same(fit_scores(ExternalScores("x", own), bitext), own)


def test_words_to_pieces_when_no_tokens_are_told():
    bitext = pieces_bitext()
    words = Scores.from_matrices([np.array([[1.0, 0], [0, 1]]), np.array([[1.0]])])
    assert np.allclose(fit_scores(ExternalScores("x", words), bitext)[0][0], [0, 0.5, 0.5, 0, 0])


def test_what_does_not_fit_says_where():
    bitext = pieces_bitext()
    words = [np.eye(2), np.eye(1)]
    with pytest.raises(InputError, match="1 sentence pairs, the text has 2"):
        fit_scores(ExternalScores("x", Scores.from_matrices(words[:1])), bitext)
    wrong = ExternalScores("x", Scores.from_matrices([words[0], np.zeros((2, 5))]))
    with pytest.raises(InputError, match="line 2: a matrix of 2 by 5 for 1 target and 1 source words"):
        fit_scores(wrong, bitext)
    pieces = ([["ab", "c"], ["d"]], [["d", "efg"], ["d"]])
    with pytest.raises(InputError, match="line 2: its pieces make the word 'd' where the text has 'c'"):
        fit_scores(ExternalScores("x", Scores.from_matrices(words)), bitext, pieces)
    fewer = ([["abc"], ["c"]], [["d", "efg"], ["d"]])
    with pytest.raises(InputError, match="line 1: its pieces make 1 words, the text has 2"):
        fit_scores(ExternalScores("x", Scores.from_matrices([np.ones((2, 1)), words[1]])), bitext, fewer)


def test_rows_and_columns_exchanged():
    bitext = Bitext.from_sentences([["a", "b", "c"]], [["d", "e"]])
    with pytest.raises(InputError, match="the other way round"):
        fit_scores(ExternalScores("x", Scores.from_matrices([np.zeros((3, 2))])), bitext, specials=False)


def test_words_that_look_like_pieces_stay_words():
    """A hashtag is no WordPiece where tokens are words."""
    bitext = Bitext.from_sentences([["a", "##tag"]], [["<s>"]])
    scores = Scores.from_matrices([np.array([[0.25, 0.75]])])
    assert same(fit_scores(ExternalScores("x", scores), bitext, specials=False), scores)


def test_empty_sides(tmp_path):
    (tmp_path / "a").write_text("\n0.5,0.5\n")
    bitext = Bitext.from_sentences([["a", "b"], ["a", "b"]], [[], ["c"]])
    found = fit_scores(read_scores(tmp_path / "a"), bitext, specials=False)
    assert found.shapes.tolist() == [[0, 2], [1, 2]]
