"""Time and memory of the classical aligners against their peers, whole processes, in one interleaved run.

    python benchmarks/speed.py SRC TGT [--runs 5] [--threads 1 2] [--json FILE]
    python benchmarks/speed.py SRC TGT --scaling FILE.csv [--plot FILE.png] [--sizes 1000 10000 ...]

Every program reads the same two files and writes its links to a file; with n threads it may run on n cores only.
Rounds are interleaved, because machines drift: a ratio is the median over rounds of time against alignkit's in the
same round. systran-align trains both directions and has no way to train one; its links are not counted. Peers are
run if they are there: systran-align and eflomal in the interpreter given by --peer-python, fast_align by its path.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from inputs import machine, need_files, run_benchmark

SYSTRAN = """
import sys, systran_align
systran_align.generate_alignment_probabilities(*sys.argv[1:4], iterations=5)
"""
OURS = "alignkit ibm1"


@dataclass(frozen=True)
class Text:
    """A bitext as two files and as one with ``|||``; programs write to ``folder``."""

    source: Path
    target: Path
    joined: Path
    folder: Path


@dataclass(frozen=True)
class Program:
    """A program to measure: ``command(text, threads)``; ``against`` is our program for the same task."""

    name: str
    command: Callable[[Text, int], list[str]]
    against: str


def ours(name: str, *options: str) -> Program:
    def command(text: Text, threads: int) -> list[str]:
        arguments = [name, "-q", "--threads", str(threads), *options, str(text.source), str(text.target)]
        return [sys.executable, "-m", "alignkit", *arguments, "-o", str(text.folder / "links")]

    return Program(" ".join(["alignkit", name, *(["both directions"] if options else [])]), command, "")


def importable(python: str, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def programs(fast_align: str | None, peer_python: str) -> list[Program]:
    """The programs that are installed here, ours first."""
    both = ("--symmetrize", "grow-diag-final-and")
    found = [ours("ibm1"), ours("ibm1", *both), ours("diagonal"), ours("diagonal", *both)]
    if fast_align:
        base = [fast_align, "-I", "5", "-i"]
        found += [
            Program("fast_align IBM 1", lambda text, _: [*base, str(text.joined)], OURS),
            Program("fast_align -d -o -v", lambda text, _: [*base, str(text.joined), "-dov"], "alignkit diagonal"),
        ]
    if importable(peer_python, "systran_align"):

        def systran(text: Text, threads: int) -> list[str]:
            outputs = [str(text.folder / side) for side in ("forward", "backward")]
            return [peer_python, "-c", SYSTRAN, str(text.joined), *outputs]

        found.append(Program("systran-align IBM 1, both directions", systran, f"{OURS} both directions"))
    script = Path(peer_python).with_name("eflomal-align")
    if importable(peer_python, "eflomal") and script.exists():

        def eflomal(text: Text, threads: int) -> list[str]:
            files = ["-s", str(text.source), "-t", str(text.target)]
            outputs = ["-f", str(text.folder / "forward"), "-r", str(text.folder / "backward"), "--overwrite"]
            return [peer_python, str(script), *files, *outputs]

        found.append(Program("eflomal, both directions", eflomal, "alignkit diagonal both directions"))
    return found


def measure(command: list[str], threads: int, output: Path) -> tuple[float, float, float]:
    """(seconds, CPU seconds, peak megabytes) of a process and its children, on ``threads`` cores."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with open(output, "wb") as stream:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.DEVNULL,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def write_text(pairs: Iterator[tuple[str, str]], folder: Path) -> tuple[Text, int]:
    """The three files of a bitext; pairs with a blank side are left out, because fast_align fails on them."""
    text = Text(folder / "source", folder / "target", folder / "joined", folder)
    count = 0
    with open(text.source, "w") as source, open(text.target, "w") as target, open(text.joined, "w") as joined:
        for x, y in pairs:
            if x.strip() and y.strip():
                source.write(f"{x}\n")
                target.write(f"{y}\n")
                joined.write(f"{x} ||| {y}\n")
                count += 1
    return text, count


def read_pairs(source: str, target: str) -> list[tuple[str, str]]:
    sides = [Path(path).read_text(encoding="utf-8").split("\n") for path in (source, target)]
    return list(zip(*(side[:-1] if side[-1] == "" else side for side in sides), strict=True))


def compare(text: Text, candidates: list[Program], threads: int, runs: int) -> list[dict[str, Any]]:
    """Medians per program over interleaved rounds, after one that is not counted."""
    results: dict[str, list[tuple[float, float, float]]] = {program.name: [] for program in candidates}
    for turn in range(runs + 1):
        for program in candidates:
            figures = measure(program.command(text, threads), threads, text.folder / "output")
            if turn > 0:
                results[program.name].append(figures)
        print(f"round {turn} of {runs} with {threads} threads done", file=sys.stderr)
    rows = []
    for program in candidates:
        columns = list(zip(*results[program.name], strict=True))
        row: dict[str, Any] = {"program": program.name, "threads": threads, "runs": runs}
        row |= {
            k: statistics.median(v) for k, v in zip(("seconds", "cpu_seconds", "peak_mb"), columns, strict=True)
        }
        row["least_seconds"] = min(columns[0])
        if program.against:
            mine = [figures[0] for figures in results[program.against]]
            row["ratio"] = statistics.median(a / b for a, b in zip(columns[0], mine, strict=True))
            row["against"] = program.against
        rows.append(row)
    return rows


def cold_seconds(text: Text) -> float:
    """Seconds of a first run, which compiles all of its kernels."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ALIGNKIT_CACHE=folder):
        return measure(ours("ibm1").command(text, 1), 1, text.folder / "output")[0]


def em_nanoseconds(text: Text, threads: int, repeat: int = 3) -> dict[str, float]:
    """EM alone: nanoseconds per (source token, target token) pair, iteration and thread, without the first one."""
    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.text.pairs import read_bitext

    bitext = read_bitext(text.source, text.target)
    pairs = int((bitext.source.lengths * bitext.target.lengths).sum())
    spans: list[float] = []
    for _ in range(repeat):
        moments: list[float] = []
        fit_ibm1(
            bitext, iterations=5, threads=threads, progress=lambda *_, m=moments: m.append(time.perf_counter())
        )
        spans += [b - a for a, b in pairwise(moments)]
    factor = threads * 1e9 / pairs
    return {"threads": threads, "median": statistics.median(spans) * factor, "least": min(spans) * factor}


def enlarged(pairs: list[tuple[str, str]], size: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """``size`` pairs from a text: its lines again and again in random order, with rare words changed in each copy.

    Of the words seen at most 20 times half of the occurrences get the number of the copy, so that the vocabulary
    and the pairs of words that meet grow with the text, as they do in real ones. The first copy is as it was.
    """
    draw = random.Random(seed)
    counts = [Counter(word for pair in pairs for word in pair[side].split()) for side in (0, 1)]

    def marked(text: str, side: int) -> tuple[str, str]:
        """Two ways to mark the line's rare words with a NUL: a random half of them, and the others."""
        words = [(w, counts[side][w] <= 20, draw.random() < 0.5) for w in text.split()]
        first, second = (
            " ".join(f"{w}_\0" if is_rare and half == way else w for w, is_rare, half in words)
            for way in (True, False)
        )
        return first, second

    ways = [(marked(source, 0), marked(target, 1)) for source, target in pairs]
    for start in range(0, size, len(pairs)):
        copy, order = str(start // len(pairs)), draw.sample(range(len(pairs)), len(pairs))
        for m in order[: size - start]:
            if start == 0:
                yield pairs[m]
            else:
                source, target = ways[m]
                way = draw.getrandbits(2)
                yield source[way & 1].replace("\0", copy), target[way >> 1].replace("\0", copy)


def scaling(options: argparse.Namespace, candidates: list[Program]) -> None:
    """Time and memory by the number of pairs, to a CSV and a picture."""
    pairs, threads = read_pairs(options.source, options.target), max(options.threads)
    rows = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            text, count = write_text(enlarged(pairs, size), Path(folder))
            runs = max(1, min(options.runs, 100_000 // size))
            rows += [{"pairs": count, **row} for row in compare(text, candidates, threads, runs)]
    columns = ["pairs", "program", "threads", "runs", "seconds", "cpu_seconds", "peak_mb"]
    with open(options.scaling, "w", newline="") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    if options.plot:
        plot(rows, options.plot)


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """Both curves on logarithmic axes."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), constrained_layout=True)
    for name in dict.fromkeys(row["program"] for row in rows):
        own = [row for row in rows if row["program"] == name]
        for axis, field in zip(axes, ("seconds", "peak_mb"), strict=True):
            style = "o-" if name.startswith("alignkit") else "s--"
            axis.loglog([row["pairs"] for row in own], [row[field] for row in own], style, label=name)
    for axis, label in zip(axes, ("seconds, whole process", "peak memory, MB"), strict=True):
        axis.set_xlabel("sentence pairs")
        axis.set_ylabel(label)
        axis.grid(True, which="both", alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=120)


def versions(peer_python: str) -> dict[str, str]:
    code = "import importlib.metadata as m\nfor n in ('systran-align', 'eflomal', 'numba', 'numpy', 'alignkit'):\n"
    code += "    try: print(n, m.version(n))\n    except m.PackageNotFoundError: pass"
    found: dict[str, str] = {"python": sys.version.split()[0]}
    for python in (peer_python, sys.executable):
        output = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
        found |= dict(line.split() for line in output.splitlines())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", help="programs whose names have one of these in them")
    parser.add_argument("--fast-align", metavar="PATH", help="the program of Dyer, Chahuneau and Smith")
    parser.add_argument("--peer-python", metavar="PATH", default=sys.executable)
    parser.add_argument("--times", type=int, default=1, help="repetitions of the text, lines shuffled")
    parser.add_argument("--machine", default=machine(), help="the machine in words, for the record [%(default)s]")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--scaling", metavar="FILE.csv")
    parser.add_argument("--plot", metavar="FILE.png")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    need_files(options.source, options.target)
    candidates = programs(options.fast_align, options.peer_python)
    if options.only:
        candidates = [p for p in candidates if any(part in p.name for part in options.only)]
        names = {p.name for p in candidates}
        candidates = [p if p.against in names else Program(p.name, p.command, "") for p in candidates]
    if options.scaling:
        scaling(options, candidates)
        return
    pairs = read_pairs(options.source, options.target) * options.times
    random.Random(1).shuffle(pairs)
    with tempfile.TemporaryDirectory() as folder:
        text, count = write_text(iter(pairs), Path(folder))
        rows = [row for threads in options.threads for row in compare(text, candidates, threads, options.runs)]
        em = [em_nanoseconds(text, threads) for threads in options.threads]
        result = {
            "pairs": count,
            "results": rows,
            "em_ns_per_pair_iteration_thread": em,
            "cold_seconds": cold_seconds(text),
            "versions": versions(options.peer_python),
            "machine": options.machine,
        }
    report(result)
    if options.json:
        rounded = json.loads(json.dumps(result), parse_float=lambda number: round(float(number), 3))
        Path(options.json).write_text(json.dumps(rounded, indent=1) + "\n")


def report(result: dict[str, Any]) -> None:
    print(f"{result['pairs']} pairs")
    print(f"{'program':40} {'threads':>7} {'seconds':>8} {'cpu s':>7} {'MB':>6} {'ratio':>6}")
    for row in result["results"]:
        ratio = f"{row['ratio']:6.1f}" if "ratio" in row else ""
        numbers = f"{row['seconds']:8.2f} {row['cpu_seconds']:7.2f} {row['peak_mb']:6.0f}"
        print(f"{row['program']:40} {row['threads']:7} {numbers} {ratio}")
    for row in result["em_ns_per_pair_iteration_thread"]:
        print(f"EM alone, {row['threads']} threads: {row['median']:.1f} ns (least {row['least']:.1f})")
    print(f"first run, compiling: {result['cold_seconds']:.1f} s")


if __name__ == "__main__":
    run_benchmark(main)
