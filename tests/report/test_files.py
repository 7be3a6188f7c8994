"""Plots and frames as files."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from alignkit.errors import AlignkitError
from alignkit.report.frames import SCORE_COLUMNS, save_frames, score_frame
from alignkit.report.plots import labelled_steps, save_plots
from tests.report.conftest import make_report


def test_score_frame_holds_every_value(report):
    frame = score_frame(make_report(steps={"lstm": 700}))
    assert tuple(frame.columns) == SCORE_COLUMNS
    for each in report.sets:
        owner, _, kind = each.name.rpartition(".")
        part = frame[(frame["run"] == owner) & (frame["kind"] == kind)]
        assert np.array_equal(part["value"], each.scores.values)
        row = part.iloc[-1]
        assert each.scores[int(row.sentence)][int(row.t), int(row.s)] == row["value"]
        assert (part["step"] == 700).all() if owner == "lstm" else part["step"].isna().all()


def test_frames_as_csv(report, tmp_path):
    paths = save_frames(report, tmp_path / "new" / "folder")
    assert sorted(p.name for p in paths) == [
        *("agreement.csv", "bands.csv", "course.csv"),
        *("errors.csv", "gold.csv", "mass.csv", "scores.csv", "tau.csv"),
    ]
    table = pd.read_csv(tmp_path / "new" / "folder" / "agreement.csv")
    assert np.allclose(table["agreement"], report.table["agreement"])
    first = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in save_frames(make_report(), tmp_path)] == first


def test_frames_refuse(report, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AlignkitError, match="cannot make the folder"):
        save_frames(report, tmp_path / "file")


@pytest.mark.parametrize(
    ("steps", "labelled"),
    [
        ([0, 50, 60, 100, 500, 1000, 1500, 2000, 3000, 4000, 4500], [0, 50, 100, 500, 1000, 2000, 4500]),
        ([0, 10], [0, 10]),
        ([7], [7]),
    ],
)
def test_labels_of_steps_have_room(steps, labelled):
    assert labelled_steps(steps) == labelled


def test_plots(report, tmp_path):
    paths = save_plots(report, tmp_path / "a")
    names = {"agreement", "tau", "course", "frequency", "length", "mass"}
    assert {p.name for p in paths} == {f"{name}.{form}" for name in names for form in ("png", "svg")}
    again = save_plots(make_report(), tmp_path / "b")
    for one, other in zip(paths, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
        if one.suffix == ".svg":
            text = "".join(ET.parse(one).getroot().itertext())
            assert "%" in text or "per cent" in text or "tau" in text
        else:
            assert one.read_bytes().startswith(b"\x89PNG")
