"""Output that cannot be written whole is an error, however standard output is buffered."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="limits of file sizes are those of Unix")

LIMIT = 1024  # bytes of a file
LIBRARY = "import alignkit, sys; alignkit.align(*sys.argv[1:], iterations=1).write()"
PROGRAM = "from alignkit_cli.main import main; main()"


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error then, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def run(arguments, output, unbuffered):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # it would be cut short, too, and no error until the next import
    command = [sys.executable, "-c", *arguments]
    with open(output, "wb") as stream:
        return subprocess.run(
            command, stdout=stream, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=limit_files
        )


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    lines = {"S": "das haus ist klein\n", "T": "the house is small\n", "links": "0-0 1-1 2-2 3-3\n"}
    for name, line in lines.items():
        (folder / name).write_text(line * 400)
    return folder


COMMANDS = {
    "align": "align S T -q",
    "symmetrize": "symmetrize links links -m union",
    "sentence scores": "align S T -q -o /dev/null --sentence-scores /dev/stdout",
    "help": "align --help-all",
}


@pytest.mark.parametrize(
    ("command", "unbuffered"), [*((command, False) for command in COMMANDS), ("align", True), ("help", True)]
)
def test_a_result_that_is_cut_short_is_an_error(command, unbuffered, text, tmp_path):
    names = {name: str(text / name) for name in ("S", "T", "links")}
    arguments = [names.get(word, word) for word in COMMANDS[command].split()]
    result = run([PROGRAM, *arguments], tmp_path / "out", unbuffered)
    assert result.returncode == 2
    assert result.stderr in (
        f"alignkit: error: {what}: File too large\n" for what in ("output", "cannot write /dev/stdout")
    )
    assert (tmp_path / "out").stat().st_size <= LIMIT


@pytest.mark.parametrize("unbuffered", [True, False], ids=["unbuffered", "buffered"])
def test_so_it_is_in_the_library(unbuffered, text, tmp_path):
    arguments = [LIBRARY, str(text / "S"), str(text / "T")]
    cut = run(arguments, tmp_path / "cut", unbuffered)
    assert cut.returncode != 0
    assert "File too large" in cut.stderr
