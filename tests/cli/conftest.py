"""Runs the program on real files, in this process."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest

from alignkit_cli.main import run

# A bitext whose words translate one to one, each in varied company, so that IBM 1 has one answer.
SOURCE = "a b c\nb a\nc a\nb c d\nd a\nd b\n"
TARGET = "A B C\nB A\nC A\nB C D\nD A\nD B\n"
DIAGONAL = ["0-0 1-1 2-2", "0-0 1-1", "0-0 1-1", "0-0 1-1 2-2", "0-0 1-1", "0-0 1-1"]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()


@pytest.fixture
def alignkit(capfdbinary, monkeypatch):
    def call(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Outcome(code, out, err.decode())

    return call


@pytest.fixture
def write(tmp_path):
    def make(name: str, data: bytes | str):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return make


@pytest.fixture
def failure():
    """Checks that a call failed as a user is promised: code 2, one line, nothing on standard output."""

    def check(outcome: Outcome, *parts: str) -> None:
        assert outcome.code == 2
        assert outcome.out == b""
        assert outcome.err.count("\n") == 1, outcome.err
        assert "Traceback" not in outcome.err
        for part in parts:
            assert part in outcome.err

    return check


@pytest.fixture
def text(write):
    return write("s.txt", SOURCE), write("t.txt", TARGET)


@pytest.fixture
def enough_text(write):
    """The same five times, so that no warning says that it is little."""
    return write("s.txt", SOURCE * 5), write("t.txt", TARGET * 5)
