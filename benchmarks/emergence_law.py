"""What the cells of `alignkit experiment emergence-law` say of the law's parts: its factor r, and its exponents.

    python benchmarks/emergence_law.py benchmarks/results/experiments/emergence-law-cells.csv -o OUT

Nothing is trained. Both questions were asked after the run. Writes OUT.md:

- the law without r, fitted and tested on the same halves, beside the law;
- the law with free exponents, T = T_0 + exp(a) L^b / (rate^c d^e r^f), for several T_0, fitted on all cells of the
  grid; intervals are percentiles of 1,000 bootstrap samples of these cells.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pandas as pd
from inputs import run_benchmark
from scipy.optimize import least_squares

from alignkit.errors import InputError
from alignkit.lab.experiments import averaged
from alignkit.lab.experiments.initial_gradient import OUTCOMES, predictions
from alignkit.metrics.intervals import RESAMPLES, percentile_interval

FACTORS = {"length": 1, "rate": -1, "width": -1, "r": -1}  #: with the signs of their exponents
OF_LAW = {"length": 0.5, "rate": 1.0, "width": 1.5, "r": 1.0}
DELAYS = (0.0, 5.0, 10.0)  #: T_0, in steps


def errors(cells: pd.DataFrame, outcome: str) -> pd.Series:
    """|ln(predicted / measured step)| of the law for each cell of the other half."""
    predicted, _ = predictions(cells, cells[outcome])
    return np.log(predicted.law / cells[outcome]).abs()[(cells.part == "test") & cells[outcome].notna()]


def fitted(design: np.ndarray, steps: np.ndarray, delay: float) -> np.ndarray:
    """The constant and the exponents of the law with this T_0, by least squares in logarithms."""
    return least_squares(
        lambda weights: np.log(delay + np.exp(design @ weights)) - np.log(steps), [0, *OF_LAW.values()]
    ).x


def exponents(cells: pd.DataFrame, outcome: str, delay: float) -> tuple[list[str], float, float]:
    """The exponents with intervals; mean errors on all cells, and on one half if the other is fitted."""
    grid = cells[(cells.part != "text") & cells[outcome].notna()]
    logs = [sign * np.log(grid[name]) for name, sign in FACTORS.items()]
    design, steps = np.column_stack([np.ones(len(grid)), *logs]), grid[outcome].to_numpy()
    half = (grid.part == "fit").to_numpy()

    def error(use: np.ndarray, of: np.ndarray) -> float:
        predicted = delay + np.exp(design @ fitted(design[use], steps[use], delay))
        return float(np.abs(np.log(predicted / steps))[of].mean())

    draws = np.random.default_rng(0).integers(0, len(grid), (RESAMPLES, len(grid)))
    resampled = np.array([fitted(design[draw], steps[draw], delay) for draw in draws])
    found = fitted(design, steps, delay)
    texts = []
    for value, column in zip(found[1:], resampled.T[1:], strict=True):
        low, high = percentile_interval(column)
        texts.append(f"{value:.2f} [{low:.2f}, {high:.2f}]")
    every = np.ones(len(grid), bool)
    return texts, error(every, every), error(half, ~half)


@click.command(help=__doc__)
@click.argument("cells_file", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True)
def main(cells_file: Path, output: str) -> None:
    cells = pd.read_csv(cells_file)
    lacking = {*FACTORS, "time", *OUTCOMES} - {*cells.columns}
    if lacking:
        raise InputError(
            cells_file, f"has no column {min(lacking)}", remedy="give the cells of a run of emergence-law"
        )
    lines = ["# The parts of the law of emergence", "", f"`python benchmarks/emergence_law.py {cells_file}`", ""]
    lines += ["Mean of |ln(predicted / measured step)| on the cells that were not fitted:", ""]
    lines += ["| step | law | without r | without r minus law, 95 % |", "|---|---|---|---|"]
    for outcome in OUTCOMES:
        law, without = errors(cells, outcome), errors(cells.assign(time=cells.time * cells.r), outcome)
        gap, (low, high) = averaged(without - law)
        lines.append(
            f"| {outcome} | {law.mean():.3f} | {without.mean():.3f} | {gap:.3f} [{low:.3f}, {high:.3f}] |"
        )
    lines += ["", "Exponents for a given T_0 (95 %), and mean errors:", ""]
    lines += [f"| step | T_0 | {' | '.join(FACTORS)} | all cells | other half |", "|---|---" * 3 + "|---|---|"]
    lines.append(f"| law | | {' | '.join(f'{value:g}' for value in OF_LAW.values())} | | |")
    for outcome in OUTCOMES:
        for delay in DELAYS:
            texts, every, other = exponents(cells, outcome, delay)
            lines.append(f"| {outcome} | {delay:g} | {' | '.join(texts)} | {every:.3f} | {other:.3f} |")
    Path(f"{output}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    run_benchmark(main)
