"""What is scarce: memory, room on a disk, and time (signals)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import alignkit_data
from alignkit_cli.main import run

FILES = [alignkit_data.path("train.de"), alignkit_data.path("train.en")]


def program(*arguments, **options):
    command = [sys.executable, "-m", "alignkit", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_leaves_the_old_file_and_no_other(tmp_path, name, code):
    model, out = tmp_path / "m.npz", tmp_path / "out"
    assert run(["ibm1", "-q", *map(str, FILES), "--save-model", str(model), "-o", os.devnull]) == 0
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
    last = "interrupted" if name == "SIGINT" else f"ended by {name}"
    assert error.decode().splitlines()[-1] == f"alignkit: error: {last}"
    assert b"Traceback" not in error
    assert out.read_bytes() == b"old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"m.npz", "out"}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("option", ["-o", "--save-model", "--save-scores"])
def test_a_full_disk_leaves_the_old_file(alignkit, failure, tmp_path, option):
    import resource

    out = tmp_path / "out.npz"
    links = [] if option == "-o" else ["-o", os.devnull]
    command = ["ibm1", "-q", *FILES, option, out, *links]
    assert alignkit(*command).code == 0  # and kernels are compiled, whose files the limit below would hold for too
    assert out.stat().st_size > 2000
    out.write_bytes(b"old\n")
    heed = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails as on a full disk
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        outcome = alignkit(*command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, heed)
    failure(outcome, "cannot write")
    assert out.read_bytes() == b"old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]
