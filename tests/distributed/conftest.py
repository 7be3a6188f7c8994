"""Programs run by torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def torchrun(ranks: int, *program: str | Path) -> list[str]:
    """The command that starts a program, a script or ``-m`` and a module, on so many ranks of this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [*launcher, *map(str, program)]


def environment() -> dict[str, str]:
    """That of this process, with one thread, and without what an outer torchrun may have set."""
    inner = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "MASTER"))}
    return {**inner, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def our_lines(stderr: str) -> list[str]:
    """The lines that alignkit wrote to standard error; torchrun adds a report of its own."""
    return [line for line in stderr.splitlines() if line.startswith("alignkit: ")]


@pytest.fixture
def start(tmp_path: Path):  # type: ignore[no-untyped-def]
    """``start(ranks, code)``: a process of torchrun that runs the code at each rank; it is ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(ranks: int, code: str) -> subprocess.Popen[str]:
        script = tmp_path / "program.py"
        script.write_text(code)
        running.append(
            subprocess.Popen(
                torchrun(ranks, script),
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)
