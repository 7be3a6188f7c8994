"""The structure of the package: imports go downwards, and names are not used twice."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The packages and top modules, from the ground up: a module imports from its own place and from those below it.
ORDER = [
    *("errors", "types", "kernels", "support", "text", "scores", "links"),
    *("embeddings", "aligner", "classical", "neural", "metrics", "supervised"),
    *("pipeline", "lab", "uses"),
]
#: The interfaces of other tools, with the names that these gave.
INTERFACES = {f"alignkit.uses.{name}" for name in ("atools", "eflomal", "sil")}
#: Side by side: none of them imports another.
APART = {"alignkit.classical", "alignkit.neural", "alignkit.metrics"}
RANKS = {f"alignkit.{name}": rank for rank, name in enumerate(ORDER)}
RANKS |= {"alignkit": len(ORDER), "alignkit_cli": len(ORDER) + 1, "alignkit.__main__": len(ORDER) + 2}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules():
    """{module name: path} of the package and the commands."""
    found = {}
    for folder, package in (("alignkit", "alignkit"), ("cli", "alignkit_cli")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


@cache
def tree_of(name):
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@cache
def imports(name, top_only=False):
    """The modules that a module imports, within functions and for the type checker too."""
    found = set()
    waiting = [tree_of(name)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {full if full in MODULES else node.module for full in inner}
        if not (top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def place_of(name):
    """The place of a module: ``alignkit.text`` of ``alignkit.text.reading``; None for what is not ours."""
    places = [place for place in RANKS if name == place or (place != "alignkit" and name.startswith(place + "."))]
    return max(places, key=len, default=None)


def ours(name):
    return name.split(".")[0] in ("alignkit", "alignkit_cli")


def test_every_package_is_installed():
    """A package that setup.cfg does not list is missing wherever pip installs it."""
    described = configparser.ConfigParser()
    described.read(ROOT / "setup.cfg")
    found = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert set(described["options"]["packages"].split()) == found | {"alignkit_data"}


def test_the_table_for_contributors_is_the_order():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| under `alignkit/` |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == ORDER


def test_the_changes_for_contributors_name_files_and_registries():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| change | code | registry |")[2].partition("\n\n")[0]
    places = re.findall(r"`((?:tests|docs|cli|benchmarks)/[\w./-]+)`", table)
    assert [place for place in places if not (ROOT / place).exists()] == []
    rows = [row.split("|")[2:4] for row in table.splitlines()[2:]]
    assert len(rows) > 10
    new = {"lab/experiments/NAME.py", "metrics/NAME.py"}
    for code, registry in rows:
        named = re.findall(r"`([\w/]+\.py)`", code + registry)
        files = {name: ROOT / ("" if name.startswith("cli/") else "alignkit") / name for name in named}
        assert [name for name, path in files.items() if not path.is_file() and name not in new] == []
        sources = "".join(path.read_text(encoding="utf-8") for path in files.values() if path.is_file())
        for name in re.findall(r"`([A-Z_]{3,})`", registry):
            assert re.search(rf"^{name}\b", sources, re.MULTILINE), name


def test_every_module_has_a_place():
    assert [name for name in MODULES if place_of(name) is None] == []
    assert len(MODULES) > 20


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_downwards(name):
    own = place_of(name)
    for imported in filter(ours, imports(name)):
        place = place_of(imported)
        assert place is not None, f"{name} imports {imported}, which has no place"
        assert RANKS[place] <= RANKS[own], f"{name} imports {imported}, which stands above it"
        if own != place:
            assert not {own, place} <= APART, f"{name} imports {imported}"


def test_no_module_imports_itself_through_others():
    graph = {name: {other for other in imports(name) if other in MODULES} for name in MODULES}
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            path.append(name)
            for other in sorted(graph[name]):
                visit(other)
            path.pop()
            done.add(name)

    for name in graph:
        visit(name)


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("alignkit.kernels.")])
def test_kernels_import_numpy_numba_and_llvmlite_only(name):
    outside = {imported.split(".")[0] for imported in imports(name) if not ours(imported)}
    assert outside - set(sys.stdlib_module_names) <= {"numpy", "numba", "llvmlite"} | (
        {"platformdirs"} if name == "alignkit.kernels.cache_folder" else set()  # which compiles nothing
    )
    assert all(imported.startswith("alignkit.kernels.") for imported in imports(name) if ours(imported))


@pytest.mark.parametrize("name", MODULES)
def test_torch_and_matplotlib_stay_in_their_packages(name):
    packages = {imported.split(".")[0] for imported in imports(name)}
    torch_users = ("alignkit.neural", "alignkit.lab", "alignkit.embeddings.encoders")
    if not name.startswith(torch_users):
        assert "torch" not in packages
    if not name.startswith(("alignkit.lab.experiments", "alignkit.scores")):
        assert "matplotlib" not in packages
    at_once = {imported.split(".")[0] for imported in imports(name, top_only=True)}
    assert "matplotlib" not in at_once, "matplotlib is an extra: import it where it is used"


def test_public_functions_and_classes_have_names_of_their_own():
    places = defaultdict(list)
    for name in MODULES:
        if name in INTERFACES:
            continue  # names that others gave
        for node in tree_of(name).body:
            if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert len(places) > 500
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def loaded_by(code):
    """The top-level packages in memory after ``code`` ran in a fresh interpreter."""
    code += "\nimport sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(result.stdout.split())


def test_import_alignkit_loads_nothing_heavy():
    assert not loaded_by("import alignkit") & {
        "torch",
        "matplotlib",
        "jinja2",
        "numba",
        "numpy",
        "pandas",
        "sentencepiece",
    }


def test_every_public_name_is_there():
    import alignkit

    for name in alignkit.__all__:
        assert getattr(alignkit, name) is not None
    assert set(alignkit.__all__) <= set(dir(alignkit))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = alignkit.nothing


def test_the_classical_path_loads_no_torch(tmp_path):
    text, model, out = (str(tmp_path / name) for name in ("text", "model", "out"))
    code = f"""
import sys
from alignkit import Bitext, agreement, cooccurrence, fit_ibm1, load, read_bitext, evaluate, GoldLinks
from alignkit_cli.main import run
open({text!r}, "w").write("a b ||| c d")
bitext = read_bitext({text!r})
cooccurrence(bitext)
model = fit_ibm1(bitext)
model.save({model!r})
links = load({model!r}).links(bitext)
evaluate(GoldLinks(links, links), links)
agreement(model.score(bitext, "alpha"), model.score(bitext, "beta"))
for command in ("align", "ibm1"):
    assert run([command, {text!r}, "-q", "-o", {out!r}]) == 0
assert not {{"pandas", "jinja2"}} & set(sys.modules)

import alignkit
aligned = alignkit.align(["a b", "b"], ["x y", "y"], method="ibm1")
aligned[0]; repr(aligned); aligned._repr_html_()
alpha = aligned.score("alpha")
alignkit.compare({{"a": alpha, "b": [matrix for matrix in alpha]}}, resamples=2)
alignkit.kendall(alpha, alpha)
assert run(["report", "--text", {text!r}, {text!r}, "-q", "-o", {out!r}]) == 0

from alignkit.lab.comparison import compare_classical
from alignkit.lab.heads.ranking import rank_heads
from alignkit.text.pairs import LinePairs
compare_classical(LinePairs(["a b", "b"], ["A B", "B"]), threads=1)
"""
    found = loaded_by(code)
    assert "numba" in found
    assert not found & {"torch", "matplotlib", "sacrebleu"}
