"""What is scarce: memory (--max-memory), room on a disk, and time (signals)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import alignkit_data
from alignkit.classical import memory

FILES = [alignkit_data.path("train.de"), alignkit_data.path("train.en")]


@pytest.fixture
def small(monkeypatch):
    """A program that takes no memory itself, so that a limit on a small text means something."""
    monkeypatch.setattr(memory, "BASE", 0)
    monkeypatch.setattr(memory, "LEAST_BLOCK", 200)
    monkeypatch.setattr(memory, "WHOLE_TOKEN", 10_000)
    monkeypatch.setattr(memory, "TEXT", 10_000)
    blocks = []
    block_ranges = memory.block_ranges

    def counted(*arguments):
        ranges = block_ranges(*arguments)
        blocks.append(len(ranges))
        return ranges

    monkeypatch.setattr(memory, "block_ranges", counted)
    return blocks


def least(alignkit, *options, command="ibm1"):
    """The estimate in the message of a refusal."""
    refused = alignkit(command, "-q", *FILES, "--max-memory", "1K", *options)
    assert (refused.code, refused.out) == (2, b"")
    assert refused.err.count("\n") == 1
    return refused.err.split("needs about ")[1].split()[0]


@pytest.mark.parametrize("command", ["ibm1", "diagonal"])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--reverse", "--no-null"],
        ["--dirichlet", "0.01", "--lowercase", "--format", "probabilities"],
        ["--symmetrize", "grow-diag-final-and", "--format", "giza"],
        ["--symmetrize", "product"],
    ],
)
def test_a_limit_changes_no_byte(alignkit, small, tmp_path, command, options):
    files = {}
    for name, limit in (
        ("free", []),
        ("limited", ["--max-memory", least(alignkit, *options[:2], command=command)]),
    ):
        small.clear()
        paths = [tmp_path / f"{name}.{kind}" for kind in ("links", "scores", "model")]
        extra = ["-o", paths[0], "--sentence-scores", paths[1], "--temp-dir", tmp_path]
        extra += [] if "--symmetrize" in options else ["--save-model", paths[2]]
        assert alignkit(command, "-q", *FILES, *options, *limit, *extra).code == 0
        files[name] = [path.read_bytes() for path in paths if path.exists()]
    assert files["free"] == files["limited"]
    assert max(small) > 1  # it was done in blocks
    assert {path.stem for path in tmp_path.iterdir()} == {"free", "limited"}


def test_what_a_limit_cannot_have(alignkit, small, tmp_path):
    limit = ["--max-memory", least(alignkit)]
    scores = alignkit("ibm1", "-q", *FILES, *limit, "--save-scores", tmp_path / "s.npz")
    assert scores.code == 2
    assert "scores need all of the text in memory" in scores.err
    wrong = alignkit("ibm1", *FILES, "--max-memory", "much")
    assert wrong.code == 2
    assert "'much' is not an amount of memory" in wrong.err
    nowhere = alignkit("ibm1", *FILES, *limit, "--temp-dir", tmp_path / "none")
    assert nowhere.code == 2
    assert "--temp-dir" in nowhere.err


def program(*arguments, **options):
    command = [sys.executable, "-m", "alignkit", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_leaves_the_old_file_and_no_other(tmp_path, name, code):
    model, out = tmp_path / "m.npz", tmp_path / "out"
    assert program("ibm1", "-q", "--sample", "--save-model", model, "-o", out).wait(120) == 0
    out.write_bytes(b"old\n")

    def heed():  # who runs this may ignore signals, as nohup does, and a child would too
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)

    process = program("align", "--model", model, "-", "-o", out, stdin=subprocess.PIPE, preexec_fn=heed)
    for _ in range(600):  # until it is writing
        if len(list(tmp_path.iterdir())) > 2:
            break
        time.sleep(0.1)
    process.send_signal(getattr(signal, name))
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in error
    assert out.read_bytes() == b"old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"m.npz", "out"}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("option", ["-o", "--save-model", "--save-scores", "--sentence-scores"])
def test_a_full_disk_leaves_the_old_file(tmp_path, option):
    import resource

    out = tmp_path / "out.npz"
    out.write_bytes(b"old\n")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    links = [] if option == "-o" else ["-o", os.devnull]
    process = program("ibm1", "-q", *FILES, option, out, *links, preexec_fn=limit)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert error.count(b"\n") == 1
    assert b"cannot write" in error
    assert out.read_bytes() == b"old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_a_limit_is_said_as_it_was_given(alignkit, failure):
    failure(alignkit("ibm1", "-q", *FILES, "--max-memory", "1K"), "more than the 1K of --max-memory")
