"""``alignkit doctor`` tells what is there, and its exit code whether that is enough."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from alignkit.support.packages import with_extra
from alignkit_cli.main import run


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_machine_that_is_well(cache, capsys):
    folder = cache / "kernels" / "some"
    folder.mkdir(parents=True)
    (folder / "kernel.nbi").write_bytes(bytes(1234))
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert (found["cache_folder"], found["cache_bytes"]) == (str(cache / "kernels"), 1234)
    assert found["threads"] >= 1
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    import numpy
    import torch

    assert found["packages"]["numpy"] == numpy.__version__
    assert bool(found["gpus"]) == torch.cuda.is_available()
    assert not {"numpy", "torch"} & {each["distribution"] for each in found["missing"]}


def test_what_is_missing_and_what_that_means(cache, capsys, monkeypatch):
    for name in ("torch", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"not installed: torch, for networks ({with_extra('neural')})" in out
    assert f"not installed: matplotlib, for pictures ({with_extra('plot')})" in out
    assert out.endswith("no problems found\n")
    assert run(["doctor", "--json"]) == 0
    torch = {"distribution": "torch", "needed_for": "networks", "extra": "neural"}
    assert torch in json.loads(capsys.readouterr().out)["missing"]
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert run(["doctor"]) == 1
    assert "problem: alignkit needs tqdm: pip install tqdm" in capsys.readouterr().out


def test_a_package_without_a_library_of_the_system(cache, capsys, monkeypatch, tmp_path):
    problem = "links learned from gold links need lightgbm, which cannot be loaded: libgomp.so.1: cannot open"
    (tmp_path / "lightgbm.py").write_text('raise OSError("libgomp.so.1: cannot open")')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lightgbm", raising=False)
    assert run(["doctor"]) == 1
    assert f"problem: {problem}; install that library" in capsys.readouterr().out
    texts = [str(tmp_path / name) for name in ("src", "tgt", "gold")]
    for path in texts:
        Path(path).write_text("0-0\n" * 20)
    assert run(["align", *texts[:2], "--gold", texts[2]]) == 2
    assert f"{problem}; install that library" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALIGNKIT_CACHE", str(tmp_path / "file"))
    assert run(["doctor", "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "compiled kernels cannot be kept in" in problem
    assert "set ALIGNKIT_CACHE to a folder that can be written" in problem
