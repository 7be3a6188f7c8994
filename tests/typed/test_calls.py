"""Type checkers, and so editors, know the options: of the calls in calls.py they report the wrong ones only."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from alignkit.classical.hmm.settings import HMMOptions, HMMSettings
from alignkit.classical.settings import DiagonalOptions, DiagonalSettings, IBM1Options, IBM1Settings
from alignkit.lab.comparison import CompareOptions, CompareSettings
from alignkit.lab.report.build import ReportInputs, ReportOptions
from alignkit.lab.translation import LabOptions, LabSettings
from alignkit.metrics.protocol import MetricOptions, MetricSettings
from alignkit.pipeline.settings import (
    AlignOptions,
    FitOptions,
    FitSettings,
    LinkOptions,
    LinkSettings,
    ReadOptions,
    ReadSettings,
    StreamOptions,
)

ROOT = Path(__file__).parents[2]
CALLS = Path(__file__).with_name("calls.py")
#: Options of a function -> the settings whose fields they are.
OPTIONS = {
    IBM1Options: [IBM1Settings],
    DiagonalOptions: [DiagonalSettings],
    HMMOptions: [HMMSettings],
    MetricOptions: [MetricSettings],
    CompareOptions: [CompareSettings],
    LabOptions: [LabSettings],
    ReportOptions: [ReportInputs],
    ReadOptions: [ReadSettings],
    FitOptions: [FitSettings],
    LinkOptions: [LinkSettings],
    AlignOptions: [ReadSettings, FitSettings, LinkSettings],
    StreamOptions: [ReadSettings, LinkSettings],
}


#: mypy looks at the calls only, and not into large libraries, which would take minutes.
MYPY = """[mypy]
ignore_missing_imports = true
[mypy-torch.*,transformers.*,scipy.*,sklearn.*,pandas.*,numba.*,matplotlib.*]
follow_imports = skip
[mypy-alignkit.*]
ignore_errors = true
"""


@pytest.mark.parametrize(
    "checker",
    [["mypy", "--config-file", "mypy.ini"], ["pyright", "--pythonpath", sys.executable]],
    ids=lambda each: each[0],
)
def test_a_type_checker_reports_the_wrong_calls_and_no_other(checker, tmp_path):
    (tmp_path / "mypy.ini").write_text(MYPY)
    checker = [str(tmp_path / part) if part == "mypy.ini" else part for part in checker]
    wrong = [n for n, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# wrong")]
    result = subprocess.run([sys.executable, "-m", *checker, CALLS], cwd=ROOT, capture_output=True, text=True)
    reported = re.findall(r"calls\.py:(\d+):.*\berror: ", result.stdout)
    assert [int(line) for line in dict.fromkeys(reported)] == wrong, result.stdout + result.stderr
    assert len(wrong) > 20


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_the_fields_of_settings(options):
    kinds = {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}
    assert kinds == {each.name: each.type for settings in OPTIONS[options] for each in fields(settings)}
    assert not options.__required_keys__


def test_public_functions_name_their_options():
    untyped, typed = set(), set()
    for path in (ROOT / "alignkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None and node.name[0] != "_":
                kind = ast.unparse(node.args.kwarg.annotation)
                untyped |= {node.name} if kind == "Any" else set()
                typed |= {kind} if kind.startswith("Unpack") else set()
    assert untyped == {"train"}  # a network for an explanation: what its task takes
    assert typed == {
        f"Unpack[{options.__name__}]" for options in OPTIONS if options not in (FitOptions, LinkOptions)
    }
