"""Links of awesome-align and simalign: numbered lines, probabilities in the line or in a file of their own."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.errors import InputError
from alignkit.lab.interop.other_systems import read_scores
from alignkit.links.links import parse_links

SHAPES = np.array([[2, 3], [1, 1], [3, 2]], np.int32)
WANTED = [[[0, 0, 1], [1, 0, 0]], [[0]], [[0, 0], [1, 0], [0, 1]]]
PLAIN = ["0-1 2-0", "", "1-2 0-1"]


def as_lists(scores):
    return [np.round(matrix.astype(float), 4).tolist() for matrix in scores]


@pytest.mark.parametrize("first", [0, 1])
def test_simalign_numbers_its_lines(tmp_path, first):
    (tmp_path / "a.inter").write_text("".join(f"{first + m}\t{line}\n" for m, line in enumerate(PLAIN)))
    assert as_lists(read_scores(tmp_path / "a.inter", SHAPES).scores) == WANTED


def test_a_missing_number_is_an_error(tmp_path):
    (tmp_path / "a.inter").write_text("0\t0-1\n2\t1-2\n")
    with pytest.raises(InputError, match=r"a\.inter, line 2: .*does not begin with 1"):
        read_scores(tmp_path / "a.inter", SHAPES)


def test_lines_with_a_tab_that_are_not_numbered_stay_as_they_are():
    assert parse_links("x", ["0-1\t2-0", "\t", "1-2\t0-1"]).sure.to_pharaoh() == b"0-1 2-0\n\n0-1 1-2\n"


def test_probabilities_in_the_line(tmp_path):
    (tmp_path / "a").write_text("0-1:0.5 2-0\n\n1-2:1 0-1:0.25\n")
    found = read_scores(tmp_path / "a", SHAPES).scores
    assert as_lists(found) == [[[0, 0, 1], [0.5, 0, 0]], [[0]], [[0, 0], [0.25, 0], [0, 1]]]
