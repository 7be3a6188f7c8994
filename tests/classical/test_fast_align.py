"""Our parameters against fast_align's, as systran-align estimates them: equal, the tension apart."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from planted import random_pairs

pytest.importorskip("systran_align", reason="systran-align, of the extra bench, is not installed")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fast_align.py"
# What single precision leaves, and their digamma, a series of fewer terms.
CLOSE = {"IBM 1": 3e-7, "IBM 1, -v": 3e-5, "-d -v": 3e-5, "-d -o -v, lengths exchanged": 3e-5}


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("fast_align_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)  # it has modules of its own beside it
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The validation part of Multi30k where there are data, else random words; without blank sides."""
    folder = tmp_path_factory.mktemp("text")
    data = os.environ.get("ALIGNKIT_DATA")
    if data:
        return tuple(str(Path(data, "multi30k", f"val.{side}")) for side in ("de", "en"))
    pairs = [pair for seed in range(30) for pair in random_pairs(seed) if all(pair)]
    for name, side in (("source", 0), ("target", 1)):
        (folder / name).write_text("".join(" ".join(pair[side]) + "\n" for pair in pairs))
    return str(folder / "source"), str(folder / "target")


@pytest.mark.parametrize("name", CLOSE)
def test_the_same_probabilities(benchmark, text, tmp_path, name):
    options, fit = benchmark.SETTINGS[name]
    benchmark.run_systran(sys.executable, text, {**options, "iterations": 5}, tmp_path)
    model = fit(benchmark.read_bitext(*text), 4)
    assert benchmark.largest_difference(benchmark.read_table(tmp_path / "s.f"), model) < CLOSE[name]


def test_the_same_links_but_for_ties_of_their_growing(benchmark, text, tmp_path):
    options, fit = benchmark.SETTINGS["-d -v"]
    theirs = benchmark.run_systran(sys.executable, text, {**options, "iterations": 5}, tmp_path)
    bitext = benchmark.read_bitext(*text)
    forward, reverse = fit(bitext, 4), fit(bitext.reversed, 4)
    ours = benchmark.symmetrize(forward.links(bitext), reverse.links(bitext.reversed).reversed)
    assert benchmark.f_measure(theirs, ours) > 0.95
