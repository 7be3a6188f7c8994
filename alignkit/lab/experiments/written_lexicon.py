"""``written-lexicon``: does lexical knowledge cause attention? It is written, erased, frozen and graded (ours).

That a network knows words before it attends (experiment ``ktiw-drives-attention``) does not show that it attends
*because* it knows them. So we intervene. The task is copying permutations, which teaches no words: its table C is
flat, and for many seeds attention is not learned (Snell et al. 2021, section 3.3).

- **Written**: before that, the network is trained for some steps, the *dose*, with attention fixed to 1/L on
  sequences of which each has a part of the types, so that C has a diagonal. The attention's parameters take no
  part. Then it is trained on permutations of some of the types, with attention.
- **Flat**: as many steps on permutations instead, which teach no words: is it training, or the lexicon?
- **Erased**: after the largest dose, the words of the output layer change places at random. The network is as
  well trained as before, but beta names wrong words.
- **Frozen**: only the decoder and the attention's query are trained, so that beta can change no more by its words:
  once from the largest dose, once from random weights, which know no words.
- **Contrast**: the dose of nature. Without any writing, the network is trained on ``length`` of V types; the more
  types, the larger the diagonal of C against the rest.

Attention is judged by itself: by its share on the source token that is the target's. It emerges at the first
measurement from which on that is at least ``emerged`` times as much as uniform attention gives; a network that
never gets there counts with the step after the last. (Accuracy would not tell: networks whose attention is fixed
to 1/L reach .9 at length 12.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim, share_claim
from alignkit.lab.experiments.copying import (
    FIRST,
    SequencePlan,
    SequenceRun,
    Sequences,
    contrast,
    copying_network,
    copying_settings,
    curves,
    known_words,
    left_uniform,
    train_on_sequences,
)
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.support.stages import named_progress, no_progress
from alignkit.types import Progress

UNIT = "step at which attention emerges"
#: parts of a network that decide which word a state names; the decoder's own is not among them
LEXICAL = ("embedding", "encoder", "context", "combine", "output")


@dataclass(frozen=True)
class EmergenceSettings(SequencePlan):
    """The networks: small, so that every condition has many seeds.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks of each condition; a seed has the same initial weights in all of them.
        length: tokens of a sequence, and types of the permutations.
        learning_rate: larger than the paper's, since small networks learn little in its 300 steps otherwise.
        emerged: how many times the share of uniform attention counts as learned.
        pairs: on which known words are measured.
    """

    seeds: int = 16
    length: int = 12
    hidden: int = 64
    batch: int = 32
    learning_rate: float = 5e-3
    emerged: float = 2.0
    pairs: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seeds < 2:
            raise AlignkitError("seeds: intervals are over seeds, so that two are needed")


@dataclass(frozen=True)
class WrittenLexiconSettings(EmergenceSettings):
    """The interventions.

    Attributes (others are those of :class:`EmergenceSettings`):
        types: of the text that the lexicon is written with, ``length`` of them in a sequence.
        doses: steps of writing; the first is 0.
        contrasts: V, numbers of types of sequences that are learned without writing.
    """

    least = dict.fromkeys(("doses",), 0)
    types: int = 24
    doses: tuple[int, ...] = (0, 25, 50, 100)
    contrasts: tuple[int, ...] = (12, 14, 18, 24)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.doses) < 2 or self.doses[0] != 0 or min(self.doses[1:]) <= 0:
            raise AlignkitError("doses: 0 and at least one number of steps above it are needed")
        if min(self.types, *self.contrasts) < self.length:
            raise AlignkitError("types and contrasts must not be below length")


QUICK = WrittenLexiconSettings(
    seeds=4, length=12, types=24, hidden=32, batch=32, doses=(0, 100), contrasts=(12, 24)
)


@dataclass(frozen=True, eq=False)
class Condition:
    """Networks of one condition: their known words before the main training, and their runs."""

    name: str
    dose: float
    known: np.ndarray
    runs: list[SequenceRun]

    def emergence(self, settings: EmergenceSettings) -> np.ndarray:
        """float64 (seeds,): the step at which attention emerged; after the last one if it never did."""
        level = settings.emerged / (settings.length + 1)  # the end of the sentence is a token, too
        steps = np.array([left_uniform(run, level) for run in self.runs])
        return np.where(np.isnan(steps), settings.steps + settings.every, steps)

    def seeds(self, settings: EmergenceSettings) -> pd.DataFrame:
        """A row for each seed, called a run: its known words, and the step of emergence."""
        columns = {"known": self.known, "emerged": self.emergence(settings)}
        return pd.DataFrame({"condition": self.name, "run": range(len(self.runs)), **columns})

    def row(self, settings: EmergenceSettings) -> dict[str, object]:
        """Columns of a table."""
        steps = self.emergence(settings)
        value, (low, high) = averaged(steps)
        return {
            "condition": self.name,
            "runs": len(self.runs),
            "known": float(self.known.mean()),
            "learned": int((steps <= settings.steps).sum()),
            "emerged": value,
            "low": low,
            "high": high,
            "attention": float(np.mean([run.attention[-1] for run in self.runs])),
            "last accuracy": float(np.mean([run.accuracy[-1] for run in self.runs])),
        }


class Bench:
    """Trains the networks of one condition after another, for each from the initial weights of these seeds.

    Args:
        settings: of the networks.
        progress: of all trainings.
        types: of the vocabulary.
        seeds: of the initial weights.
        parts: the number of trainings.
    """

    def __init__(
        self, settings: EmergenceSettings, progress: Progress, types: int, seeds: Sequence[int], parts: int
    ) -> None:
        self.settings, self.progress, self.seeds = settings, progress, seeds
        self.narrow = Sequences("permutation", settings.length, settings.length)
        shape = copying_settings(FIRST + types, settings.hidden)
        self.starts = [copying_network(shape, seed) for seed in seeds]
        self.done, self.total = 0, parts

    def part(self, name: str) -> Progress:
        """The progress of the next training."""
        self.done += 1
        return named_progress(self.progress, name, self.done - 1, self.total)

    def trained_uniformly(self, sequences: Sequences, steps: int) -> list[EncoderDecoder]:
        """The starts after training with uniform attention, which leaves the queries as they are."""
        if not steps:
            return self.starts
        plan = replace(self.settings, steps=steps, solved=2.0)  # the dose is exact
        seeds, part = [2000 + seed for seed in self.seeds], self.part(f"writing {steps}")
        runs = train_on_sequences(self.starts, seeds, sequences.draw, plan, part, uniform=True)
        return [run.network for run in runs]

    def condition(
        self,
        name: str,
        dose: float,
        starts: Sequence[EncoderDecoder],
        frozen: Sequence[str] = (),
        known: Sequence[EncoderDecoder] | None = None,
    ) -> Condition:
        """The main training of these networks; known words are those of other networks if these are given."""
        seeds = [1000 + seed for seed in self.seeds]
        runs = train_on_sequences(starts, seeds, self.narrow.draw, self.settings, self.part(name), frozen=frozen)
        generator = np.random.default_rng([self.settings.seeds, self.settings.length])
        pairs = self.narrow.bitext(generator, self.settings.pairs)
        return Condition(name, dose, known_words(self.narrow, known or starts, pairs), runs)


def with_words_erased(network: EncoderDecoder, seed: int) -> EncoderDecoder:
    """The network after the words of its output layer have changed places at random."""
    found = deepcopy(network)
    words = np.random.default_rng([seed, 4]).permutation(len(found.output.bias) - FIRST)
    order = torch.from_numpy(np.concatenate([np.arange(FIRST), FIRST + words]))
    with torch.no_grad():
        for weight in found.output.parameters():
            weight.copy_(weight[order])
    return found


def rank_slopes(doses: ArrayLike, steps: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of dose and step of emergence within each seed, float64 (seeds,).

    Args:
        doses: (D,), or (D, seeds).
        steps: (D, seeds).

    Returns:
        NaN for a seed whose steps are all the same.
    """
    given = np.broadcast_to(np.transpose(doses), steps.T.shape)
    found = [
        spearmanr(*pair).statistic if np.ptp(pair[1]) else np.nan for pair in zip(given, steps.T, strict=True)
    ]
    return np.array(found, np.float64)


def gap_claim(
    text: str, steps: Mapping[str, ArrayLike], one: str, other: str, last: int, above: float | None = None
) -> Claim:
    """A claim about how much earlier attention emerges in one condition than in another, within seeds.

    A seed where it emerges in neither says nothing. The claim is that the difference is below 0, or, if that is
    given, above ``above``.

    Args:
        text: of the claim.
        steps: of emergence by condition, each (seeds,).
        one, other: conditions.
        last: step of the training.
        above: the bound.
    """
    first, second = np.asarray(steps[one]), np.asarray(steps[other])
    gap = np.where(np.minimum(first, second) > last, np.nan, first - second)
    below = 0.0 if above is None else None
    return claim(text, f"{UNIT}, {one} minus {other}", *averaged(gap), above=above, below=below)


def run_written_lexicon(settings: WrittenLexiconSettings, progress: Progress = no_progress) -> Result:
    """Writes, erases, freezes and grades the lexicon, and finds when attention emerges."""
    parts = 2 * len(settings.doses) + 4 + len(settings.contrasts)
    lab = Bench(settings, progress, settings.types, range(settings.seeds), parts)
    broad, last = Sequences("subset", settings.types, settings.length), settings.doses[-1]
    conditions = []
    for dose in settings.doses:
        written = lab.trained_uniformly(broad, dose)
        conditions.append(lab.condition(f"written, {dose} steps", dose, written))
    conditions.append(lab.condition(f"flat, {last} steps", last, lab.trained_uniformly(lab.narrow, last)))
    erased = [with_words_erased(network, seed) for seed, network in enumerate(written)]
    conditions.append(lab.condition("erased", last, erased))
    conditions.append(lab.condition("frozen, written", last, written, LEXICAL))
    conditions.append(lab.condition("frozen, random", 0, lab.starts, LEXICAL))
    # Sequences of ``length`` of V types, learned without writing; the dose is the contrast of C.
    graded = []
    for types in settings.contrasts:
        sequences = Sequences("permutation" if types == settings.length else "subset", types, settings.length)
        shape, name = copying_settings(sequences.vocabulary, settings.hidden), f"{settings.length} of {types}"
        starts, seeds = [copying_network(shape, seed) for seed in lab.seeds], [1000 + seed for seed in lab.seeds]
        runs = train_on_sequences(starts, seeds, sequences.draw, settings, lab.part(name))
        share = contrast(sequences.counts(np.random.default_rng(0), 2000) / 2000)
        graded.append(Condition(name, share, np.full(settings.seeds, np.nan), runs))
    rows = [curves(each.runs, condition=each.name) for each in (*conditions, *graded)]
    raw = pd.concat([each.seeds(settings) for each in (*conditions, *graded)], ignore_index=True)
    remark = (
        f"known: the share of words of which beta is largest at their own state, before the main training (chance "
        f"{1 / (settings.length + 1):.3f}). emerged: the mean step from which on attention to the own word is "
        f"{settings.emerged:g} times uniform; {settings.steps + settings.every} if it never is. attention: to the "
        "own word, at the end."
    )

    def draw(figure: Figure) -> None:
        """Step of emergence of every seed, by dose and condition on the left, by contrast on the right."""
        left, right = figure.subplots(1, 2, width_ratios=[3, 2], sharey=True)
        for axis, groups in ((left, conditions), (right, graded)):
            for place, each in enumerate(groups):
                steps = each.emergence(settings)
                spread = np.linspace(-0.2, 0.2, len(steps))
                late = steps > settings.steps
                axis.plot(place + spread[~late], steps[~late], "o", color="tab:blue", ms=4)
                axis.plot(place + spread[late], steps[late], "x", color="tab:red", ms=4)
            names = [each.name for each in groups]
            axis.set_xticks(range(len(groups)), names, rotation=40, ha="right", fontsize=8)
        left.set_ylabel("step at which attention emerges (x: never)")
        right.set_xlabel("types (contrast of C rises to the right)")

    return Result(
        pd.DataFrame([each.row(settings) for each in (*conditions, *graded)]),
        written_lexicon_claims(conditions, graded, settings),
        {"accuracy": pd.concat(rows, ignore_index=True), "seeds": raw.round(5)},
        draw,
        (remark,),
    )


def written_lexicon_claims(
    conditions: Sequence[Condition], graded: Sequence[Condition], settings: WrittenLexiconSettings
) -> tuple[Claim, ...]:
    """The claims; differences are within seeds, and intervals over seeds."""
    steps = {each.name: each.emergence(settings) for each in (*conditions, *graded)}
    written = [each for each in conditions if each.name.startswith("written")]
    none, most = written[0].name, written[-1].name
    flat = next(name for name in steps if name.startswith("flat"))
    lost = {name: int((steps[name] > settings.steps).sum()) for name in steps}
    learned = settings.seeds - lost["frozen, random"]
    doses = [each.dose for each in written], np.stack([steps[each.name] for each in written])
    contrasts = [each.dose for each in graded], np.stack([steps[each.name] for each in graded])

    def earlier(text: str, one: str, other: str) -> Claim:
        return gap_claim(text, steps, one, other, settings.steps)

    return (
        earlier("A lexicon that is written into beta makes attention emerge earlier", most, none),
        claim(
            "... the earlier, the more of it was written",
            f"rank correlation of dose and {UNIT} within seeds",
            *averaged(rank_slopes(*doses), -1.0, 1.0),
            below=0.0,
        ),
        earlier("As many steps that teach no words do less", most, flat),
        earlier("... but they make attention emerge earlier, too: a lexicon is not all it takes", flat, none),
        earlier(
            "A lexicon that is erased again loses the effect: attention emerges later than with it", most, "erased"
        ),
        earlier(
            "Attention is learned from a written lexicon alone, frozen, earlier than without one",
            "frozen, written",
            none,
        ),
        share_claim(
            "Attention is not learned over frozen states that know no words; judged as: for less than a fifth of "
            "the seeds",
            "share of seeds that learn it",
            learned,
            settings.seeds,
            below=0.2,
        ),
        claim(
            "The larger the contrast of the co-occurrence table, the earlier attention emerges",
            f"rank correlation of contrast and {UNIT} within seeds",
            *averaged(rank_slopes(*contrasts), -1.0, 1.0),
            below=0.0,
        ),
    )
