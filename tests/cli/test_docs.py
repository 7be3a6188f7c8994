"""docs/commands.md says what the program says, and the index of experiments what their results say."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_command_reference_is_not_stale():
    written = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert written == runpy.run_path(str(DOCS / "generate.py"))["render"](), "run: python docs/generate.py"


def test_index_of_experiments_is_not_stale():
    written = (DOCS / "experiments" / "README.md").read_text(encoding="utf-8")
    expected = runpy.run_path(str(DOCS / "generate.py"))["render_experiments"]()
    assert written == expected, "run: python docs/generate.py"
