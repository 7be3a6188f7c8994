"""Small changes to the code, made by mutmut's operators, and whether the tests notice each of them.

    python benchmarks/mutants.py FOLDER -o benchmarks/results/mutants [--sample 1200] [--seed 0] [--package NAME]

The sample is as large in each package of alignkit and in cli, and takes operators in turn; of an operator's
changes in a line it has one at most. FOLDER keeps a copy of the code as committed, which tests run which lines,
the result of each change, and survivors as patches; a later call goes on. A change is tried in a forked process by
the tests that reach its line (`mutants_tests.py` says how), the nearest and shortest first, until one fails that
passes without the change; if tests are left out for --limit, it is "not proven". Messages, types, `strict` of zip
and what starts compiled kernels are not changed. Linux only. Writes OUT.md.
"""

from __future__ import annotations

import ast
import difflib
import gc
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
from inputs import machine, need_files, run_benchmark
from mutants_tests import Reach, measure

from alignkit.support.files import check_writable

ROOT = Path(__file__).parents[1]
LEFT_OUT = ("alignkit/kernels/compile.py", "alignkit/kernels/cache_folder.py")
IMPORTED = (
    "numpy numba torch pytest hypothesis pandas click scipy.stats sklearn.linear_model lightgbm matplotlib.pyplot"
)
#: Subscripted they are types, which nothing evaluates; called they make types and messages, or fail at once.
TYPES = {"Callable", "Sequence", "dict", "list", "tuple"}
NOT_CALLED = {"TypeVar", "cast", "dataclass", "isinstance", "len", "log", "logging", "warnings"}
SECONDS = 20  #: of a test, beside ten times what it needs
MEMORY = 8 << 30  #: of a process, beside what it starts with
NEAREST = 3  #: files of tests that are tried before the others
IN_TURN = 10  #: changes of a package before those of the next


class Mutant(NamedTuple):
    """A changed file."""

    path: str
    line: int
    operator: str
    code: str
    diff: str

    @property
    def package(self) -> str:
        return str(Path(self.path).parent)


def changes(code: str) -> dict[tuple[int, str], list[Any]]:
    """The changed versions of a module, as functions that make them, by line and operator."""
    import libcst as cst
    from libcst.metadata import MetadataWrapper, PositionProvider
    from mutmut.mutation.mutators import mutation_operators

    found = defaultdict(list)

    def for_people(node: cst.CSTNode) -> bool:
        return isinstance(node, cst.ConcatenatedString) or (
            isinstance(node, cst.SimpleString) and " " in node.value
        )

    def is_check(node: cst.CSTNode) -> bool:
        """Whether it is `strict=True` of `zip`, which says only that no mistake is expected."""
        return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict"

    def left_out(node: cst.CSTNode) -> bool:
        value = node.value if isinstance(node, cst.Assign) else node
        if for_people(value) or is_check(value):
            return True
        if isinstance(value, cst.Call):
            whole = value.func.value if isinstance(value.func, cst.Attribute) else value.func
            return isinstance(whole, cst.Name) and whole.value in NOT_CALLED
        if isinstance(value, cst.Subscript):
            return isinstance(value.value, cst.Name) and value.value.value in TYPES
        return isinstance(node, cst.Annotation)

    def takes_text(node: cst.CSTNode, changed: cst.CSTNode) -> bool:
        """Whether a change takes a message from a call."""
        if not (isinstance(node, cst.Call) and isinstance(changed, cst.Call)):
            return False
        taken = [each for each in node.args if all(each is not kept for kept in changed.args)]
        return any(
            is_check(each) or for_people(each.value) or isinstance(each.value, cst.FormattedString)
            for each in taken
        )

    class Visitor(cst.CSTVisitor):
        METADATA_DEPENDENCIES = (PositionProvider,)

        def on_visit(self, node: cst.CSTNode) -> bool:
            if left_out(node):
                return False
            position = self.get_metadata(PositionProvider, node, None)
            for kind, operator in mutation_operators if position else ():
                if isinstance(node, kind):
                    name = operator.__name__.removeprefix("operator_")
                    found[position.start.line, name] += [
                        (node, changed) for changed in operator(node) if not takes_text(node, changed)
                    ]
            return True

    wrapper = MetadataWrapper(cst.parse_module(code), unsafe_skip_copy=True)
    wrapper.visit(Visitor())
    return {
        place: [lambda pair=pair: wrapper.module.deep_replace(*pair).code for pair in pairs]
        for place, pairs in sorted(found.items())
    }


def drawn(package: str, files: dict[str, str], seed: int) -> Iterator[Mutant]:
    """The mutants of a package at random, of all operators in turn, with other code that can be compiled."""
    draw, of_operator = random.Random(f"{seed} {package}"), defaultdict(list)
    for path, code in files.items():
        for (line, operator), made in changes(code).items():
            of_operator[operator] += [(path, line, made)] if made else []
    for places in of_operator.values():
        draw.shuffle(places)
    meanings = {path: ast.dump(ast.parse(code)) for path, code in files.items()}
    while any(of_operator.values()):
        for operator, places in sorted(of_operator.items()):
            if places:
                path, line, made = places.pop()
                code = draw.choice(made)()
                with suppress(SyntaxError):
                    compile(code, path, "exec")
                    if ast.dump(ast.parse(code)) != meanings[path]:
                        before, after = (text.splitlines(keepends=True) for text in (files[path], code))
                        diff = "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))
                        yield Mutant(path, line, operator, code, diff)


class Trial:
    """A copy of the code in which changes are tried, one after the other."""

    def __init__(self, folder: Path, reach: Reach, number: int) -> None:
        self.folder, self.reach, self.place = folder, reach, folder / f"trial-{number}"
        self.sound: dict[str, bool] = {}
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(folder / "tree", self.place / "tree", symlinks=True)

    def result(self, mutant: Mutant, limit: float) -> dict[str, Any]:
        """Whether a test notices the mutant, and which."""
        begun = time.monotonic()
        file = self.place / "tree" / mutant.path
        original = self.folder / "tree" / mutant.path
        tests, reaching = self.reach.tests(mutant.path, mutant.line, limit)
        outcome = by = None
        while outcome is None:
            file.write_text(mutant.code, encoding="utf-8")
            os.utime(
                file, (0, len(mutant.diff) + 60 * time.time() % 1e8)
            )  # no bytecode is taken for that of another
            try:
                outcome, by = self.run(tests, mutant.path) if tests else ("survived", None)
            finally:
                shutil.copy2(original, file)
            if outcome == "killed" and by not in self.sound:
                self.sound[by] = self.run([by], mutant.path)[0] == "survived"
            if outcome == "killed" and not self.sound[by]:
                print(f"{by} fails without a change", file=sys.stderr)
                tests.remove(by)
                outcome = None
        if outcome == "survived" and len(tests) < reaching:
            outcome = "not proven"
        seconds = round(time.monotonic() - begun, 1)
        about = {"package": mutant.package, "path": mutant.path, "line": mutant.line, "operator": mutant.operator}
        return {
            **about,
            "outcome": outcome,
            "by": by,
            "tests": len(tests),
            "seconds": seconds,
            "diff": mutant.diff,
        }

    def run(self, tests: list[str], path: str) -> tuple[str, str | None]:
        """What the tests say, and the first that fails, or at which the process ends or takes too long."""
        for name in ("temporary", "kernels"):
            shutil.rmtree(self.place / name, ignore_errors=True)
        (self.place / "now").write_text(tests[0])
        gc.freeze()  # the child need not look at what is here
        child = os.fork()
        if child == 0:
            try:
                os._exit(self.in_child(tests, path))
            finally:
                os._exit(1)
        expected = sum(self.reach.seconds[test] for test in tests)
        ready, _, _ = select.select([opened := os.pidfd_open(child)], [], [], 20 * expected + 600)
        os.close(opened)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what tests started, too
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 5:
            raise RuntimeError(f"none of {tests} was found")
        return ("survived", None) if ready and code == 0 else ("killed", (self.place / "now").read_text())

    def in_child(self, tests: list[str], path: str) -> int:
        """Run the tests, in a new process, with limits."""
        import pytest

        os.setsid()
        output = os.open(self.place / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        tree = self.place / "tree"
        os.chdir(tree)
        os.environ.update(environment(self.folder, tree))
        sys.path[:0] = [str(tree), str(tree / "links")]
        if path.startswith("alignkit/kernels/"):
            self.keep_kernels(Path(path).stem)
        (self.place / "temporary").mkdir()
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        without = ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        options = ["-x", "-q", *without, f"--basetemp={self.place}/temporary/pytest"]
        os.environ["TMPDIR"] = str(self.place / "temporary")
        return int(
            pytest.main([*options, *files], plugins=[Chosen(tests, self.reach.seconds, self.place / "now")])
        )

    def keep_kernels(self, changed: str) -> None:
        """Compile only kernels of modules that import the changed one, though all have a key of all sources."""
        stale, before = {changed}, 0
        sources = {path.stem: path.read_text() for path in Path("alignkit/kernels").glob("*.py")}
        while before < len(stale):
            before = len(stale)
            stale |= {
                name
                for name, code in sources.items()
                if stale & set(re.findall(r"alignkit\.kernels\.(\w+)", code))
            }
        (kept := self.place / "kernels").mkdir()
        folders = (self.folder / "cache" / "alignkit" / "kernels").iterdir()
        for file in max(folders, key=lambda folder: folder.stat().st_mtime).glob("alignkit.kernels.*.nbc"):
            if file.name.split(".")[2] not in stale:
                os.link(file, kept / file.name)
        cache_folder = import_module("alignkit.kernels.cache_folder")
        cache_folder.kernel_folder = lambda *_: kept  # type: ignore[attr-defined]


class Chosen:
    """A plugin of pytest: these tests in this order, with limits of time, and the one that runs now in a file."""

    def __init__(self, tests: list[str], seconds: dict[str, float], now: Path) -> None:
        self.order = {test: place for place, test in enumerate(tests)}
        self.seconds, self.now = seconds, now

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid in self.order]
        items.sort(key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.now.write_text(nodeid)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = used.ru_utime + used.ru_stime + SECONDS + 10 * self.seconds[nodeid]
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), resource.RLIM_INFINITY))


def environment(folder: Path, tree: Path) -> dict[str, str]:
    """The variables with which tests run."""
    caches = {"XDG_CACHE_HOME": str(folder / "cache"), "MPLCONFIGDIR": str(folder / "cache" / "matplotlib")}
    return {**caches, "PYTHONPATH": str(tree / "links"), "OMP_NUM_THREADS": "1"}


def prepare(folder: Path) -> Reach:
    """Copy the code as committed, and run all its tests once, unless that is done; import what tests need."""
    tree = folder / "tree"
    if not tree.exists():
        (tree / "links").mkdir(parents=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x", "-C", tree], input=archive, check=True)
        for name, part in {"alignkit": "alignkit", "alignkit_cli": "cli", "alignkit_data": "data"}.items():
            (tree / "links" / name).symlink_to(f"../{part}")
    if not (folder / "seconds.json").exists():
        measure(folder, environment(folder, tree))
    reach = Reach(folder)
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in [name for name in sys.modules if name.partition(".")[0] == "alignkit"]:
        del sys.modules[name]
    for name in IMPORTED.split():
        with suppress(ImportError):
            import_module(name)
    from hypothesis import Phase, settings

    # A failure is enough: it need not be made smaller.
    settings.register_profile("failure", phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("failure")
    return reach


def read(file: Path) -> list[dict[str, Any]]:
    """The results so far, the last of each mutant."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file.exists() else ()
    return list({row["diff"]: row for row in rows}.values())


def table(results: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of the table: for each package how many mutants are noticed."""
    yield "| package | mutants | killed | % | survived | not proven |"
    yield "|---|--:|--:|--:|--:|--:|"
    for package in [*sorted({row["package"] for row in results}), "all"]:
        counts = Counter(row["outcome"] for row in results if package in ("all", row["package"]))
        numbers = [counts.total(), counts["killed"], f"{100 * counts['killed'] / max(counts.total(), 1):.1f}"]
        cells = [package, *numbers, counts["survived"], counts["not proven"]]
        yield f"| {' | '.join(map(str, cells))} |"


def first_new(diff: str) -> str:
    """The first line that a patch adds."""
    return next(line[1:].strip() for line in diff.splitlines()[2:] if line.startswith("+"))


def show(folder: Path, results: list[dict[str, Any]]) -> None:
    """Write the table and the survivors of each package."""
    (folder / "table.md").write_text("\n".join(table(results)) + "\n", encoding="utf-8")
    survivors = defaultdict(list)
    for row in results:
        if row["outcome"] != "killed":
            about = f"{row['path']}:{row['line']} {row['operator']}, {row['outcome']}, {row['tests']} tests"
            survivors[row["package"]].append(f"# {about}\n{row['diff']}")
    for package, patches in survivors.items():
        (folder / f"survivors-{package.replace('/', '-')}.txt").write_text("\n".join(patches), encoding="utf-8")


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--sample", default=1200, show_default=True, help="Mutants in all packages together.")
@click.option("--seed", default=0, show_default=True)
@click.option("--package", "packages", multiple=True, help="Only this package, as alignkit/links.")
@click.option("--only", help="Only the mutants of the sample at PATH:LINE, again.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds of tests for one mutant.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="OUT of OUT.md.")
def main(
    folder: Path,
    sample: int,
    seed: int,
    packages: tuple[str, ...],
    only: str | None,
    limit: float,
    output: Path | None,
) -> None:
    need_files(*(ROOT / package for package in packages), remedy="name a folder of the code, as alignkit/links")
    if output is not None:
        check_writable(output.with_suffix(".md"))
    (folder := folder.absolute()).mkdir(parents=True, exist_ok=True)
    reach = prepare(folder)
    by_package = defaultdict(dict)
    for path, code in reach.sources.items():
        if path not in LEFT_OUT:
            by_package[str(Path(path).parent)][path] = code
    each = -(-sample // len(by_package))
    chosen = {name: drawn(name, by_package[name], seed) for name in packages or by_package}
    mutants = (
        mutant
        for first in range(0, each, IN_TURN)
        for found in chosen.values()
        for mutant in islice(found, min(IN_TURN, each - first))
    )
    file, trial = folder / "results.jsonl", Trial(folder, reach, os.getpid())
    for mutant in mutants:
        done = mutant.diff in {row["diff"] for row in read(file)}
        if done if only is None else only != f"{mutant.path}:{mutant.line}":
            continue
        row = trial.result(mutant, limit)
        with file.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        place = f"{mutant.path}:{mutant.line} {mutant.operator}"
        print(f"{row['outcome']}: {place}, {row['by']}, {row['seconds']} s", flush=True)
        show(folder, read(file))
    shutil.rmtree(trial.place)
    if output is not None:
        about = f"# Mutants\n\n`python benchmarks/mutants.py --sample {sample} --seed {seed}`, {machine()}."
        rows = [row for row in read(file) if row["outcome"] != "killed"]
        listed = "\n".join(
            f"- {row['path']}:{row['line']}, {row['operator']}: `{first_new(row['diff'])}`" for row in rows
        )
        text = "\n".join([about, "", *table(read(file)), "", "## Not noticed", "", listed, ""])
        output.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_benchmark(main)
