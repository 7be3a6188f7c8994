"""Which tests run a line of the code, by one run of all tests under coverage.

It is also the plugin of pytest that notes, in that run, which test runs what, and how long each takes.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

# Programs that a test starts are measured as well: coverage starts with a Python that has COVERAGE_PROCESS_START.
CONFIGURATION = """[run]
data_file = {folder}/coverage.data
parallel = true
source = {folder}/tree/alignkit, {folder}/tree/cli
context = ${{PYTEST_CURRENT_TEST-}}
disable_warnings = no-data-collected, module-not-imported
"""
seconds: dict[str, float] = {}
failed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Any:
    """Note the seconds of a test."""
    begun = sum(os.times()[:4])  # its own, and those of programs that it waits for
    result = yield
    seconds[item.nodeid] = sum(os.times()[:4]) - begun
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """Lines from here on are of the test that is set up."""
    switch_context(f"{item.nodeid} (setup)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: Any) -> None:
    """Lines from here on are of the test itself."""
    switch_context(f"{item.nodeid} (call)")


def switch_context(context: str) -> None:
    """Tell coverage which test runs."""
    from coverage import Coverage

    measured = Coverage.current()
    assert measured is not None
    measured.switch_context(context)


def pytest_runtest_logreport(report: Any) -> None:
    """Note a test that fails, or is skipped, without any change."""
    if report.outcome != "passed":
        failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the seconds of the tests that passed."""
    passed = {test: each for test, each in seconds.items() if test not in failed}
    Path(os.environ["SECONDS"]).write_text(json.dumps(passed), encoding="utf-8")


def measure(folder: Path, variables: dict[str, str]) -> None:
    """Run the tests of the copy in a folder, and write what they run and how long they take."""
    settings = folder / "coverage.ini"
    settings.write_text(CONFIGURATION.format(folder=folder), encoding="utf-8")
    names = {"COVERAGE_PROCESS_START": str(settings), "SECONDS": str(folder / "seconds.json")}
    names["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(Path(__file__).parent)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutants_tests"]
    subprocess.run(command, cwd=folder / "tree", env={**os.environ, **variables, **names})
    subprocess.run([sys.executable, "-m", "coverage", "combine", "--rcfile", settings], check=True)


class Reach:
    """The tests that can notice a change in a line.

    They are those that run it. A line that runs at import, or within a compiled kernel, is reached by those that
    run a line with its name: of what it assigns, or of the kernel.
    """

    def __init__(self, folder: Path) -> None:
        from coverage import CoverageData

        self.tree = folder / "tree"
        self.seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())
        data = CoverageData(folder / "coverage.data")
        data.read()
        paths = [path for part in ("alignkit", "cli") for path in sorted((self.tree / part).rglob("*.py"))]
        self.sources = {path.relative_to(self.tree).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        self.trees = {path: ast.parse(source) for path, source in self.sources.items()}
        self.covered = {path: data.contexts_by_lineno(str(self.tree / path)) for path in self.sources}

    @cached_property
    def mentions(self) -> dict[str, set[tuple[str, int]]]:
        """The lines that have a name in them."""
        found = defaultdict(set)
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                for part in ("id", "attr", "arg"):
                    name = getattr(node, part, None)
                    if isinstance(name, str):
                        found[name].add((path, getattr(node, "end_lineno", 0)))
        return found

    @cached_property
    def around(self) -> dict[tuple[str, int], list[Any]]:
        """The statements around a line, the outermost first."""
        found = defaultdict(list)
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.stmt):
                    for line in range(first_line(node), (node.end_lineno or 0) + 1):
                        found[path, line].append(node)
        return found

    @cached_property
    def of_file(self) -> dict[str, set[str]]:
        """The tests of each file of tests."""
        found = defaultdict(set)
        for test in self.seconds:
            found[test.partition("::")[0]].add(test)
        return found

    def running(self, path: str, first: int, last: int) -> set[str]:
        """The tests that run one of these lines; what is set up for one may be for all of its file."""
        found = set()
        for line in range(first, last + 1):
            for context in self.covered[path].get(line, ()):
                test, _, phase = context.rpartition(" ")
                found |= self.of_file[test.partition("::")[0]] if phase == "(setup)" else {test}
        return found & self.seconds.keys()

    def reaching(self, path: str, line: int, seen: set[tuple[str, int]], names_on: int = 3) -> set[str]:
        """The tests that reach a line, through so many names; ``seen`` has the statements that were asked for."""
        statements = self.around[path, line]
        if not statements or (path, statements[-1].lineno) in seen:
            return set()
        statement = statements[-1]
        seen.add((path, statement.lineno))
        body = getattr(statement, "body", None)
        functions = [each for each in statements if isinstance(each, ast.FunctionDef)]
        whole = isinstance(statement, ast.FunctionDef) or not body
        last = statement.end_lineno if whole else first_line(body[0]) - 1
        found = self.running(path, first_line(statement), last)
        names: list[str] = []
        if functions and (path.startswith("alignkit/kernels/") or functions[0] is statement):
            names = [functions[0].name]
        elif not functions and isinstance(statement, ast.ClassDef):
            names = [statement.name]
        elif not functions:
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            names = [
                node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)
            ]
        for name in names if names_on else ():
            for place in sorted(self.mentions[name]):
                found |= self.reaching(*place, seen, names_on - 1)
        return found

    def tests(self, path: str, line: int, limit: float) -> tuple[list[str], int]:
        """The tests to run for a change in a line, in order, with at most so many seconds; and how many reach it.

        Tests of one file stand together, for they share what is set up. Those of the file for this module come
        first, then those of its folder, and short ones before long ones.
        """
        place = Path(path)
        folder = Path("tests", *place.parent.parts[path.startswith("alignkit/") :]).as_posix()
        by_file = defaultdict(list)
        reaching = self.reaching(path, line, set())
        for test in sorted(reaching, key=lambda test: (self.seconds[test], test)):
            by_file[test.partition("::")[0]].append(test)

        def rank(file: str) -> tuple[bool, bool, float]:
            near = file.startswith(f"{folder}/")
            return not (near and place.stem in file), not near, sum(self.seconds[test] for test in by_file[file])

        chosen: list[str] = []
        for file in sorted(by_file, key=rank):
            for test in by_file[file]:
                if self.seconds[test] <= limit:
                    limit -= self.seconds[test]
                    chosen.append(test)
        return chosen, len(reaching)


def first_line(statement: Any) -> int:
    """The first line of a statement, of its decorators if it has some."""
    return min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", []))])
