"""The picture of quality and speed beside peers, from the results of benchmarks/quality.py.

    python benchmarks/quality_plot.py benchmarks/results/quality.json -o benchmarks/results/quality.png

Left the alignment error rate, right the wall time of the whole process on one thread, a row for each set. An
aligner whose directions were joined by several heuristics is shown with the best of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from inputs import fail, need_files, run_benchmark

from alignkit.support.files import atomic_write

OURS = "alignkit align"
PEERS = ("eflomal", "sil-thot", "systran-align")
#: set -> its name in the picture
SETS = {
    "cdt_da_en": "Danish-English",
    "ult_hbo_en": "Hebrew-English",
    "hansards_en_fr": "English-French",
    "europarl_de_en": "German-English",
}
BLUES, GREYS = ("#0b5cab", "#58a6e6", "#002f5f", "#8fc3f0"), ("#d5621c", "#3f8f5b", "#7d7d7d")
MARKERS = "os^Dv"
Row = dict[str, Any]


def best_rows(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """Aligner -> set -> its row on one thread with the lowest error rate; ours first, then the peers."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        name = row["aligner"]
        if row["threads"] != 1 or not (name.startswith(OURS) or name in PEERS):
            continue
        own = found.setdefault(name, {})
        if row["set"] not in own or row["aer"] < own[row["set"]]["aer"]:
            own[row["set"]] = row
    return dict(sorted(found.items(), key=lambda item: PEERS.index(item[0]) + 1 if item[0] in PEERS else 0))


def shown_name(aligner: str) -> str:
    """An aligner's name without what it says of itself in brackets."""
    return aligner.partition(" (")[0]


def draw(found: dict[str, dict[str, Row]], output: Path) -> None:
    """Write the picture as PNG."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
    except ImportError:
        fail("the picture needs matplotlib: pip install '.[plot]'")
    there = {name for rows in found.values() for name in rows}
    sets = [*(name for name in SETS if name in there), *sorted(there - set(SETS))]
    figure = Figure(figsize=(9, 0.62 * len(sets) + 1.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    ours = [name for name in found if name not in PEERS]
    for aligner, rows in found.items():
        own = aligner in ours
        k = ours.index(aligner) if own else PEERS.index(aligner)
        look = {"color": (BLUES if own else GREYS)[k % 4], "marker": "o" if own else MARKERS[1 + k]}
        for axes, field in zip(panels, ("aer", "seconds"), strict=True):
            y = [sets.index(name) for name in rows]
            x = [100 * row["aer"] if field == "aer" else row["seconds"] for row in rows.values()]
            axes.scatter(x, y, s=70 if own else 46, zorder=3 if own else 2, label=shown_name(aligner), **look)
    for axes, text in zip(
        panels, ("alignment error rate, % (lower is better)", "seconds on one thread (logarithmic)"), strict=True
    ):
        axes.set_xlabel(text)
        axes.grid(axis="both", color="#e2e2e2", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(sets)), [SETS.get(name, name) for name in sets])
    panels[0].invert_yaxis()
    panels[0].margins(y=0.12)
    panels[0].set_xlim(left=0)
    panels[1].set_xscale("log")
    panels[1].xaxis.set_major_locator(
        FixedLocator([base * 10**power for power in range(-1, 5) for base in (1, 2, 5)])
    )
    panels[1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panels[1].xaxis.set_minor_formatter(NullFormatter())
    panels[1].tick_params(axis="x", which="minor", length=0)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=-(-len(labels) // 2), frameon=False)
    with atomic_write(output) as stream:
        figure.savefig(stream, format="png", dpi=120, metadata={"Software": None})


@click.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The picture, PNG.")
def main(results: Path, output: Path) -> None:
    """The picture of quality and speed beside peers."""
    need_files(results, remedy="benchmarks/quality.py writes it")
    found = best_rows(json.loads(results.read_text())["quality"])
    if not found:
        fail(f"{results} has no rows of {OURS} or a peer on one thread")
    draw(found, output)


if __name__ == "__main__":
    run_benchmark(main)
