"""Small changes to formulas of the core, each of which named tests must notice: which of them do not?

    python benchmarks/code_mutations.py -o benchmarks/results/code_mutations [--only kernels/diagonal.py]...

code_mutations.txt has a line ``FILE: TESTS`` for each file of the package, and below it pairs of a line ``- OLD``
and a line ``+ NEW``. OLD is in the file once. Each change is made to a copy of the package, never to the checkout;
the tests run there until one fails. First they run on the copy as it is, where all must pass. For a changed kernel
all kernels that the tests call are compiled anew, so that a whole run takes half an hour or more. Writes OUT.md;
exit code 1 if a change survived.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import click
from inputs import run_benchmark

from alignkit.errors import AlignkitError

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".txt")
SECONDS = 900  # that the tests of one change may take


class Mutation(NamedTuple):
    """A change to a file of the package, and the tests that must notice it."""

    file: str
    tests: tuple[str, ...]
    old: str
    new: str


def mutations() -> list[Mutation]:
    """Those of the list."""
    found: list[Mutation] = []
    file, tests, old = "", "", ""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            old = line[2:]
        elif line.startswith("+ "):
            found.append(Mutation(file, tuple(tests.split()), old, line[2:]))
        elif line:
            file, tests = line.split(": ")
    return found


def occurrences(mutation: Mutation, package: Path = ROOT / "alignkit") -> int:
    """How often the old text is in its file."""
    return (package / mutation.file).read_text(encoding="utf-8").count(mutation.old)


def copied(folder: Path) -> None:
    """Copies what the tests need."""
    unwanted = shutil.ignore_patterns("__pycache__")
    for name, copy in (("alignkit", "alignkit"), ("cli", "alignkit_cli"), ("tests", "tests"), ("data", "data")):
        shutil.copytree(ROOT / name, folder / copy, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", folder)


def passes(folder: Path, tests: tuple[str, ...], cache: str | None = None) -> bool:
    """Whether the tests pass in that folder; with a cache of kernels of their own, if one is given."""
    given = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    if cache is not None:
        given["ALIGNKIT_CACHE"] = cache
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    with open(folder / "log", "wb") as log:
        try:
            code = subprocess.run(
                command, cwd=folder, env=os.environ | given, stdout=log, stderr=log, timeout=SECONDS, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return False
    if code not in (0, 1):  # no test ran, or the change cannot be imported
        end = (folder / "log").read_text(encoding="utf-8", errors="replace")[-300:]
        raise AlignkitError(f"pytest {' '.join(tests)} ends with {code}: {end}")
    return code == 0


def verdict(mutation: Mutation, folder: Path) -> str:
    """``killed``, ``survived`` or ``not found``."""
    if occurrences(mutation, folder / "alignkit") != 1:
        return "not found"
    path = folder / "alignkit" / mutation.file
    text = path.read_text(encoding="utf-8")
    is_kernel = mutation.file.startswith("kernels/")
    with tempfile.TemporaryDirectory() as cache:
        try:
            path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
            return "survived" if passes(folder, mutation.tests, cache if is_kernel else None) else "killed"
        finally:
            path.write_text(text, encoding="utf-8")


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="A file of the package.")
@click.option("-o", "--output", required=True)
def main(only: tuple[str, ...], output: str) -> None:
    chosen = [each for each in mutations() if not only or each.file in only]
    found = dict.fromkeys(("killed", "survived", "not found"), 0)
    lines = ["| file | before | after | |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        if not passes(folder, tuple(dict.fromkeys(test for each in chosen for test in each.tests))):
            raise AlignkitError("the tests fail already without a change")
        for each in chosen:
            seen = verdict(each, folder)
            found[seen] += 1
            old, new = (text.replace("|", r"\|") for text in (each.old, each.new))
            lines.append(f"| {each.file} | `{old}` | `{new}` | {seen} |")
            print(lines[-1], flush=True)
    counts = ", ".join(f"{count} {seen}" for seen, count in found.items())
    title = f"# Changes to formulas, and tests\n\n`python benchmarks/code_mutations.py`: {counts}.\n\n"
    Path(f"{output}.md").write_text(title + "\n".join(lines) + "\n", encoding="utf-8")
    raise SystemExit(0 if found["killed"] == len(chosen) else 1)


if __name__ == "__main__":
    run_benchmark(main)
