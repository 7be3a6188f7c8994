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
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from torch import Tensor

from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim
from alignkit.lab.experiments.copying import FIRST, Sequences
from alignkit.lab.experiments.written_lexicon import (
    UNIT,
    Bench,
    EmergenceSettings,
    gap_claim,
    rank_slopes,
    with_words_erased,
)
from alignkit.metrics.intervals import percentile_interval, ratio
from alignkit.neural.networks.encoder_decoder import EncoderDecoder, Encoding, State
from alignkit.support.stages import no_progress
from alignkit.text.tokenization import EOS
from alignkit.types import Progress

#: groups of a network's parts: all but the attention, which flat training leaves as it was drawn
GROUPS = {
    "embedding": ("embedding",),
    "encoder": ("encoder",),
    "decoder": ("decoder",),
    "readout": ("context", "combine", "output"),
}
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


class NetworkWithPlaces(EncoderDecoder):
    """A network to whose states something is added at each place, which is never trained.

    Attributes:
        places: what is added to h and to s, (L, H) each.
    """

    places: tuple[Tensor, Tensor]

    def encode(self, source: Tensor, lengths: np.ndarray, omega: Tensor | None = None) -> Encoding:
        encoding = super().encode(source, lengths, omega)
        return replace(encoding, h=encoding.h + self.places[0])

    def states(self, previous: Tensor, start: State) -> tuple[Tensor, State]:
        s, state = super().states(previous, start)
        return s + self.places[1], state


def with_places(network: EncoderDecoder, places: tuple[Tensor, Tensor]) -> NetworkWithPlaces:
    """The network with these vectors added to h and s."""
    found = NetworkWithPlaces(network.settings)
    found.load_state_dict(network.state_dict())
    found.places = places
    return found


def transplant(fresh: EncoderDecoder, flat: EncoderDecoder, groups: Iterable[str]) -> EncoderDecoder:
    """The fresh network with these groups of parts from the flat one."""
    found = deepcopy(fresh)
    for group in groups:
        for name in GROUPS[group]:
            found.get_submodule(name).load_state_dict(flat.get_submodule(name).state_dict())
    return found


@torch.no_grad()
def states_of(network: EncoderDecoder, sequences: Sequences, count: int) -> tuple[Tensor, Tensor]:
    """h (B, L, H) and s (B, T, H) of a network on ``count`` pairs, the same for all networks."""
    source, previous, _ = (torch.from_numpy(part) for part in sequences.draw(np.random.default_rng(7), count))
    encoding = network.encode(source.t(), np.full(count, source.shape[1]))
    return encoding.h, network.states(previous.t(), encoding.start)[0]


def mean_places(network: EncoderDecoder, sequences: Sequences) -> tuple[Tensor, Tensor]:
    """The mean states h and s of a network at each place, centred, (L, H) each."""
    h, s = (part.mean(0) for part in states_of(network, sequences, 200))
    return h - h.mean(0), s - s.mean(0)


def scrambled(places: tuple[Tensor, Tensor], seed: int) -> tuple[Tensor, Tensor]:
    """The same vectors at other places, those of h and of s in orders of their own."""
    generator = np.random.default_rng([seed, 5])
    h, s = (part[generator.permutation(len(part))] for part in places)
    return h, s


def decoded_places(given: np.ndarray) -> float:
    """How well places are decoded from states (B, T, H), B even.

    R² on half of the B sequences of least squares fitted on the other half.
    """
    with_ones = np.concatenate([given, np.ones_like(given[..., :1])], -1)
    fitted, held = (half.reshape(-1, half.shape[2]) for half in np.split(with_ones, 2))
    wanted = np.tile(np.arange(given.shape[1]), len(given) // 2)
    errors = held @ np.linalg.lstsq(fitted, wanted, rcond=None)[0] - wanted
    return float(1 - (errors**2).mean() / wanted.var())


def decoded(networks: Sequence[EncoderDecoder], sequences: Sequences, count: int) -> np.ndarray:
    """float64 (2, seeds): :func:`decoded_places` from h and from s, where they have read a word."""
    both = [states_of(network, sequences, count) for network in networks]
    return np.array([[decoded_places(h[:, :-1].numpy()), decoded_places(s[:, 1:].numpy())] for h, s in both]).T


def run_attention_without_lexicon(
    settings: AttentionWithoutLexiconSettings, progress: Progress = no_progress
) -> Result:
    """Transplants parts of flat-trained networks, and finds when attention emerges and what predicts it."""
    seeds = range(FIRST_SEED, FIRST_SEED + settings.seeds)
    lab = Bench(settings, progress, settings.length, seeds, len(SUBSETS) + 9)  # 6 conditions, 3 before
    task, before = ("permutation", settings.length, settings.length), settings.before
    flat = lab.trained_uniformly(lab.narrow, before)
    places = [mean_places(network, lab.narrow) for network in flat]
    moved = [[transplant(*pair, subset) for pair in zip(lab.starts, flat, strict=True)] for subset in SUBSETS]
    starts = dict(zip(NAMES, moved, strict=True))
    readout = starts["readout"]
    starts |= {
        "places written": lab.starts,
        "places scrambled": lab.starts,
        "places erased": flat,
        "other order": lab.trained_uniformly(OtherOrder(*task), before),
        "noise": lab.trained_uniformly(Noise(*task), before),
        "readout, erased": [with_words_erased(*pair) for pair in zip(readout, seeds, strict=True)],
    }
    added = {
        "places written": places,
        "places scrambled": [scrambled(*pair) for pair in zip(places, seeds, strict=True)],
        "places erased": [(-h, -s) for h, s in places],
    }
    table, rows = [], []
    for name, plain in starts.items():
        networks = list(map(with_places, plain, added[name])) if name in added else plain
        each = lab.condition(name, np.nan, networks, known=plain)
        h, s = decoded(networks, lab.narrow, 2 * settings.pairs)
        table.append(each.row(settings) | {"place in h": h.mean(), "place in s": s.mean()})
        last = [run.attention[-1] for run in each.runs]
        rows.append(each.seeds(settings).assign(h=h, s=s, attention=last))
    raw = pd.concat(rows, ignore_index=True)
    steps = by_subset(raw, "emerged")
    seen = group_effects(steps) | {
        "rank correlation with known words": rank_slopes(by_subset(raw, "known"), steps)
    }
    effects = [
        f"{name} {value:.2f} [{low:.2f}, {high:.2f}]"
        for name, each in seen.items()
        for value, (low, high) in [averaged(each)]
    ]
    remarks = (
        "place in h, in s: R2 of a linear decoder on other sequences, before the main training. known, emerged, "
        "attention: as in written-lexicon; known is measured without the added places.",
        f"Not predicted: effects on the step of emergence within seeds, across the subsets: {', '.join(effects)}.",
    )

    def draw(figure: Figure) -> None:
        """Mean step of emergence of each condition, against places decoded from h and from s, and known words."""
        means = raw.groupby("condition", sort=False)[["h", "s", "known", "emerged"]].mean()
        labels = {"h": "R² of the place from h", "s": "R² of the place from s", "known": "share of known words"}
        for axis, (name, label) in zip(figure.subplots(1, 3, sharey=True), labels.items(), strict=True):
            axis.scatter(means[name], means.emerged, c=["tab:blue"] * len(SUBSETS) + ["tab:orange"] * 6, s=12)
            axis.set(xlabel=label, ylabel=f"mean {UNIT}" if name == "h" else "")
        for condition, x, y in zip(means.index, means.known, means.emerged, strict=True):
            axis.annotate(condition, (x, y), fontsize=4)

    claims = attention_without_lexicon_claims(raw, settings.steps)
    return Result(pd.DataFrame(table), claims, {"seeds": raw.round(5)}, draw, remarks)


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
