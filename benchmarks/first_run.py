"""Processor time of a command's first run on a machine, which compiles its kernels, and of its second.

    python benchmarks/first_run.py [--runs 3] -o benchmarks/results/first-run

The text is the training part of the sample (940 pairs). Each round has a new, empty cache folder; the time is that
of the whole process, user and system. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

import click
from inputs import fail, run_benchmark

import alignkit_data
from alignkit.support.packages import versions

COMMANDS = ("align", "ibm1", "ibm1 --symmetrize grow-diag-final-and", "diagonal", "hmm")


def cpu_seconds(command: str, cache: str) -> float:
    """User and system time of one process."""
    text = (str(alignkit_data.path(f"train.{side}")) for side in ("de", "en"))
    arguments = [sys.executable, "-m", "alignkit", *command.split(), *text, "-q", "-o", os.devnull]
    environment = {**os.environ, "ALIGNKIT_CACHE": cache}
    _, status, usage = os.wait4(os.posix_spawn(sys.executable, arguments, environment), 0)
    if status:
        fail(f"alignkit {command} failed")
    return usage.ru_utime + usage.ru_stime


def measure(command: str, runs: int) -> dict[str, object]:
    """The medians of the first and of the second run."""
    first, second = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            first.append(cpu_seconds(command, cache))
            second.append(cpu_seconds(command, cache))
    medians = {"first": round(statistics.median(first), 2), "second": round(statistics.median(second), 2)}
    return {"command": command, **medians, "runs": runs}


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="OUT of OUT.json and OUT.md.")
def main(runs: int, output: Path) -> None:
    """Time of the first run and of the second."""
    found = [measure(command, runs) for command in COMMANDS]
    about = {**versions(), "machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    output.with_suffix(".json").write_text(json.dumps({"about": about, "rows": found}, indent=1) + "\n")
    lines = ["| command | first run, s | second run, s |", "|---|---|---|"]
    lines += [f"| `alignkit {row['command']}` | {row['first']:.1f} | {row['second']:.1f} |" for row in found]
    title = f"Processor time (user and system) of whole processes on the sample, median of {runs} rounds.\n\n"
    output.with_suffix(".md").write_text("# The first run\n\n" + title + "\n".join(lines) + "\n")


if __name__ == "__main__":
    run_benchmark(lambda: main(standalone_mode=False))
