"""Attention mechanisms side by side on one text: `alignkit compare-mechanisms`, with the options of our results.

    python benchmarks/mechanisms.py SRC TGT VALID_SRC VALID_TGT RUNS -o benchmarks/results/mechanisms

Trains a small network for each mechanism, on one thread, and writes OUT.csv, OUT.png and OUT.md. Networks go to
the folder RUNS, from which the same command goes on after an interruption. 2,400 steps of 64 sentence pairs are
five passes over Multi30k: the table shows how far each mechanism has come by then, not what it can reach.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
from inputs import fail, machine, need_files, run_benchmark

from alignkit.mechanism_comparison import MECHANISMS
from alignkit.version import __version__

SETTINGS = (
    "text.pieces=4000",
    "training.batch=64",
    "training.warmup=0",
    "training.bleu=end",
    "training.beam=1",
    "training.schedule=paper",
    "training.learning_rate=0.002",
    "training.rate_warmup=100",
    "transformer.embedding=128",
    "transformer.hidden=256",
    "transformer.layers=2",
)


@click.command()
@click.argument("source")
@click.argument("target")
@click.argument("valid_source")
@click.argument("valid_target")
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("--steps", default=2400, help="Of each network.")
@click.option("-o", "--output", required=True)
def main(source: str, target: str, valid_source: str, valid_target: str, runs: Path, **options: str) -> None:
    """Train a network for each attention mechanism, and print them side by side."""
    need_files(source, target, valid_source, valid_target)
    steps, output = options["steps"], options["output"]
    given = ["--preset", "small", "--epochs", "20", "--steps", str(steps), "--threads", "1"]
    given += [part for setting in SETTINGS for part in ("--set", setting)]
    given += ["--mechanisms", ",".join([*MECHANISMS, "general+crf"])]
    command = [sys.executable, "-m", "alignkit", "compare-mechanisms", source, target, "-o", str(runs), *given]
    command += ["--valid", valid_source, valid_target, "--csv", f"{output}.csv", "--plot", f"{output}.png"]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        fail("alignkit compare-mechanisms ended with an error")
    shown = "alignkit compare-mechanisms SRC TGT -o RUNS --valid SRC TGT " + " ".join(given)
    lines = ["# Attention mechanisms side by side", "", f"{machine()}, one thread; alignkit {__version__}."]
    lines += ["", f"    {shown}", "", "```", found.stdout.rstrip(), "```", ""]
    Path(f"{output}.md").write_text("\n".join(lines))
    print(found.stdout, end="")


if __name__ == "__main__":
    run_benchmark(main)
