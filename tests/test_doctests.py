"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import alignkit

ROOT = Path(alignkit.__file__).parents[1]
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "alignkit").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples(module):
    if module.startswith(("alignkit.neural", "alignkit.lab.experiments")):
        pytest.importorskip("torch")
    if module == "alignkit.text.raw_text":
        pytest.importorskip("icu4py")
    failed, tried = doctest.testmod(import_module(module))
    assert tried
    assert not failed


def test_what_users_call_first_has_examples():
    assert {"alignkit.pipeline.align", "alignkit.classical.ibm1", "alignkit.links.symmetrization"} <= set(
        WITH_EXAMPLES
    )
