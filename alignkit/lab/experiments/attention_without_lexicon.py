"""``attention-without-lexicon``: what flat training leaves behind, if not words; parts are transplanted (ours).

Training on permutations with attention fixed to 1/L ("flat") leaves known words at chance, and yet attention is
learned afterwards (experiment ``written-lexicon``). Four groups of parameters are transplanted from such networks
into the same networks as they were drawn, every subset of the groups. Before the main training, in which attention
is learned, the place of a token is decoded linearly from the encoder's state h, and the target's from the
decoder's s. Does that predict when attention emerges, across the subsets and among the seeds of each?

More conditions intervene on it:

- **places written**: the fresh networks, but to h and s is added what flat training makes of each place, their
  mean over sequences (centred, and never trained): the mediator and nothing else;
- **places scrambled**: the same vectors, each added at another place, others for h than for s: states of the same
  sizes, whose places do not fit;
- **places erased**: the flat networks, from which the vectors are subtracted;
- **other order**: as many steps on targets in an order of their own, from which nothing of copying can be learned;
- **noise**: as many steps on targets whose tokens are drawn independently, the end among them, from which nothing
  can be learned at all;
- **readout, erased**: the readout transplanted, and then the words of the output layer change places at random, so
  that beta names wrong words. This was added when 16 seeds of the others had been seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata

from alignkit.lab.experiments.emergence import (
    UNIT,
    Bench,
    EmergenceSettings,
    gap_claim,
    rank_slopes,
    with_words_erased,
)
from alignkit.lab.experiments.ensemble import PLACES, Parameters, stack, states
from alignkit.lab.experiments.protocol import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.sequences import FIRST, Sequences
from alignkit.metrics.intervals import percentile_interval, ratio
from alignkit.support.stages import no_progress
from alignkit.text.tokenization import EOS
from alignkit.types import Progress

GROUPS = {
    "embedding": ("embedding",),
    "encoder": ("encoder_input", "encoder_state", "encoder_bias"),
    "decoder": ("decoder_input", "decoder_state", "decoder_bias"),
    "readout": ("context", "context_bias", "combine", "combine_bias", "output", "output_bias"),
}  #: all parameters but the query, which flat training leaves as it was drawn
SUBSETS = [subset for size in range(len(GROUPS) + 1) for subset in combinations(GROUPS, size)]
MEMBERS = np.array([[group in subset for subset in SUBSETS] for group in GROUPS], np.float64)
NONE, *_, ALL = NAMES = [", ".join(subset) or "none" for subset in SUBSETS]  #: of the conditions
FIRST_SEED = 100  #: none of the networks of written-lexicon, which gave the question


@dataclass(frozen=True)
class AttentionWithoutLexiconSettings(EmergenceSettings):
    """The networks, at the paper's length.

    Attributes (others are those of :class:`EmergenceSettings`):
        before: steps of flat training, and of the others that precede the main training.
    """

    seeds: int = 24
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
    """How well places are decoded from states (B, T, H), B even.

    R² on half of the B sequences of least squares fitted on the other half.
    """
    with_ones = np.concatenate([given, np.ones_like(given[..., :1])], -1)
    fitted, held = (half.reshape(-1, half.shape[2]) for half in np.split(with_ones, 2))
    wanted = np.tile(np.arange(given.shape[1]), len(given) // 2)
    errors = held @ np.linalg.lstsq(fitted, wanted, rcond=None)[0] - wanted
    return float(1 - (errors**2).mean() / wanted.var())


class _Bench(Bench):
    def states(self, starts: Sequence[Parameters], count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """h and s of all networks on the same ``count`` pairs."""
        drawn = self.narrow.draw(np.random.default_rng(7), count)[:2]
        with torch.no_grad():
            return states(stack(starts), *(torch.from_numpy(part).expand(len(starts), -1, -1) for part in drawn))

    def decoded(self, starts: Sequence[Parameters]) -> np.ndarray:
        """float64 (2, seeds): :func:`decoded_places` from h and from s, where they have read a word."""
        h, s = self.states(starts, 2 * self.settings.pairs)
        return np.array([[decoded_places(each.numpy()) for each in part] for part in (h[:, :, :-1], s[:, :, 1:])])

    def places(self, networks: Sequence[Parameters], scrambled: bool = False) -> list[Parameters]:
        """The mean states of each network at each place, centred; scrambled, in an order of their own."""
        found = []
        means = [part.mean(1) for part in self.states(networks, 200)]
        for seed, *tables in zip(self.seeds, *(mean - mean.mean(1, keepdim=True) for mean in means), strict=True):
            draw = np.random.default_rng([seed, 5])
            orders = [draw.permutation(len(table)) if scrambled else slice(None) for table in tables]
            found.append({name: t[None, order] for name, t, order in zip(PLACES, tables, orders, strict=True)})
        return found


def run_attention_without_lexicon(
    settings: AttentionWithoutLexiconSettings, progress: Progress = no_progress
) -> Result:
    """Transplants parts of flat-trained networks, and finds when attention emerges and what predicts it."""
    seeds = range(FIRST_SEED, FIRST_SEED + settings.seeds)
    lab = _Bench(settings, progress, settings.length, seeds, len(SUBSETS) + 9)  # 6 conditions, 3 before
    task, before = ("permutation", settings.length, settings.length), settings.before
    flat = lab.trained_uniformly(lab.narrow, before)
    both = list(zip(lab.starts, flat, lab.places(flat), lab.places(flat, scrambled=True), strict=True))
    starts = {
        name: [transplant(fresh, trained, subset) for fresh, trained, *_ in both]
        for name, subset in zip(NAMES, SUBSETS, strict=True)
    } | {
        "places written": [fresh | places for fresh, _, places, _ in both],
        "places scrambled": [fresh | scrambled for fresh, *_, scrambled in both],
        "places erased": [trained | {n: -x for n, x in places.items()} for _, trained, places, _ in both],
        "other order": lab.trained_uniformly(OtherOrder(*task), before),
        "noise": lab.trained_uniformly(Noise(*task), before),
        "readout, erased": [
            with_words_erased(transplant(*pair[:2], ("readout",)), seed)
            for seed, pair in zip(seeds, both, strict=True)
        ],
    }
    table, rows = [], []
    for name, given in starts.items():
        each, (h, s) = lab.condition(name, np.nan, given, PLACES), lab.decoded(given)
        table.append(each.row(settings) | {"place in h": h.mean(), "place in s": s.mean()})
        last = [run.attention[-1] for run in each.runs]
        rows.append(each.seeds(settings).assign(h=h, s=s, attention=last))
    raw = pd.concat(rows, ignore_index=True)
    steps = by_subset(raw, "emerged")
    seen = group_effects(steps) | {
        "rank correlation with known words": rank_slopes(by_subset(raw, "known"), steps)
    }
    told = [
        f"{name} {value:.2f} [{low:.2f}, {high:.2f}]"
        for name, each in seen.items()
        for value, (low, high) in [averaged(each)]
    ]
    remarks = (
        "place in h, in s: R2 of a linear decoder on other sequences, before the main training. known, emerged, "
        "attention: as in written-lexicon; known is measured without the added places.",
        f"Not predicted: effects on the step of emergence within seeds, across the subsets: {', '.join(told)}.",
    )
    found = attention_without_lexicon_claims(raw, settings.steps)
    return Result(pd.DataFrame(table), found, {"seeds": raw.round(5)}, lambda figure: _draw(figure, raw), remarks)


def by_subset(raw: pd.DataFrame, column: str) -> np.ndarray:
    """A column of the raw rows, (subsets, seeds)."""
    return raw.pivot(index="run", columns="condition", values=column)[NAMES].to_numpy().T


def group_effects(steps: np.ndarray) -> dict[str, np.ndarray]:
    """What each group does to the steps (subsets, seeds): with minus without, the mean over 8 pairs, (seeds,)."""
    return dict(zip(GROUPS, (2 * MEMBERS - 1) @ steps / (len(SUBSETS) / 2), strict=True))


def mediated_share(steps: np.ndarray, mediators: np.ndarray) -> float:
    """The share of the sum of the groups' effects on the step that is gone once the mediators are held.

    The effects are the coefficients of the groups by least squares within seeds, without and with the mediators.

    Args:
        steps: (subsets, seeds).
        mediators: (K, subsets, seeds).
    """
    given = np.concatenate([np.repeat(MEMBERS[..., None], steps.shape[1], 2), mediators])
    given = (given - given.mean(1, keepdims=True)).reshape(len(given), -1)
    wanted = (steps - steps.mean(0)).ravel()
    total, direct = (
        np.linalg.lstsq(part.T, wanted, rcond=None)[0][: len(GROUPS)].sum()
        for part in (given[: len(GROUPS)], given)
    )
    return 1 - float(ratio(direct, total))


def within_conditions(mediator: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """float64 (seeds,): a seed's part in the rank correlation over seeds within each condition, both (conditions,
    seeds); their mean is the mean of Spearman's correlations."""
    ranks = [rankdata(part, axis=1) for part in (mediator, steps)]
    with np.errstate(invalid="ignore"):  # NaN where it emerges at the same step in all
        first, second = ((rank - rank.mean(1, keepdims=True)) / rank.std(1, keepdims=True) for rank in ranks)
    return ratio(np.nansum(first * second, 0), np.isfinite(second).sum(0))


def attention_without_lexicon_claims(raw: pd.DataFrame, last: int) -> tuple[Claim, ...]:
    """The claims as predicted; differences are within seeds, and intervals over seeds.

    Args:
        raw: a row for each condition and seed, with the columns condition, run, h, s and emerged.
        last: the last step of training.
    """
    step = dict(iter(raw.groupby("condition").emerged))
    steps, *mediators = (by_subset(raw, name) for name in ("emerged", "h", "s"))
    effects = group_effects(steps)
    least = effects["encoder"] + effects["decoder"] - effects["embedding"] - effects["readout"]
    both = np.stack(mediators)
    draws = np.random.default_rng(0).integers(0, steps.shape[1], (1000, steps.shape[1]))
    shares = np.array([mediated_share(steps[:, draw], both[..., draw]) for draw in draws])

    def gap(text: str, one: str, other: str, above: float | None = None) -> Claim:
        return gap_claim(text, step, one, other, last, above)

    def negative(text: str, statistic: str, values: np.ndarray, *bounds: float) -> Claim:
        return claim(text, statistic, *averaged(values, *bounds), below=0.0)

    found = [gap("Flat training makes attention emerge earlier", ALL, NONE)]
    for group in ("encoder", "decoder"):
        statistic = f"{UNIT}, with minus without, over 8 pairs of subsets"
        found.append(negative(f"The {group} of a flat network does", statistic, effects[group]))
    statistic = "difference of the sums of their effects"
    found.append(negative("Encoder and decoder do more than embedding and readout", statistic, least))
    for letter, mediator in zip("hs", mediators, strict=True):
        text = f"The better places can be decoded from {letter}, the earlier, across the subsets"
        found.append(negative(text, "rank correlation within seeds", rank_slopes(mediator, steps), -1.0, 1.0))
        inside = within_conditions(mediator, steps)
        found.append(negative("... and within each", "mean rank correlation over seeds", inside, -1.0, 1.0))
    text = "Most of the effect of flat training goes through these places"
    statistic = "share of the groups' effects that is gone when both are held"
    return (
        *found,
        claim(text, statistic, mediated_share(steps, both), percentile_interval(shares), above=0.5),
        gap("Places alone suffice: earlier with them, written into fresh states", "places written", NONE),
        gap("... and not by the size of states: earlier than scrambled", "places written", "places scrambled"),
        gap("Places are necessary: flat training does less without them", ALL, "places erased"),
        gap("Nothing of copying is needed: an unrelated order serves", "other order", NONE),
        gap("Training on noise does not serve: at most 30 steps earlier", "noise", NONE, above=-30.0),
        gap("Added later: the readout does less when its words are erased", "readout", "readout, erased"),
    )


def _draw(figure: Figure, raw: pd.DataFrame) -> None:
    """Mean step of emergence of each condition, against places decoded from h and from s, and known words."""
    means = raw.groupby("condition", sort=False)[["h", "s", "known", "emerged"]].mean()
    labels = {"h": "R² of the place from h", "s": "R² of the place from s", "known": "share of known words"}
    for axis, (name, label) in zip(figure.subplots(1, 3, sharey=True), labels.items(), strict=True):
        axis.scatter(means[name], means.emerged, c=["tab:blue"] * len(SUBSETS) + ["tab:orange"] * 6, s=12)
        axis.set(xlabel=label, ylabel=f"mean {UNIT}" if name == "h" else "")
    for condition, x, y in zip(means.index, means.known, means.emerged, strict=True):
        axis.annotate(condition, (x, y), fontsize=4)
