"""``copying``: a network that cannot learn to copy (Snell et al. 2021, section 3.3 and appendix A.3).

While attention is near uniform, the network sees a bag of words, so all it can learn about translation is in the
co-occurrence table C. In permutations of one set of words, every word co-occurs with every word equally often: C
is flat, nothing drives attention, and copying is learned only from a lucky initialisation. Copying 40 of 60 words
is a larger task and an easy one, since C has a diagonal. In a mixture of permutations of two disjoint sets, C has
two flat blocks: it determines the set but not the word.

Our choices: sequences end with EOS on both sides; "fails" means a token accuracy below ``learned`` at the last
step. Without the source, at most :meth:`Sequences.chance` is possible (0.13 for permutations of 40), and a network
that copies has nearly 1, so any bound well between the two gives almost the same count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from alignkit.lab.experiments.ensemble import MemberRun, SequencePlan
from alignkit.lab.experiments.protocol import Claim, Figure, Result
from alignkit.lab.experiments.sequences import (
    Sequences,
    color_of,
    contrast,
    count_table,
    curves,
    exact_count_table,
    failure_claim,
    summary,
    train_networks,
)
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress


@dataclass(frozen=True)
class CopyingSettings(SequencePlan):
    """The sequences and the networks; the defaults are the paper's.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks per kind of sequences.
        kinds: of sequences, see :class:`alignkit.lab.experiments.sequences.Sequences`.
        length: tokens of a sequence; also the number of types of ``permutation`` and ``independent``.
        subset_types: number of types of ``subset``.
        pairs: sequences that C is counted on.
    """

    seeds: int = 20
    kinds: tuple[str, ...] = ("permutation", "subset", "independent", "mixture")
    length: int = 40
    subset_types: int = 60
    pairs: int = 5000


#: (kind, types, length): copying permutations of three words, and three of five
EXAMPLES = (("permutation", 3, 3), ("subset", 5, 3))
QUICK = CopyingSettings(seeds=6, length=20, subset_types=30, hidden=64, batch=64, pairs=1000)


def sequences_of(kind: str, settings: CopyingSettings) -> Sequences:
    """The sequences of a kind at this size."""
    types = {"subset": settings.subset_types, "mixture": 2 * settings.length}
    return Sequences(kind, types.get(kind, settings.length), settings.length)


def run_copying(settings: CopyingSettings, progress: Progress = no_progress) -> Result:
    """Trains all networks and counts the failures."""
    found: dict[str, list[MemberRun]] = {}
    tables: dict[str, np.ndarray] = {}
    for number, kind in enumerate(settings.kinds):
        sequences = sequences_of(kind, settings)
        tables[kind] = count_table(sequences, settings.pairs, seed=0)
        part = named_progress(progress, kind, number, len(settings.kinds))
        found[kind] = train_networks(sequences, settings, settings.seeds, part)
    rows = pd.concat([curves(runs, kind=kind) for kind, runs in found.items()], ignore_index=True)
    table = []
    for kind, runs in found.items():
        sequences = sequences_of(kind, settings)
        row = {"setting": kind, "types": sequences.types, "diagonal of C / rest": contrast(tables[kind])}
        table.append({**row, "chance": sequences.chance(), **summary(runs, settings.learned)})
    return Result(
        pd.DataFrame(table),
        tuple(copying_claims(found, settings)),
        {"accuracy": rows, "counts": _count_rows(tables)},
        lambda figure: _draw(figure, found, tables, settings),
    )


def copying_claims(found: Mapping[str, list[MemberRun]], settings: CopyingSettings) -> Iterator[Claim]:
    """The claims about the kinds of sequences that were trained on."""
    length, rarely = settings.length, "judged as: for less than a fifth of the seeds"
    if runs := found.get("permutation"):
        text = f"copying permutations of {length} fails for"
        yield failure_claim(f"{text} some seeds (section 3.3)", runs, settings, above=0.0)
        half = f"{text} about half of the seeds, a quarter to three quarters (the slides)"
        yield failure_claim(half, runs, settings, above=0.25, below=0.75)
    if runs := found.get("subset"):
        text = f"copying {length} of {settings.subset_types} never fails (section 3.3); {rarely}"
        yield failure_claim(text, runs, settings, below=0.2)
    if runs := found.get("independent"):
        text = f"copying {length} independent draws never fails (Setting 2 of the slides); {rarely}"
        yield failure_claim(text, runs, settings, below=0.2)
    if runs := found.get("mixture"):
        text = "permutations of two disjoint sets sometimes fail, since C is flat within a set (appendix A.3)"
        yield failure_claim(text, runs, settings, above=0.0)


def _count_rows(tables: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """The upper triangle of C, which is symmetric, as rows."""
    frames = []
    for kind, table in tables.items():
        source, target = np.triu_indices(len(table))
        counts = np.round(table[source, target], 5)
        frames.append(pd.DataFrame({"kind": kind, "source": source, "target": target, "count": counts}))
    return pd.concat(frames, ignore_index=True)


def _draw(
    figure: Figure,
    found: Mapping[str, list[MemberRun]],
    tables: Mapping[str, np.ndarray],
    settings: CopyingSettings,
) -> None:
    """Accuracy of every seed above, C below, and the smallest example at the bottom."""
    axes = figure.subplots(3, max(len(found), len(EXAMPLES)), squeeze=False, height_ratios=[2, 2, 1])
    top = max(float(table.max()) for table in tables.values())
    for column, (kind, runs) in enumerate(found.items()):
        above, below = axes[0, column], axes[1, column]
        for run in runs:
            above.plot(run.steps, run.accuracy, color=color_of(run, settings), lw=0.8, alpha=0.7)
            if run.steps[-1] < settings.steps:
                rest = [run.steps[-1], settings.steps], [run.accuracy[-1]] * 2  # after a network stopped
                above.plot(*rest, color="tab:blue", lw=0.8, alpha=0.3, ls=":")
        above.set(title=kind, ylim=(0, 1.02), xlim=(0, settings.steps), xlabel="step")
        above.axhline(sequences_of(kind, settings).chance(), color="gray", lw=0.6, ls="--")
        picture = below.imshow(tables[kind], vmin=0, vmax=top, cmap="viridis")
        below.set(xticks=[], yticks=[], xlabel="output word")
    axes[0, 0].set_ylabel("token accuracy")
    axes[1, 0].set_ylabel("input word")
    figure.colorbar(picture, ax=list(axes[1]), label="C per pair", shrink=0.8)
    for axis in (*axes[0, len(found) :], *axes[1, len(found) :], *axes[2, len(EXAMPLES) :]):
        axis.axis("off")
    for axis, (kind, types, length) in zip(axes[2], EXAMPLES, strict=False):
        table = exact_count_table(Sequences(kind, types, length))
        axis.imshow(table, vmin=0, vmax=1 / length, cmap="viridis")
        axis.set(xticks=[], yticks=[], title=f"C of {length} of {types}")
