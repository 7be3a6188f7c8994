"""Kernels that Python calls fill arrays and return nothing or a number.

Numba builds a NamedTuple by running Python code, in which a signal may be handled: an exception from there, such
as that of Ctrl-C, kills the process.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from numba.core import types

from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.ibm1 import fit_ibm1

ROOT = Path(__file__).parents[2] / "alignkit"
KERNELS = ROOT / "kernels"

INTERRUPTED = """
import random, signal
from alignkit.classical.hmm.joint import fit_joint
from planted import bitext_of, random_pairs

bitext, delays = bitext_of(random_pairs(1)), random.Random(0)

def fit():
    fit_joint(bitext, threads=1)

fit()

class Interruption(BaseException):
    pass

def interrupt(*_):
    raise Interruption

signal.signal(signal.SIGALRM, interrupt)
interrupted = 0
while interrupted < 100:
    try:
        signal.setitimer(signal.ITIMER_REAL, delays.uniform(1e-4, 2e-2))
        while True:
            fit()
    except Interruption:
        interrupted += 1
print(interrupted)
"""


@cache
def functions() -> dict[tuple[str, str], ast.FunctionDef]:
    """All kernels, by module and name."""
    found = {}
    for path in KERNELS.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
                if decorators & {"kernel", "allocating_kernel"}:
                    found[path.stem, node.name] = node
    return found


@cache
def called_from_python() -> set[tuple[str, str]]:
    """The kernels that modules outside of alignkit.kernels use."""
    found, kernels = set(), functions()
    for path in ROOT.rglob("*.py"):
        if path.parent == KERNELS:
            continue
        nodes, modules = list(ast.walk(ast.parse(path.read_text()))), {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module == "alignkit.kernels":
                modules |= {name.asname or name.name: name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alignkit.kernels."):
                found |= {(node.module.rpartition(".")[2], name.name) for name in node.names}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.add((modules.get(node.value.id, ""), node.attr))
    return found & set(kernels)


def test_no_kernel_that_python_calls_returns_a_tuple():
    called, kernels = called_from_python(), functions()
    assert len(called) > 50
    for name in called:
        for node in ast.walk(kernels[name]):
            # Names and arithmetic of numbers; a call could make anything.
            if isinstance(node, ast.Return) and node.value is not None:
                assert isinstance(node.value, ast.Name | ast.Constant | ast.BinOp), name


def test_what_fits_compiled_returns_nothing_or_a_number(messy_bitext):
    for fit in (fit_ibm1, fit_diagonal, fit_hmm, fit_joint):
        fit(messy_bitext).links(messy_bitext)
    compiled = 0
    for module, name in called_from_python():
        function = getattr(importlib.import_module(f"alignkit.kernels.{module}"), name)
        if function._dispatcher is None:
            continue
        for overload in function.dispatcher.overloads.values():
            compiled += 1
            assert isinstance(overload.signature.return_type, types.NoneType | types.Number | types.Boolean), name
    assert compiled > 20


def test_an_exception_of_a_signal_handler_leaves_a_fit_as_an_exception():
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": f"{ROOT.parent}{os.pathsep}{ROOT.parent / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "100\n"), run.stderr
