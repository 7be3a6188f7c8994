"""The conditions that the result of attention-without-lexicon rests on, at any size, block after block of seeds.

    python benchmarks/transplants.py --looks 4,5,15,20 --seeds 20 -o benchmarks/results/transplants
    python benchmarks/transplants.py --first-seed 100 --block 24 --seeds 24 --set hidden=64 --set batch=32 \
        --set learning_rate=0.005 --set products=float32 -o benchmarks/results/transplants-small

Attention emerges where it is 4 times uniform for good; 2 and 3 times are shown, too. A network reaches twice
uniform if it attends to the end of a sequence where that is due, and to nothing else. A seed counts once all of
its networks are trained; a run that is repeated goes on after those that are in OUT.csv. Writes OUT.csv, a row for
each measurement, and OUT.md.

Whoever looks at results before deciding whether to train more seeds finds too much. So verdicts are given at the
level at which, with all these looks, 5 % of differences that are not there would be found (Pocock 1977).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
import pandas as pd
import torch
from inputs import fail, run_benchmark
from scipy.stats import ttest_1samp, wilcoxon

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import averaged, judge
from alignkit.lab.experiments import interventions as experiment
from alignkit.lab.experiments.interventions import Bench, with_words_erased
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


def level_of(looks: tuple[int, ...], draws: int = 200_000) -> float:
    """The level of Student's tests at each of these numbers of seeds if one in twenty series may find anything."""
    values = np.random.default_rng(0).standard_normal((draws, max(looks)))
    smallest = np.min([ttest_1samp(values[:, :seeds], 0, axis=1).pvalue for seeds in looks], axis=0)
    return float(np.quantile(smallest, 0.05))


@dataclass(frozen=True)
class Difference:
    """Differences between two conditions within seeds, and what was predicted of their mean.

    Attributes:
        text: the prediction.
        values: float64 (N,), one for each seed.
        below, above: the bound that was predicted; one of them is None.
        digits: of the numbers that are shown.
    """

    text: str
    values: np.ndarray
    below: float | None = 0.0
    above: float | None = None
    digits: int = 0

    def mean(self) -> str:
        """The mean and its 95 % interval."""
        value, (low, high) = averaged(self.values)
        return f"{value:.{self.digits}f} [{low:.{self.digits}f}, {high:.{self.digits}f}]"

    def judged(self, level: float) -> str:
        """The mean, its 95 % interval, its p value, and the verdict at this level."""
        test = ttest_1samp(self.values, self.above if self.below is None else self.below)
        verdict = judge(*test.confidence_interval(1 - level), above=self.above, below=self.below)
        return f"{self.mean()}, p = {test.pvalue:.2g} **{verdict}**"


def differences(steps: dict, last: int, never: bool = True) -> list[Difference]:
    """The differences of the predictions, as they were registered.

    Args:
        steps: of emergence by condition.
        last: step of the training; seeds where attention emerges in neither condition say nothing.
        never: whether those count where it emerges in one of them only, with the step after the last.
    """

    def gap(text: str, one: str, other: str, above: float | None = None) -> Difference:
        learned = np.array([steps[one], steps[other]]) <= last
        counted = learned.any(0) if never else learned.all(0)
        return Difference(text, (steps[one] - steps[other])[counted], 0.0 if above is None else None, above)

    return [
        gap("Flat training makes attention emerge earlier", FLAT, "none"),
        gap("The readout alone does", "readout", "none"),
        gap("... and less when its words are erased", "readout", "readout, erased"),
        gap("... and it does more than encoder and decoder", "readout", BOTH),
        gap("Encoder and decoder: at most 30 steps earlier", BOTH, "none", above=-30.0),
        gap("Places written: later than fresh", "places written", "none", above=0.0),
    ]


def summary(
    rows: pd.DataFrame, settings: experiment.AttentionWithoutLexiconSettings, looks: tuple[int, ...]
) -> str:
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
    level, reason = 0.05, ""
    if looks:
        level, reason = level_of(looks), f" after looks at {', '.join(map(str, looks))} seeds"
    lines += ["", f"Intervals are 95 %; verdicts at p < {level:.3f}{reason}.", ""]
    lines += [f"| claim | {' | '.join(f'{x:g} times' for x in LEVELS)} |", "|---|" + "---|" * len(LEVELS)]
    found = [differences(steps, settings.steps) for steps in levels.values()]
    for each in zip(*found, strict=True):
        lines.append(f"| {each[0].text} | {' | '.join(one.judged(level) for one in each)} |")
    words = known["readout"] - known["none"]
    claim = Difference("With the readout, beta knows more words than fresh", words, None, 0.0, digits=3)
    lines.append(f"| {claim.text} | {claim.judged(level)} |" + " |" * (len(LEVELS) - 1))
    lines += ["", "At 4 times; *all seeds* count networks that never learn with the step after the last:", ""]
    lines += ["| claim | all seeds | earlier, later, equal | rank test | seeds that learn in both |"]
    lines += ["|---|---|---|---|---|"]
    for every, learned in zip(found[0], differences(levels[LEVELS[0]], settings.steps, never=False), strict=True):
        signs = ", ".join(str(int((np.sign(every.values) == sign).sum())) for sign in (-1, 1, 0))
        rank = f"p = {wilcoxon(every.values).pvalue:.2g}"
        lines.append(
            f"| {every.text} | {every.mean()} | {signs} | {rank} | {len(learned.values)}: {learned.mean()} |"
        )
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.option("--seeds", default=100, show_default=True, help="Networks of each condition, at most.")
@click.option("--first-seed", default=200, show_default=True)
@click.option("--block", "size", default=1, show_default=True, help="Seeds that are trained together.")
@click.option("--looks", help="Numbers of seeds at which results were looked at, with commas between them.")
@click.option("--until", help="No block begins after this time of the day, HH:MM in UTC.")
@click.option("--set", "changes", multiple=True, help="NAME=VALUE, a setting of the experiment.")
@click.option("-o", "--output", required=True)
def main(
    seeds: int,
    first_seed: int,
    size: int,
    looks: str | None,
    until: str | None,
    changes: tuple[str, ...],
    output: str,
) -> None:
    torch.set_num_threads(1)
    settings = assigned(SETTINGS, changes)
    looked = tuple(int(look) if look.strip().isdecimal() else 0 for look in looks.split(",")) if looks else ()
    if min(looked, default=2) < 2:
        raise AlignkitError(f"--looks must be numbers of seeds, 2 or more, as 5,15,20, not {looks}")
    path = Path(f"{output}.csv")
    parts = [pd.read_csv(path)] if path.exists() else []
    for first in range(first_seed, first_seed + seeds, size):
        if until and f"{datetime.now(UTC):%H:%M}" > until:
            break
        if any(first in set(part.seed) for part in parts):
            continue
        parts.append(block(settings, range(first, first + size)))
        pd.concat(parts, ignore_index=True).to_csv(path, index=False)
    if not parts:
        fail(f"{path}: no seed is trained yet, and none may begin")
    rows = pd.concat(parts, ignore_index=True)
    command = "python benchmarks/transplants.py" + f" --looks {looks}" * bool(looks)
    title = f"# attention-without-lexicon, {rows.seed.nunique()} seeds\n\n`{command}`"
    sizes = ", ".join(f"{n} {getattr(settings, n)}" for n in ("hidden", "batch", "learning_rate", "products"))
    tables = summary(rows, settings, looked)
    Path(f"{output}.md").write_text(f"{title}, {sizes}.\n\n{tables}", encoding="utf-8")
    print(tables)


if __name__ == "__main__":
    run_benchmark(main)
