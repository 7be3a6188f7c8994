"""The site has every page, its references every public name, its index of experiments their verdicts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import alignkit
from alignkit.lab.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "experiments"


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ *- (?:\w+: )?(\S+\.md)$", nav, re.MULTILINE)
    assert len(listed) == len(set(listed))
    written = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in listed if page.startswith("docs/")} == written


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: alignkit\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in alignkit.__all__ if not name.startswith("__"))


def test_every_experiment_with_results_is_in_the_index():
    assert sorted(verdicts()) == sorted(name for name in EXPERIMENTS if (RESULTS / f"{name}.json").exists())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_index_counts_the_verdicts_of_the_results(name):
    path = RESULTS / f"{name}.json"
    if path.exists():
        claims = [claim["verdict"] for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]]
        assert verdicts()[name] == [claims.count(verdict) for verdict in ("holds", "does not hold", "undecided")]


def verdicts():
    """How many claims of an experiment hold, do not hold or are undecided by the index."""
    page = (ROOT / "docs" / "experiments" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \|.*?\| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    return {name: [int(number) for number in numbers] for name, *numbers in rows}
