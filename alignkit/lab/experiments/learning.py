"""``word-order-of-learning`` and ``gold-links``: what networks learn first, and how much of it is right (ours).

``word-order-of-learning``: which words attention finds first, predicted from the text alone (ours).

If attention is learned from lexical knowledge, and that from words that occur together, then the text says when
attention finds each word, before any network is trained: words that occur with few others early, the others late.

A target word is *found* at the first logged step from which on at least half of its occurrences in held-out text
get the attention that the trained network gives them: the same source token is first. Networks that have not
learned to attend are left out, since their last attention means nothing. Two predictors, each one number
per word y, are entropies (nats) of a distribution over source words x, from expected counts n(x, y) on the
training text:

- ``co-occurrence``: n(x, y) = C[x, y], each occurrence of y spread evenly over its sentence;
- ``IBM 1``: the same spread by the posteriors of IBM Model 1 after EM.

``frequency``, minus the logarithm of y's count, is the plain alternative: frequent words are learned first anyway.
How far any prediction can go is bounded by how far another seed agrees about the order (``another seed``).

``gold-links``: the alignment error rate of attention and of the lexical probe while a network learns (ours).

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
from scipy.sparse import coo_matrix
from scipy.stats import spearmanr

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import EncodedText, NetworkPlan, half_way_rows, take_pairs, train_network
from alignkit.links.from_scores import best_links
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks
from alignkit.metrics.aer import evaluate
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import Tokens
from alignkit.neural.training.trainer import learn_tokenizer
from alignkit.scores import Scores, flat_offsets, merge_subwords, tokens_of_elements
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs, read_line_pairs
from alignkit.text.tokenization import UNK, Tokenizer, encode_bitext, learn_words
from alignkit.types import Progress

PREDICTORS = ("co-occurrence", "IBM 1", "frequency")
OTHER_SEED = "another seed"


@dataclass(frozen=True)
class WordOrderOfLearningSettings(NetworkPlan):
    """The texts and the networks; all learn words, not subwords.

    Attributes (others are those of :class:`NetworkPlan`, whose ``pairs`` are not used):
        sizes: training pairs of each text; one size may exceed the text, which is then all of it.
        seeds: networks for each size.
        steps: of the training, whatever the size; 0 for ``epochs``.
        learned: attention counts as learned if for this share of held-out tokens it is first at the same source
            token as IBM 1's posterior (a few per cent by chance).
        scored: held-out pairs on which words are found; 0 for all.
        minimum: occurrences of a word there, without which it is left out, and in the training text, without which
            it is unknown.
        iterations: of IBM 1, without NULL.
        warmup: 0, since fixed attention at the start would decide when attention is learned.
    """

    least = NetworkPlan.least | {"steps": 0, "scored": 0, "learned": 0}
    size = ("sizes", "seeds", "scored", "steps", "epochs", "batch")
    sizes: tuple[int, ...] = (8000, 16000, 29000)
    seeds: int = 3
    steps: int = 1500
    learned: float = 0.25
    scored: int = 500
    minimum: int = 3
    iterations: int = 5
    epochs: int = 10
    batch: int = 32
    warmup: int = 0


# So small a text teaches attention only after some epochs without it.
QUICK_WORD_ORDER_OF_LEARNING = WordOrderOfLearningSettings(
    sizes=(600, 940), seeds=2, scored=0, steps=0, epochs=12, warmup=3
)


def alignment_entropy(bitext: Bitext, scores: Scores | None = None) -> np.ndarray:
    """Entropy, in nats, of the source words that each target word is counted with: float64 (V_tgt,).

    Args:
        bitext: M pairs.
        scores: how each occurrence of a target word is spread over its source sentence; None for evenly.

    Returns:
        NaN for a word that does not occur with any other.
    """
    shape = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    sizes = np.diff(flat_offsets(bitext.shapes))
    counts = 1 / np.repeat(bitext.source.lengths, sizes) if scores is None else scores.values
    words = tokens_of_elements(bitext, np.arange(sizes.sum()))
    table = coo_matrix((counts.astype(np.float64), words), shape).tocsc()
    sums = np.asarray(table.sum(0)).ravel()
    share = table.data / np.repeat(np.where(sums > 0, sums, 1), np.diff(table.indptr))
    terms = -share * np.log(np.where(share > 0, share, 1.0))
    owner = np.repeat(np.arange(shape[1]), np.diff(table.indptr))
    return np.where(sums > 0, np.bincount(owner, terms, shape[1]), np.nan)


def found_steps(steps: list[int], first: np.ndarray, words: np.ndarray, minimum: int) -> dict[int, int]:
    """Word -> the first step from which on at least half of its tokens get the attention of the last step.

    Args:
        steps: rising.
        first: int (steps, tokens), the source token that is first by attention.
        words: int (tokens,), the target words.
        minimum: of a word's tokens.
    """
    by_word = pd.DataFrame((first == first[-1]).T).groupby(words)
    shares = by_word.mean()[by_word.size() >= minimum]
    # The number of steps up to the last one of which this is not so; that of the last step is 1.
    late = ((shares < 0.5) * np.arange(1, len(steps) + 1)).max(axis=1)
    return {int(word): steps[number] for word, number in late.items()}


def rank_correlation(u: np.ndarray, v: np.ndarray) -> float:
    """Spearman's rank correlation; NaN where it is undefined."""
    return float(spearmanr(u, v).statistic) if len(u) > 2 and np.ptp(u) and np.ptp(v) else float("nan")


def learn_and_find(
    text: LinePairs, held: LinePairs, settings: WordOrderOfLearningSettings, progress: Progress = no_progress
) -> tuple[pd.DataFrame, float]:
    """Trains one network; a row per word that occurs often enough: word, step, and the predictors.

    Returns:
        the rows, and the share of held-out tokens for which attention is first where IBM 1's posterior is.
    """
    tokenizer = learn_words([*text.source, *text.target], settings.minimum)
    training, valid = (encode_bitext(tokenizer, part.source, part.target) for part in (text, held))
    pairs = take_pairs(valid, settings.scored)
    steps: list[int] = []
    first: list[np.ndarray] = []

    def look(network: NeuralAligner) -> None:
        steps.append(network.step)
        first.append(np.concatenate([matrix.argmax(1) for matrix in network.score(pairs, "alpha")]))

    plan = settings.settings().change(text={"tokens": "words"})
    if settings.steps:
        epochs = -(-settings.steps // -(-len(training) // plan.training.batch))
        plan = plan.change(training={"steps": settings.steps, "epochs": epochs})
    train_network(plan, EncodedText(training, valid, tokenizer), progress, look, "cpu")
    step_of = found_steps(steps, np.stack(first), pairs.target.tokens, settings.minimum)
    step_of.pop(UNK, None)
    model = fit_ibm1(training, iterations=settings.iterations, null=False)
    posterior = np.concatenate([matrix.argmax(1) for matrix in model.score(pairs, "alpha")])
    share = float((first[-1] == posterior).mean())
    counts = np.bincount(training.target.tokens, minlength=len(tokenizer.vocabulary))
    words = np.array(sorted(step_of))
    with np.errstate(divide="ignore"):
        values = {
            "co-occurrence": alignment_entropy(training)[words],
            "IBM 1": alignment_entropy(training, model.score(training, "alpha"))[words],
            "frequency": -np.log(counts[words]),
        }
    names = [tokenizer.vocabulary[int(word)] for word in words]
    table = pd.DataFrame({"word": names, "step": [step_of[int(word)] for word in words], **values})
    return table[np.isfinite(table[list(PREDICTORS)]).all(axis=1)].reset_index(drop=True), share


def correlations(raw: pd.DataFrame) -> pd.DataFrame:
    """A row per network: the rank correlation of when words are found with every predictor and every fit."""
    parts = dict(list(raw.groupby(["size", "seed"], sort=False)))
    # The rank of each word by each predictor, (words, predictors), and by when it is found, as shares.
    ranks = {k: own[list(PREDICTORS)].rank(pct=True).to_numpy() for k, own in parts.items()}
    orders = {k: own.step.rank(pct=True) for k, own in parts.items()}

    def fitted(held: tuple, training: list[tuple]) -> float:
        """The rank correlation of a network's steps with a linear fit of ranks made on other networks."""
        if not training:
            return float("nan")
        x, y = (np.concatenate([values[k] for k in training]) for values in (ranks, orders))
        weights = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y, rcond=None)[0]
        return rank_correlation(ranks[held] @ weights[:-1], parts[held].step)

    rows = []
    for (size, seed), own in parts.items():
        row: dict[str, float] = {"size": size, "seed": seed}
        row |= {name: rank_correlation(own[name], own.step) for name in PREDICTORS}
        seeds = [(n, s) for n, s in parts if n == size and s != seed]
        row["fitted, other seeds"] = fitted((size, seed), seeds)
        row["fitted, other sizes"] = fitted((size, seed), [(n, s) for n, s in parts if n != size])
        both = [own.merge(parts[other], on="word", suffixes=("", "_other")) for other in seeds]
        shared = [rank_correlation(each.step, each.step_other) for each in both]
        row[OTHER_SEED] = float(np.mean(shared)) if shared else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def run_word_order_of_learning(settings: WordOrderOfLearningSettings, progress: Progress = no_progress) -> Result:
    """Trains networks on texts of several sizes, and compares when words are found with what the text predicts."""
    lines, held = settings.lines()
    if sum(size >= len(lines.source) for size in settings.sizes) > 1:
        remedy = "give a larger one or smaller sizes"
        raise AlignkitError(f"sizes: the text has only {len(lines.source)} pairs; {remedy}")
    part = progress_of_parts(progress, len(settings.sizes) * settings.seeds)
    frames, learned = [], []
    for size, seed in product(settings.sizes, range(settings.seeds)):
        text = LinePairs(lines.source[:size], lines.target[:size])
        own = replace(settings, seed=settings.seed + seed)
        frame, share = learn_and_find(text, held, own, part(f"{size} pairs, seed {seed}"))
        learned.append({"size": size, "seed": seed, "share": share})
        if share >= settings.learned:
            frames.append(frame.assign(size=size, seed=seed))
    if not frames:
        shares = ", ".join(f"{row['share']:.2f}" for row in learned)
        known = f"shares {shares}, below {settings.learned}"
        raise AlignkitError(f"no network has learned attention ({known}): give more pairs or steps")
    raw = pd.concat(frames, ignore_index=True)
    by_network = correlations(raw)
    table = by_network.drop(columns=["seed"]).groupby("size", as_index=False).mean()
    words = raw.groupby(["size", "seed"]).size()
    remarks = (
        f"{int(words.min())} to {int(words.max())} words per network. Spearman's rank correlation of each "
        "predictor with the step at which a word is found. fitted, other seeds and other sizes: of a linear fit "
        "of the predictors' ranks, made on the other seeds of the size, and on the other sizes.",
        f"{len(frames)} of {len(learned)} networks have learned attention (it is first at the same source token "
        f"as IBM 1 for at least {100 * settings.learned:g} % of the tokens) and are in the table.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        names = [*PREDICTORS, "fitted, other seeds", "fitted, other sizes", OTHER_SEED]
        for number, (size, part) in enumerate(by_network.groupby("size")):
            for place, name in enumerate(names):
                label = f"{size} pairs" if not place else None
                at = np.full(len(part), place + 0.2 * (number - by_network["size"].nunique() / 2))
                axes.plot(at, part[name], "o", color=f"C{number}", label=label)
        axes.axhline(0, color="k", lw=0.8)
        axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
        axes.set_ylabel("rank correlation with the step of finding")
        axes.legend()

    claims = tuple(word_order_of_learning_claims(by_network))
    rows = {"words": raw, "correlations": by_network, "learned": pd.DataFrame(learned)}
    return Result(table, claims, {name: each.round(5) for name, each in rows.items()}, draw, remarks)


def word_order_of_learning_claims(by_network: pd.DataFrame) -> Iterator[Claim]:
    """The claims, from a row per network; intervals are over networks."""
    over = f"mean of {len(by_network)} networks"
    texts = {
        "co-occurrence": "Attention finds words with a low co-occurrence entropy earlier",
        "IBM 1": "Attention finds words with a low IBM 1 entropy earlier",
        "fitted, other seeds": "What is fitted on other seeds predicts the order of a new one",
        "fitted, other sizes": "What is fitted on texts of other sizes predicts the order on a new one",
    }
    for name, text in texts.items():
        yield claim(text, f"rank correlation with the step, {over}", *averaged(by_network[name]), above=0.0)
    text = "Networks of other seeds find words in the same order"
    yield claim(text, f"rank correlation of their steps, {over}", *averaged(by_network[OTHER_SEED]), above=0.0)
    # A correlation below 0 predicts nothing, so that it counts as 0.
    more = by_network["IBM 1"] - by_network["frequency"].clip(lower=0)
    text = "IBM 1 entropy predicts it better than frequency does"
    statistic = f"rank correlation minus that of frequency, or 0 if that is below 0, {over}"
    yield claim(text, statistic, *averaged(more), above=0.0)


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
        gold = read_gold(paths[-1], shapes=held.shapes)
        if len(gold) != len(held.source):
            raise AlignkitError(f"{name}: gold links of {len(gold)} pairs, but {len(held.source)} pairs")
        if not len(gold.possible.pairs):
            raise AlignkitError(f"{paths[-1]}: has no links, so there is nothing to score against")
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
