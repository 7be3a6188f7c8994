"""The progress bar is for terminals only, and for what takes a while."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

PROGRAM = """
import time
from alignkit_cli import shared

shared.DELAY = {delay}
with shared.ProgressBar("fitting", quiet={quiet}) as bar:
    for done in range(4):
        bar(done, 4, f"iteration {{done}}")
        time.sleep({pause})
"""


def on_terminal(columns: int, **options: object) -> str:
    """What the program writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    rows = 24 if columns else 0
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    code = PROGRAM.format(**{"delay": 0.1, "quiet": False, "pause": 0.15, **options})
    subprocess.run([sys.executable, "-c", code], stderr=theirs, stdout=subprocess.DEVNULL, check=True)
    os.write(theirs, b"|")  # the end, for whoever reads
    os.close(theirs)
    text = b""
    while not text.endswith(b"|"):
        text += os.read(ours, 1 << 16)
    os.close(ours)
    return text.decode()


@pytest.mark.parametrize("columns", [100, 0])
def test_a_terminal_shows_it_and_is_clean_in_the_end(columns):
    text = on_terminal(columns)
    assert "fitting [" in text
    assert "50 %" in text
    assert "iteration 3" in text
    assert text.endswith(" \r|")  # overwritten


@pytest.mark.parametrize("options", [{"delay": 60, "pause": 0}, {"quiet": True}], ids=str)
def test_short_or_quiet_work_shows_nothing(options):
    assert on_terminal(100, **options) == "|"


def test_a_pipe_gets_nothing():
    code = PROGRAM.format(delay=0, quiet=False, pause=0)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.parametrize(
    "arguments",
    [["ibm1"], ["ibm1", "--symmetrize", "union", "--iterations", "2"], ["align", "-o", "{}/links"]],
    ids=" ".join,
)
def test_a_fit_is_summed_up_in_one_line(alignkit, enough_text, tmp_path, arguments):
    arguments = [each.format(tmp_path) for each in arguments]
    outcome = alignkit(*arguments, *enough_text)
    assert outcome.code == 0
    made = f"; {tmp_path}/links" if "-o" in arguments else ""
    pattern = r"30 pairs, 70 links \(1\.00 per target word\), (0\.[01] s|\d+\.\d s \([\d,]+ pairs/s\))" + made
    assert re.fullmatch(pattern + "\n", outcome.err)
    assert alignkit(*arguments, *enough_text, "-q").err == ""


def test_verbose_shows_every_iteration(alignkit, enough_text):
    lines = alignkit("ibm1", "-v", *enough_text).err.splitlines()
    seen = [re.fullmatch(r"fitting: (\d) of 5, log-likelihood (-[\d.]+), 0 s", line) for line in lines[:5]]
    assert [match[1] for match in seen] == list("12345")
    assert all(float(one[2]) < float(two[2]) for one, two in pairwise(seen))
    outcome = alignkit("ibm1", "-q", "-v", *enough_text)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "fits"), [(["ibm1"], ["main"]), (["hmm", "--symmetrize", "gdfa"], ["main", "reverse"])], ids=str
)
def test_a_trace_has_the_value_of_every_iteration(alignkit, failure, text, tmp_path, arguments, fits):
    outcome = alignkit(*arguments, *text, "--trace", tmp_path / "t", "-o", tmp_path / "o")
    assert outcome.err.endswith(f"; {tmp_path}/o; {tmp_path}/t\n")
    table = pd.read_csv(tmp_path / "t", sep="\t")
    assert sorted(table.fit.unique()) == fits
    for _, rows in table.groupby("fit"):
        assert rows.iteration.tolist() == list(range(1, len(rows) + 1))
        assert rows.seconds.is_monotonic_increasing
        assert len(rows) >= 5
    if arguments == ["ibm1"]:
        assert table.value.is_monotonic_increasing
        assert table.value[0] == pytest.approx(-14 * np.log(4), abs=1e-6)
        assert set(table.measure) == {"log-likelihood"}
    model = tmp_path / "m"
    assert alignkit("ibm1", "-q", *text, "--save-model", model).code == 0
    failure(alignkit("align", "--model", model, *text, "--trace", tmp_path / "t"), "--trace goes only with a fit")


def test_the_bar_of_two_fits_goes_on_until_both_are_done(monkeypatch):
    from alignkit_cli import shared

    class Bar:
        n, total, set_postfix_str = 0, 0, staticmethod(lambda *_, **__: None)

        def update(self, more):
            self.n += more
            steps.append((self.n, self.total))

    steps = []
    fit = shared.ProgressBar("fitting", fits=2)
    fit.shown = True
    monkeypatch.setattr(shared, "_terminal_bar", lambda label: Bar())
    for done, message in ((1, "x"), (1, "reverse, x"), (2, "reverse, y"), (2, "y")):
        fit(done, 2, message)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
