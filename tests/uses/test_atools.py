"""The program atools beside a twin that walks over sets of points as fast_align's does."""

import subprocess
import sys

import numpy as np
import pytest

from alignkit.links.heuristics import FAST_ALIGN
from alignkit.links.links import Links
from alignkit.uses.atools import atools
from alignkit_cli.main import run

NEAR = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]


def combined(a, b, command):
    """The set of (s, t) that fast_align's atools makes of two."""
    if command in ("intersect", "union"):
        return a & b if command == "intersect" else a | b
    chosen = a & b

    def unlinked(s, t):
        return (s not in {s for s, _ in chosen}) + (t not in {t for _, t in chosen})

    added = True
    while added:
        added = False
        for s, t in sorted((a | b) - chosen):
            if unlinked(s, t) and any((s + i, t + j) in chosen for i, j in NEAR):
                chosen.add((s, t))
                added = True
    least = {"grow-diag": 3, "grow-diag-final": 1, "grow-diag-final-and": 2}[command]
    for direction in (a, b):
        chosen |= {point for point in sorted(direction) if unlinked(*point) >= least and not chosen.add(point)}
    return chosen


def drawn(seed, count, longest):
    draw = np.random.default_rng(seed)

    def points(length, width):
        near = np.arange(length) * width // length + draw.integers(-2, 3, length)
        return {(s, int(t)) for s, t in enumerate(near) if 0 <= t < width and draw.random() < 0.8}

    sizes = draw.integers(1, longest, (count, 2)).tolist()
    forward = [{(s, t) for t, s in points(width, length)} for length, width in sizes]
    return [*forward, set()], [*(points(length, width) for length, width in sizes), {(0, 0)}]


def written(path, links):
    path.write_bytes(Links.from_lists(links).to_pharaoh())
    return str(path)


@pytest.mark.parametrize(("seed", "count", "longest"), [(1, 60, 20), (2, 6, 150)])
def test_combines_as_fast_align_does(tmp_path, seed, count, longest):
    a, b = drawn(seed, count, longest)
    first, second = written(tmp_path / "a", a), written(tmp_path / "b", b)
    for command in FAST_ALIGN:
        expected = Links.from_lists([combined(x, y, command) for x, y in zip(a, b, strict=True)])
        assert b"".join(atools(command, first, second)) == expected.to_pharaoh()


def test_other_commands_print_what_fast_align_prints(tmp_path, capfdbinary):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("0-0 1-1 1-1\n\n das ||| the ||| 2-0 0-11\n")
    second.write_text("0-0 1-1\n\n1-1 2-0")
    printed = {}
    for command in ("convert", "invert", "display"):
        assert run(["atools", "-i", str(first), "-c", command]) == 0
        printed[command] = capfdbinary.readouterr().out.decode()
    assert printed["convert"] == "0-0 1-1\n\n0-11 2-0\n"
    assert printed["invert"] == "0-0 1-1\n\n0-2 11-0\n"
    assert printed["display"] == (
        " 01\n0*.0\n1.*1\n 01\n\n0-0 1-1\n 0\n0.0\n 0\n\n\n"
        " 012345678901\n0...........*0\n1............1\n2*...........2\n 012345678901\n\n0-11 2-0\n"
    )
    assert run(["atools", "--input_1", str(first), "--input_2", str(second), "--command", "fmeasure"]) == 0
    assert capfdbinary.readouterr().out == b"P: 0.75\nR: 0.75\nF: 0.75\n"
    program = "from alignkit_cli.main import atools; atools()"
    call = [sys.executable, "-c", program, "-i", str(second), "-c", "invert"]
    assert subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout == b"0-0 1-1\n\n0-2 1-1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "union", "-i", "a"], "union takes two files"),
        (["-c", "invert", "-i", "a", "-j", "a"], "invert takes one file"),
        (["-c", "union", "-i", "a", "-j", "short"], "short: ends after 1 line, the other file goes on"),
        (["-c", "convert", "-i", "bad"], "bad, line 2: 'x-1' is not a link"),
        (["-c", "fmeasure", "-i", "a", "-j", "none"], "there is no F-measure"),
        (["-c", "display", "-i", "wide"], "too large to draw"),
        (["-c", "grow", "-i", "a", "-j", "a"], "is not one of 'convert'"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    texts = {"a": "0-0\n1-1\n", "short": "0-0\n", "bad": "0-0\nx-1\n", "none": "3-3\n\n", "wide": "9999-9999\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert run(["atools", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
