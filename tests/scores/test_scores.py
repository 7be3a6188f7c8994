import sys

import numpy as np
import pytest

from alignkit.errors import AlignkitError, InputError
from alignkit.scores import KIND, VERSION, Scores, cap_row_sums, flat_offsets
from alignkit.support.files import save_arrays

MATRICES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.zeros((0, 4), np.float32),
    np.zeros((5, 0), np.float32),
    np.array([[-np.inf, np.inf]], np.float32),
]


def test_matrices_come_back_as_views():
    scores = Scores.from_matrices(MATRICES)
    assert len(scores) == 4
    assert scores.shapes.tolist() == [[2, 3], [0, 4], [5, 0], [1, 2]]
    assert scores.offsets.tolist() == [0, 6, 6, 6, 8]
    for given, found in zip(MATRICES, scores, strict=True):
        assert np.array_equal(given, found)
        assert found.shape == given.shape
    assert np.shares_memory(scores[0], scores.values)
    assert np.array_equal(scores[-1], MATRICES[3])
    for m in (4, -5):
        with pytest.raises(IndexError):
            scores[m]


def test_no_matrices():
    scores = Scores.from_matrices([])
    assert len(scores) == 0
    assert list(scores) == []


def test_offsets_do_not_overflow_int32():
    shapes = np.array([[70_000, 70_000]] * 2, np.int32)
    assert flat_offsets(shapes).tolist() == [0, 4_900_000_000, 9_800_000_000]


def test_nonsense_is_refused():
    good = Scores.from_matrices(MATRICES)
    with pytest.raises(ValueError, match="NaN"):
        Scores.from_matrices([np.array([[np.nan]])])
    with pytest.raises(ValueError, match=r"\(T, L\)"):
        Scores.from_matrices([np.zeros(2), np.zeros(2)])
    with pytest.raises(TypeError):
        Scores(good.values.astype(np.float64), good.offsets, good.shapes)
    with pytest.raises(ValueError, match="running sum"):
        Scores(good.values, good.offsets + 1, good.shapes)
    with pytest.raises(ValueError, match="needs 8 values, has 7"):
        Scores(good.values[:-1], good.offsets, good.shapes)
    with pytest.raises(ValueError, match="running sum"):
        Scores(good.values, good.offsets, -good.shapes)


def test_to_frame():
    frame = Scores.from_matrices(MATRICES).to_frame()
    assert list(frame.columns) == ["sentence", "t", "s", "value"]
    assert frame.values.tolist() == [
        *[[0, t, s, 3 * t + s] for t in range(2) for s in range(3)],
        [3, 0, 0, -np.inf],
        [3, 0, 1, np.inf],
    ]


def test_save_and_load(tmp_path):
    scores = Scores.from_matrices(MATRICES)
    scores.save(tmp_path / "a.npz")
    scores.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    loaded = Scores.load(tmp_path / "a.npz")
    assert np.array_equal(loaded.values, scores.values)
    assert np.array_equal(loaded.shapes, scores.shapes)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.npz.gz", "npz"])
def test_a_name_of_another_format_is_refused(tmp_path, name):
    with pytest.raises(AlignkitError, match=r"must end in \.npz or \.parquet"):
        Scores.from_matrices(MATRICES).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    scores, path = Scores.from_matrices([*MATRICES, np.zeros((0, 4))]), tmp_path / "a.parquet"
    scores.save(path)
    assert pd.read_parquet(path).equals(scores.to_frame())
    loaded = Scores.load(path)
    assert np.array_equal(loaded.values, scores.values)
    assert np.array_equal(loaded.shapes, scores.shapes)
    path.write_bytes(path.read_bytes()[:-9])
    for wrong in (path, tmp_path / "none.parquet"):
        with pytest.raises(InputError, match=f"{wrong.name}: cannot be read"):
            Scores.load(wrong)


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (Scores.from_matrices(MATRICES).save, Scores.load):
        with pytest.raises(AlignkitError, match="Parquet files need pyarrow"):
            use(tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_frame_gives_its_scores():
    scores = Scores.from_matrices([[[0.5, 0.25, 0.25], [0, 1, 0]], [[0.125]]])
    frame = scores.to_frame().sample(frac=1, random_state=1)
    for rows, shapes in ((frame, None), (frame[frame["value"] != 0], scores.shapes)):
        found = Scores.from_frame(rows, shapes)
        assert np.array_equal(found.values, scores.values)
        assert np.array_equal(found.shapes, scores.shapes)
    assert len(Scores.from_frame(frame[:0])) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t": 5}, "sentence 0, t 5, s 0 is outside"),
        ({"sentence": -1}, "sentence -1, t 1, s 0 is outside"),
        ({"sentence": 9}, "sentence 9, t 1, s 0 is outside"),
        ({"t": 0}, "sentence 0, t 0, s 0 is there twice"),
        ({"value": np.nan}, "NaN"),
    ],
)
def test_a_frame_that_does_not_fit(change, message):
    scores = Scores.from_matrices([[[0.5, 0.25, 0.25], [0, 1, 0]], [[0.125]]])
    frame = scores.to_frame()
    for column, value in change.items():
        frame.loc[3, column] = value
    with pytest.raises(ValueError, match=message):
        Scores.from_frame(frame, scores.shapes)
    for wrong in (frame.drop(columns="s"), frame.assign(t="x")):
        with pytest.raises(ValueError, match="needs the columns"):
            Scores.from_frame(wrong)


@pytest.mark.parametrize(
    "shapes", [[[2, 2], [1, 2]], [[2], [3]], [[6]], [[-2, -3]], [[]], [[2, 3, 1, 0]]], ids=str
)
def test_load_refuses_shapes_that_do_not_fit(tmp_path, shapes):
    arrays = {"values": np.zeros(6, np.float32), "shapes": np.array(shapes, np.int32)}
    save_arrays(tmp_path / "x.npz", KIND, VERSION, arrays)
    if shapes == [[2, 2], [1, 2]]:
        assert len(Scores.load(tmp_path / "x.npz")) == 2
        return
    with pytest.raises(InputError, match="damaged"):
        Scores.load(tmp_path / "x.npz")


def test_load_refuses_nan(tmp_path):
    arrays = {"values": np.full(1, np.nan, np.float32), "shapes": np.ones((1, 2), np.int32)}
    save_arrays(tmp_path / "x.npz", KIND, VERSION, arrays)
    with pytest.raises(InputError, match="NaN"):
        Scores.load(tmp_path / "x.npz")


def test_rows_that_sum_to_more_than_one_are_divided_by_their_sum():
    capped = cap_row_sums(
        Scores.from_matrices(
            [
                np.zeros((0, 2)),
                np.array([[0.5, 0.25], [1.0, 3.0], [0.0, 1.0]]),
                np.zeros((2, 0)),
                np.full((1, 1), 4.0),
            ]
        )
    )
    assert [matrix.tolist() for matrix in capped] == [[], [[0.5, 0.25], [0.25, 0.75], [0, 1]], [[], []], [[1]]]
    assert capped.shapes.tolist() == [[0, 2], [3, 2], [2, 0], [1, 1]]
    assert len(cap_row_sums(Scores.from_matrices([]))) == 0
