"""Signals at random moments of the classical commands, and interruptions of the library.

    python benchmarks/signals.py SRC TGT -o benchmarks/results/signals [--signals 300] [--library 100] [--seed 0]

Each signal goes to a new process of one of the commands below, on the first 100 to 20,000 pairs of SRC and TGT,
with one thread or two, at a moment between the start of the program proper (Python itself takes some 20 ms before)
and its usual end. It must end with the exit code that a shell knows the signal by, with one line on standard error
that names it, and leave no file but whole outputs. In the library, KeyboardInterrupt is raised at random moments
of `alignkit.align` and of saving what it made, again and again in one process, whose next alignment must be what
it was. Linux only. Writes OUT.json and OUT.md; exit code 1 if anything failed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import click
from inputs import machine, need_files, run_benchmark

from alignkit.support.packages import versions

FITS = (
    "align --quality fast",
    "align",
    "ibm1",
    "ibm1 --symmetrize grow-diag-final-and",
    "diagonal",
    "hmm",
    "hmm --symmetrize product",
)
COMMANDS = (*FITS, "cooc", "align --model MODEL", "symmetrize")
SIZES = (100, 300, 1000, 3000, 10_000, 20_000)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING = 0.3  # seconds that a process may go on which had done its work when the signal came
LIBRARY = """
import os, random, signal, sys
import alignkit

def interrupt(*_):
    raise KeyboardInterrupt

count, draw = int(sys.argv[3]), random.Random(int(sys.argv[4]))
texts = [[line.split() for line in open(path, encoding="utf-8")] for path in sys.argv[1:3]]

def align(threads):
    aligned = alignkit.align(*texts, threads=threads)
    for _ in range(10):
        aligned.aligner.save("model.npz")
        aligned.write("links")
    return aligned.links.to_strings()

expected, caught = align(2), 0
signal.signal(signal.SIGALRM, interrupt)
while caught < count:
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, 0.5))
        while True:
            align(draw.choice([1, 2]))
    except KeyboardInterrupt:
        caught += 1
    assert set(os.listdir()) <= {"model.npz", "links"}, os.listdir()
assert align(1) == expected
print(caught)
"""


def write_inputs(source: Path, target: Path, folder: Path, environment: dict[str, str]) -> None:
    """Texts of each size, links of them, and a model."""
    for size in SIZES:
        for side, path in (("s", source), ("t", target)):
            with open(path, encoding="utf-8") as lines:
                (folder / f"{side}{size}").write_text("".join(islice(lines, size)), encoding="utf-8")
        for name, links in (("f", "0-0 1-1 2-1"), ("r", "0-0 1-1 1-2")):
            (folder / f"{name}{size}").write_text(f"{links}\n" * size)
    fit = [sys.executable, "-m", "alignkit", "align", "-q", f"{folder}/s100", f"{folder}/t100", "-o", os.devnull]
    subprocess.run([*fit, "--save-model", f"{folder}/model.npz"], check=True, env=environment)


def arguments(command: str, size: int, threads: int, texts: Path) -> list[str]:
    """Those of a process that works in an empty folder."""
    words = command.replace("MODEL", f"{texts}/model.npz").split()
    sides = ("f", "r") if words[0] == "symmetrize" else ("s", "t")
    more = ["--save-model", "model.npz", "--save-scores", "scores.npz"] if command in FITS else []
    more += ["-q", "--threads", str(threads)] if words[0] != "symmetrize" else []
    output = "out.npz" if words[0] == "cooc" else "out"
    return [*words, *(f"{texts}/{side}{size}" for side in sides), "-o", output, *more]


def wait_for_handlers(process: subprocess.Popen[bytes]) -> None:
    """Wait until the program has put its own handlers of signals in place, or ends."""
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        if int(status.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.001)


def trial(
    words: list[str], number: signal.Signals, delay: float, folder: Path, environment: dict[str, str]
) -> dict[str, Any] | None:
    """What is wrong after a signal, and the seconds from it to the end; None if the process ended before it."""
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "alignkit", *words],
        cwd=folder,
        env={**environment, "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for_handlers(process)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    sent = time.perf_counter()
    out, error = process.communicate()
    seconds = time.perf_counter() - sent
    if process.returncode == 0 and seconds < ENDING:
        return None
    code = process.returncode if process.returncode > 0 else 128 - process.returncode
    left = {path.name for path in folder.iterdir()} - {"out", "out.npz", "model.npz", "scores.npz", "temporary"}
    wrong = []
    if code != 128 + number:
        wrong.append(f"exit code {code}")
    said = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    if error.decode() != f"alignkit: error: {said}\n" and (error or process.returncode > 0):
        wrong.append(f"standard error: {error.decode(errors='replace')[-2000:]!r}")
    if out or left or any(temporary.iterdir()):
        wrong.append(f"left behind: {sorted(left | {path.name for path in temporary.iterdir()})}")
    return {"wrong": wrong, "seconds": round(seconds, 2)}


def command_line(count: int, seed: int, texts: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    """A row for each signal that came while a command ran."""
    draw, usual = random.Random(seed), {}  # seconds that a command takes, where it ended before the signal
    found: list[dict[str, Any]] = []
    while len(found) < count:
        command, size, threads = draw.choice(COMMANDS), draw.choice(SIZES), draw.choice([1, 2])
        number, key = draw.choice(SIGNALS), (command, size)
        delay = draw.uniform(0, usual.get(key, 1 + size / 1000))
        with tempfile.TemporaryDirectory() as place:
            row = trial(arguments(command, size, threads, texts), number, delay, Path(place), environment)
        if row is None:
            usual[key] = min(usual.get(key, delay), delay)
            continue
        about = {"command": command, "pairs": size, "threads": threads, "signal": number.name}
        found.append({**about, "delay": round(delay, 3), **row})
        if row["wrong"]:
            print(json.dumps(found[-1]), file=sys.stderr)
    return found


def library(count: int, seed: int, texts: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Interruptions of alignkit.align in one process."""
    words = [sys.executable, "-c", LIBRARY, f"{texts}/s300", f"{texts}/t300", str(count), str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder)
    right = (done.returncode, done.stdout, done.stderr) == (0, f"{count}\n", "")
    return {"interruptions": count, "right": right, "exit code": done.returncode, "messages": done.stderr[-2000:]}


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--signals", type=click.IntRange(min=0), default=300, show_default=True, help="To commands.")
@click.option(
    "--library", "calls", type=click.IntRange(min=0), default=100, show_default=True, help="Of the library."
)
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="OUT of OUT.json and OUT.md.")
def main(source: Path, target: Path, signals: int, calls: int, seed: int, output: Path) -> None:
    """Signals at random moments."""
    need_files(source, target)
    for number in SIGNALS:
        if (
            signal.getsignal(number) == signal.SIG_IGN
        ):  # as under nohup; processes started here would ignore it too
            signal.signal(number, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as place:
        texts, environment = Path(place), dict(os.environ)
        write_inputs(source, target, texts, environment)
        rows = command_line(signals, seed, texts, environment)
        inside = library(calls, seed, texts, environment)
    about = {**versions(), "machine": machine(), "seed": seed}
    output.with_suffix(".json").write_text(
        json.dumps({"about": about, "library": inside, "rows": rows}, indent=1) + "\n"
    )
    all_of, right = (
        Counter(row["command"] for row in rows),
        Counter(row["command"] for row in rows if not row["wrong"]),
    )
    lines = ["| command | signals | ended as they should | slowest end, s |", "|---|---|---|---|"]
    for command in COMMANDS:
        slowest = max((row["seconds"] for row in rows if row["command"] == command), default=0.0)
        lines.append(f"| `{command}` | {all_of[command]} | {right[command]} | {slowest:.1f} |")
    lines.append(f"| all | {len(rows)} | {right.total()} | |")
    lines.append(f"| `alignkit.align`, KeyboardInterrupt | {calls} | {calls if inside['right'] else 'no'} | |")
    output.with_suffix(".md").write_text(f"# Signals\n\n{machine()}.\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))
    sys.exit(0 if inside["right"] and right.total() == len(rows) else 1)


if __name__ == "__main__":
    run_benchmark(lambda: main(standalone_mode=False))
