"""Machine code on disk is not used once any file of kernels has changed, a callee's file included."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

JIT = Path(__file__).parents[1] / "alignkit" / "kernels" / "jit.py"
# Python's own cache of byte code goes by whole seconds and sizes, which two quick edits may share.
ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1"}
CALLER = """from kernelroom.jit import kernel
from kernelroom.callee import change


@kernel
def total(values):
    out = 0
    for value in values:
        out += change(value)
    return out
"""
CALLEE = """from kernelroom.jit import kernel


@kernel
def change(value):
    return value {}
"""


def test_a_changed_callee_is_compiled_again(tmp_path):
    room = tmp_path / "kernelroom"
    room.mkdir()
    shutil.copy(JIT, room / "jit.py")
    (room / "__init__.py").touch()
    (room / "caller.py").write_text(CALLER)
    program = "import numpy as np; from kernelroom.caller import total as t; print(t(np.arange(4)), "
    program += "sum(t.dispatcher.stats.cache_hits.values()))"

    def run() -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=ENVIRONMENT)
        return done.stdout.strip()

    (room / "callee.py").write_text(CALLEE.format("+ 1"))
    assert run() == "10 0"
    assert run() == "10 1"  # from the disk
    (room / "callee.py").write_text(CALLEE.format("+ 11"))
    assert run() == "50 0"  # caller.py is as it was, and its old machine code adds 1
