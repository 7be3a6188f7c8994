"""Time of the agreement metrics over many rows, and of Kendall's tau by SciPy and by ours.

    python benchmarks/metrics.py [--rows 10000000] [--length 20] [--threads 1 2] -o benchmarks/results/metrics

Rows are random numbers, in matrices of 20 rows; the bootstrap is in the time, the compilation of kernels is not.
SciPy, which has no tau by rows, gets 2,000 of them, and both must find the same sum. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import run_benchmark

from alignkit.metrics.agreement import agreement
from alignkit.metrics.kendall import kendall, sum_tau
from alignkit.scores import Scores, flat_offsets

HEIGHT = 20
SOME = 2_000
Row = dict[str, Any]


def random_scores(rows: int, length: int, seed: int) -> Scores:
    """Matrices of 20 rows of uniform numbers."""
    shapes = np.tile(np.array([[HEIGHT, length]], np.int32), (rows // HEIGHT, 1))
    offsets = flat_offsets(shapes)
    return Scores(np.random.default_rng(seed).random(offsets[-1], np.float32), offsets, shapes)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """(seconds, CPU seconds) of one run."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return round(time.perf_counter() - start, 3), round(time.process_time() - cpu, 3)


def measure(rows: int, length: int, threads: int) -> list[Row]:
    """A row for each metric."""
    u, v = random_scores(rows, length, 0), random_scores(rows, length, 1)
    few = random_scores(HEIGHT, length, 2)
    metrics: dict[str, Callable[[Scores, Scores], Any]] = {
        "A, top 5 %, with chance and interval": lambda u, v: agreement(u, v, threads=threads),
        "tau-b, with interval": lambda u, v: kendall(u, v, threads=threads),
    }
    found = []
    for name, metric in metrics.items():
        metric(few, few)
        seconds, cpu = timed(lambda metric=metric: metric(u, v))  # type: ignore[misc]
        found.append({"metric": name, "rows": rows, "threads": threads, "seconds": seconds, "cpu_seconds": cpu})
    return found


def beside_scipy(length: int) -> Row:
    """SciPy's time for some rows over ours, one thread."""
    from scipy.stats import kendalltau

    u, v = (random_scores(SOME, length, seed) for seed in (0, 1))
    pairs = list(zip(u.values.reshape(-1, length), v.values.reshape(-1, length), strict=True))
    start = time.perf_counter()
    theirs = sum(kendalltau(a, b).statistic for a, b in pairs)
    spent = time.perf_counter() - start
    ours = min(timed(lambda: [sum_tau(u, v, 1) for _ in range(100)])[1] for _ in range(3)) / 100
    if not np.isclose(theirs, sum_tau(u, v, 1).total.sum()):
        raise SystemExit(f"SciPy finds {theirs} where we find {sum_tau(u, v, 1).total.sum()}")
    return {"rows": SOME, "scipy_seconds": round(spent, 3), "times_ours": round(spent / ours)}


@click.command(help=__doc__.splitlines()[0] if __doc__ else None)
@click.option("--rows", type=click.IntRange(HEIGHT), default=10_000_000, show_default=True)
@click.option("--length", type=click.IntRange(2), default=20, show_default=True)
@click.option("--threads", type=click.IntRange(1), multiple=True, default=(1, 2), show_default=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(rows: int, length: int, threads: tuple[int, ...], output: str) -> None:
    measured = [row for number in threads for row in measure(rows, length, number)]
    scipy = beside_scipy(length)
    machine = f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
    Path(f"{output}.json").write_text(
        json.dumps({"machine": machine, "length": length, "results": measured, "scipy": scipy}, indent=1) + "\n"
    )
    lines = [
        "# The metrics' time",
        "",
        f"Rows of {length} random numbers; {machine}.",
        "",
        "| metric | rows | threads | seconds | CPU seconds |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {r['metric']} | {r['rows']:,} | {r['threads']} | {r['seconds']} | {r['cpu_seconds']} |"
            for r in measured
        ),
        "",
        f"Tau-b of {SOME:,} rows by SciPy: {scipy['scipy_seconds']} s, {scipy['times_ours']:,} times ours.",
    ]
    Path(f"{output}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    run_benchmark(main)
