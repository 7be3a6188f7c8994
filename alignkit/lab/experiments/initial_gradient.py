"""``initial-gradient`` and ``emergence-law``: the gradient at initialisation, and what it says of attention.

``initial-gradient``: the proxy's first derivative against the table C (Snell et al. 2021, 4.1, A.2).

The proxy is p_m(o) = softmax(W mean_l e(x_l))_o for pair m. Under gradient flow on the log-likelihood
J = sum over m, t of log p_m(y_t), with a row e_i per source word and a row W_o per target word:

    G_io = C_io - sum over m of (n_im / L_m) T_m p_m(o),    de_i = sum_o G_io W_o,    dW_o = sum_i G_io e_i,

n_im being the number of times that word i occurs in source m. The logit z_io = e_i . W_o therefore moves by

    dz = G (W W') + (e e') G.                                                                        (1)

With all entries of e and W drawn from N(0, 1/d), z tends to 0 as the width d grows, so p_m(o) tends to 1/O (O
target words) and, as sum_o C_io = sum_m n_im T_m / L_m, G to K = C - row mean of C. W W' and e e' tend to the
identity, so **dz tends to 2 K: the paper's statement holds for the logits.** How fast: an off-diagonal entry of
W W' has variance 1/d and a diagonal one 2/d, and W and e are independent, so, up to what p lacks to 1/O,

    E |dz - 2 K|^2 = |K|^2 (V_src + V_tgt + 2) / d,    relative error = sqrt((V_src + V_tgt + 2) / (4 d)).  (2)

So d has to be well above a quarter of the number of words.

For the probabilities theta_io = softmax(z_i)_o, d theta_io = theta_io (dz_io - sum_o' theta_io' dz_io'); theta
tends to 1/O and the rows of K sum to 0, so **d theta tends to 2 K / O**: the same table, but with a factor 1/O
that the paper's statement lacks. For log theta there is no such factor: d log theta = dz - mean dz tends to 2 K.

``emergence-law``: when attention emerges, predicted from the gradient K at initialisation (ours).

Where L of V words are copied, C has the contrast c = (V - 1) / (L - 1), and K = C - row mean of C the margin

    q = K_ii - K_io = (1 - 1/c) / V.

With g the gradient of one pair in the logits of the lexical part (``initial-gradient``), E g = K, and |K|^2 / E
|g|^2 is q again. A batch of B pairs divides the variance by B, and Adam divides the mean of a gradient by the root
of its second moment. So words drift apart at the learning rate times

    r = |K| / sqrt(|K|^2 + (E |g|^2 - |K|^2) / B) = sqrt(B q / (1 + (B - 1) q)),                             (1)

whatever the scale of the loss. A step of r * rate in all entries of a d x d matrix, from which weights of size
d^(-1/2) lead on to the logits, moves these by r * rate * d^(3/2). The margin of a word has to stand out from those
of L places, which are random and the same for each batch, so that they add up to sqrt(L). Adam's means take a few
steps, T_0. Hence

    T = T_0 + A x,   x = sqrt(L) / (rate d^(3/2) r).                                                         (2)

A and T_0 are fitted on one half of the cells of a grid and tested on the other, beside regressions that know no K.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import torch
from scipy.optimize import least_squares
from scipy.stats import rankdata
from torch import Tensor
from torch.nn.functional import embedding_bag

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, averaged, claim, copying
from alignkit.lab.experiments.networks import bitext_lines
from alignkit.metrics.intervals import RESAMPLES, percentile_interval
from alignkit.neural.devices import usable
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import SPECIALS, UNK
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import Progress

PAIRS = 512  #: sentence pairs at a time


@dataclass(frozen=True)
class InitialGradientSettings(ExperimentSettings):
    """The text and the proxies.

    Attributes:
        source, target: text files of a bitext; the sample if empty.
        pairs: number of sentence pairs; 0 for all.
        words: vocabulary of each side: its most frequent words; all others are one word, 0 for no limit.
        widths: d, sizes of the embedding, rising.
        seeds: draws of e and W for each width.
    """

    least = dict.fromkeys(("pairs", "words"), 0)
    size = ("words", "widths", "seeds")
    source: str = ""
    target: str = ""
    pairs: int = 0
    words: int = 1000
    widths: tuple[int, ...] = (64, 256, 1024, 4096, 16384)
    seeds: int = 10


QUICK_INITIAL_GRADIENT = InitialGradientSettings(words=300, widths=(64, 512, 4096), seeds=3)


def frequent_words(lines: Sequence[str], most: int = 0) -> Corpus:
    """The words of the lines; all but the ``most`` frequent are one word, ``<unk>``. 0 keeps all."""
    sentences = [line.split() for line in lines]
    counts = Counter(word for sentence in sentences for word in sentence)
    words = dict.fromkeys([SPECIALS[UNK], *(word for word, _ in counts.most_common(most or None))])
    coded = [[word if word in words else SPECIALS[UNK] for word in sentence] for sentence in sentences]
    return Corpus.from_sentences(coded, Vocabulary.from_tokens(words))


def initial_derivatives(bitext: Bitext, e: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives of all logits z_io = e_i . W_o and of all probabilities softmax(z_i)_o, by equation (1).

    Args:
        bitext: M pairs.
        e: (V_src, d).
        W: (V_tgt, d).

    Returns:
        two arrays (V_src, V_tgt), per unit of time of the flow on the summed log-likelihood.
    """
    G = torch.from_numpy(cooccurrence(bitext).to_dense()).to(e.dtype)
    pairs = usable(bitext)
    for low in range(0, len(pairs), PAIRS):
        part = bitext.take(pairs[low : low + PAIRS])
        words = torch.from_numpy(part.source.tokens.astype(np.int64))
        lengths = torch.from_numpy(part.source.lengths).to(e.dtype)
        mean = embedding_bag(words, e, torch.from_numpy(part.source.offsets[:-1]), mode="mean")
        weights = torch.from_numpy(part.target.lengths).to(e.dtype).unsqueeze(1)
        expected = torch.softmax(mean @ W.t(), 1) * weights
        rows = torch.repeat_interleave(torch.arange(len(part)), torch.from_numpy(part.source.lengths))
        G.index_add_(0, words, (expected / lengths.unsqueeze(1))[rows], alpha=-1)
    dz = (G @ W) @ W.t() + e @ (e.t() @ G)
    theta = torch.softmax(e @ W.t(), 1)
    return dz, theta * (dz - (theta * dz).sum(1, keepdim=True))


def predicted(bitext: Bitext) -> Tensor:
    """2 K = 2 (C - row mean of C), float32 (V_src, V_tgt)."""
    C = torch.from_numpy(cooccurrence(bitext).to_dense())
    return 2 * (C - C.mean(1, keepdim=True))


def compared(measured: Tensor, table: Tensor) -> tuple[float, float, float]:
    """Correlation over all entries, slope of the line through 0, and error |measured - table| / |table|."""
    x, y = table.double().flatten(), measured.double().flatten()
    correlation = torch.corrcoef(torch.stack([x, y]))[0, 1]
    return float(correlation), float(x.dot(y) / x.dot(x)), float((y - x).norm() / x.norm())


@torch.inference_mode()
def run_initial_gradient(settings: InitialGradientSettings, progress: Progress = no_progress) -> Result:
    """Draws networks of every width and compares their derivatives with 2 K."""
    sides = bitext_lines(settings.source, settings.target)
    bitext = Bitext(*(frequent_words(side[: settings.pairs or None], settings.words) for side in sides))
    sizes = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    if not (bitext.shapes > 0).all(axis=1).any():
        raise AlignkitError(f"{settings.source}: no pair has words on both sides")
    table = predicted(bitext)
    rows = []
    for number, width in enumerate(settings.widths):
        for seed in range(settings.seeds):
            progress(number * settings.seeds + seed, len(settings.widths) * settings.seeds, f"width {width}")
            generator = torch.Generator().manual_seed(seed)
            e, W = (torch.randn(size, width, generator=generator) * width**-0.5 for size in sizes)
            dz, dtheta = initial_derivatives(bitext, e, W)
            row: dict[str, float] = {"width": width, "seed": seed}
            row["predicted error"] = float(np.sqrt((sum(sizes) + 2) / (4 * width)))  # equation (2)
            for name, measured in (("logit", dz), ("theta", dtheta)):
                names = (f"{name} {what}" for what in ("correlation", "slope", "error"))
                row |= dict(zip(names, compared(measured, table), strict=True))
            row["theta slope x O"] = row["theta slope"] * sizes[1]
            rows.append(row)
    raw = pd.DataFrame(rows)
    means = raw.drop(columns="seed").groupby("width", as_index=False).mean()
    remark = (
        f"{len(bitext)} pairs, {sizes[0]} source and O = {sizes[1]} target words. Correlations, slopes and errors "
        "are over all entries of the table, against 2 (C - row mean of C); an error is relative to its norm. The "
        "statement is correct for logits (and log-probabilities); for probabilities it lacks the factor 1/O."
    )
    claims = tuple(initial_gradient_claims(raw))

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        groups = raw.groupby("width")
        series = ((left, "logit correlation", "logits"), (left, "theta correlation", "probabilities"))
        for axes, name, label in (*series, (right, "logit error", "measured")):
            mean, low, high = (getattr(groups[name], what)() for what in ("mean", "min", "max"))
            spread = np.stack([mean - low, high - mean])
            axes.errorbar(mean.index, mean, yerr=spread, marker="o", ms=4, capsize=3, label=label)
            axes.set_xscale("log", base=2)
            axes.set_xlabel("width d")
        right.plot(groups["predicted error"].mean(), "k--", lw=1, label="predicted")
        left.set(ylim=(0, 1.02), ylabel="correlation with 2 (C - row mean)")
        right.set(yscale="log", ylabel="relative error of d logit")
        for axes in (left, right):
            axes.legend()

    return Result(means, claims, {"draws": raw}, draw, (remark,))


def initial_gradient_claims(raw: pd.DataFrame) -> Iterator[Claim]:
    """The claims, from a row per width and seed; all but the last at the largest width."""
    widest = raw[raw.width == raw.width.max()]
    over = f"at width {int(raw.width.max())}, mean over seeds"
    table = "2 (C - row mean)"
    text = "The derivative of the logits at initialisation is that of the centred co-occurrence table (4.1)"
    statistic = f"correlation of d logit with {table}, {over}"
    yield claim(text, statistic, *averaged(widest["logit correlation"]), above=0.9)
    text = f"... with factor 2: d logit = {table} in the limit (A.2)"
    statistic = f"slope of d logit on {table}, {over}"
    yield claim(text, statistic, *averaged(widest["logit slope"]), above=0.95, below=1.05)
    text = "... with the relative error that equation (2) of the module predicts"
    statistic = f"relative error of d logit over its prediction, {over}"
    ratio = widest["logit error"] / widest["predicted error"]
    yield claim(text, statistic, *averaged(ratio), above=0.95, below=1.05)
    text = f"The same statement for the probabilities: d theta = {table}"
    statistic = f"slope of d theta on {table}, {over}"
    yield claim(text, statistic, *averaged(widest["theta slope"]), above=0.95, below=1.05)
    text = f"The correct statement for the probabilities: d theta = {table} / O"
    statistic = f"O times the slope of d theta on {table}, {over}"
    yield claim(text, statistic, *averaged(widest["theta slope x O"]), above=0.9, below=1.1)
    text = "The error is proportional to the inverse square root of the width"
    statistic = "slope of log relative error on log width, mean over seeds"
    groups = [part for _, part in raw.groupby("seed") if len(part) > 1]
    slopes = [np.polyfit(np.log(part.width), np.log(part["logit error"]), 1)[0] for part in groups]
    yield claim(text, statistic, *averaged(slopes), above=-0.55, below=-0.45)


STOP = 4.0  #: training ends once the share of attention on own words is this many times uniform
#: what is predicted: the step from which on that share is twice uniform, and the first at which it is 1.25 times
OUTCOMES = ("twice, for good", "1.25 times, first")
#: what the law is compared with: regressions of the logarithm of the step on those of these factors
BASELINES: dict[str, list[str]] = {
    "a constant": [],
    "contrast alone": ["contrast"],
    "a regression": ["contrast", "length", "width", "rate", "batch"],
}
TICKS = [10, 20, 50, 100, 200, 500]  #: of the picture


@dataclass(frozen=True)
class EmergenceLawSettings(ExperimentSettings):
    """The grid: every contrast, length and width, each with one of the rates and of the batches, in turn.

    Attributes:
        contrasts: about (V - 1) / (L - 1); V is rounded, and above L.
        lengths: L.
        widths: d, size of embeddings and states.
        rates: of Adam at width 32; those of other widths are 32 / d times as large, so that steps are as many.
        batches: B.
        seeds: networks of a cell, whose median counts.
        travel: training ends when learning rate times width times steps is this.
        source, target: text files of a bitext, whose source is copied, too; the sample if empty.
        text_lengths, text_words: copied are the sentences of so many words; all but so many of these are one word.
    """

    size = ("contrasts", "lengths", "widths", "rates", "batches", "seeds", "text_lengths", "text_words")
    contrasts: tuple[float, ...] = (1.1, 1.5, 2.5, 5.0)
    lengths: tuple[int, ...] = (8, 12, 18, 27)
    widths: tuple[int, ...] = (32, 64, 128)
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3)
    batches: tuple[int, ...] = (12, 48)
    seeds: int = 5
    travel: float = 24.0
    source: str = ""
    target: str = ""
    text_lengths: tuple[int, ...] = (8, 12, 16)
    text_words: tuple[int, ...] = (30, 100, 1000)


QUICK_EMERGENCE_LAW = EmergenceLawSettings(
    contrasts=(1.5, 3.0), lengths=(6, 10), widths=(32, 64), rates=(4e-3,), seeds=2, text_lengths=(12,)
)


def drift(gain: pd.Series, batch: pd.Series) -> pd.Series:
    """r, equation (1)."""
    return np.sqrt(batch * gain / (1 + (batch - 1) * gain))


def gain(sources: np.ndarray, types: int) -> float:
    """q = |K|^2 / E |g|^2 of copying, counted in M sequences of words int64 (M, L), without the bias of few.

    g_io = n_i / L (n_o - L p_o), n being the counts in a sequence and p the words' frequencies, which biases learn
    in the first steps.
    """
    count, length = sources.shape
    n = np.stack([np.bincount(row, minlength=types) for row in sources]) / length
    centred = length * (n - n.mean(0))
    mean = ((n.T @ centred / count) ** 2).sum()
    second = ((n**2).sum(1) * (centred**2).sum(1)).mean()
    return float((count * mean / second - 1) / (count - 1))


def grid_cells(settings: EmergenceLawSettings) -> pd.DataFrame:
    """The cells, a row each, in random order: the first half is fitted."""
    rows = []
    for i, j, k in np.ndindex(len(settings.contrasts), len(settings.lengths), len(settings.widths)):
        length, width = settings.lengths[j], settings.widths[k]
        types = max(length + 1, 1 + round(settings.contrasts[i] * (length - 1)))
        rate = settings.rates[(i + j + k) % len(settings.rates)] * 32 / width
        rows.append((length, types, width, rate, settings.batches[(i + j) % len(settings.batches)]))
    cells = pd.DataFrame(rows, columns=["length", "types", "width", "rate", "batch"])
    cells["contrast"] = (cells.types - 1) / (cells.length - 1)
    cells["gain"] = (1 - 1 / cells.contrast) / cells.types
    cells["part"] = "test"
    cells = cells.iloc[np.random.default_rng(36).permutation(len(cells))].reset_index(drop=True)
    cells.loc[: len(cells) // 2 - 1, "part"] = "fit"
    return cells


def text_cells(settings: EmergenceLawSettings) -> tuple[pd.DataFrame, list[copying.Sequences]]:
    """Copying sentences of a text, by their length and the number of words: the cells, and the sentences."""
    lines = bitext_lines(settings.source, settings.target).source
    shape = settings.widths[len(settings.widths) // 2], settings.rates[0], settings.batches[-1]
    rows, texts = [], []
    for length, words in product(settings.text_lengths, settings.text_words):
        corpus = frequent_words([line for line in lines if len(line.split()) == length], words)
        sentences, types = corpus.tokens.reshape(-1, length).astype(np.int64), len(corpus.vocabulary)
        if len(corpus) < 2 or (counted := gain(sentences, types)) <= 0:
            raise AlignkitError(f"text_lengths: {len(corpus)} sentences of {length} words are too few to count K")
        rows.append((length, types, *shape, counted))
        texts.append(copying.Sequences("text", types, length, sentences=sentences))
    columns = ["length", "types", "width", "rate", "batch", "gain"]
    return pd.DataFrame(rows, columns=columns).assign(part="text"), texts


def predictions(cells: pd.DataFrame, steps: pd.Series) -> tuple[pd.DataFrame, np.ndarray]:
    """The steps of all cells by equation (2) and by regressions, all fitted on the cells of the part "fit".

    Args:
        cells: of :func:`grid_cells`, with the time x, a row each.
        steps: of the cells, NaN where attention has not emerged.

    Returns:
        a column for each way, and the constants (T_0, A), not below 0; of least squares in logarithms.
    """
    use = (cells.part == "fit") & steps.notna()
    if use.sum() < 2:
        raise AlignkitError("attention emerged in fewer than two cells to fit; set a larger travel")
    x, y = cells.time[use].to_numpy(), np.log(steps[use].to_numpy())
    start = 1.0, float(np.exp(np.median(y - np.log(x))))
    constants = least_squares(lambda c: np.log(c[0] + c[1] * x) - y, start, bounds=(0.0, np.inf)).x
    predicted = {"law": constants[0] + constants[1] * cells.time}
    for name, columns in BASELINES.items():
        design = np.column_stack([np.ones(len(cells)), np.log(cells[columns].to_numpy(np.float64))])
        predicted[name] = np.exp(design @ np.linalg.lstsq(design[use], y, rcond=None)[0])
    return pd.DataFrame(predicted), constants


def median_steps(runs: Sequence[copying.SequenceRun]) -> dict[str, float]:
    """The median step of each of the outcomes; infinite if half of the networks do not get there."""
    twice = [copying.left_uniform(run, 2 * run.attention[0]) for run in runs]
    first = [copying.reached(run.steps, run.attention, 1.25 * run.attention[0]) for run in runs]
    medians = (float(np.median(np.nan_to_num(each, nan=np.inf))) for each in (twice, first))
    return dict(zip(OUTCOMES, medians, strict=True))


def run_emergence_law(settings: EmergenceLawSettings, progress: Progress = no_progress) -> Result:
    """Trains all cells, fits on one half of the grid, and tests the prediction on the other half and on text."""
    text, sentences = text_cells(settings)
    raw = pd.concat([cells := grid_cells(settings), text], ignore_index=True)
    raw["r"] = drift(raw.gain, raw.batch)
    raw["time"] = np.sqrt(raw.length) / (raw.rate * raw.width**1.5 * raw.r)
    kinds = [copying.Sequences("subset", cell.types, cell.length) for cell in cells.itertuples()] + sentences
    part = progress_of_parts(progress, len(raw))
    steps = []
    for at, (cell, sequences) in enumerate(zip(raw.itertuples(), kinds, strict=True), 1):
        last = round(settings.travel / (cell.rate * cell.width))
        plan = copying.SequencePlan(cell.width, cell.batch, last, 1, cell.rate, solved=2.0, attended=STOP)
        told = part(f"cell {at} of {len(raw)}")
        steps.append(median_steps(copying.train_networks(sequences, plan, settings.seeds, told)))
    raw = raw.join(pd.DataFrame(steps).replace(np.inf, np.nan))
    table, remarks = [], []
    claims: list[Claim] = []
    for outcome in OUTCOMES:
        predicted, (delay, factor) = predictions(raw, raw[outcome])
        raw = raw.join(predicted.add_prefix(f"{outcome}: "))
        errors = np.log(predicted.div(raw[outcome], axis=0)).abs().groupby(raw.part).mean().T
        table.append(errors.rename_axis("error of").reset_index().assign(step=outcome))
        claims += law_claims(raw, outcome)
        never = raw[outcome].isna().sum()
        remarks.append(f"{outcome}: T_0 = {delay:.2f}, A = {factor:.3f}; never in {never} cells.")

    def draw(figure: Figure) -> None:
        """Measured against predicted steps, for each outcome."""
        for axes, outcome in zip(figure.subplots(1, 2), OUTCOMES, strict=True):
            for part, marker in (("fit", "."), ("test", "o"), ("text", "^")):
                some = raw[raw.part == part]
                axes.plot(some[f"{outcome}: law"], some[outcome], marker, mfc="none", label=part)
            ends = [raw[outcome].min(), raw[outcome].max()]
            axes.plot(ends, ends, "k--", lw=1)
            axes.set(xscale="log", yscale="log", xlabel="predicted step", ylabel="measured step", title=outcome)
            axes.set(xticks=TICKS, xticklabels=TICKS, yticks=TICKS, yticklabels=TICKS)
            axes.minorticks_off()
            axes.legend()

    return Result(pd.concat(table), tuple(claims), {"cells": raw.round(5)}, draw, tuple(remarks))


def _ordered(text: str, cells: pd.DataFrame, outcome: str, above: float) -> Claim:
    pairs, correlations = cells[[f"{outcome}: law", outcome]].to_numpy(), [np.nan]
    if len(pairs) > 2:
        draws = np.random.default_rng(0).integers(0, len(pairs), (RESAMPLES, len(pairs)))
        with np.errstate(invalid="ignore"):  # equal values have no ranks
            correlations = [np.corrcoef(rankdata(pairs[at], axis=0).T)[0, 1] for at in (slice(None), *draws)]
    interval = percentile_interval(np.array(correlations[1:]))
    return claim(text, f"rank correlation with the law's, {outcome}", correlations[0], interval, above=above)


def law_claims(raw: pd.DataFrame, outcome: str) -> Iterator[Claim]:
    """The preregistered claims about one outcome, from a row per cell with the predictions."""
    test, text = (raw[(raw.part == part) & raw[outcome].notna()] for part in ("test", "text"))
    errors = {name: np.log(test[f"{outcome}: {name}"] / test[outcome]).abs() for name in ("law", *BASELINES)}
    statistic = f"mean of |ln(predicted / measured step)|, {outcome}"
    yield _ordered("The law orders the cells that were not fitted", test, outcome, 0.9)
    yield claim("... and predicts their steps within a fifth", statistic, *averaged(errors["law"]), below=0.2)
    for name in BASELINES:
        gap = averaged(errors["law"] - errors[name])
        yield claim(f"... better than {name}", f"{statistic}, law minus {name}", *gap, below=0.0)
    yield _ordered("It orders the subsets and vocabularies of a text", text, outcome, 0.0)
