"""``initial-gradient``: the proxy's first derivative against the table C (Snell et al. 2021, 4.1, A.2).

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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, averaged, claim
from alignkit.lab.experiments.networks import bitext_lines
from alignkit.neural.devices import usable
from alignkit.support.stages import no_progress
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
