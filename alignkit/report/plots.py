"""Mechanisms side by side as a picture, by matplotlib (the ``plot`` extra)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from alignkit.errors import AlignkitError
from alignkit.storage import atomic_write
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

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
