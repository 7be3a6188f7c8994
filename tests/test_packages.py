"""Without PyTorch and other packages that only a part needs, the rest works, and errors say how to get them."""

from __future__ import annotations

import configparser
import json
import subprocess
import sys
from pathlib import Path

import pytest

from alignkit.packages import PACKAGES, TORCH_CPU, MissingPackageError, is_here, missing, need

ROOT = Path(__file__).parents[1]
LEFT_OUT = ["torch", "entmax", "sacrebleu", "matplotlib", "sklearn", "transformers", "pyarrow"]
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


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "de").write_text("das Haus\ndas Buch\nein Buch\n" * 4)
    (tmp_path / "en").write_text("the house\nthe book\na book\n" * 4)
    (tmp_path / "gold").write_text("0-0 1-1\n" * 12)
    return tmp_path


def test_all_that_needs_no_network_works(folder):
    calls = [
        ["align", "de", "en", "-o", "links", "--save-model", "joint.npz"],
        ["align", "--model", "joint.npz", "de", "en"],
        ["ibm1", "de", "en", "-o", "links", "--save-model", "m.npz", "--save-scores", "s.npz"],
        ["hmm", "de", "en", "-o", "hmm"],
        ["diagonal", "de", "en", "--symmetrize", "union"],
        ["symmetrize", "links", "hmm"],
        ["evaluate", "gold", "links"],
        ["evaluate", "gold", "links", "--by-class", "--text", "de", "en"],
        ["lexicon", "m.npz"],
        ["cooc", "de", "en", "-o", "c.tsv"],
        ["compare", "de", "en"],
        ["report", "--text", "de", "en", "-o", "r.html"],
        ["doctor"],
    ]
    for call, (code, _, err) in zip(calls, without(calls, folder), strict=True):
        assert code == 0, (call, err)
    assert (folder / "r.html").stat().st_size > 10_000


def test_what_needs_a_network_says_how_to_get_it(folder):
    (folder / "m.pt").touch()
    (folder / "text.tsv").write_text("good\ty\nbad\tn\n")
    calls = [
        ["train", "de", "en", "--valid", "de", "en", "-o", "run"],
        ["compare"],
        ["compare", "--neural", "m.pt"],
        ["align", "--model", "m.pt", "de", "en"],
        ["lab", "--train", "de", "en", "--valid", "de", "en", "-o", "runs"],
        ["classify", "text.tsv", "-o", "runs"],
        ["report", "m.pt", "-o", "r.html"],
        ["experiment", "toy-classifier", "--quick", "-o", "results"],
    ]
    before = sorted(folder.iterdir())
    remedy = f"{TORCH_CPU} && pip install sacrebleu entmax"
    line = f"alignkit: error: networks need torch, which is not installed: {remedy}\n"
    for call, found in zip(calls, without(calls, folder), strict=True):
        assert found == (2, "", line), call
    assert sorted(folder.iterdir()) == before


def test_an_experiment_says_that_there_will_be_no_picture(folder, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "LEFT_OUT", ["matplotlib"])
    calls = [["experiment", "topic-words", "--quick", "-q", "-o", "out", "--set", "seeds=1"]]
    ((code, _, err),) = without(calls, folder)
    assert "there will be no picture (pictures need matplotlib, which is not installed: pip install mat" in err
    assert code == 0
    assert (folder / "out" / "topic-words.json").exists()
    assert not list((folder / "out").glob("*.png"))


def test_the_light_requirements_are_those_of_the_package_without_networks():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")

    def lines(text: str) -> set[str]:
        return {line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")}

    whole = lines(config["options"]["install_requires"])
    light = lines((ROOT / "requirements-classical.txt").read_text())
    assert light < whole
    assert {line.partition(">")[0] for line in whole - light} == {"torch", "entmax", "sacrebleu"}
    assert {line.partition(">")[0] for line in whole} <= {package.distribution for package in PACKAGES.values()}


def test_errors_are_those_of_an_import_too(monkeypatch):
    assert is_here("numpy")
    need("numpy", "torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not is_here("torch")
    with pytest.raises(MissingPackageError, match="networks need torch"):
        need("numpy", "torch")
    assert isinstance(missing("numpy"), ImportError)
    assert str(missing("numpy")) == "alignkit needs numpy, which is not installed: pip install numpy"
