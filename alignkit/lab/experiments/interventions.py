"""``written-lexicon`` and ``attention-without-lexicon``: interventions on what a network knows before it attends.

``written-lexicon``: does lexical knowledge cause attention? It is written, erased, frozen and graded (ours).

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

``attention-without-lexicon``: what flat training leaves behind, if not words; parts are transplanted (ours).

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.stats import rankdata, spearmanr
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, averaged, claim, copying, share_claim
from alignkit.metrics.intervals import percentile_interval, ratio
from alignkit.neural.networks.encoder_decoder import EncoderDecoder, Encoding, State
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.tokenization import EOS
from alignkit.types import Progress

UNIT = "step at which attention emerges"
#: parts of a network that decide which word a state names; the decoder's own is not among them
LEXICAL = ("embedding", "encoder", "context", "combine", "output")


@dataclass(frozen=True)
class EmergenceSettings(copying.SequencePlan):
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
            raise AlignkitError("seeds: at least two are needed, because intervals are over seeds")


@dataclass(frozen=True)
class WrittenLexiconSettings(EmergenceSettings):
    """The interventions.

    Attributes (others are those of :class:`EmergenceSettings`):
        types: of the text that the lexicon is written with, ``length`` of them in a sequence.
        doses: steps of writing; the first is 0.
        contrasts: V, numbers of types of sequences that are learned without writing.
    """

    least = dict.fromkeys(("doses",), 0)
    size = ("seeds", "length", "types", "hidden", "batch", "steps", "doses", "contrasts")
    types: int = 24
    doses: tuple[int, ...] = (0, 25, 50, 100)
    contrasts: tuple[int, ...] = (12, 14, 18, 24)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.doses) < 2 or self.doses[0] != 0 or min(self.doses[1:]) <= 0:
            raise AlignkitError("doses: 0 and at least one number of steps above it are needed")
        if min(self.types, *self.contrasts) < self.length:
            raise AlignkitError("types and contrasts must not be below length")


QUICK_WRITTEN_LEXICON = WrittenLexiconSettings(
    seeds=4, length=12, types=24, hidden=32, batch=32, doses=(0, 100), contrasts=(12, 24)
)


@dataclass(frozen=True, eq=False)
class Condition:
    """Networks of one condition: their known words before the main training, and their runs."""

    name: str
    dose: float
    known: np.ndarray
    runs: list[copying.SequenceRun]

    def emergence(self, settings: EmergenceSettings) -> np.ndarray:
        """float64 (seeds,): the step at which attention emerged; after the last one if it never did."""
        level = settings.emerged / (settings.length + 1)  # the end of the sentence is a token, too
        steps = np.array([copying.left_uniform(run, level) for run in self.runs])
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
        self.settings, self.seeds, self.part = settings, seeds, progress_of_parts(progress, parts)
        self.narrow = copying.Sequences("permutation", settings.length, settings.length)
        self.starts = [copying.random_network(copying.FIRST + types, settings.hidden, seed) for seed in seeds]

    def trained_uniformly(self, sequences: copying.Sequences, steps: int) -> list[EncoderDecoder]:
        """The starts after training with uniform attention, which leaves the queries as they are."""
        if not steps:
            return self.starts
        plan = replace(self.settings, steps=steps, solved=2.0)  # the dose is exact
        seeds, part = [2000 + seed for seed in self.seeds], self.part(f"writing {steps}")
        runs = copying.train_on_sequences(self.starts, seeds, sequences.draw, plan, part, uniform=True)
        return [run.network for run in runs]

    def condition(
        self,
        name: str,
        dose: float,
        starts: Sequence[EncoderDecoder],
        frozen: Sequence[str] = (),
        known: Sequence[EncoderDecoder] | None = None,
        sequences: copying.Sequences | None = None,
    ) -> Condition:
        """The main training of these networks, on permutations.

        Args:
            name, dose: of the condition.
            starts: the networks before.
            frozen: parts that keep their weights.
            known: networks whose known words are measured; ``starts`` if None.
            sequences: others to train on; known words are then not measured.
        """
        draw, seeds = (sequences or self.narrow).draw, [1000 + seed for seed in self.seeds]
        runs = copying.train_on_sequences(starts, seeds, draw, self.settings, self.part(name), frozen=frozen)
        if sequences:
            return Condition(name, dose, np.full(len(runs), np.nan), runs)
        generator = np.random.default_rng([self.settings.seeds, self.settings.length])
        pairs = self.narrow.bitext(generator, self.settings.pairs)
        return Condition(name, dose, copying.known_words(self.narrow, known or starts, pairs), runs)


def with_words_erased(network: EncoderDecoder, seed: int) -> EncoderDecoder:
    """The network after the words of its output layer have changed places at random."""
    erased = deepcopy(network)
    words = np.random.default_rng([seed, 4]).permutation(len(erased.output.bias) - copying.FIRST)
    order = torch.from_numpy(np.concatenate([np.arange(copying.FIRST), copying.FIRST + words]))
    with torch.no_grad():
        for weight in erased.output.parameters():
            weight.copy_(weight[order])
    return erased


def rank_slopes(doses: ArrayLike, steps: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of dose and step of emergence within each seed, float64 (seeds,).

    Args:
        doses: (D,), or (D, seeds).
        steps: (D, seeds).

    Returns:
        NaN for a seed whose steps are all the same.
    """
    given = np.broadcast_to(np.transpose(doses), steps.T.shape)
    pairs = zip(given, steps.T, strict=True)
    return np.array([spearmanr(x, y).statistic if np.ptp(y) else np.nan for x, y in pairs], np.float64)


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
    broad, last = copying.Sequences("subset", settings.types, settings.length), settings.doses[-1]
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
        kind = "permutation" if types == settings.length else "subset"
        sequences = copying.Sequences(kind, types, settings.length)
        starts = [copying.random_network(sequences.vocabulary, settings.hidden, seed) for seed in lab.seeds]
        share = copying.contrast(sequences.counts(np.random.default_rng(0), 2000) / 2000)
        graded.append(lab.condition(f"{settings.length} of {types}", share, starts, sequences=sequences))
    rows = [copying.curves(each.runs, condition=each.name) for each in (*conditions, *graded)]
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

    table = pd.DataFrame([each.row(settings) for each in (*conditions, *graded)])
    claims = tuple(written_lexicon_claims(conditions, graded, settings))
    tidy = {"accuracy": pd.concat(rows, ignore_index=True), "seeds": raw.round(5)}
    return Result(table, claims, tidy, draw, (remark,))


def written_lexicon_claims(
    conditions: Sequence[Condition], graded: Sequence[Condition], settings: WrittenLexiconSettings
) -> Iterator[Claim]:
    """The claims; differences are within seeds, and intervals over seeds."""
    steps = {each.name: each.emergence(settings) for each in (*conditions, *graded)}
    written = [each for each in conditions if each.name.startswith("written")]
    none, most = written[0].name, written[-1].name
    flat = next(name for name in steps if name.startswith("flat"))

    def earlier(text: str, one: str, other: str) -> Claim:
        return gap_claim(text, steps, one, other, settings.steps)

    def rank_claim(text: str, name: str, groups: Sequence[Condition]) -> Claim:
        slopes = rank_slopes([each.dose for each in groups], np.stack([steps[each.name] for each in groups]))
        statistic = f"rank correlation of {name} and {UNIT} within seeds"
        return claim(text, statistic, *averaged(slopes, -1.0, 1.0), below=0.0)

    yield earlier("A lexicon that is written into beta makes attention emerge earlier", most, none)
    yield rank_claim("... the earlier, the more of it was written", "dose", written)
    yield earlier("As many steps that teach no words do less", most, flat)
    yield earlier("... but they make attention emerge earlier, too: a lexicon is not all it takes", flat, none)
    text = "A lexicon that is erased again loses the effect: attention emerges later than with it"
    yield earlier(text, most, "erased")
    text = "Attention is learned from a written lexicon alone, frozen, earlier than without one"
    yield earlier(text, "frozen, written", none)
    text = "Attention is not learned over frozen states that know no words"
    text += "; judged as: for less than a fifth of the seeds"
    learned = int((steps["frozen, random"] <= settings.steps).sum())
    yield share_claim(text, "share of seeds that learn it", learned, settings.seeds, below=0.2)
    text = "The larger the contrast of the co-occurrence table, the earlier attention emerges"
    yield rank_claim(text, "contrast", graded)


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

    size = ("seeds", "length", "hidden", "batch", "steps", "before")
    seeds: int = 24
    length: int = 40
    before: int = 100


QUICK_ATTENTION_WITHOUT_LEXICON = AttentionWithoutLexiconSettings(
    seeds=2, length=8, hidden=16, batch=16, steps=60, before=60, pairs=8
)


class OtherOrder(copying.Sequences):
    """Permutations whose target is another permutation."""

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws source, previous and target tokens as those of :class:`copying.Sequences`."""
        return super().draw(generator, count)[0], *super().draw(generator, count)[1:]


class Noise(copying.Sequences):
    """Permutations whose target's tokens are drawn independently, EOS among them."""

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws source, previous and target tokens as those of :class:`copying.Sequences`."""
        source, previous, target = super().draw(generator, count)
        target = generator.integers(EOS, copying.FIRST + self.types, target.shape)
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
    changed = NetworkWithPlaces(network.settings)
    changed.load_state_dict(network.state_dict())
    changed.places = places
    return changed


def transplant(fresh: EncoderDecoder, flat: EncoderDecoder, groups: Iterable[str]) -> EncoderDecoder:
    """The fresh network with these groups of parts from the flat one."""
    mixed = deepcopy(fresh)
    for group in groups:
        for name in GROUPS[group]:
            mixed.get_submodule(name).load_state_dict(flat.get_submodule(name).state_dict())
    return mixed


@torch.no_grad()
def states_of(network: EncoderDecoder, sequences: copying.Sequences, count: int) -> tuple[Tensor, Tensor]:
    """h (B, L, H) and s (B, T, H) of a network on ``count`` pairs, the same for all networks."""
    source, previous, _ = (torch.from_numpy(part) for part in sequences.draw(np.random.default_rng(7), count))
    encoding = network.encode(source.t(), np.full(count, source.shape[1]))
    return encoding.h, network.states(previous.t(), encoding.start)[0]


def mean_places(network: EncoderDecoder, sequences: copying.Sequences) -> tuple[Tensor, Tensor]:
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


def decoded(networks: Sequence[EncoderDecoder], sequences: copying.Sequences, count: int) -> np.ndarray:
    """float64 (2, seeds): :func:`decoded_places` from h and from s, where they have read a word."""
    both = [states_of(network, sequences, count) for network in networks]
    return np.array([[decoded_places(h[:, :-1].numpy()), decoded_places(s[:, 1:].numpy())] for h, s in both]).T


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
    fits = (np.linalg.lstsq(part.T, wanted, rcond=None)[0] for part in (given[: len(GROUPS)], given))
    total, direct = (weights[: len(GROUPS)].sum() for weights in fits)
    return 1 - float(ratio(direct, total))


def within_conditions(mediator: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """float64 (seeds,): a seed's part in the rank correlation over seeds within each condition, both (conditions,
    seeds); their mean is the mean of Spearman's correlations."""
    ranks = [rankdata(part, axis=1) for part in (mediator, steps)]
    with np.errstate(invalid="ignore"):  # NaN where it emerges at the same step in all
        first, second = ((rank - rank.mean(1, keepdims=True)) / rank.std(1, keepdims=True) for rank in ranks)
    return ratio(np.nansum(first * second, 0), np.isfinite(second).sum(0))


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
    seen = group_effects(steps)
    seen["rank correlation with known words"] = rank_slopes(by_subset(raw, "known"), steps)
    effects = []
    for name, effect in seen.items():
        value, (low, high) = averaged(effect)
        effects.append(f"{name} {value:.2f} [{low:.2f}, {high:.2f}]")
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

    claims = [gap("Flat training makes attention emerge earlier", ALL, NONE)]
    for group in ("encoder", "decoder"):
        statistic = f"{UNIT}, with minus without, over 8 pairs of subsets"
        claims.append(negative(f"The {group} of a flat network does", statistic, effects[group]))
    statistic = "difference of the sums of their effects"
    claims.append(negative("Encoder and decoder do more than embedding and readout", statistic, least))
    for letter, mediator in zip("hs", mediators, strict=True):
        text = f"The better places can be decoded from {letter}, the earlier, across the subsets"
        claims.append(negative(text, "rank correlation within seeds", rank_slopes(mediator, steps), -1.0, 1.0))
        inside = within_conditions(mediator, steps)
        claims.append(negative("... and within each", "mean rank correlation over seeds", inside, -1.0, 1.0))
    text = "Most of the effect of flat training goes through these places"
    statistic = "share of the groups' effects that is gone when both are held"
    return (
        *claims,
        claim(text, statistic, mediated_share(steps, both), percentile_interval(shares), above=0.5),
        gap("Places alone suffice: earlier with them, written into fresh states", "places written", NONE),
        gap("... and not by the size of states: earlier than scrambled", "places written", "places scrambled"),
        gap("Places are necessary: flat training does less without them", ALL, "places erased"),
        gap("Nothing of copying is needed: an unrelated order serves", "other order", NONE),
        gap("Training on noise does not serve: at most 30 steps earlier", "noise", NONE, above=-30.0),
        gap("Added later: the readout does less when its words are erased", "readout", "readout, erased"),
    )
