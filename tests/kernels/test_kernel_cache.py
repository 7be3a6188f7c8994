"""Compiled kernels are kept in a folder of the user's, found again, and never outlive their sources."""

from __future__ import annotations

import inspect
import logging
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alignkit.errors import AlignkitError
from alignkit.kernels import cache_folder

KERNELS = Path(__file__).parents[2] / "alignkit" / "kernels"
CALLER = """from alignkit.kernels.callee import change
from alignkit.kernels.compile import kernel


@kernel
def total(values):
    out = 0
    for value in values:
        out += change(value)
    return out
"""
CALLEE = """from alignkit.kernels.compile import kernel


@kernel
def change(value):
    return value {}
"""
PROGRAM = """
import numpy as np
from alignkit.kernels.caller import total

print(total(np.arange(4)), sum(total.dispatcher.stats.cache_hits.values()))
"""


@pytest.fixture
def room(tmp_path):
    """A package of two kernels, one calling the other, with the real decorator."""
    kernels = tmp_path / "alignkit" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("__init__.py", "compile.py", "cache_folder.py"):
        shutil.copy(KERNELS / name, kernels / name)
    shutil.copy(KERNELS.parent / "errors.py", tmp_path / "alignkit")
    (tmp_path / "alignkit" / "__init__.py").touch()
    (kernels / "caller.py").write_text(CALLER)
    (kernels / "callee.py").write_text(CALLEE.format("+ 1"))
    return tmp_path


@pytest.fixture
def run(room):
    def call(before: str = "", **environment: str) -> tuple[str, str]:
        """What the program prints on standard output and error."""
        # Python's own cache of byte code goes by whole seconds and sizes, which two quick edits may share.
        command = [sys.executable, "-B", "-c", before + PROGRAM]
        done = subprocess.run(command, cwd=room, capture_output=True, text=True, check=True, env=environment)
        return done.stdout.strip(), done.stderr

    return call


def compiled(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


def test_a_file_with_a_flipped_bit_is_not_trusted(tmp_path, caplog):
    place = tmp_path / "new" / "kernel.nbc"
    assert cache_folder.read_checked(place) is None
    cache_folder.write_checked(place, b"code")
    assert cache_folder.read_checked(place) == b"code"
    assert list(place.parent.iterdir()) == [place]
    content = place.read_bytes()
    damaged = [content[:-1], content + b"0", b""]
    for n, byte in enumerate(content):
        damaged.append(content[:n] + bytes([byte ^ 1 << n % 8]) + content[n + 1 :])
    with caplog.at_level(logging.WARNING, "alignkit"):
        for other in damaged:
            place.write_bytes(other)
            assert cache_folder.read_checked(place) is None
    assert caplog.messages == [f"{place} is damaged; it is rebuilt"] * len(damaged)


@pytest.mark.parametrize(("name", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")])
def test_an_environment_in_which_numba_cannot_compile_is_one_line(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(AlignkitError, match=f"unset {name}"):
        runpy.run_path(str(KERNELS / "__init__.py"))


def test_damaged_and_changed_kernels_are_compiled_again(room, run):
    home = {"HOME": str(room / "home")}
    patience = "import alignkit.kernels.compile as c, logging; logging.basicConfig(level=20); c.PATIENCE = -1\n"
    out, err = run(patience, **home)
    assert (out, err.count("compiling for this machine"), err.count("\n")) == ("10 0", 1, 1)
    for path in compiled(room):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    out, err = run(**home)
    assert (out, err.count("is damaged; it is rebuilt\n"), err.count("\n")) == ("10 0", 1, 1)
    assert run(**home) == ("10 1", "")  # from the disk
    (room / "alignkit" / "kernels" / "callee.py").write_text(CALLEE.format("+ 11"))
    assert run(**home)[0] == "50 0"  # caller.py is as it was, and its old machine code adds 1
    assert compiled(room) == compiled(room / "home" / ".cache" / "alignkit" / "kernels") != []


ALLOCATING = """
import numpy as np
from alignkit.kernels.halving import halves

print(halves(np.array([8, 4])).tolist(), sum(halves.dispatcher.stats.cache_hits.values()))
try:
    halves(np.array([6, 3]))
except ValueError as error:
    print(*error.args, "numba.np.arrayobj" in sys.modules)
"""
HALVING = """import numpy as np

from alignkit.kernels.compile import allocating_kernel


@allocating_kernel
def half(value):
    if value % 2:
        raise ValueError("an odd number", value)
    return value // 2


@allocating_kernel
def halves(values):
    out = np.empty(len(values), np.int64)
    for place, value in enumerate(values):
        out[place] = half(value)
    return out
"""


def test_a_kept_kernel_creates_arrays_and_raises_errors_without_the_compiler(room):
    (room / "alignkit" / "kernels" / "halving.py").write_text(HALVING)
    command = [sys.executable, "-B", "-c", f"import sys{ALLOCATING}"]
    environment = {"HOME": str(room / "home")}
    for expected in ("[4, 2] 0\nan odd number 3 True\n", "[4, 2] 1\nan odd number 3 False\n"):
        done = subprocess.run(command, cwd=room, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout == expected


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"ALIGNKIT_CACHE": "mine", "NUMBA_CACHE_DIR": "numbas"}, "mine/kernels"),
        ({"NUMBA_CACHE_DIR": "numbas"}, "numbas/alignkit/kernels"),
        ({"XDG_CACHE_HOME": "{}/xdg"}, "xdg/alignkit/kernels"),
    ],
)
def test_the_folder_can_be_chosen(tmp_path, monkeypatch, environment, place):
    monkeypatch.chdir(tmp_path)
    for name in ("ALIGNKIT_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert cache_folder.kernel_folder("0.1", "processor").parent == tmp_path / place


def test_without_a_folder_it_warns_once_and_runs(room, run):
    (room / "file").touch()
    out, err = run(ALIGNKIT_CACHE=str(room / "file"))
    assert out == "10 0"
    assert err.count("cannot keep compiled kernels") == 1
    assert "set ALIGNKIT_CACHE to a folder" in err
    assert compiled(room) == []


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "ALIGNKIT_CACHE", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user whom the system does not know
    assert cache_folder.make_writable(cache_folder.base_folder()) == "there is no home folder"
    assert not Path("~").exists()


def test_old_folders_are_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_CACHE", str(tmp_path))
    own, new, old = (cache_folder.kernel_folder("0.1", processor) for processor in ("own", "new", "old"))
    foreign = own.parent / "notes"
    ages = {own: 99, new: 1, old: 31, foreign: 99}
    for folder, days in ages.items():
        folder.mkdir(parents=True)
        (folder / "kernel.nbi").touch()
        then = time.time() - days * cache_folder.DAY
        os.utime(folder, (then, then))
    cache_folder.prune(own)
    assert sorted(own.parent.iterdir()) == sorted([own, new, foreign])
    monkeypatch.setattr(cache_folder, "KEPT_FOLDERS", 0)
    assert cache_folder.make_writable(own) is None
    cache_folder.prune(own)
    assert sorted(own.parent.iterdir()) == sorted([own, foreign])
    assert time.time() - own.stat().st_mtime < cache_folder.DAY


NEWER = "import numba.experimental.function_type\ndel numba.core.caching.NullCache\n"


def test_a_numba_without_the_private_names_keeps_kernels_in_its_own_cache(room, run):
    home = {"HOME": str(room / "home")}
    assert run(NEWER, **home) == ("10 0", "")
    assert run(NEWER, **home) == ("10 1", "")
    (room / "alignkit" / "kernels" / "callee.py").write_text(CALLEE.format("+ 11"))
    assert run(NEWER, **home)[0] == "50 0"
    assert compiled(room) == compiled(room / "home" / ".cache" / "alignkit" / "kernels") != []
    assert run(NEWER, ALIGNKIT_CACHE="/dev/null/nowhere")[0] == "50 0"


def test_private_names_of_numba_are_there():
    """Without them kernels take longer to load; ``_nrt`` and ``_numba_type_`` are needed."""
    import numba
    from numba.core import caching, compiler, options, serialize
    from numba.core.runtime import nrt
    from numba.core.typing import typeof

    assert {"Allocate", "Free"} <= set(nrt._nrt.c_helpers)
    needed = {
        caching.NullCache: ("load_overload", "save_overload"),
        compiler.CompileResult: ("_reduce", "_rebuild", "signature", "library"),
        serialize: ("dumps",),
    }
    lacking = [name for owner, names in needed.items() for name in names if not hasattr(owner, name)]
    assert not lacking, f"Numba {numba.__version__} lacks {lacking}"
    assert isinstance(numba.njit(lambda: None)._cache, caching.NullCache)
    assert "_nrt" in inspect.getsource(options.DefaultOptions)
    assert "_numba_type_" in inspect.getsource(typeof)
