"""What ranks of torchrun send each other, how long they wait, and how much faster they are than one process.

    python benchmarks/distributed.py SRC TGT --copies 10 --folder DIR -o benchmarks/results/distributed

The text is enlarged as in benchmarks/memory.py. Each model is fitted by one process and by more, each with one
thread on this machine, and all must find the same links. A row has the median time of an iteration, the share of
it that ranks waited for each other (the most of any rank), the bytes that all ranks together sent per iteration,
what the cost model of docs/beyond-one-machine.md says they would be, and the peak memory of a rank. Writes
OUT.json and OUT.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import machine, need_files, run_benchmark
from memory import write_texts
from speed import read_pairs

from alignkit.classical.exchange import ALONE, exchanging
from alignkit.classical.hmm.expectation import BLOCKS, pair_work
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.parameters import WIDTH
from alignkit.classical.hmm.word_classes import affix_classes
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.distributed.table import group_work, owners
from alignkit.kernels.inverted_index import TableRows
from alignkit.lazy import imported
from alignkit.parallel import blocks
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_bitext
from alignkit.text.units import lowercased
from alignkit.text.vocabulary import Vocabulary
from alignkit.workflow.settings import METHODS

MODELS = ("ibm1", "diagonal", "joint")
FERTILITY = 9 * 8  # bytes by word: numbers of links, bytes of a number


def fit(model: str, bitext: Bitext, iterations: int, marks: list[Any], sent: Any) -> Any:
    """The fitted aligner; ``marks`` gets (time, seconds waited, bytes by purpose) after each iteration."""
    options: dict[str, Any] = {"iterations": iterations}

    def mark(*_: Any) -> None:
        traffic = sent()
        found = (0.0, {}) if traffic is None else (traffic.waited, dict(traffic.sent))
        marks.append((time.perf_counter(), *found))

    if model == "joint":
        options |= {"lexical_iterations": 1, "tolerance": 0.0}
        return fit_joint(bitext, threads=1, progress=mark, **options)
    method = METHODS[model]
    return imported(method.fit)(bitext, method.estimation, threads=1, progress=mark, **options)


def result_of(marks: list[Any]) -> dict[str, Any]:
    """What one rank found. The first two iterations are left out: they have less to do."""
    steps = list(pairwise(marks))[1:]
    seconds = [b[0] - a[0] for a, b in steps]
    place = int(np.argsort(seconds)[len(seconds) // 2])
    a, b = steps[place]
    return {
        "seconds": seconds[place],
        "waited": b[1] - a[1],
        "sent": {name: size - a[2].get(name, 0) for name, size in b[2].items() if size > a[2].get(name, 0)},
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    }


def as_rank(model: str, source: str, target: str, iterations: int, out: str) -> None:
    """What each process does that torchrun starts."""
    from alignkit.distributed.exchange import GroupExchange
    from alignkit.distributed.reading import read_shared
    from alignkit.workflow.sharing import joined_ranks

    with joined_ranks() as ranks:
        hidden = {"work": pair_work, "parts": BLOCKS} if model == "joint" else {}
        bitext, marks = read_shared(ranks, source, target, **hidden), []
        with exchanging(GroupExchange(ranks)):
            aligner = fit(model, bitext, iterations, marks, lambda: ranks.traffic)
        links = aligner.fitted_links if model == "joint" else aligner.links(bitext)
        np.save(f"{out}.{ranks.rank}.npy", links.pairs)
        results = ranks.texts(json.dumps(result_of(marks)))
        if ranks.rank == 0:
            Path(out).write_text(json.dumps([json.loads(each) for each in results]))


def alone(model: str, source: str, target: str, iterations: int, out: str) -> None:
    """The same by one process."""
    bitext, marks = read_bitext(source, target), []
    with exchanging(ALONE):
        aligner = fit(model, bitext, iterations, marks, lambda: None)
    links = aligner.fitted_links if model == "joint" else aligner.links(bitext)
    np.save(f"{out}.0.npy", links.pairs)
    Path(out).write_text(json.dumps([result_of(marks)]))


def predicted(model: str, bitext: Bitext, ranks: int) -> dict[str, float]:
    """Bytes that all ranks together send in an iteration, by the cost model."""
    hidden = model == "joint"
    text = lowercased(bitext) if hidden else bitext
    lengths = text.source.lengths, text.target.lengths
    cuts = blocks(pair_work(*lengths) if hidden else lengths[0] * lengths[1], BLOCKS if hidden else ranks)
    ends = [cuts[len(cuts) * part // ranks - 1][1] for part in range(1, ranks + 1)]
    rows = IndexedBitext.of(text, 1).pairs()
    held = sum(len(IndexedBitext.of(text.block(a, b), 1).pairs().columns) for a, b in pairwise([0, *ends]))
    K, away, words = (
        len(rows.columns),
        (ranks - 1) / ranks,
        [len(text.source.vocabulary), len(text.target.vocabulary)],
    )
    counts = 8 * held * away if hidden else 8 * (held - K) + 8 * K * away
    found = {"counts": counts, "values": (12 if hidden else 4) * held * away}
    turns = 2 * (ranks - 1)  # an array goes from rank to rank, and then to all
    found["sums in turn"] = turns * 8 * words[1]
    if hidden:
        # Fertilities are summed in 4 blocks, of which those that lie in the texts of several ranks go around.
        ends = [int(text.shapes.prod(axis=1)[:end].sum()) for end in ends[:-1]]
        split = len({int(4 * end / text.shapes.prod(axis=1).sum()) for end in ends})
        found["sums in turn"] = turns * (8 * (sum(words) + 2 * words[1]) + (1 + split) * FERTILITY * sum(words))
        found["rows by class"] = 12 * sum(moved(rows, text.source.vocabulary, n, ranks) for n in (3, 5, -3, -5))
        found["sums"] = 2 * turns * 8 * words[0]
        found["rows"] = (ranks - 1) * BLOCKS * 8 * (1 + 2 * (6 * WIDTH + 4))  # jumps and first positions
    return found


def moved(rows: TableRows, vocabulary: Vocabulary, letters: int, ranks: int) -> int:
    """How many pairs another rank owns than the one that has the class of their source word."""
    of, sizes = affix_classes(vocabulary, abs(letters), letters < 0).of, np.diff(rows.offsets)
    groups = owners(group_work(of, sizes), ranks)
    here = np.searchsorted(owners(sizes, ranks)[1:], np.arange(len(sizes)), side="right")
    return int(sizes[here != np.searchsorted(groups[1:], of, side="right")].sum())


def measure(model: str, ranks: int, files: tuple[str, str], iterations: int, folder: Path) -> dict[str, Any]:
    """A row: one model by so many processes."""
    out = str(folder / f"{model}-{ranks}.json")
    own = ["--part", model, *files, "--iterations", str(iterations), "-o", out, "--ranks", str(ranks)]
    program = [sys.executable, __file__, *own]
    if ranks > 1:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        program = [*launcher, __file__, *own]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    start = time.perf_counter()
    subprocess.run(program, check=True, env=environment)
    found = json.loads(Path(out).read_text())
    links = b"".join(np.load(f"{out}.{rank}.npy").tobytes() for rank in range(ranks))
    sent: dict[str, int] = {}
    for each in found:
        for name, size in each["sent"].items():
            sent[name] = sent.get(name, 0) + size
    return {
        "model": model,
        "ranks": ranks,
        "wall_seconds": time.perf_counter() - start,
        "iteration_seconds": max(each["seconds"] for each in found),
        "waited_share": max(each["waited"] / each["seconds"] for each in found),
        "peak_gb": max(each["peak_gb"] for each in found),
        "sent": sent,
        "links": hashlib.sha256(links).hexdigest(),
    }


def markdown(result: dict[str, Any]) -> str:
    lines = ["# Ranks of torchrun", "", f"{result['machine']}; {result['pairs']:,} sentence pairs.", ""]
    lines += [
        "| model | ranks | iteration, s | of one's | waited | sent, MB | cost model, MB | peak, GB | links |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    base = {row["model"]: row for row in result["rows"] if row["ranks"] == 1}
    for row in result["rows"]:
        one = base[row["model"]]
        same = "same" if row["links"] == one["links"] else "DIFFERENT"
        lines.append(
            f"| {row['model']} | {row['ranks']} | {row['iteration_seconds']:.2f} | "
            f"{row['iteration_seconds'] / one['iteration_seconds']:.2f} | {row['waited_share']:.0%} | "
            f"{sum(row['sent'].values()) / 1e6:.1f} | {sum(row['predicted'].values()) / 1e6:.1f} | "
            f"{row['peak_gb']:.2f} | {same} |"
        )
    return "\n".join([*lines, ""])


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--copies", default=10, help="How many times as long as the files the text is.")
@click.option("--model", "models", multiple=True, type=click.Choice(MODELS), default=MODELS)
@click.option("--ranks", multiple=True, type=int, default=(1, 2))
@click.option("--iterations", default=5)
@click.option("--folder", default=".", help="Where the texts and the results of ranks go.")
@click.option("--part", hidden=True)
@click.option("-o", "--output", required=True)
def main(source: str, target: str, copies: int, part: str | None, **options: Any) -> None:
    """Measure ranks of torchrun against one process."""
    ranks, iterations, output = options["ranks"], options["iterations"], options["output"]
    if part is not None:
        (as_rank if ranks[0] > 1 else alone)(part, source, target, iterations, output)
        return
    need_files(source, target)
    folder = Path(options["folder"])
    size = copies * sum(1 for _ in read_pairs(source, target))
    write_texts(source, target, [size], folder)
    files = str(folder / f"source-{size}"), str(folder / f"target-{size}")
    bitext, rows = read_bitext(*files), []
    for model in options["models"]:
        for count in ranks:
            row = measure(model, count, files, iterations, folder)
            row["predicted"] = predicted(model, bitext, count) if count > 1 else {}
            rows.append(row)
            print(markdown({"machine": machine(), "pairs": size, "rows": rows}).splitlines()[-1], file=sys.stderr)
    result = {"machine": machine(), "pairs": size, "iterations": iterations, "rows": rows}
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
