"""``copying``: a network that cannot learn to copy (Snell et al. 2021, section 3.3 and appendix A.3).

While attention is near uniform, the network sees a bag of words, so all it can learn about which word translates
to which is in the co-occurrence table C. In permutations of one set of words every word meets every word equally
often: C is flat, nothing drives attention, and copying is learned only from a lucky start. 40 words out of 60 are
a larger task and an easy one, for C has a diagonal. In a mixture of permutations of two disjoint sets C has two
flat blocks: it tells the set but not the word.

What we took: sequences end with an end token on both sides; "fails" means a token accuracy below ``learned`` at
the last step. Without the source, at most :meth:`Sequences.chance` is possible (0.13 for permutations of 40), and
a network that copies has nearly 1, so any bound well between the two gives almost the same count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.experiments.sequences import Plan, Sequences, contrast, count_table, curves, reached
from alignkit.metrics.intervals import wilson
from alignkit.neural.ensemble.networks import copying_settings, initial_parameters
from alignkit.neural.ensemble.training import MemberRun, train_ensemble

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings(Plan):
    """The paper's size.

    Attributes (others are those of :class:`Plan`):
        seeds: networks per setting; they share no sequences and no initial weights.
        kinds: the settings to train, see :class:`alignkit.experiments.sequences.Sequences`.
        length: tokens of a sequence; also the types of permutations and of independent draws.
        subset_types: the types that ``subset`` draws from.
        pairs: sequences that C is counted on.
    """

    seeds: int = 20
    kinds: tuple[str, ...] = ("permutation", "subset", "independent", "mixture")
    length: int = 40
    subset_types: int = 60
    pairs: int = 5000

    def __post_init__(self) -> None:
        check_positive(self, "seeds", "kinds", "length", "subset_types", "hidden", "pairs")


QUICK = Settings(seeds=6, length=20, subset_types=30, hidden=64, batch=64, pairs=1000)


def sequences_of(kind: str, settings: Settings) -> Sequences:
    """The distribution that a kind stands for at this size."""
    types = {"subset": settings.subset_types, "mixture": 2 * settings.length}
    return Sequences(kind, types.get(kind, settings.length), settings.length)


def train(sequences: Sequences, settings: Settings, progress: Progress, message: str) -> list[MemberRun]:
    """Trains a network per seed."""
    seeds = range(settings.seeds)
    shape = copying_settings(sequences.vocabulary, settings.hidden)
    starts = [initial_parameters(shape, seed) for seed in seeds]
    return train_ensemble(starts, seeds, sequences.draw, settings.training, progress, message)


def run(settings: Settings, progress: Progress = no_progress) -> Result:
    """Trains all networks and counts the failures."""
    import pandas as pd

    found: dict[str, list[MemberRun]] = {}
    tables: dict[str, np.ndarray] = {}
    for kind in settings.kinds:
        sequences = sequences_of(kind, settings)
        tables[kind] = count_table(sequences, settings.pairs, seed=0)
        found[kind] = train(sequences, settings, progress, kind)
    rows = pd.concat([curves(runs, kind=kind) for kind, runs in found.items()], ignore_index=True)
    table = pd.DataFrame([_row(kind, found[kind], tables[kind], settings) for kind in settings.kinds])
    return Result(
        table,
        tuple(_claims(found, settings)),
        {"accuracy": rows, "counts": _count_rows(tables)},
        lambda figure: draw(figure, found, tables, settings),
    )


def failures(runs: list[MemberRun], settings: Settings) -> int:
    """How many networks have not learned the task at their last step."""
    return sum(run.accuracy[-1] < settings.learned for run in runs)


def _row(kind: str, runs: list[MemberRun], table: np.ndarray, settings: Settings) -> dict[str, object]:
    failed = failures(runs, settings)
    learned = [reached(run, settings.learned) for run in runs if run.accuracy[-1] >= settings.learned]
    sequences = sequences_of(kind, settings)
    return {
        "setting": kind,
        "types": sequences.types,
        "diagonal of C / rest": contrast(table),
        "chance": sequences.chance(),
        "runs": len(runs),
        "failed": failed,
        "share": failed / len(runs),
        "mean accuracy": float(np.mean([run.accuracy[-1] for run in runs])),
        "median step learned": float(np.median(learned)) if learned else float("nan"),
    }


def _claims(found: Mapping[str, list[MemberRun]], settings: Settings) -> list[Claim]:
    length, steps = settings.length, settings.steps
    texts = {
        "permutation": (
            f"copying permutations of {length} fails for some seeds (section 3.3)",
            {"above": 0.0},
        ),
        "half": (
            f"copying permutations of {length} fails for about half of the seeds, a quarter to three quarters "
            "(section 3.3)",
            {"above": 0.25, "below": 0.75},
        ),
        "subset": (
            f"copying {length} of {settings.subset_types} never fails (section 3.3); judged as: in less than a "
            "fifth of the seeds",
            {"below": 0.2},
        ),
        "independent": (
            f"copying {length} independent draws never fails (appendix A.3); judged as: in less than a fifth of "
            "the seeds",
            {"below": 0.2},
        ),
        "mixture": (
            "permutations of two disjoint sets fail for some seeds, since C is flat within a set (appendix A.3)",
            {"above": 0.0},
        ),
    }
    claims = []
    for name, (text, bounds) in texts.items():
        runs = found.get("permutation" if name == "half" else name)
        if runs is not None:
            failed = failures(runs, settings)
            statistic = (
                f"share of {len(runs)} seeds with a token accuracy below {settings.learned} at step {steps}"
            )
            claims.append(claim(text, statistic, failed / len(runs), wilson(failed, len(runs)), **bounds))
    return claims


def _count_rows(tables: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """C as rows; its upper triangle, for it is symmetric."""
    import pandas as pd

    frames = []
    for kind, table in tables.items():
        source, target = np.triu_indices(len(table))
        counts = np.round(table[source, target], 5)
        frames.append(pd.DataFrame({"kind": kind, "source": source, "target": target, "count": counts}))
    return pd.concat(frames, ignore_index=True)


def draw(
    figure: Figure,
    found: Mapping[str, list[MemberRun]],
    tables: Mapping[str, np.ndarray],
    settings: Settings,
) -> None:
    """Above, the accuracy of every seed; below, C."""
    axes = figure.subplots(2, len(found), squeeze=False)
    top = max(float(table.max()) for table in tables.values())
    for column, (kind, runs) in enumerate(found.items()):
        above, below = axes[0, column], axes[1, column]
        for run in runs:
            failed = run.accuracy[-1] < settings.learned
            above.plot(run.steps, run.accuracy, color="tab:red" if failed else "tab:blue", lw=0.8, alpha=0.7)
            if run.steps[-1] < settings.steps:
                above.plot(*_rest(run, settings), color="tab:blue", lw=0.8, alpha=0.3, ls=":")
        above.set(title=kind, ylim=(0, 1.02), xlim=(0, settings.steps), xlabel="step")
        above.axhline(sequences_of(kind, settings).chance(), color="gray", lw=0.6, ls="--")
        picture = below.imshow(tables[kind], vmin=0, vmax=top, cmap="viridis")
        below.set(xticks=[], yticks=[], xlabel="output word")
    axes[0, 0].set_ylabel("token accuracy")
    axes[1, 0].set_ylabel("input word")
    figure.colorbar(picture, ax=list(axes[1]), label="C per pair", shrink=0.8)


def _rest(run: MemberRun, settings: Settings) -> tuple[list[float], list[float]]:
    """The flat line after a network stopped."""
    return [float(run.steps[-1]), float(settings.steps)], [float(run.accuracy[-1])] * 2
