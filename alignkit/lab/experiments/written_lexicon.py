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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from alignkit.errors import AlignkitError
from alignkit.lab.experiments.emergence import (
    UNIT,
    Bench,
    Condition,
    EmergenceSettings,
    gap_claim,
    rank_slopes,
    with_words_erased,
)
from alignkit.lab.experiments.ensemble import Parameters, copying_settings, initial_parameters
from alignkit.lab.experiments.protocol import Claim, Figure, Result, averaged, claim, share_claim
from alignkit.lab.experiments.sequences import Sequences, contrast, count_table, curves
from alignkit.support.stages import no_progress
from alignkit.types import Progress

#: those that decide which word a state names; the decoder's own are not among them
LEXICAL = (
    *("embedding", "encoder_input", "encoder_state", "encoder_bias", "context", "context_bias"),
    *("combine", "combine_bias", "output", "output_bias"),
)


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


def run_written_lexicon(settings: WrittenLexiconSettings, progress: Progress = no_progress) -> Result:
    """Writes, erases, freezes and grades the lexicon, and finds when attention emerges."""
    parts = 2 * len(settings.doses) + 4 + len(settings.contrasts)
    lab = _Bench(settings, progress, settings.types, range(settings.seeds), parts)
    conditions = [*lab.written(), lab.flat(), lab.erased(), *lab.frozen()]
    graded = lab.graded()
    table = pd.DataFrame([each.row(settings) for each in (*conditions, *graded)])
    rows = [curves(each.runs, condition=each.name) for each in (*conditions, *graded)]
    raw = pd.concat([each.seeds(settings) for each in (*conditions, *graded)], ignore_index=True)
    remarks = (
        f"known: the share of words of which beta is largest at their own state, before the main training (chance "
        f"{1 / (settings.length + 1):.3f}). emerged: the mean step from which on attention to the own word is "
        f"{settings.emerged:g} times uniform; {settings.steps + settings.every} if it never is. attention: to the "
        "own word, at the end.",
    )
    return Result(
        table,
        written_lexicon_claims(conditions, graded, settings),
        {"accuracy": pd.concat(rows, ignore_index=True), "seeds": raw.round(5)},
        lambda figure: _draw(figure, conditions, graded, settings),
        remarks,
    )


class _Bench(Bench):
    """The networks of every condition, trained one condition after another."""

    settings: WrittenLexiconSettings
    most: list[Parameters]  #: after the largest dose

    def written(self) -> list[Condition]:
        """Every dose."""
        found, broad = [], Sequences("subset", self.settings.types, self.settings.length)
        for dose in self.settings.doses:
            self.most = self.trained_uniformly(broad, dose)
            found.append(self.condition(f"written, {dose} steps", dose, self.most))
        return found

    def flat(self) -> Condition:
        dose = self.settings.doses[-1]
        return self.condition(f"flat, {dose} steps", dose, self.trained_uniformly(self.narrow, dose))

    def erased(self) -> Condition:
        """The words of the output layer have changed places."""
        starts = [with_words_erased(start, seed) for seed, start in zip(self.seeds, self.most, strict=True)]
        return self.condition("erased", self.settings.doses[-1], starts)

    def frozen(self) -> list[Condition]:
        """The parameters that make beta are frozen, as written and as drawn."""
        dose = self.settings.doses[-1]
        return [
            self.condition("frozen, written", dose, self.most, LEXICAL),
            self.condition("frozen, random", 0, list(self.starts), LEXICAL),
        ]

    def graded(self) -> list[Condition]:
        """Sequences of ``length`` of V types, learned without writing; the dose is the contrast of C."""
        settings, found = self.settings, []
        for types in settings.contrasts:
            kind = "permutation" if types == settings.length else "subset"
            sequences = Sequences(kind, types, settings.length)
            shape = copying_settings(sequences.vocabulary, settings.hidden)
            starts = [initial_parameters(shape, seed) for seed in range(settings.seeds)]
            name = f"{settings.length} of {types}"
            runs = self.train(starts, sequences, settings.steps, name)
            dose = contrast(count_table(sequences, 2000, 0))
            found.append(Condition(name, dose, np.full(settings.seeds, np.nan), runs))
        return found


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


def _draw(
    figure: Figure, conditions: Sequence[Condition], graded: Sequence[Condition], settings: WrittenLexiconSettings
) -> None:
    """Step of emergence of every seed, by dose and condition on the left, by contrast on the right."""
    left, right = figure.subplots(1, 2, width_ratios=[3, 2], sharey=True)
    for axis, groups in ((left, conditions), (right, graded)):
        for place, each in enumerate(groups):
            steps = each.emergence(settings)
            spread = np.linspace(-0.2, 0.2, len(steps))
            late = steps > settings.steps
            axis.plot(place + spread[~late], steps[~late], "o", color="tab:blue", ms=4)
            axis.plot(place + spread[late], steps[late], "x", color="tab:red", ms=4)
        axis.set_xticks(range(len(groups)), [each.name for each in groups], rotation=40, ha="right", fontsize=8)
    left.set_ylabel("step at which attention emerges (x: never)")
    right.set_xlabel("types (contrast of C rises to the right)")
