"""The conditions that the result of attention-without-lexicon rests on, at any size, block after block of seeds.

    python benchmarks/transplants.py -o benchmarks/results/transplants
    python benchmarks/transplants.py --first-seed 100 --block 24 --seeds 24 --set hidden=64 --set batch=32 \
        --set learning_rate=0.005 --set products=float32 -o benchmarks/results/transplants-small

Attention emerges where it is 4 times uniform for good; 2 and 3 times are shown, too. A network reaches twice
uniform if it attends to the end of a sequence where that is due, and to nothing else. A seed counts once all of
its networks are trained; a run that is repeated goes on after those that are in OUT.csv. Writes OUT.csv, a row for
each measurement, and OUT.md.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
import pandas as pd
import torch
from inputs import run_benchmark

from alignkit.lab.experiments import Claim, averaged, claim
from alignkit.lab.experiments import interventions as experiment
from alignkit.lab.experiments.interventions import Bench, gap_claim, with_words_erased
from alignkit.support.settings import assigned
from alignkit.support.stages import no_progress

LEVELS = (4.0, 2.0, 3.0)  #: times uniform; claims are judged at the first
BOTH, FLAT = "encoder, decoder", "all (flat)"
SETTINGS = experiment.AttentionWithoutLexiconSettings(
    hidden=256, batch=128, learning_rate=1e-3, products="bfloat16"
)


def block(settings: experiment.AttentionWithoutLexiconSettings, seeds: range) -> pd.DataFrame:
    """Trains the networks of some seeds; a row for each measurement."""
    lab = Bench(settings, no_progress, settings.length, seeds, 7)
    flat = lab.trained_uniformly(lab.narrow, settings.before)

    def moved(*groups: str) -> list:
        return [experiment.transplant(*pair, groups) for pair in zip(lab.starts, flat, strict=True)]

    starts = {
        "none": moved(),
        "readout": moved("readout"),
        "readout, erased": [with_words_erased(x, s) for x, s in zip(moved("readout"), seeds, strict=True)],
        BOTH: moved("encoder", "decoder"),
        FLAT: moved(*experiment.GROUPS),
        "places written": [
            experiment.with_places(fresh, experiment.mean_places(trained, lab.narrow))
            for fresh, trained in zip(lab.starts, flat, strict=True)
        ],
    }
    rows = []
    for name, given in starts.items():
        found = lab.condition(name, np.nan, given, known=lab.starts if name == "places written" else None)
        for seed, known, run in zip(seeds, found.known, found.runs, strict=True):
            columns = {"step": run.steps, "accuracy": run.accuracy, "attention": run.attention}
            rows.append(pd.DataFrame({"condition": name, "seed": seed, "known": known, **columns}))
    return pd.concat(rows, ignore_index=True).round(5)


def emergence(rows: pd.DataFrame, settings: experiment.AttentionWithoutLexiconSettings, level: float) -> dict:
    """Steps of emergence by condition, (seeds,)."""
    least, late = level / (settings.length + 1), settings.steps + settings.every
    found: dict[str, list[float]] = {}
    for (name, _), run in rows.groupby(["condition", "seed"], sort=False):
        below = np.nonzero(run.attention.to_numpy() < least)[0]
        first = below[-1] + 1 if len(below) else 0
        found.setdefault(name, []).append(run.step.iloc[first] if first < len(run) else late)
    return {name: np.array(steps, float) for name, steps in found.items()}


def claims(steps: dict, known: dict, last: int) -> list[Claim]:
    """The claims as they were registered; differences are within seeds, and intervals over seeds."""

    def gap(text: str, one: str, other: str, above: float | None = None) -> Claim:
        return gap_claim(text, steps, one, other, last, above)

    words = averaged(known["readout"] - known["none"])
    return [
        gap("Flat training makes attention emerge earlier", FLAT, "none"),
        gap("The readout alone does", "readout", "none"),
        gap("... and less when its words are erased", "readout", "readout, erased"),
        gap("... and it does more than encoder and decoder", "readout", BOTH),
        gap("Encoder and decoder: at most 30 steps earlier", BOTH, "none", above=-30.0),
        gap("Places written: later than fresh", "places written", "none", above=0.0),
        claim("With the readout, beta knows more words than fresh", "share of words", *words, above=0.0),
    ]


def summary(rows: pd.DataFrame, settings: experiment.AttentionWithoutLexiconSettings) -> str:
    """The tables in Markdown."""
    ends = rows.groupby(["condition", "seed"], sort=False).last().reset_index()
    known = {name: part.known.to_numpy() for name, part in ends.groupby("condition", sort=False)}
    levels = {level: emergence(rows, settings, level) for level in LEVELS}
    lines = [f"| condition | known | {' | '.join(f'{x:g} times' for x in LEVELS)} | attention | accuracy |"]
    lines.append("|---|--:|" + "---|" * len(LEVELS) + "--:|--:|")
    for name, part in ends.groupby("condition", sort=False):
        cells = []
        for steps in (levels[level][name] for level in LEVELS):
            value, (low, high) = averaged(steps)
            cells.append(f"{(steps <= settings.steps).sum()} of {len(steps)}, {value:.0f} [{low:.0f}, {high:.0f}]")
        lines.append(
            f"| {name} | {part.known.mean():.3f} | {' | '.join(cells)} | "
            f"{part.attention.mean():.2f} | {part.accuracy.mean():.2f} |"
        )
    lines += ["", f"| claim | {' | '.join(f'{x:g} times' for x in LEVELS)} |", "|---|" + "---|" * len(LEVELS)]
    judged = zip(*(claims(steps, known, settings.steps) for steps in levels.values()), strict=True)
    for each in judged:
        digits = 3 if each[0].statistic == "share of words" else 0
        cells = [
            f"{c.value:.{digits}f} [{c.low:.{digits}f}, {c.high:.{digits}f}] **{c.verdict.value}**" for c in each
        ]
        lines.append(f"| {each[0].text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.option("--seeds", default=100, show_default=True, help="Networks of each condition, at most.")
@click.option("--first-seed", default=200, show_default=True)
@click.option("--block", "size", default=1, show_default=True, help="Seeds that are trained together.")
@click.option("--until", help="No block begins after this time of the day, HH:MM in UTC.")
@click.option("--set", "changes", multiple=True, help="NAME=VALUE, a setting of the experiment.")
@click.option("-o", "--output", required=True)
def main(seeds: int, first_seed: int, size: int, until: str | None, changes: tuple[str, ...], output: str) -> None:
    torch.set_num_threads(1)
    settings = assigned(SETTINGS, changes)
    path = Path(f"{output}.csv")
    parts = [pd.read_csv(path)] if path.exists() else []
    for first in range(first_seed, first_seed + seeds, size):
        if until and f"{datetime.now(UTC):%H:%M}" > until:
            break
        if any(first in set(part.seed) for part in parts):
            continue
        parts.append(block(settings, range(first, first + size)))
        rows = pd.concat(parts, ignore_index=True)
        rows.to_csv(path, index=False)
        title = f"# attention-without-lexicon, {rows.seed.nunique()} seeds\n\n`python benchmarks/transplants.py`"
        sizes = ", ".join(f"{n} {getattr(settings, n)}" for n in ("hidden", "batch", "learning_rate", "products"))
        Path(f"{output}.md").write_text(f"{title}, {sizes}.\n\n{summary(rows, settings)}", encoding="utf-8")
        print(summary(rows, settings), flush=True)


if __name__ == "__main__":
    run_benchmark(main)
