"""Peak memory of `alignkit ibm1` by the size of the text.

    python benchmarks/memory.py SRC TGT --folder DIR -o benchmarks/results/memory

The texts are enlarged as in benchmarks/speed.py: lines over and over, rarer words changed in each copy, so that
the vocabulary and the pairs of words that meet grow with the text. They are written to DIR, which needs 140 MB for
a million pairs, and used again if they are there. Peak memory is the largest resident set of the process, as the
kernel counts it. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
from inputs import machine, need_files, run_benchmark
from speed import enlarged, read_pairs

FAST_ALIGN = 2.3  # GB by million pairs, as published for it at scale
# A process starts with the peak memory of the one that forked it, so a small one of its own stands between.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss * 1024, used.ru_utime + used.ru_stime)
sys.exit(code)
"""


def write_texts(source: str, target: str, sizes: list[int], folder: Path) -> None:
    """DIR/source-N and DIR/target-N for each size, the smaller ones the beginning of the larger ones."""
    wanted = [n for n in sizes if not (folder / f"target-{n}").exists()]
    if not wanted:
        return
    need_files(source, target)
    folder.mkdir(parents=True, exist_ok=True)
    files = {n: [open(folder / f"{side}-{n}.new", "w") for side in ("source", "target")] for n in wanted}  # noqa: SIM115
    for place, pair in enumerate(enlarged(read_pairs(source, target), max(wanted))):
        for size, sides in files.items():
            if place < size:
                for stream, text in zip(sides, pair, strict=True):
                    stream.write(f"{text}\n")
    for size, sides in files.items():
        for stream, side in zip(sides, ("source", "target"), strict=True):
            stream.close()
            os.replace(stream.name, folder / f"{side}-{size}")


def measure(folder: Path, size: int, threads: int, links: Path) -> dict[str, Any]:
    """A row: memory and time of one run."""
    command = [sys.executable, "-m", "alignkit", "ibm1", "-q", "--threads", str(threads), "-o", str(links)]
    command += [str(folder / f"source-{size}"), str(folder / f"target-{size}")]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, check=False)
    seconds = time.perf_counter() - start
    peak, cpu = (float(x) for x in done.stdout.split())
    return {
        "pairs": size,
        "refused": done.returncode == 2,
        "peak_gb": peak / 1e9,
        "seconds": seconds,
        "cpu_seconds": cpu,
    }


def growth(rows: list[dict[str, Any]]) -> float:
    """GB by added million pairs, between the smallest and the largest text."""
    low, high = rows[0], rows[-1]
    return (high["peak_gb"] - low["peak_gb"]) / ((high["pairs"] - low["pairs"]) / 1e6)


def markdown(result: dict[str, Any]) -> str:
    lines = ["# Peak memory of `alignkit ibm1`", "", f"{result['machine']}; --threads {result['threads']}.", ""]
    lines += ["| pairs | peak GB | wall s | CPU s |", "|---|---|---|---|"]
    for row in result["rows"]:
        figures = f"{row['peak_gb']:.2f} | {row['seconds']:.0f} | {row['cpu_seconds']:.0f}"
        if row["refused"]:
            figures = "refused | |"
        lines.append(f"| {row['pairs']:,} | {figures} |")
    if "growth_gb_per_million" in result:
        text = f"{result['growth_gb_per_million']:.2f} GB by added million pairs of distinct text"
        lines += ["", f"Growth: {text} (fast_align: about {FAST_ALIGN})."]
    return "\n".join([*lines, "", result["note"]]).rstrip() + "\n"


def write(result: dict[str, Any], output: str) -> None:
    if len(result["rows"]) > 1:
        result["growth_gb_per_million"] = growth(result["rows"])
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(result))


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--sizes", type=int, multiple=True, default=(1_000_000, 10_000_000), show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For texts and links.")
@click.option("--note", default="", help="A sentence for the record.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(
    source: str,
    target: str,
    sizes: tuple[int, ...],
    threads: int,
    folder: Path,
    note: str,
    output: str,
) -> None:
    """Peak memory by size of the text."""
    write_texts(source, target, sorted(sizes), folder)
    result: dict[str, Any] = {"machine": machine(), "threads": threads, "note": note, "rows": []}
    for size in sorted(sizes):
        row = measure(folder, size, threads, folder / "links")
        result["rows"].append(row)
        click.echo(json.dumps(row), err=True)
        write(result, output)  # after each row: a large one takes minutes


if __name__ == "__main__":
    run_benchmark(main)
