"""The references of commands and library say what these say, the index of experiments what their results say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_command_reference_is_not_stale():
    written = (DOCS / "commands.md").read_text(encoding="utf-8")
    # In an interpreter of its own: click keeps the help option that a command was first asked for.
    code = f"import runpy; print(runpy.run_path({str(DOCS / 'generate.py')!r})['render'](), end='')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert written == done.stdout.decode("utf-8"), "run: python docs/generate.py"


def test_library_reference_is_not_stale():
    written = (DOCS / "api.md").read_text(encoding="utf-8")
    assert written == runpy.run_path(str(DOCS / "api_reference.py"))["render"](), "run: python docs/generate.py"


def test_library_reference_has_no_marks_of_its_source():
    """Whatever is not understood in a docstring would stand in the page as it is."""
    written = (DOCS / "api.md").read_text(encoding="utf-8")
    for mark in (":func:", ":class:", ":meth:", "``s", "Args:\n ", "<object", "<class", " at 0x"):
        assert mark not in written, mark


def test_index_of_experiments_is_not_stale():
    written = (DOCS / "experiments" / "README.md").read_text(encoding="utf-8")
    expected = runpy.run_path(str(DOCS / "generate.py"))["render_experiments"]()
    assert written == expected, "run: python docs/generate.py"
