"""Outputs that cannot be written whole: full disks, limits of file sizes, closed streams, readers that end early.

    python benchmarks/outputs.py -o benchmarks/results/outputs [--tries 600] [--seed 0]

Each try runs one of the commands below on the test pairs of the sample in a new process, with standard output
buffered or not, in one of these ways. A size limit (RLIMIT_FSIZE) or a full file system of 256 KB (only root can
mount it; else these tries are left out) has room for a random part of the output. The exit code may be 0 only if
the output is whole. Otherwise it must be 2, with one line of error on standard error, and a file named with
-o must be as it was before; or 141, without a line, where the reader of a pipe has closed it. Linux only.
Writes OUT.md, and to standard error the tries that failed; exit code 1 if there are any.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
from inputs import machine, run_benchmark

import alignkit_data
from alignkit.support.files import check_writable

#: Commands that write to standard output. Capitals are files: S and T the text, LINKS, MODEL, and so on.
COMMANDS = (
    "align S T -q --quality fast",
    "align S T -q --quality fast --format json",
    "ibm1 S T -q",
    "diagonal S T -q",
    "align S T -q --model MODEL",
    "align - -q --model MODEL --format json",
    "symmetrize LINKS LINKS",
    "atools -i LINKS -j LINKS -c union",
    "remap S T LINKS --to PIECES.S PIECES.T",
    "evaluate GOLD LINKS",
    "evaluate GOLD LINKS --json",
    "show S T LINKS --pairs 1-50",
    "gold S T -q",
    "diagnose S T LINKS -q",
    "lexicon MODEL -q",
    "phrases S T LINKS -q",
    "terms S T LINKS -q",
    "project TAGGED T LINKS -q",
    "compare S T -q",
    "doctor",
    "--help-all",
)
#: Those of them that have the option -o.
WITH_OUTPUT = (
    "align",
    "ibm1",
    "diagonal",
    "symmetrize",
    "remap",
    "gold",
    "lexicon",
    "phrases",
    "terms",
    "project",
)
DISK = 256  # KB of the file system that fills up
PAGE = 4096  # bytes that a file system gives at a time


class Tries:
    """Commands, the output that each writes when nothing is in its way, and a folder for outputs.

    Args:
        folder: an empty one.
        disk: an empty file system of :data:`DISK` KB; None: there is none.
    """

    def __init__(self, folder: Path, disk: Path | None) -> None:
        self.folder, self.disk = folder, disk
        names = {"S": "test.de", "T": "test.en", "GOLD": "test.gold", "TAGGED": "test.tagged.de"}
        names |= {f"PIECES.{side}": f"test.pieces.{end}" for side, end in (("S", "de"), ("T", "en"))}
        self.files = {name: str(alignkit_data.path(file)) for name, file in names.items()}
        self.files |= {name: str(folder / name) for name in ("LINKS", "MODEL", "JOINED")}
        fit = ["align", self.files["S"], self.files["T"], "-q", "-o", self.files["LINKS"]]
        subprocess.run([*self.program(True), *fit, "--save-model", self.files["MODEL"]], check=True)
        sides = [Path(self.files[side]).read_text(encoding="utf-8").splitlines() for side in "ST"]
        lines = "".join(f"{source} ||| {target}\n" for source, target in zip(*sides, strict=True))
        Path(self.files["JOINED"]).write_text(lines, encoding="utf-8")
        self.whole = {command: self.run(command, True, subprocess.PIPE)[1] for command in COMMANDS}

    @staticmethod
    def program(is_buffered: bool) -> list[str]:
        return [sys.executable, *([] if is_buffered else ["-u"]), "-B", "-m", "alignkit"]

    def run(
        self,
        command: str,
        is_buffered: bool,
        output: int,
        more: tuple[str, ...] = (),
        prepare: Callable[[], None] | None = None,
        taken: int | None = None,
    ) -> tuple[int, bytes, bytes]:
        """The exit code and the streams of a command.

        Args:
            command: one of :data:`COMMANDS`.
            is_buffered: False: Python has the option -u.
            output: standard output, or PIPE.
            more: further arguments.
            prepare: called in the new process.
            taken: the bytes of the pipe after which its reader closes it; None: all.
        """
        words = [self.files.get(word, word) for word in command.split()]
        with open(self.files["JOINED"] if "-" in words else os.devnull, "rb") as text:
            process = subprocess.Popen(
                [*self.program(is_buffered), *words, *more],
                stdin=text,
                stdout=output,
                stderr=subprocess.PIPE,
                preexec_fn=prepare,
            )
        if taken is None:
            out, error = process.communicate()
            return process.returncode, out or b"", error
        assert process.stdout is not None
        assert process.stderr is not None
        out = process.stdout.read(taken) if taken else b""
        process.stdout.close()
        error = process.stderr.read()
        return process.wait(), out, error

    def trial(self, command: str, way: str, is_buffered: bool, room: int) -> str | None:
        """What is wrong after a command that ran in one of :data:`WAYS`; None: nothing.

        Args:
            room: the bytes that can be written, where the way limits them.
        """
        path = (self.disk if self.disk is not None and "disk" in way else self.folder) / "out"
        path.write_bytes(b"before\n")
        whole, prepare, taken, filler = self.whole[command], None, None, None
        more = ("-o", str(path)) if way.endswith("-o") else ()
        limit = max(room, len(b"before\n"))
        with ExitStack() as stack:
            output = subprocess.PIPE
            if way == "/dev/full":
                output = stack.enter_context(open("/dev/full", "wb")).fileno()
            elif "reader" not in way and not more and "standard" not in way:
                output = stack.enter_context(open(path, "wb")).fileno()
            if way.startswith("size limit"):

                def prepare() -> None:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else the signal ends the process
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            elif way.startswith("full disk"):
                filler = path.with_name("filler")
                # A file of before, if there is one, has a page of its own.
                free = DISK * 1024 // PAGE - room // PAGE - (1 if more else 0)
                filler.write_bytes(bytes(free * PAGE))
            elif "standard" in way:
                number = ("input", "output", "error").index(way.split()[-1])

                def prepare() -> None:
                    os.close(number)

            elif "reader" in way:
                taken = 0 if "at once" in way else room
            code, out, error = self.run(command, is_buffered, output, more, prepare, taken)
        named = path.read_bytes()
        others = {each.name for each in path.parent.iterdir()} - {"out", "filler", *self.files}
        path.unlink()
        if filler is not None:
            filler.unlink()
        if others:
            return f"left behind {sorted(others)}"
        reached = b"" if way == "/dev/full" else out if output == subprocess.PIPE and not more else named
        messages = [line for line in error.splitlines() if b": error: " in line]
        if code == 0 and not messages:
            # What fits into a pipe is written before its reader closes it.
            is_right = whole.startswith(reached) if "reader" in way else reached == whole
            return None if is_right else f"code 0 and {len(reached)} of {len(whole)} bytes"
        is_error = len(messages) == 1 and error.endswith(messages[0] + b"\n")
        may_fail = way not in ("no standard error", "no standard input") and "reader" not in way
        if not (code == 2 and is_error and may_fail) and not (code == 141 and not messages and "reader" in way):
            return f"code {code}, {error[-500:]!r}"
        if more:
            return None if named == b"before\n" else "the file is not as it was before"
        return None if whole.startswith(reached) else "another output"


WAYS = (
    *("size limit", "size limit, -o", "full disk", "full disk, -o", "/dev/full"),
    *("no standard output", "no standard error", "no standard input"),
    *("reader closes at once", "reader closes early"),
)


@click.command()
@click.option("--tries", type=click.IntRange(min=1), default=600, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="OUT of OUT.md.")
def main(tries: int, seed: int, output: Path) -> None:
    """Outputs that cannot be written whole."""
    check_writable(output.with_suffix(".md"))  # before minutes of work
    draw = random.Random(seed)
    tried, right, wrong = Counter[str](), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        disk: Path | None = Path(place) / "disk"
        disk.mkdir()
        (folder := Path(place) / "files").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}k", "tmpfs", str(disk)]
        if shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0:
            stack.callback(subprocess.run, ["umount", str(disk)], check=True)
        else:
            disk = None
        ways = [way for way in WAYS if disk is not None or "disk" not in way]
        runs = Tries(folder, disk)
        for n in range(tries):
            command, way = draw.choice(COMMANDS), ways[n % len(ways)]
            if "-o" in way:
                command = draw.choice([each for each in COMMANDS if each.split()[0] in WITH_OUTPUT])
            elif way == "no standard input":
                command = draw.choice([each for each in COMMANDS if " - " not in each])
            is_buffered, room = draw.random() < 0.5, draw.randrange(len(runs.whole[command]))
            problem = runs.trial(command, way, is_buffered, min(room, (DISK - 8) * 1024))
            tried[way] += 1
            right[way] += problem is None
            if problem is not None:
                wrong.append(f"{way}: {command}, {'' if is_buffered else 'un'}buffered, room {room}: {problem}")
                print(wrong[-1], file=sys.stderr)
    lines = ["| what was in the way | tries | ended as they should |", "|---|---|---|"]
    lines += [f"| {way} | {tried[way]} | {right[way]} |" for way in ways]
    lines.append(f"| all | {tried.total()} | {right.total()} |")
    output.with_suffix(".md").write_text(
        f"# Outputs that cannot be written whole\n\n{machine()}. Seed {seed}, {len(COMMANDS)} commands.\n\n"
        + "\n".join(lines)
        + "\n"
    )
    print("\n".join(lines))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    run_benchmark(lambda: main(standalone_mode=False))
