"""How long a saved model takes for one sentence pair: in Python, and as a process that reads and answers lines.

    python benchmarks/latency.py SRC TGT -o benchmarks/results/latency

A model is fitted on all but the last 500 pairs of the text, which are then aligned one by one, on one thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from inputs import machine, need_files, run_benchmark

import alignkit
from alignkit.text.reading import read_lines

PAIRS, FIRST = 500, 20  # that are timed; that are aligned before, to compile what is not compiled yet


def timed(call: Callable[[str, str], str], pairs: list[tuple[str, str]]) -> tuple[dict[str, float], list[str]]:
    """Milliseconds a pair, and the links."""
    seconds, answers = [], []
    for pair in pairs:
        start = time.perf_counter()
        answers.append(call(*pair))
        seconds.append(time.perf_counter() - start)
    kept = 1000 * np.array(seconds[FIRST:])
    return {"median ms": float(np.median(kept)), "99 % below ms": float(np.percentile(kept, 99))}, answers


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(source: str, target: str, output: str) -> None:
    """Milliseconds for one sentence pair, by a model that is loaded."""
    need_files(source, target)
    sides = [list(read_lines(path)) for path in (source, target)]
    pairs = list(zip(*(side[-PAIRS - FIRST :] for side in sides), strict=True))
    known = [side[:-PAIRS] for side in sides]
    aligner = alignkit.align(*known, threads=1).aligner.with_threads(1)
    rows = {}
    rows["in Python"], answers = timed(
        lambda x, y: alignkit.align([x], [y], model=aligner, threads=1).links.to_strings()[0], pairs
    )
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "m.npz")
        aligner.save(model)
        command = [sys.executable, "-m", "alignkit", "align", "--model", str(model), "--threads", "1", "-q", "-"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, encoding="utf-8", bufsize=1, **pipes) as process:  # type: ignore[call-overload]

            def ask(x: str, y: str) -> str:
                process.stdin.write(f"{x} ||| {y}\n")
                return str(process.stdout.readline()).rstrip("\n")

            rows["align --model M -"], lines = timed(ask, pairs)
            process.stdin.close()
    assert lines == answers
    shown = [
        {"a pair": name, **{key: round(value, 2) for key, value in row.items()}} for name, row in rows.items()
    ]
    facts = {"machine": machine(), "pairs in the model": len(known[0]), "pairs timed": PAIRS, "rows": shown}
    Path(f"{output}.json").write_text(json.dumps(facts, indent=1) + "\n")
    table = ["| a pair | median ms | 99 % below ms |", "|---|---:|---:|"]
    table += [f"| {' | '.join(str(value) for value in row.values())} |" for row in shown]
    text = f"A model of {len(known[0]):,} pairs, {PAIRS} timed, one thread; {facts['machine']}."
    Path(f"{output}.md").write_text("# One pair at a time\n\n" + text + "\n\n" + "\n".join(table) + "\n")
    click.echo(Path(f"{output}.md").read_text())


if __name__ == "__main__":
    run_benchmark(main)
