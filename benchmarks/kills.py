"""Kills ranks of a fit at random moments, restarts it each time, and compares the links with an undisturbed fit's.

    python benchmarks/kills.py SRC TGT -o benchmarks/results/kills

Runs `alignkit COMMAND SRC TGT --checkpoint ...` under torchrun, until it has been killed so many times (a rank
drawn by chance, by SIGKILL, after iterations and a time drawn by chance) and then ended well. Writes OUT.json: for
each kill, the rank, the iterations that were complete, and the seconds until all processes had ended.
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
from pathlib import Path
from typing import Any

import click
from inputs import fail, machine, need_files, run_benchmark


def ranks_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The process ids of the ranks that a torchrun has started."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(each) for each in found.read_text().split()] if found.exists() else []


def saved(folder: Path) -> int:
    """How many iterations are complete, over all fits."""
    return sum(json.loads(path.read_bytes())["saved"] for path in folder.glob("*/complete.json"))


def disturbed(command: list[str], folder: Path, kills: int, iterations: int, draw: random.Random) -> list[Any]:
    """Run a command until it ends well, after ``kills`` kills if it lasts so long; a row for each of them."""
    rows: list[Any] = []
    while True:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if len(rows) < kills:
            goal, moment = saved(folder) + draw.randrange(iterations), draw.uniform(0, 2)
            while process.poll() is None and saved(folder) < goal:
                time.sleep(0.01)
            time.sleep(moment)
            found = ranks_of(process)
            if process.poll() is None and found:
                rank = draw.randrange(len(found))
                os.kill(found[rank], signal.SIGKILL)
                killed = time.monotonic()
                process.communicate()
                rows.append({"rank": rank, "complete": saved(folder), "seconds": time.monotonic() - killed})
                print(rows[-1], file=sys.stderr)
                continue
        error = process.communicate()[1]
        if process.returncode != 0:
            fail(f"the command failed by itself: {error.decode(errors='replace')[-500:]}")
        return rows


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--command", default="align")
@click.option("--ranks", default=2)
@click.option("--kills", default=20)
@click.option("--iterations", default=4, help="Fewer than this are completed between two kills.")
@click.option("--seed", default=1)
@click.option("-o", "--output", required=True)
def main(source: str, target: str, command: str, ranks: int, **options: Any) -> None:
    """Kill ranks of a fit at random moments."""
    need_files(source, target)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows: list[Any] = []
        draw, program = random.Random(options["seed"]), ["-m", "alignkit", command, source, target, "--quiet"]
        subprocess.run([sys.executable, *program, "-o", str(folder / "alone")], check=True)
        rounds = 0
        while len(rows) < options["kills"]:
            rounds += 1
            state, out = folder / f"state{rounds}", folder / f"links{rounds}"
            shared = [*launcher, *program, "--checkpoint", str(state), "-o", str(out)]
            rows += disturbed(shared, state, options["kills"] - len(rows), options["iterations"], draw)
            if out.read_bytes() != (folder / "alone").read_bytes():
                fail(f"round {rounds} ended with other links than the undisturbed run")
    result = {"machine": machine(), "command": command, "ranks": ranks, "rounds": rounds, "kills": rows}
    Path(f"{options['output']}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(
        f"{len(rows)} kills in {rounds} fits, the same bytes in each; the slowest end took "
        f"{max(row['seconds'] for row in rows):.1f} s"
    )


if __name__ == "__main__":
    run_benchmark(main)
