"""Scores of other systems: every format gives the planted matrices back, and every error names its line."""

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
from alignkit.lab.interop.other_systems import read_heads, read_scores
from alignkit.scores import Scores
from alignkit.support.files import save_arrays

MATRICES = [
    np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], np.float32),
    np.array([[0.125]], np.float32),
    np.array([[0.75, 0.25], [0.5, 0.5], [1.0, 0.0]], np.float32),
]
PLANTED = Scores.from_matrices(MATRICES)


def same(found, wanted):
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
    ],
)
def test_every_format_gives_the_same_matrices(tmp_path, name, write):
    write(tmp_path / name)
    assert same(read_scores(tmp_path / name).scores, PLANTED)


def test_tokens_come_with_the_matrices(tmp_path):
    rows = [{"alignment": MATRICES[0].tolist(), "source": "\u2581a b  \u2581c", "tgt": ["\u2581x", "\u2581y"]}]
    rows.append({"matrix": [], "src": ["\u2581a", "b"], "target": ""})
    (tmp_path / "a").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_scores(tmp_path / "a")
    assert found.source == (("\u2581a", "b", "\u2581c"), ("\u2581a", "b"))
    assert found.target == (("\u2581x", "\u2581y"), ())
    assert found.scores.shapes.tolist() == [[2, 3], [0, 2]]
    words = [[(groups.tolist(), count) for groups, count in side] for side in read_heads(tmp_path / "a").words]
    assert words == [[([0, 0, 1], 2), ([0, 0], 1)], [([0, 1], 2), ([], 0)]]
    with (tmp_path / "a").open("a") as file:
        file.write("[[1]]\n")  # without tokens
    found = read_scores(tmp_path / "a")
    assert (found.source, found.target, found.scores[2].tolist()) == (None, None, [[1]])


def test_parquet_of_another_program(tmp_path):
    pytest.importorskip("pyarrow")
    PLANTED.to_frame()[:-1].to_parquet(tmp_path / "a.parquet")  # the last element, 0, is left out
    assert same(read_scores(tmp_path / "a.parquet", PLANTED.shapes).scores, PLANTED)
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read: .* sentence 2, .* is outside the text"):
        read_scores(tmp_path / "a.parquet", PLANTED.shapes[:2])


def test_an_array_without_elements_of_any_size(tmp_path):
    np.savez(tmp_path / "a.npz", np.zeros((0, 1 << 40)))
    with pytest.raises(InputError, match=r"a\.npz: "):
        read_scores(tmp_path / "a.npz")


def test_arrays_come_in_the_order_of_their_numbers(tmp_path):
    np.savez(tmp_path / "a.npz", *[np.full((1, 1), i) for i in range(12)])
    assert read_scores(tmp_path / "a.npz").scores.values.tolist() == list(range(12))


def test_links_are_ones_or_their_probabilities(tmp_path):
    (tmp_path / "a.links").write_text("0-1 2-0\n\n1-2:0.25 0p0\n")
    found = read_scores(tmp_path / "a.links", PLANTED.shapes).scores
    assert [matrix.tolist() for matrix in found] == [
        [[0, 0, 1], [1, 0, 0]],
        [[0]],
        [[1, 0], [0, 0], [0, 0.25]],
    ]


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
    "no tokens": ('{"scores": [[1]], "src": 3, "target": "b"}\n', "line 1: source is not a list of tokens"),
    "no words": ('{"scores": [[1]], "src": "a", "tgt": [2]}\n', "line 1: target is not a list of tokens"),
    "rows": ('{"scores": [[1]], "src": "a", "tgt": "b c"}\n', "line 1: 1 rows for 2 target tokens"),
    "large": (f"[[1]]\n[[{10**400}]]\n", "line 2: a score that is too large"),
    "soft": ("0.5,0.5\n0.5,x\n", "line 2: '0.5,x' is not a row of scores"),
    "soft ragged": ("0.5,0.5 1\n", "line 1: row 2 has 1 numbers"),
    "outside": ("0-0\n0-0\n0-0 2-0\n", "line 3: link 2-0 points outside"),
    "count": ("0-0\n", "links for 1 pair, the text has 3"),
    "no link": ("0-0\nx\n\n", "line 2: 'x' is not a link"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_their_line(tmp_path, name):
    text, message = FAULTS[name]
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        read_scores(tmp_path / "file", PLANTED.shapes)
    assert message in str(caught.value)


PIECES = b'[ ] [[ ]] , 0 1 0-0 1p0 - .5 1e999 NaN inf " { } {"scores": ||| \xff \0 PK\x03\x04 true null'.split(
    b" "
)
pieces_of_files = st.sampled_from([*PIECES, b" ", b"\n", b"9" * 400])


@settings(max_examples=150, deadline=None)
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


def test_an_archive_with_objects_in_it_is_not_opened(tmp_path):
    np.savez(tmp_path / "a.npz", np.array([{"x": 1}], object))
    with pytest.raises(InputError, match="damaged, or contains objects"):
        read_scores(tmp_path / "a.npz")
    for wrong in (np.zeros(3), np.array([["a"]]), np.array([[0.5, np.nan]])):
        np.savez(tmp_path / "b.npz", np.zeros((1, 1)), wrong)
        with pytest.raises(InputError, match="array arr_1 is not a matrix of numbers"):
            read_scores(tmp_path / "b.npz")
    save_arrays(tmp_path / "c.npz", "alignkit.other", 1, {"x": np.zeros(3)}, {})
    with pytest.raises(InputError, match=r"holds .*, and no scores"):
        read_scores(tmp_path / "c.npz")
