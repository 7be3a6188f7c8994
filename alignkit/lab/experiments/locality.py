"""``locality``: the word that a state reflects (Snell et al. 2021, section 6.1, figure 5).

The paper explains training in two steps: under uniform attention, the states come to say what their own word
means for the output, and attention then follows the states that say most. This assumes that a state h_l reflects
the word x_l and not its neighbours (its hypothesis 2). But an LSTM may also carry the keyword along: then every
later state reveals it, including the last, and attention has no reason to go to the keyword (its observation 3).

The task: L words, uniform over the types; a sequence is positive if it contains the keyword, once; as many are
positive as negative. One-way LSTM, p(positive) = sigma(W mean_l h_l + b), attention fixed to 1/L.

gamma_l = log(beta_l / (1 - beta_l)) = W h_l + b, the mean over positive sequences, in nats: at l*, where the
keyword is, one position after it, as the mean over all positions, and at the last one, L. Hypothesis 2, when
training starts: gamma_l* >> gamma_l*+1 >> mean ~ gamma_L. Observation 3, asymptotically: gamma_L >> gamma_l*+1 >>
mean ~ gamma_l*. Their parts are judged one by one: a ~ b as the difference being less than :data:`ALIKE` of the
larger of gamma_l* and gamma_L. "Early" is the first measurement with gamma_l* of at least ``known``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, averaged, claim, share_claim
from alignkit.neural.training.loop import adam, optimise
from alignkit.support.stages import Stage, no_progress, progress_of_parts
from alignkit.types import Progress

PLACES = ("keyword", "after", "mean", "last")
ALIKE = 0.2


@dataclass(frozen=True)
class LocalitySettings(ExperimentSettings):
    """The task, as in the paper, and networks of the size of the copying networks; the paper does not give theirs.

    Attributes:
        seeds: networks.
        length: L, tokens of a sequence.
        types: number of words, of which the last is the keyword.
        hidden: size of embeddings and LSTM.
        batch, steps, learning_rate: of training by Adam, on new sequences at every step.
        every: steps between measurements.
        measured: sequences on which gamma is measured; half of them are positive.
        known: gamma at the keyword from which the keyword counts as known ("early").
    """

    size = ("seeds", "length", "types", "hidden", "batch", "steps")
    seeds: int = 10
    length: int = 40
    types: int = 40
    hidden: int = 256
    batch: int = 64
    steps: int = 300
    every: int = 5
    learning_rate: float = 1e-3
    measured: int = 256
    known: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 2 or self.types < 2:
            raise AlignkitError("locality needs a length of at least 2 and at least 2 types")


QUICK_LOCALITY = LocalitySettings(seeds=4, length=20, hidden=64, batch=32, measured=128)


def draw_sequences(
    generator: np.random.Generator, count: int, settings: LocalitySettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws sequences.

    Returns:
        the sequences, int64 (count, L);
        the keyword's positions (count,), of positive sequences;
        bool (count,), True for positive sequences.
    """
    # As by rejection: where the keyword occurs once, its position and all other words are uniform.
    words = generator.integers(0, settings.types - 1, (count, settings.length))
    place = generator.integers(0, settings.length, count)
    positive = generator.random(count) < 0.5
    words[positive, place[positive]] = settings.types - 1
    return words, place, positive


class KeywordNetwork(nn.Module):
    """A classifier with uniform attention over the states of an LSTM: p(positive) = sigma(W mean_l h_l + b)."""

    def __init__(self, settings: LocalitySettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.embedding, self.lstm = nn.Embedding(settings.types, hidden), nn.LSTM(hidden, hidden, batch_first=True)
        self.output = nn.Linear(hidden, 1)
        # One bias, not torch's two, and its weights of the last two gates exchanged: as in the committed run.
        with torch.no_grad():
            *_, bias, other = weights = list(self.lstm.parameters())
            bias.add_(other)
            other.zero_().requires_grad_(False)
            for weight in weights:
                weight.copy_(torch.cat([weight.chunk(4)[gate] for gate in (0, 1, 3, 2)]))

    def forward(self, words: Tensor) -> Tensor:
        """The log-odds W h_l + b of each state (B, L), for words int64 (B, L)."""
        log_odds: Tensor = self.output(self.lstm(self.embedding(words))[0]).squeeze(2)
        return log_odds


def gammas(log_odds: np.ndarray, place: np.ndarray) -> dict[str, float]:
    """gamma at :data:`PLACES` of one network.

    Args:
        log_odds: (B, L), W h_l + b of positive sequences.
        place: (B,), the position of each sequence's keyword; where it is the last one, there is none after it.
    """
    rows = np.arange(len(log_odds))
    inner = place + 1 < log_odds.shape[1]
    parts = log_odds[rows, place], log_odds[rows[inner], place[inner] + 1], log_odds, log_odds[:, -1]
    return {name: float(part.mean()) for name, part in zip(PLACES, parts, strict=True)}


def train_keyword_network(
    settings: LocalitySettings, seed: int, progress: Progress = no_progress
) -> list[dict[str, float]]:
    """A row (run, step, accuracy, loss, gamma at each of :data:`PLACES`) per measured step of one network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = KeywordNetwork(settings)
    stream = np.random.default_rng([seed, 0])
    words, place, positive = draw_sequences(np.random.default_rng([seed, 1]), settings.measured, settings)
    rows: list[dict[str, float]] = []

    def loss(step: int) -> Tensor:
        drawn, _, keyword = draw_sequences(stream, settings.batch, settings)
        logits = network(torch.from_numpy(drawn)).mean(1)
        return binary_cross_entropy_with_logits(logits, torch.from_numpy(keyword).to(logits.dtype))

    optimiser = adam(network.parameters(), settings.learning_rate)
    with Stage("training", progress) as stage:
        for step in optimise(optimiser, loss, settings.steps):
            stage(step, settings.steps)
            if step % settings.every and step != settings.steps:
                continue
            with torch.no_grad():
                log_odds = network(torch.from_numpy(words)).double().numpy()
            logits = log_odds.mean(1)
            measured = {"accuracy": ((logits > 0) == positive).mean()}
            measured["loss"] = np.logaddexp(0, np.where(positive, -logits, logits)).mean()
            measured |= gammas(log_odds[positive], place[positive])
            rows.append({"run": seed, "step": step, **{name: round(float(x), 5) for name, x in measured.items()}})
    return rows


def spread_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """The first measured step of each run at which observation 3 holds; none of runs where it never does."""
    largest = rows[["keyword", "last"]].max(axis=1)
    alike = (rows["mean"] - rows.keyword).abs() < ALIKE * largest
    held = rows[(rows["last"] > rows.after) & (rows.after > rows["mean"]) & alike & (rows.keyword > 0)]
    return held.groupby("run", as_index=False)["step"].min()


def run_locality(settings: LocalitySettings, progress: Progress = no_progress) -> Result:
    """Trains under uniform attention and measures gamma."""
    part = progress_of_parts(progress, settings.seeds)
    measured = [row for seed in range(settings.seeds) for row in train_keyword_network(settings, seed, part(""))]
    rows = pd.DataFrame(measured).sort_values(["step", "run"], ignore_index=True)
    # When the keyword is first known, and when observation 3 first holds, in each run where they do.
    early = rows[rows.keyword >= settings.known].groupby("run", as_index=False)["step"].min()
    spread = spread_steps(rows)
    at_early, at_end = rows.merge(early, on=["run", "step"]), rows[rows.step == rows.step.max()]
    moments = {"start": rows[rows.step == 0], "keyword known": at_early}
    moments |= {"observation 3": rows.merge(spread, on=["run", "step"]), "end": at_end}
    table = []
    for name, part in moments.items():
        means = part[["step", "accuracy", *PLACES]].mean().to_dict()
        table.append({"moment": name, "mean step": means.pop("step"), **means})
    known = f"the keyword is known in {len(early)} of {settings.seeds} runs"

    def draw(figure: Figure) -> None:
        """gamma over training, mean over the runs, in nats and relative to gamma at the keyword."""
        curve = rows.groupby("step")[[*PLACES]].mean()
        left, right = figure.subplots(1, 2)
        for name in PLACES:
            left.plot(curve.index, curve[name], label=name)
            clear = curve[curve.keyword > 0.1 * curve.keyword.max()]
            right.plot(clear.index, clear[name] / clear.keyword, label=name)
        for axis in (left, right):
            axis.axvline(float(early.step.median()), color="gray", ls=":", lw=0.8)
            axis.axhline(0, color="gray", lw=0.5)
            axis.set(xlabel="step", xlim=(0, curve.index.max()))
        left.set_ylabel("gamma (nats of log odds)")
        right.set(ylabel="gamma / gamma at the keyword", ylim=(-0.2, 3))
        left.legend(fontsize="small")

    claims = tuple(locality_claims(at_early, at_end, len(spread), settings.seeds))
    remarks = () if len(early) == settings.seeds else (known,)
    return Result(pd.DataFrame(table), claims, {"gamma": rows}, draw, remarks)


def locality_claims(early: pd.DataFrame, end: pd.DataFrame, spread: int, runs: int) -> Iterator[Claim]:
    """The claims, from a row per run when the keyword is first known and at the last step, and from the number of
    runs in which observation 3 holds at some step."""

    def part(text: str, rows: pd.DataFrame, a: str, b: str, alike: bool = False) -> Claim:
        gap = (rows[a] - rows[b]) / rows[["keyword", "last"]].abs().max(axis=1)
        when = "when the keyword is first known" if rows is early else "at the last step"
        share = "as a share of the larger of keyword and last"
        statistic = f"gamma ({a}) - gamma ({b}), {share}, {when}, mean over runs"
        least, most = (-ALIKE, ALIKE) if alike else (0.0, None)
        return claim(f"{text} (section 6.1)", statistic, *averaged(gap), above=least, below=most)

    yield part("hypothesis 2, early: the keyword's state above the next", early, "keyword", "after")
    yield part("hypothesis 2, early: the next state above the mean", early, "after", "mean")
    yield part("hypothesis 2, early: the last state like the mean", early, "last", "mean", alike=True)
    yield part("observation 3, late: the last state above the one after the keyword", end, "last", "after")
    yield part("observation 3, late: the one after the keyword above the mean", end, "after", "mean")
    yield part("observation 3, late: the mean like the keyword's state", end, "mean", "keyword", alike=True)
    text = "observation 3 holds as a whole at some step, in more than half of the runs (section 6.1)"
    yield share_claim(text, "share of runs", spread, runs, above=0.5)
