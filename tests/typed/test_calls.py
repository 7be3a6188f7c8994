"""Type checkers, and so editors, know the options: of the calls in calls.py they report the wrong ones only."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from alignkit.classical.hmm.settings import QUALITIES, HMMOptions, HMMSettings, Quality
from alignkit.classical.settings import DiagonalOptions, DiagonalSettings, IBM1Options, IBM1Settings
from alignkit.lab.comparison import ALSO, Also, CompareOptions, CompareSettings
from alignkit.lab.report.build import ReportInputs, ReportOptions
from alignkit.lab.translation import LabOptions, LabSettings
from alignkit.links.heuristics import ALIASES, HEURISTICS, Symmetrization
from alignkit.metrics.protocol import MetricOptions, MetricSettings
from alignkit.metrics.registry import SCORE_METRICS, ScoreMetric
from alignkit.neural.settings import NETWORKS, PRESETS, Architecture, Preset
from alignkit.pipeline.settings import (
    METHODS,
    AlignOptions,
    FitOptions,
    FitSettings,
    LinkOptions,
    LinkSettings,
    MethodName,
    ReadOptions,
    ReadSettings,
    StreamOptions,
)
from alignkit.types import EncodingErrors

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
#: Closed sets of values, as type checkers know them -> the registry of what they name.
CLOSED = {
    "EncodingErrors": (EncodingErrors, ["strict", "replace"]),
    "MethodName": (MethodName, METHODS),
    "Quality": (Quality, QUALITIES),
    "Symmetrization": (Symmetrization, [*HEURISTICS, *ALIASES]),
    "ScoreMetric": (ScoreMetric, [metric.name for metric in SCORE_METRICS]),
    "Also": (Also, ALSO),
    "Preset": (Preset, PRESETS),
    "Architecture": (Architecture, NETWORKS),
}


#: Large libraries, and packages that the calls do not need: mypy would take minutes.
SKIPPED = [
    *("numpy", "torch", "transformers", "scipy", "sklearn", "pandas", "numba", "matplotlib", "click", "jinja2"),
    *("alignkit.kernels", "alignkit.neural.networks", "alignkit.neural.scoring", "alignkit.neural.training"),
    *("alignkit.lab.experiments", "alignkit.lab.explain"),
]
MYPY = f"""[mypy]
ignore_missing_imports = true
[mypy-alignkit.*]
ignore_errors = true
[mypy-{",".join(f"{name}.*" for name in SKIPPED)}]
follow_imports = skip
follow_imports_for_stubs = true
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_reports_the_wrong_calls_and_no_other(checker, tmp_path):
    if checker == "mypy":
        (tmp_path / "mypy.ini").write_text(MYPY)
        options = ["--config-file", tmp_path / "mypy.ini", "--cache-dir", ROOT / ".mypy_cache" / "calls"]
    else:  # which asks Python where libraries are: with -S, it says nowhere
        (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        (tmp_path / "python").chmod(0o700)
        options = ["--pythonpath", tmp_path / "python"]
    wrong = [n for n, line in enumerate(CALLS.read_text().splitlines(), 1) if line.endswith("# wrong")]
    command = [sys.executable, "-m", checker, *options, CALLS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    reported = re.findall(r"calls\.py:(\d+):.*\berror: ", result.stdout)
    assert [int(line) for line in dict.fromkeys(reported)] == wrong, result.stdout + result.stderr
    assert len(wrong) > 20


@pytest.mark.parametrize("options", OPTIONS)
def test_options_are_the_fields_of_settings(options):
    # Settings take any text where there is a closed set of values, and check it by themselves.
    closed = re.compile(rf"\b({'|'.join(CLOSED)})\b")
    kinds = {name: closed.sub("str", kind.__forward_arg__) for name, kind in options.__annotations__.items()}
    assert kinds == {each.name: each.type for settings in OPTIONS[options] for each in fields(settings)}
    assert not options.__required_keys__


@pytest.mark.parametrize("name", CLOSED)
def test_type_checkers_know_the_values_that_there_are(name):
    kind, registry = CLOSED[name]
    assert list(get_args(kind)) == list(registry)


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
