"""The code stays readable: sizes of modules and functions, and one name for one thing."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest
from test_imports import MODULES, TREES

MOST_LINES = 350  # of a module
MOST_FUNCTION_LINES = 60  # from def to the last line, with docstring and comments
MOST_PARAMETERS = 8  # *args and **options count as one each

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def parameters(function):
    """The names of all parameters but the instance or class of a method."""
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    named += [each.arg for each in (given.vararg, given.kwarg) if each is not None]
    return [name for name in named if name not in ("self", "cls")]


@pytest.mark.parametrize("name", MODULES)
def test_modules_and_functions_are_short(name):
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    found = functions(TREES[name])
    long = [each.name for each in found if each.end_lineno - each.lineno + 1 > MOST_FUNCTION_LINES]
    assert long == []
    assert [each.name for each in found if len(parameters(each)) > MOST_PARAMETERS] == []


def test_what_is_counted():
    (found,) = functions(ast.parse("@decorated\ndef f(self, a, /, b, *c, d, **e):\n    return 1\n"))
    assert parameters(found) == ["a", "b", "d", "c", "e"]
    assert (found.lineno, found.end_lineno) == (2, 3)


def test_public_functions_and_classes_have_names_of_their_own():
    places = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert len(places) > 500
    commands = places.pop("command")  # the click command of each module that alignkit_cli.main names
    assert {name.split(".")[0] for name in commands} == {"alignkit_cli"}
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
