"""How long a saved model takes for one sentence pair: in Python, as a process that reads lines, and as a server.

    python benchmarks/latency.py SRC TGT -o benchmarks/results/latency

A model is fitted on all but the last 500 pairs of the text, which are then aligned one at a time by 1 and by 8
threads or clients. The aligner has one thread. The last row is the same pairs as one batch.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import local

import click
import numpy as np
from inputs import machine, need_files, run_benchmark

import alignkit
from alignkit.text.reading import read_lines

PAIRS, FIRST = 500, 50  # that are timed; that are aligned before, to load kernels
MANY = 8  # threads or clients
Call = Callable[[str, str], str]


def timed(call: Call, pairs: list[tuple[str, str]], threads: int = 1) -> tuple[dict[str, float], list[str]]:
    """Milliseconds a pair, pairs a second, and the links."""

    def once(pair: tuple[str, str]) -> tuple[float, str]:
        start = time.perf_counter()
        answer = call(*pair)
        return time.perf_counter() - start, answer

    with ThreadPoolExecutor(threads) as pool:
        run = pool.map if threads > 1 else map  # a pool of one thread would take its part of the time
        list(run(once, pairs[:FIRST]))
        start = time.perf_counter()
        found = list(run(once, pairs[FIRST:]))
        whole = time.perf_counter() - start
    each = 1000 * np.array([seconds for seconds, _ in found])
    row = {
        "median ms": np.median(each),
        "99 % below ms": np.percentile(each, 99),
        "pairs a second": len(each) / whole,
    }
    return row, [answer for _, answer in found]


@contextmanager
def lines_of_a_process(model: Path) -> Iterator[Call]:
    """A process that answers line by line."""
    command = [sys.executable, "-m", "alignkit", "align", "--model", str(model), "--threads", "1", "-q", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, encoding="utf-8", bufsize=1, **pipes) as process:  # type: ignore[call-overload]

        def ask(x: str, y: str) -> str:
            process.stdin.write(f"{x} ||| {y}\n")
            return str(process.stdout.readline()).rstrip("\n")

        yield ask
        process.stdin.close()


@contextmanager
def server(model: Path) -> Iterator[tuple[Call, int]]:
    """A server, each thread with a connection of its own; and the number of its process."""
    command = [sys.executable, "-m", "alignkit", "serve", str(model), "--threads", "1", "--port", "0"]
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split("//")[1].split(",")[0]
        own = local()

        def ask(x: str, y: str) -> str:
            # Without http.client, which takes as long for a request as the server does.
            if not hasattr(own, "stream"):
                host, port = address.rsplit(":", 1)
                own.stream = socket.create_connection((host, int(port))).makefile("rwb")
            body = json.dumps({"source": x, "target": y}).encode()
            head = f"POST /align HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
            own.stream.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            own.stream.flush()
            lines = iter(own.stream.readline, b"\r\n")
            (size,) = (int(line.split()[1]) for line in lines if line.lower().startswith(b"content-length:"))
            (pair,) = json.loads(own.stream.read(size))
            return " ".join(f"{s}-{t}" for s, t, _ in pair["links"])

        yield ask, process.pid
        process.terminate()


def memory(process: int) -> float:
    """MB in use."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@click.command(help=__doc__)
@click.argument("source")
@click.argument("target")
@click.option("--requests", default=10_000, show_default=True, help="To the server, while its memory is watched.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(source: str, target: str, requests: int, output: str) -> None:
    need_files(source, target)
    sides = [list(read_lines(path)) for path in (source, target)]
    pairs = list(zip(*(side[-PAIRS - FIRST :] for side in sides), strict=True))
    known = [side[:-PAIRS] for side in sides]
    aligner = alignkit.align(*known, embeddings="none", threads=1).aligner.with_threads(1)
    wanted = aligner.align_batch(*map(list, zip(*pairs[FIRST:], strict=True)))
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        aligner.save(model := Path(folder, "m.npz"))
        aligner = alignkit.load(model, threads=1)
        for threads in (1, MANY):
            name = f"align_batch, {threads} threads" if threads > 1 else "align_batch"
            rows[name], found = timed(lambda x, y: aligner.align_batch([x], [y])[0], pairs, threads)
            assert found == wanted
        with lines_of_a_process(model) as ask:
            rows["align --model M -"], found = timed(ask, pairs)
            assert found == wanted
        with server(model) as (ask, process):
            for threads in (1, MANY):
                name = f"serve, {threads} clients" if threads > 1 else "serve"
                rows[name], found = timed(ask, pairs, threads)
                assert found == wanted
            before = memory(process)
            timed(ask, [pairs[n % len(pairs)] for n in range(requests)], MANY)
            after = memory(process)
        start = time.perf_counter()
        aligner.align_batch(*map(list, zip(*pairs[FIRST:], strict=True)))
        rows["one batch"] = {"pairs a second": PAIRS / (time.perf_counter() - start)}
    columns = ["median ms", "99 % below ms", "pairs a second"]
    facts = {"machine": machine(), "pairs in the model": len(known[0]), "pairs timed": PAIRS, "rows": rows}
    facts |= {"server MB": {"before": before, f"after {requests} requests": after}}
    Path(f"{output}.json").write_text(json.dumps(facts, indent=1) + "\n")
    table = [f"| | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    for name, row in rows.items():
        table.append(f"| {name} | {' | '.join(f'{row[each]:.2f}' if each in row else '' for each in columns)} |")
    text = (
        f"A model of {len(known[0]):,} pairs, {PAIRS} timed; {facts['machine']}. The server has {before:.0f} MB "
        f"at first, {after:.0f} MB after {requests:,} more requests of {MANY} clients."
    )
    Path(f"{output}.md").write_text("# One pair at a time\n\n" + text + "\n\n" + "\n".join(table) + "\n")
    click.echo(Path(f"{output}.md").read_text())


if __name__ == "__main__":
    run_benchmark(main)
