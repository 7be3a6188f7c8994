"""The layer whose attention aligns best, chosen by the agreement of two directions, without gold links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import AlignkitError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import Reading
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LayerChoice:
    """The layers of two networks of opposite directions whose links agree best.

    Attributes:
        table: a row per pair of layers: ``layer``, ``reverse_layer``, ``f1`` of the one's links against the
            other's, ``links`` and ``reverse_links``.
        forward, reverse: the networks, with the readings of the best row.
        links: the links of both readings, the second's with the source first.
    """

    table: pd.DataFrame
    forward: NeuralAligner
    reverse: NeuralAligner
    links: tuple[Links, Links]


def choose_layers(
    forward: NeuralAligner, reverse: NeuralAligner, bitext: Bitext, *, shifted: bool = True, heads: bool = False
) -> LayerChoice:
    """Choose the layers whose links agree best between the two directions (Chen et al. 2020).

    Args:
        forward: predicts the target from the source.
        reverse: predicts the source from the target.
        bitext: M pairs of whitespace words, with no gold links.
        shifted: read the weights of the step whose input is the target word.
        heads: choose among single heads, too.

    Raises:
        AlignkitError: there is no link at all.
    """
    import pandas as pd

    back = Bitext(bitext.target, bitext.source)
    ahead = {reading: _links(forward, reading, bitext) for reading in readings(forward, shifted, heads)}
    behind = {reading: _links(reverse, reading, back).reversed for reading in readings(reverse, shifted, heads)}
    rows = []
    for reading, links in ahead.items():
        for other, backward in behind.items():
            f1 = evaluate(GoldLinks(backward, backward), links).f1
            names = {"layer": reading.layer, "head": reading.head}
            names |= {"reverse_layer": other.layer, "reverse_head": other.head}
            rows.append({**names, "f1": f1, "links": len(links.pairs), "reverse_links": len(backward.pairs)})
    table = pd.DataFrame(rows)
    if table["f1"].isna().all():
        raise AlignkitError("the attention of neither network links any words; give another text")
    best = table.iloc[int(np.nanargmax(table["f1"]))]
    chosen = Reading(int(best["layer"]), int(best["head"]), shifted)
    other = Reading(int(best["reverse_layer"]), int(best["reverse_head"]), shifted)
    aligners = forward.with_reading(chosen), reverse.with_reading(other)
    return LayerChoice(table, *aligners, (ahead[chosen], behind[other]))


def readings(aligner: NeuralAligner, shifted: bool, heads: bool = False) -> list[Reading]:
    """The mean over heads of every layer; with ``heads``, every single head as well."""
    network = aligner.settings.network
    layers = range(1, network.attention_layers + 1)
    found = [Reading(layer, 0, shifted) for layer in layers]
    if heads:
        found += [Reading(layer, head, shifted) for layer in layers for head in range(1, network.heads + 1)]
    return found


def _links(aligner: NeuralAligner, reading: Reading, bitext: Bitext) -> Links:
    return aligner.with_reading(reading).on_words().links(bitext)
