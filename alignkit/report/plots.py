"""The figures of a report, and of mechanisms side by side, as files, by matplotlib (the ``plot`` extra)."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.metrics.protocol import Metric
from alignkit.metrics.registry import MAIN, METRICS
from alignkit.packages import missing
from alignkit.report.breakdown import breakdown_table, mass_table
from alignkit.report.frames import make_folder
from alignkit.report.model import Report, names_of
from alignkit.report.page_data import time_course_lines
from alignkit.storage import atomic_write
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: colours that a colour-blind reader can tell apart (Okabe and Ito 2008)
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#d55e00", "#000000", "#e69f00")
CHANCE = "#8a919b"
Draw = Callable[["Axes"], None]


def figures(report: Report) -> dict[str, tuple[tuple[float, float], Draw]]:
    """name -> (inches, what draws it): the figures that the report has data for."""
    found: dict[str, tuple[tuple[float, float], Draw]] = {}
    if not report.table.empty:
        side = 2.2 + 1.1 * len(report.sets)
        for name in report.tables:
            found[name] = ((side + 1, side), partial(_matrix, report, METRICS[name]))
    shown = time_course_lines(report.time_course, names_of(report.sets), report.uniform_steps)
    if shown is not None:
        found["course"] = ((8, 4.5), partial(_time_course, shown))
    table = breakdown_table(report)
    u, v = report.main_pair
    axis = {
        "frequency": "occurrences of the source word in the training text",
        "length": "source words in the sentence",
    }
    for by, words in axis.items():
        part = table[(table["by"] == by) & (table["u"] == u) & (table["v"] == v)]
        if not part.empty:
            labels = names_of(report.sets)
            found[by] = ((8, 4.5), partial(_bands, part, words, f"{labels[u]} and {labels[v]}"))
    mass = mass_table(report)
    if not mass.empty:
        found["mass"] = ((8, 4), partial(_mass, report, mass))
    return found


def save_plots(report: Report, folder: PathLike) -> list[Path]:
    """Write NAME.png and NAME.svg for every figure; the same report gives the same bytes. Returns the files.

    Raises:
        AlignkitError: matplotlib is not installed, or the folder cannot be written to.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("matplotlib") from error
    place = make_folder(folder)
    written = []
    for name, (size, draw) in figures(report).items():
        # Ids in an SVG are random without a salt, and text as paths depends on the fonts of the machine.
        with matplotlib.rc_context({"svg.hashsalt": "alignkit", "svg.fonttype": "none"}):
            figure = Figure(figsize=size, layout="constrained")
            FigureCanvasAgg(figure)
            draw(figure.add_subplot())
            for form, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
                written.append(place / f"{name}.{form}")
                with atomic_write(written[-1]) as stream:
                    figure.savefig(stream, format=form, dpi=130, metadata=metadata)
    return written


def _plain(text: str) -> str:
    """Text with its dollar signs escaped, which matplotlib would read as a formula."""
    return text.replace("$", r"\$")


def _matrix(report: Report, metric: Metric, axes: Axes) -> None:
    labels = names_of(report.sets)
    names = list(labels)
    grid = np.full((len(names), len(names)), np.nan)
    factor, digits, unit = (100, 0, " %") if metric.share else (1, 2, "")
    for row in report.tables[metric.name].to_dict("records"):
        i, j = names.index(row["u"]), names.index(row["v"])
        grid[i, j] = value = row[metric.name]
        if np.isfinite(value):
            shown, low, high, chance = (
                f"{factor * row[x]:.{digits}f}" for x in (metric.name, "low", "high", "chance")
            )
            text = f"{shown}{unit}\n{low}\N{EN DASH}{high}\nchance {chance}{unit}"
            colour = "white" if value > 0.6 else "black"
            axes.text(j, i, text, ha="center", va="center", fontsize=8, color=colour)
    axes.imshow(grid, cmap="Blues", vmin=0, vmax=1)
    words = [_plain(label.replace(" ", "\n", 1)) for label in labels.values()]
    axes.set_xticks(range(len(names)), words, fontsize=8)
    axes.set_yticks(range(len(names)), words, fontsize=8)
    if metric is MAIN:
        axes.set_xlabel("is looked up among the best of")
        axes.set_ylabel("the favourite source word of")
    else:
        axes.set_title(metric.name)


def _per_cent(axes: Axes, text: str = "per cent") -> None:
    axes.set_ylim(0, 100)
    axes.set_ylabel(text)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _legend_above(axes: Axes) -> None:
    """A legend over the axes, where it covers no data."""
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, borderaxespad=0)


def labelled_steps(steps: list[int]) -> list[int]:
    """The steps, in ascending order, whose labels fit on a logarithmic axis, with the first and the last."""
    ticks = steps[:1]
    for step in steps[1:-1]:
        if step >= 2 * ticks[-1] and steps[-1] >= 2 * step:
            ticks.append(step)
    return ticks + steps[1:][-1:]


def _time_course(shown: dict[str, Any], axes: Axes) -> None:
    for i, series in enumerate(shown["series"]):
        steps = [step for step, _ in series["points"]]
        style = {"performance": "--", "correlation": ":"}.get(series["role"], "-")
        per_cent = [100 * value for _, value in series["points"]]
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(steps, per_cent, style, marker="o", markersize=4, color=colour, label=_plain(series["label"]))
    if shown["chance"] is not None:
        axes.axhline(100 * shown["chance"], color=CHANCE, linestyle=":", label="agreement by chance")
    if shown["forced"]:
        axes.axvspan(0, shown["forced"], color="#eeeeee", zorder=0, label="attention fixed to uniform")
    steps = sorted({step for series in shown["series"] for step, _ in series["points"]})
    first = next((step for step in steps if step > 0), 1)
    axes.set_xscale("symlog", linthresh=first)
    ticks = labelled_steps(steps)
    axes.set_xticks(ticks, [f"{step:,}" for step in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, steps[-1] * 1.05)
    axes.set_xlabel("training step")
    _per_cent(axes)
    _legend_above(axes)


def _bands(table: pd.DataFrame, words: str, pair: str, axes: Axes) -> None:
    x = np.arange(len(table))
    value, low, high, chance = (100 * table[name].to_numpy() for name in ("agreement", "low", "high", "chance"))
    errors = np.maximum([value - low, high - value], 0)
    axes.errorbar(x, value, errors, fmt="o", color=COLOURS[0], label=f"agreement of {_plain(pair)}, 95 % interval")
    axes.hlines(chance, x - 0.2, x + 0.2, color=CHANCE, linestyle=":", label="agreement by chance")
    axes.set_xticks(x, [band.replace(" ", "\n") for band in table["band"]], fontsize=9)
    axes.set_xlabel(words)
    _per_cent(axes)
    _legend_above(axes)


def _mass(report: Report, table: pd.DataFrame, axes: Axes) -> None:
    labels = names_of(report.sets)
    classes = list(dict.fromkeys(table["class"]))
    sets = list(dict.fromkeys(table["set"]))
    height = 0.8 / len(sets)
    for k, name in enumerate(sets):
        part = table[table["set"] == name].set_index("class").reindex(classes).fillna(0)
        y = np.arange(len(classes)) + (k - (len(sets) - 1) / 2) * height
        colour = COLOURS[k % len(COLOURS)]
        axes.barh(y, 100 * part["mass"], height * 0.9, color=colour, label=_plain(labels[name]))
        even = 100 * part["even"].to_numpy()
        axes.vlines(even, y - height / 2, y + height / 2, color="black", label="" if k else "if spread evenly")
    axes.set_yticks(range(len(classes)), classes)
    axes.invert_yaxis()
    axes.set_xlabel("per cent of the weight")
    axes.spines[["top", "right"]].set_visible(False)
    _legend_above(axes)


#: column of the table -> (title, factor)
SHOWN = {
    "agreement": ("agreement with IBM 1, %", 100.0),
    "aer": ("AER, %", 100.0),
    "aer_shifted": ("AER, shifted, %", 100.0),
    "bleu": ("BLEU", 1.0),
    "loss": ("validation loss, nats", 1.0),
    "support": ("weights above 0 in a row", 1.0),
    "entropy": ("entropy of a row, nats", 1.0),
    "ms": ("ms a training step", 1.0),
}


def save_mechanism_plot(table: pd.DataFrame, path: PathLike) -> None:
    """Write a picture (.png or .svg) with a panel for every column of the table that has values.

    Args:
        table: of :func:`alignkit.mechanism_comparison.compare_mechanisms`.
        path: where to.

    Raises:
        AlignkitError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise AlignkitError("a picture needs matplotlib: pip install 'alignkit[plot]' adds it") from error
    panels = [name for name in SHOWN if table[name].notna().any()]
    places = range(len(table))
    figure = Figure(figsize=(2.5 + 2.3 * len(panels), 1.0 + 0.3 * len(table)), layout="constrained")
    for number, (name, axes) in enumerate(
        zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True)
    ):
        title, factor = SHOWN[name]
        axes.barh(places, table[name].fillna(0) * factor, color="#0072b2")
        if name == "agreement":
            axes.plot(table["chance"] * factor, places, "|", color="#000000", markersize=10, label="chance")
            axes.legend(frameon=False, fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_yticks(places, table["mechanism"] if number == 0 else [""] * len(table), fontsize=8)
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    kind = str(path).rpartition(".")[2].lower()
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format="svg" if kind == "svg" else "png",
        dpi=150,
        metadata={"Date": None} if kind == "svg" else None,
    )
    with atomic_write(path) as stream:
        stream.write(buffer.getvalue())
