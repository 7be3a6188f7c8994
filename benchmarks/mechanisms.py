"""Attention mechanisms side by side on one text: networks that differ in nothing but their attention.

    python benchmarks/mechanisms.py SRC TGT VALID_SRC VALID_TGT RUNS -o benchmarks/results/mechanisms

Trains a small network for each mechanism, on one thread, and writes OUT.csv and OUT.md. Networks go to the folder
RUNS, from which the same command goes on after an interruption. 2,400 steps of 64 sentence pairs are five passes
over Multi30k: the table shows how far each mechanism has come by then, not what it can reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from inputs import machine, need_files, run_benchmark

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.lab.report.tables import align_columns
from alignkit.metrics.agreement import agreement
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import set_threads
from alignkit.neural.settings import PRESETS, RunSettings
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.neural.training.translation import train_translation
from alignkit.support.packages import __version__
from alignkit.text.pairs import read_training_pairs

SETTINGS = PRESETS["small"].change(
    text={"pieces": 4000},
    training={
        "batch": 64,
        "epochs": 20,
        "warmup": 0,
        "bleu": "end",
        "beam": 1,
        "schedule": "paper",
        "learning_rate": 0.002,
        "rate_warmup": 100,
    },
)
TRANSFORMER = {"architecture": "transformer", "embedding": 128, "hidden": 256, "layers": 2}
#: a mechanism of the LSTM network, or transformer/MECHANISM
MECHANISMS = (
    "general+softmax",
    "additive+softmax",
    "general+sparsemax",
    "general+entmax15",
    "general+learned-entmax",
    "general+sigmoid",
    "general+straight-through",
    "general+gumbel",
    "uniform",
    "transformer/scaled-dot+softmax",
    "transformer/scaled-dot+entmax15",
)
#: column -> (heading, factor, decimals)
COLUMNS = {
    "agreement": ("A %", 100, 1),
    "chance": ("chance", 100, 1),
    "support": ("support", 1, 2),
    "entropy": ("entropy", 1, 2),
    "loss": ("loss", 1, 3),
    "accuracy": ("accuracy %", 100, 1),
    "bleu": ("BLEU", 1, 1),
}
LEGEND = """\
A: per cent of rows in which the source token that attention ranks first is among the top 5 % of IBM Model 1
(one iteration without NULL); support: weights above 0 in a row; entropy: of a row divided by its sum, nats; loss,
accuracy: of the validation text's tokens."""


def settings_of(name: str, steps: int) -> RunSettings:
    """The settings of a mechanism's run."""
    own = TRANSFORMER if name.startswith("transformer/") else {}
    mechanism = name.removeprefix("transformer/")
    return SETTINGS.change(network={**own, "attention": mechanism}, training={"steps": steps})


def row_shape(alpha: Iterable[np.ndarray]) -> dict[str, float]:
    """The mean number of weights above 0 in a row, and the mean entropy of a row divided by its sum, nats."""
    rows = [row for matrix in alpha for row in matrix.astype(np.float64) if row.sum() > 0]
    support = np.mean([(row > 0).sum() for row in rows])
    shares = [row[row > 0] / row.sum() for row in rows]
    return {"support": float(support), "entropy": float(np.mean([-(p * np.log(p)).sum() for p in shares]))}


def measured(network: NeuralAligner, run: TranslationRun) -> dict[str, Any]:
    """A row of the table, without the mechanism's name."""
    alpha = network.score(run.valid, "alpha")
    ibm1 = fit_ibm1(run.train, iterations=1, null=False).score(run.valid, "beta")
    found = agreement(alpha, ibm1, resamples=0)
    row = {"agreement": found.agreement, "chance": found.chance, **row_shape(alpha)}
    row |= {"loss": network.metrics["valid.loss"], "accuracy": network.metrics["valid.accuracy"]}
    return row | {"bleu": {each.name: each.value for each in run.log.rows}["valid.bleu"]}


@click.command()
@click.argument("source")
@click.argument("target")
@click.argument("valid_source")
@click.argument("valid_target")
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("--steps", default=2400, help="Of each network.")
@click.option("-o", "--output", required=True)
def main(
    source: str, target: str, valid_source: str, valid_target: str, runs: Path, steps: int, output: str
) -> None:
    """Train a network for each attention mechanism, and print them side by side."""
    need_files(source, target, valid_source, valid_target)
    set_threads(1)
    training, valid = read_training_pairs((source, target), (valid_source, valid_target))
    rows = []
    for name in MECHANISMS:
        place = runs / re.sub(r"[^\w.-]+", "_", name)
        network = train_translation(place, training, valid, settings_of(name, steps), device="cpu")
        rows.append({"mechanism": name, **measured(network, TranslationRun(place))})
    table = pd.DataFrame(rows)
    table.to_csv(f"{output}.csv", index=False)
    grid = [["mechanism", *(heading for heading, _, _ in COLUMNS.values())]]
    for row in rows:
        cells = [f"{row[name] * factor:.{digits}f}" for name, (_, factor, digits) in COLUMNS.items()]
        grid.append([row["mechanism"], *cells])
    text = f"{align_columns(grid)}\n\n{LEGEND}"
    lines = ["# Attention mechanisms side by side", "", f"{machine()}, one thread; alignkit {__version__}."]
    Path(f"{output}.md").write_text("\n".join([*lines, "", "```", text, "```", ""]))
    click.echo(text)


if __name__ == "__main__":
    run_benchmark(main)
