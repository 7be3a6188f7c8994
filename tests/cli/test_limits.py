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
