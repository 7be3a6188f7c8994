"""alignkit symmetrize."""

from __future__ import annotations

import pytest

from alignkit.links.heuristics import ALIASES, find_heuristic, method_names


@pytest.mark.parametrize("method", method_names(needs_scores=False))
def test_symmetrize_option_equals_the_command(alignkit, write, method):
    pair = write("s", "x y\nx\ny\nz x\n"), write("t", "X Y Z\nX\nY Z\nX\n")
    at_once = alignkit("ibm1", "-q", *pair, "--symmetrize", method)
    forward = write("f", alignkit("ibm1", "-q", *pair).out)
    reverse = write("r", alignkit("ibm1", "-q", *pair, "--reverse").out)
    apart = alignkit("symmetrize", forward, reverse, "-m", method)
    assert at_once.code == apart.code == 0
    assert at_once.out == apart.out


def test_two_models_are_symmetrized_under_short_names(alignkit, failure, text, tmp_path):
    models = [tmp_path / "forward", tmp_path / "reverse"]
    for model, option in zip(models, ([], ["--reverse"]), strict=True):
        assert alignkit("ibm1", "-q", *text, *option, "--save-model", model, "-o", f"{model}.links").code == 0
    links = [f"{model}.links" for model in models]
    both = ["align", "-q", *text, "--model", models[0], "--model", models[1]]
    for short, method in ALIASES.items():
        apart = alignkit("symmetrize", *links, "-m", method).out
        assert alignkit("symmetrize", *links, "-m", short).out == apart
        assert alignkit(*both, "--symmetrize", short).out == apart
        assert find_heuristic(short) == find_heuristic(method)
    failure(alignkit("align", *text, "--symmetrize", "gdfa"), "the default aligner already has both directions")
    failure(alignkit(*both, "--model", models[0]), "two of opposite directions")


def test_one_direction_that_counts_from_1(alignkit, write):
    good, shifted = write("good", "0-0 1-1 2-2\n" * 10), write("shifted", "1-1 2-2 3-3\n" * 10)
    outcome = alignkit("symmetrize", good, shifted)
    assert outcome.err == f"warning: one of {good} and {shifted} seems to count from 1 and the other from 0\n"
    alike = alignkit("symmetrize", shifted, shifted)
    assert (alike.out, alike.err) == (shifted.read_bytes(), "")
