"""The picture of one sentence pair as IBM Model 1 and attention align it, in README.

    alignkit train --sample --preset small -o run
    python benchmarks/grid.py run -o benchmarks/results/grid.png

The pair is one of the sample's held-out ones; each row is a target word, with the weights of the source words.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from inputs import fail, need_files, run_benchmark

import alignkit
import alignkit_data
from alignkit.support.files import atomic_write


def panels(run: Path, number: int) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
    """The (T, L) weights of both aligners for a held-out pair, its source words and its target words."""
    train, test = ([alignkit_data.path(f"{part}.{side}") for side in ("de", "en")] for part in ("train", "test"))
    bitext = alignkit.read_bitext(*test)
    aligners = {
        "counting (IBM Model 1)": alignkit.align(*train, method="ibm1").aligner,
        "attention (a small network)": alignkit.load(run).on_words(),
    }
    weights = {name: aligner.score(bitext, "alpha")[number] for name, aligner in aligners.items()}
    return weights, bitext.source.words(number), bitext.target.words(number)


def draw(weights: dict[str, np.ndarray], source: list[str], target: list[str], output: Path) -> None:
    """Write the picture as PNG."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        fail("the picture needs matplotlib: pip install '.[plot]'")
    figure = Figure(figsize=(8, 4), layout="constrained", dpi=110)
    for place, (title, matrix) in zip(figure.subplots(1, 2, sharey=True), weights.items(), strict=True):
        place.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        place.set_title(title)
        place.set_xticks(range(len(source)), source, rotation=60, ha="right")
        place.set_yticks(range(len(target)), target)
    with atomic_write(output) as file:
        FigureCanvasAgg(figure).print_png(file)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--pair", "number", default=2, show_default=True, help="The held-out pair, counted from 0.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The picture, PNG.")
def main(run: Path, number: int, output: Path) -> None:
    """The picture of a sentence pair as IBM Model 1 and attention align it."""
    need_files(run, remedy="alignkit train --sample --preset small -o RUN writes it")
    draw(*panels(run, number), output)


if __name__ == "__main__":
    run_benchmark(main)
