"""``attention-without-lexicon``: what does flat training leave behind, if not words? Parts are transplanted (ours).

Training on permutations with attention fixed to 1/L ("flat") leaves known words at chance, and yet attention is
learned afterwards (experiment ``written-lexicon``). Four groups of parameters are transplanted from such networks
into the same networks as they were drawn, every subset of the groups. Before the main training, in which attention
is learned, the place of a token is decoded linearly from the encoder's state h, and the target's from the decoder's
s. Does that predict when attention emerges, across the subsets and among the seeds of each?

More conditions intervene on it:

- **places written**: the fresh networks, but to h and s is added what flat training makes of each place, their
  mean over sequences (centred, and never trained): the mediator and nothing else;
- **places scrambled**: the same vectors, each added at another place, others for h than for s: states of the same
  sizes, whose places do not fit;
- **places erased**: the flat networks, from which the vectors are subtracted;
- **other order**: as many steps on targets in an order of their own, from which nothing of copying can be learned;
- **noise**: as many steps on targets whose tokens are drawn independently, the end among them, from which nothing
  can be learned at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata

from alignkit.experiments.emergence import UNIT, Bench, Condition, EmergenceSettings, gap_claim, rank_slopes
from alignkit.experiments.ensemble import PLACES, Parameters, stack, states
from alignkit.experiments.protocol import Claim, Figure, Result, averaged, claim
from alignkit.experiments.sequences import FIRST, Sequences
from alignkit.metrics.intervals import percentile_interval
from alignkit.text.tokenization import EOS
from alignkit.types import Progress, no_progress

GROUPS = {
    "embedding": ("embedding",),
    "encoder": ("encoder_input", "encoder_state", "encoder_bias"),
    "decoder": ("decoder_input", "decoder_state", "decoder_bias"),
    "readout": ("context", "context_bias", "combine", "combine_bias", "output", "output_bias"),
}  #: all parameters but the query, which flat training leaves as it was drawn
SUBSETS = [subset for size in range(len(GROUPS) + 1) for subset in combinations(GROUPS, size)]
FIRST_SEED = 100  #: none of the networks of written-lexicon, which gave the question


@dataclass(frozen=True)
class AttentionWithoutLexiconSettings(EmergenceSettings):
    """The networks, at the paper's length.

    Attributes (others are those of :class:`EmergenceSettings`):
        before: steps of flat training, and of the others that precede the main training.
    """

    seeds: int = 30
    length: int = 40
    before: int = 100


QUICK = AttentionWithoutLexiconSettings(seeds=2, length=8, hidden=16, batch=16, steps=60, before=60, pairs=8)


class OtherOrder(Sequences):
    """Permutations whose target is another permutation."""

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws source, previous and target tokens as those of :class:`Sequences`."""
        return super().draw(generator, count)[0], *super().draw(generator, count)[1:]


class Noise(Sequences):
    """Permutations whose target's tokens are drawn independently, EOS among them."""

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws source, previous and target tokens as those of :class:`Sequences`."""
        source, previous, target = super().draw(generator, count)
        target = generator.integers(EOS, FIRST + self.types, target.shape)
        return source, np.hstack([previous[:, :1], target[:, :-1]]), target


def transplant(fresh: Parameters, flat: Parameters, groups: Iterable[str]) -> Parameters:
    """The fresh network with these groups of parameters from the flat one."""
    return fresh | {name: flat[name] for group in groups for name in GROUPS[group]}


def decoded_places(given: np.ndarray) -> float:
    """How well places are decoded from states (B, T, H).

    R² on half of the B sequences of least squares fitted on the other half.
    """
    sequences, places, _ = given.shape
    wanted = np.tile(np.arange(places), sequences // 2)
    fitted, held = (
        np.column_stack([half.reshape(len(wanted), -1), np.ones(len(wanted))])
        for half in (given[: sequences // 2], given[sequences // 2 : 2 * (sequences // 2)])
    )
    errors = held @ np.linalg.lstsq(fitted, wanted, rcond=None)[0] - wanted
    return float(1 - (errors**2).mean() / wanted.var())


class _Bench(Bench):
    def decoded(self, starts: Sequence[Parameters]) -> np.ndarray:
        """float64 (2, seeds): :func:`decoded_places` from h and from s, where they have read a word."""
        h, s = self._states(starts, 2 * self.settings.pairs)
        return np.array([[decoded_places(each) for each in part.numpy()] for part in (h[:, :, :-1], s[:, :, 1:])])

    def _states(self, starts: Sequence[Parameters], count: int) -> tuple[torch.Tensor, torch.Tensor]:
        source, previous, _ = self.narrow.draw(np.random.default_rng(7), count)
        drawn = (torch.from_numpy(part).expand(len(starts), -1, -1) for part in (source, previous))
        with torch.no_grad():
            return states(stack(starts), *drawn)

    def with_places(
        self, starts: Sequence[Parameters], flat: Sequence[Parameters], sign: float, scrambled: bool = False
    ) -> list[Parameters]:
        """The starts, to which the centred mean states of the flat networks at each place are added."""
        means = [part.mean(1) for part in self._states(flat, 200)]
        tables = [sign * (mean - mean.mean(1, keepdim=True)) for mean in means]
        found = []
        for at, (seed, start) in enumerate(zip(self.seeds, starts, strict=True)):
            places = np.random.default_rng([seed, 5])
            own = [table[at : at + 1] for table in tables]
            if scrambled:
                own = [table[:, places.permutation(table.shape[1])] for table in own]
            found.append(start | dict(zip(PLACES, own, strict=True)))
        return found


def run_attention_without_lexicon(
    settings: AttentionWithoutLexiconSettings, progress: Progress = no_progress
) -> Result:
    """Transplants parts of flat-trained networks, and finds when attention emerges and what predicts it."""
    seeds = range(FIRST_SEED, FIRST_SEED + settings.seeds)
    lab = _Bench(
        settings, progress, settings.length, seeds, len(SUBSETS) + 8
    )  # 5 more conditions, 3 trainings before
    task = "permutation", settings.length, settings.length
    flat = lab.trained_uniformly(lab.narrow, settings.before)
    starts = {
        name_of(subset): [transplant(*pair, subset) for pair in zip(lab.starts, flat, strict=True)]
        for subset in SUBSETS
    }
    starts |= {
        "places written": lab.with_places(lab.starts, flat, 1.0),
        "places scrambled": lab.with_places(lab.starts, flat, 1.0, scrambled=True),
        "places erased": lab.with_places(flat, flat, -1.0),
        "other order": lab.trained_uniformly(OtherOrder(*task), settings.before),
        "noise": lab.trained_uniformly(Noise(*task), settings.before),
    }
    decoded = {name: lab.decoded(given) for name, given in starts.items()}
    conditions = {name: lab.condition(name, np.nan, given, PLACES) for name, given in starts.items()}
    rows, raw = [], []
    for name, each in conditions.items():
        h, s = decoded[name]
        rows.append(each.row(settings) | {"place in h": h.mean(), "place in s": s.mean()})
        last = [run.attention[-1] for run in each.runs]
        columns = {"h": h, "s": s, "known": each.known, "emerged": each.emergence(settings), "attention": last}
        raw.append(pd.DataFrame({"condition": name, "seed": seeds, **columns}))
    remarks = (
        "place in h, in s: R2 of a linear decoder on other sequences, before the main training. known, emerged, "
        "attention: as in written-lexicon; known is measured without the added places.",
    )
    return Result(
        pd.DataFrame(rows),
        attention_without_lexicon_claims(conditions, decoded, settings),
        {"seeds": pd.concat(raw, ignore_index=True).round(5)},
        lambda figure: _draw(figure, conditions, decoded, settings),
        remarks,
    )


def name_of(subset: Sequence[str]) -> str:
    """The name of the condition in which these groups come from the flat networks."""
    return {0: "none", len(GROUPS): "all"}.get(len(subset), ", ".join(subset))


def group_effects(steps: np.ndarray, mediators: np.ndarray) -> np.ndarray:
    """What each group does to the step of emergence when the mediators stay as they are, float64 (groups,).

    The coefficients of the groups by least squares within seeds, on groups and mediators.

    Args:
        steps: (subsets, seeds).
        mediators: (K, subsets, seeds), K from 0.
    """
    members = np.array([[group in subset for subset in SUBSETS] for group in GROUPS], np.float64)
    given = np.concatenate([np.repeat(members[..., None], steps.shape[1], 2), mediators])
    given = (given - given.mean(1, keepdims=True)).reshape(len(given), -1)
    return np.linalg.lstsq(given.T, (steps - steps.mean(0)).ravel(), rcond=None)[0][: len(GROUPS)]


def mediated_share(steps: np.ndarray, mediators: np.ndarray) -> float:
    """The share of the sum of the groups' effects that is gone once the mediators are held."""
    return float(1 - group_effects(steps, mediators).sum() / group_effects(steps, mediators[:0]).sum())


def within_conditions(mediator: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """float64 (seeds,): a seed's part in the rank correlation over seeds within each condition, both (conditions,
    seeds); their mean is the mean of Spearman's correlations."""
    ranks = [rankdata(part, axis=1) for part in (mediator, steps)]
    with np.errstate(invalid="ignore"):
        first, second = ((rank - rank.mean(1, keepdims=True)) / rank.std(1, keepdims=True) for rank in ranks)
    return np.nanmean(first * second, axis=0)


def attention_without_lexicon_claims(
    conditions: Mapping[str, Condition],
    decoded: Mapping[str, np.ndarray],
    settings: AttentionWithoutLexiconSettings,
) -> tuple[Claim, ...]:
    """The claims as predicted; differences are within seeds, and intervals over seeds."""
    names = [name_of(subset) for subset in SUBSETS]
    steps = np.stack([conditions[name].emergence(settings) for name in names])
    mediators = np.stack([decoded[name] for name in names], 1)
    effects = {
        group: steps[inside].mean(0) - steps[~inside].mean(0)
        for group in GROUPS
        for inside in [np.array([group in subset for subset in SUBSETS])]
    }
    draws = np.random.default_rng(0).integers(0, settings.seeds, (1000, settings.seeds))
    shares = np.array([mediated_share(steps[:, draw], mediators[..., draw]) for draw in draws])

    def gap(text: str, one: str, other: str, above: float | None = None) -> Claim:
        return gap_claim(text, conditions[one], conditions[other], settings, above)

    found = [gap("Flat training makes attention emerge earlier", "all", "none")]
    for group in ("encoder", "decoder"):
        text, statistic = (
            f"The {group} of a flat network does",
            f"{UNIT}, with minus without, over 8 pairs of subsets",
        )
        found.append(claim(text, statistic, *averaged(effects[group]), below=0.0))
    least = effects["encoder"] + effects["decoder"] - effects["embedding"] - effects["readout"]
    text = "Encoder and decoder do more than embedding and readout"
    found.append(claim(text, "difference of the sums of their effects", *averaged(least), below=0.0))
    for letter, mediator in zip("hs", mediators, strict=True):
        text = f"The better places can be decoded from {letter}, the earlier, across the subsets"
        across = averaged(rank_slopes(mediator, steps), -1.0, 1.0)
        found.append(claim(text, "rank correlation within seeds", *across, below=0.0))
        inside = averaged(within_conditions(mediator, steps), -1.0, 1.0)
        found.append(claim("... and within each", "mean rank correlation over seeds", *inside, below=0.0))
    text = "Most of the effect of flat training goes through these places"
    statistic = "share of the groups' effects that is gone when both are held"
    share = mediated_share(steps, mediators)
    return (
        *found,
        claim(text, statistic, share, percentile_interval(shares), above=0.5),
        gap(
            "Places alone suffice: written into fresh states, they make it emerge earlier",
            "places written",
            "none",
        ),
        gap("... and not by the size of states: earlier than scrambled", "places written", "places scrambled"),
        gap("Places are necessary: flat training does less without them", "all", "places erased"),
        gap("Nothing of copying is needed: an unrelated order serves", "other order", "none"),
        gap(
            "Training where nothing can be learned does not: at most 30 steps earlier",
            "noise",
            "none",
            above=-30.0,
        ),
    )


def _draw(
    figure: Figure,
    conditions: Mapping[str, Condition],
    decoded: Mapping[str, np.ndarray],
    settings: AttentionWithoutLexiconSettings,
) -> None:
    """Mean step of emergence with its interval by condition, and against the places decoded from h and s."""
    left, *others = figure.subplots(1, 3, width_ratios=[2, 1, 1], sharey=True)
    for at, (name, each) in enumerate(conditions.items()):
        value, (low, high) = averaged(each.emergence(settings))
        color = "tab:blue" if at < len(SUBSETS) else "tab:orange"
        for axis, x in zip((left, *others), (at, *decoded[name].mean(1)), strict=True):
            axis.errorbar(x, value, [[value - low], [high - value]], fmt="o", color=color, ms=4)
    left.set_xticks(range(len(conditions)), conditions, rotation=40, ha="right", fontsize=7)
    left.set_ylabel(UNIT)
    for axis, letter in zip(others, "hs", strict=True):
        axis.set_xlabel(f"R² of the place from {letter}")
