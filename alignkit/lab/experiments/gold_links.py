"""``gold-links``: the alignment error rate of attention and of the lexical probe while a network learns (ours).

Agreement says whether attention looks where a network without attention would; it does not say whether that is
right. Against links that people drew, at every logged step: the error rate (AER) of alpha, each target word linked
to the source word that it attends to most, and of beta, linked to the source word that makes the right word most
probable. Beside them stands IBM Model 1, fitted on the same tokens of the same text. Networks of words are
compared with networks of subwords, whose scores are merged into scores of words, so that all are judged by the
same links.

As usual for alignment, the text with gold links is part of the training text, without its links, of course.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import EncodedText, NetworkPlan, half_way_rows, train_network
from alignkit.links.from_scores import best_links
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks
from alignkit.metrics.aer import evaluate
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import Tokens
from alignkit.neural.training.trainer import learn_tokenizer
from alignkit.scores import Scores, merge_subwords
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs, read_line_pairs
from alignkit.text.tokenization import Tokenizer, encode_bitext
from alignkit.types import Progress

UNITS: tuple[Tokens, ...] = ("words", "subwords")
KINDS = ("alpha", "beta")
SAMPLE = "sample"


@dataclass(frozen=True)
class GoldLinksSettings(NetworkPlan):
    """The sets of gold links, and the networks that are trained on each of them.

    Attributes (others are those of :class:`NetworkPlan`, whose text files are not used):
        data: a folder with a folder per set: train.src, train.tgt, test.src, test.tgt and test.gold; the sample if
            empty.
        sets: names of folders in ``data``; all of them if empty.
        pairs: training pairs besides those with gold links, drawn from all; 0 for all.
        judged: pairs with gold links by which a network is measured, the first of each set; 0 for all.
        minimum: a word seen fewer times is unknown, to IBM 1 too.
        warmup: epochs with attention fixed to 1/L, without which small networks learn no attention from a few
            thousand pairs.
        seeds: networks for each set and unit.
        iterations: of IBM 1, without NULL.
    """

    least = NetworkPlan.least | {"sets": 0, "judged": 0, "warmup": 0}
    size = ("sets", "pairs", "pieces", "epochs", "batch", "seeds")
    data: str = ""
    sets: tuple[str, ...] = ()
    pairs: int = 12000
    judged: int = 100
    pieces: int = 2000
    minimum: int = 3
    epochs: int = 10
    warmup: int = 3
    batch: int = 32
    seeds: int = 2
    iterations: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sets and not self.data:
            raise AlignkitError("sets: they are folders in data, which is not given")


QUICK_GOLD_LINKS = GoldLinksSettings(pairs=300, pieces=500, minimum=1, epochs=4, warmup=1, seeds=2)


@dataclass(frozen=True, eq=False)
class GoldSet:
    """A text.

    Attributes:
        name: of the set.
        lines: all its pairs.
        judged: the first of them, whose gold links count.
        gold: of ``judged``.
    """

    name: str
    lines: LinePairs
    judged: LinePairs
    gold: GoldLinks


def read_sets(settings: GoldLinksSettings) -> list[GoldSet]:
    """The sets, in lower case; raises AlignkitError if there are none, InputError if one cannot be read."""
    from alignkit_data import path

    texts = {SAMPLE: [path(file) for file in ("test.de", "test.en", "train.de", "train.en", "test.gold")]}
    if settings.data:
        place, files = Path(settings.data), ("test.src", "test.tgt", "train.src", "train.tgt", "test.gold")
        names = settings.sets or sorted(gold.parent.name for gold in place.glob("*/test.gold"))
        if not names:
            raise AlignkitError(f"{place} has no folder with test.gold")
        texts = {name: [place / name / file for file in files] for name in names}
    sets = []
    for name, paths in texts.items():
        held, text = (read_line_pairs(*paths[low : low + 2], lowercase=True) for low in (0, 2))
        gold = read_gold(paths[-1])
        if len(gold) != len(held.source):
            raise AlignkitError(f"{name}: gold links of {len(gold)} pairs, but {len(held.source)} pairs")
        # Drawn, since the first lines of a corpus may be of another kind than the rest.
        drawn = np.sort(np.random.default_rng(0).permutation(len(text.source))[: settings.pairs or None])
        lines = LinePairs(*([*one, *(other[m] for m in drawn)] for one, other in zip(held, text, strict=True)))
        judged = LinePairs(*(side[: settings.judged or None] for side in held))
        sets.append(GoldSet(name, lines, judged, gold.take(np.arange(len(judged.source)))))
    return sets


def error_rate(text: GoldSet, scores: Scores, bitext: Bitext, tokenizer: Tokenizer) -> float:
    """The AER of the links from every target word to the source word with the largest score.

    Args:
        text: its ``judged`` and ``gold`` count.
        scores: of the tokens of ``bitext``; rows are divided by their sums before tokens are merged into words.
        bitext: the judged pairs as the tokenizer encodes them.
        tokenizer: of words or subwords.
    """
    matrices = [matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-30) for matrix in scores]
    sides = (text.judged.source, list(bitext.source)), (text.judged.target, list(bitext.target))
    words = merge_subwords(Scores.from_matrices(matrices), tokenizer, *sides)
    return evaluate(text.gold, best_links(words, null=False)).aer


def measured_run(
    each: GoldSet, unit: Tokens, settings: GoldLinksSettings, progress: Progress
) -> list[dict[str, Any]]:
    """A row per logged step of one network: its error rates, and that of IBM 1."""
    text = {"tokens": unit, "pieces": settings.pieces or None, "minimum": settings.minimum}
    plan = settings.settings().change(text=text)
    tokenizer = learn_tokenizer([*each.lines.source, *each.lines.target], plan.text)
    training, held = (encode_bitext(tokenizer, *part) for part in (each.lines, each.judged))
    ibm1 = fit_ibm1(training, iterations=settings.iterations, null=False).score(held, "alpha")
    known: dict[str, Any] = {"set": each.name, "unit": unit, "seed": settings.seed}
    known["ibm1"] = error_rate(each, ibm1, held, tokenizer)
    rows: list[dict[str, Any]] = []

    def look(network: NeuralAligner) -> None:
        errors = {kind: error_rate(each, network.score(held, kind), held, tokenizer) for kind in KINDS}
        accuracy = network.metrics.get("valid.accuracy", float("nan"))
        rows.append({**known, "step": network.step, "accuracy": accuracy, **errors})

    train_network(plan, EncodedText(training, held, tokenizer), progress, look, "cpu")
    return rows


def half_way_errors(raw: pd.DataFrame) -> pd.DataFrame:
    """The steps at which the error rates of alpha and beta have fallen half-way, a row per network."""
    right = raw.assign(**{kind: 1 - raw[kind] for kind in KINDS})
    return half_way_rows(right, ("set", "unit", "seed"), KINDS)


def run_gold_links(settings: GoldLinksSettings, progress: Progress = no_progress) -> Result:
    """Trains networks of words and of subwords on every set, and measures their links at every logged step."""
    sets = read_sets(settings)
    part = progress_of_parts(progress, len(sets) * len(UNITS) * settings.seeds)
    rows: list[dict[str, Any]] = []
    for each, unit, seed in product(sets, UNITS, range(settings.seeds)):
        told = part(f"{each.name}, {unit}, seed {seed}")
        rows += measured_run(each, unit, replace(settings, seed=settings.seed + seed), told)
    raw = pd.DataFrame(rows)
    halves = half_way_errors(raw)
    table = []
    for (name, unit), some in raw.groupby(["set", "unit"], sort=False):
        row: dict[str, Any] = {"set": name, "unit": unit, "IBM 1": 100 * some.ibm1.mean()}
        last = some[some.step == some.step.max()]
        for kind in KINDS:
            best = some.loc[some.groupby("seed")[kind].idxmin()]
            row |= {f"{kind} best": 100 * best[kind].mean(), f"{kind} step": best.step.mean()}
            row[f"{kind} last"] = 100 * last[kind].mean()
        table.append(row)
    remarks = (
        "AER in per cent. best: the lowest of the logged steps; step: of the best, the mean over seeds. IBM 1 is "
        f"fitted on the same tokens, {settings.iterations} iterations.",
        *(f"{each.name}: {len(each.lines.source)} pairs, {len(each.gold)} judged by gold links." for each in sets),
    )

    def draw(figure: Figure) -> None:
        names = list(raw["set"].unique())
        grid = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        styles = {"words": "-", "subwords": "--"}
        for axes, name in zip(grid, names, strict=True):
            part = raw[raw["set"] == name]
            for unit in UNITS:
                some = part[part.unit == unit]
                for number, kind in enumerate(KINDS):
                    mean = some.groupby("step")[kind].mean()
                    axes.plot(mean.index + 1, mean, styles[unit], color=f"C{number}", label=f"{kind}, {unit}")
                axes.axhline(some.ibm1.mean(), color="gray", ls=styles[unit], lw=1, label=f"IBM 1, {unit}")
            axes.set(title=name, xscale="log", xlabel="training step + 1", ylim=(0, 1))
        grid[0].set_ylabel("AER")
        grid[-1].legend(fontsize=7)

    claims = tuple(gold_links_claims(raw, halves, settings.warmup))
    tidy = {"steps": raw.round(5), "halves": halves.round(3)}
    return Result(pd.DataFrame(table), claims, tidy, draw, remarks)


def gold_links_claims(raw: pd.DataFrame, halves: pd.DataFrame, warmup: int) -> Iterator[Claim]:
    """The claims, from a row per step and from the half-way steps; intervals are over sets, whose networks are
    alike, but for what is learned first, where they are over networks.

    Which of alpha and beta is learned first is only asked without warm-up, which would decide it.
    """
    last = raw[raw.step == raw.groupby(["set", "unit"]).step.transform("max")].set_index("set")
    networks = "mean over networks, one per set, unit and seed"

    def over_sets(values: pd.Series) -> tuple[float, tuple[float, float]]:
        return averaged(values.groupby("set").mean())

    def fewer(text: str, one: str, other: str, column: str) -> Claim:
        statistic = f"AER of {one} minus AER of {other}, last step, {networks}; interval over sets"
        return claim(text, statistic, *over_sets(last[one] - last[column]), below=0.0)

    yield fewer("In the end attention is right more often than the lexical probe", "alpha", "beta", "beta")
    if not warmup:
        both = halves[np.isfinite(halves["alpha"]) & np.isfinite(halves["beta"])]
        learned = f"{networks} that learn both ({len(both)} of {len(halves)})"
        statistic = f"log2 of half-way steps, alpha over beta, {learned}"
        later = averaged(np.log2(both["alpha"] / both["beta"]))
        yield claim("The lexical probe is right first, attention after", statistic, *later, above=0.0)
    yield fewer("Attention ends with fewer errors than IBM 1", "alpha", "IBM 1", "ibm1")
    yield fewer("The lexical probe ends with fewer errors than IBM 1", "beta", "IBM 1", "ibm1")
    by_unit = last.pivot_table(index=["set", "seed"], columns="unit", values="alpha")
    text = "Attention over subwords ends with fewer errors than attention over words"
    statistic = "AER of alpha, subwords minus words, last step, mean over sets and seeds; interval over sets"
    yield claim(text, statistic, *over_sets(by_unit["subwords"] - by_unit["words"]), below=0.0)
