"""Compiled kernels are kept in a folder of the user's, found again, and never outlive their sources."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import NullCache

from alignkit.errors import AlignkitError
from alignkit.kernels import cache_folder
from alignkit.kernels import compile as compile_module
from alignkit.kernels.compile import allocating_kernel, kernel

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
    for name in ("__init__.py", "compile.py", "compiler.py", "cache_folder.py"):
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
    assert caplog.messages == [f"{place} is damaged; it is made again"] * len(damaged)


@pytest.mark.parametrize(("name", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")])
def test_an_environment_in_which_numba_cannot_compile_is_one_line(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(AlignkitError, match=f"unset {name}"):
        runpy.run_path(str(KERNELS / "__init__.py"))


def test_damaged_and_changed_kernels_are_compiled_again(room, run):
    home = {"HOME": str(room / "home")}
    assert run(**home) == ("10 0", "")
    for path in compiled(room):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    out, err = run(**home)
    assert (out, err.count("is damaged; it is made again\n"), err.count("\n")) == ("10 0", 1, 1)
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


def test_it_says_once_that_compiling_takes_a_while(run, room):
    patient = "import alignkit.kernels.compile as c, logging; logging.basicConfig(level=20); c.PATIENCE = {}\n"
    said = {}
    for patience in (-1, 60):
        (room / "alignkit" / "kernels" / "callee.py").write_text(CALLEE.format(f"+ {patience}"))
        said[patience] = run(patient.format(patience), HOME=str(room / "home"))[1]
    assert said[-1].count("compiling for this machine") == 1
    assert said[60] == ""


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


@kernel
def half(value):
    if value % 2:
        raise ValueError("an odd number")
    return value // 2


@kernel
def quarter(value):
    return half(half(value))


@allocating_kernel
def quarters(values):
    out = np.empty(len(values), np.int64)
    for place, value in enumerate(values):
        out[place] = quarter(value)
    return out


def test_functions_that_only_kernels_call_get_no_machine_code(monkeypatch):
    monkeypatch.setattr(compile_module, "_cache_class", lambda: lambda function: NullCache())
    assert gc.isenabled()
    assert quarters(np.array([8, 4])).tolist() == [2, 1]
    with pytest.raises(ValueError, match="an odd number"):  # two calls down
        quarters(np.array([6]))
    assert gc.isenabled()
    has_code = {}
    for dispatcher in (half.inner, quarter.inner, quarters.dispatcher):
        (overload,) = dispatcher.overloads.values()
        has_code[dispatcher.py_func.__name__] = overload.library._compiled_object is not None
    assert has_code == {"half": False, "quarter": False, "quarters": True}


def test_private_names_of_numba_are_there():
    """Where a new Numba renames them: mend compile.py and compiler.py, then raise the bound in setup.cfg."""
    import numba
    from numba.core import caching, codegen, compiler, cpu, options, serialize, types
    from numba.core.runtime import nrt

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
    library = [
        "_codegen",
        "_data_layout",
        "_engine",
        "_linking_libraries",
        "_optimize_functions",
        "_optimize_final_module",
        "_finalize_final_module",
        "_finalize_dynamic_globals",
        "_verify_declare_only_symbols",
        "_ensure_finalized",
        "_finalized",
        "enable_object_caching",
        "has_dynamic_globals",
        "get_pointer_to_function",
        "is_symbol_defined",
        "set_env",
    ]
    lacking = sorted(name for name in library if name not in inspect.getsource(codegen))
    assert not lacking, f"Numba {numba.__version__} lacks {lacking} of numba.core.codegen"
    assert "library.codegen.set_env" in inspect.getsource(cpu.CPUContext.get_executable)
    expected_arguments = ["self", "typingctx", "targetctx", "library", "args", "return_type", "flags", "locals"]
    assert list(inspect.signature(compiler.CompilerBase.__init__).parameters) == expected_arguments
    assert hasattr(types, "Dispatcher")
