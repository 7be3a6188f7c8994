"""``copying``, ``permutation-function`` and ``copying-mechanisms``: when attention is not learned.

``copying``: a network that cannot learn to copy (Snell et al. 2021, section 3.3 and appendix A.3).

While attention is near uniform, the network sees a bag of words, so all it can learn about translation is in the
co-occurrence table C. In permutations of one set of words, every word co-occurs with every word equally often: C
is flat, nothing drives attention, and copying is learned only from a lucky initialisation. Copying 40 of 60 words
is a larger task and an easy one, since C has a diagonal. In a mixture of permutations of two disjoint sets, C has
two flat blocks: it determines the set but not the word.

Our choices: sequences end with EOS on both sides; "fails" means a token accuracy below ``learned`` at the last
step. Without the source, at most :meth:`Sequences.chance` is possible (0.13 for permutations of 40), and a network
that copies has nearly 1, so any bound well between the two gives almost the same count.

``permutation-function``: words are learned, attention is not (Snell et al. 2021, section 6.2).

The target is the source in an order that is the same for every pair, y_t = x_order(t). As bags of words, source
and target are those of copying, so a network with uniform attention learns the translations of words as well as
it does for copying. But attention now has to find a position instead of the word after the previous one, and that
is not learned: attention needs knowledge of words, and this knowledge is not enough.

Our choices: 40 of 60 types; the order is one random permutation of the positions, the same for all seeds; EOS
stays at the end. beta_uf is the lexical probe of a network trained with attention fixed to 1/L, on new pairs.
"Equally well" is judged by the share of target words for which beta_uf is largest at their translation, among all
40 source words and EOS: chance is 1 in 41.

``copying-mechanisms``: copying permutations with attention whose gradient dies outside its support.

Permutations of one set of words tell nothing by co-occurrence, so attention has to be found by luck (experiment
``copying``; Snell et al. 2021, section 3.3). Softmax gives every position some weight, and with it some gradient.
Sparsemax and entmax give positions a weight of exactly 0, whose scores then have no gradient: a position that is
lost can only come back by way of other rows. Hard attention sees one position; its estimators get a gradient from
elsewhere: that of softmax, put in the place of the true one, which is 0 (straight-through, Gumbel), or samples of
it (REINFORCE). If the luck that copying needs is a gradient from the right position, sparse and hard attention
should fail more often than softmax.

All mechanisms have the score function h_l · (W s_t + b), the same initial weights and the same sequences, seed by
seed. "Fails" is as in ``copying``: a token accuracy below ``learned`` at the last step.

The sequences, and how networks are trained on them, serve the other experiments on copying, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import Any, ClassVar, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.errors import AlignkitError, check_known
from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, averaged, claim, share_claim
from alignkit.metrics.intervals import share_difference
from alignkit.neural.devices import Batcher, Products, one_thread, rounded
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.scoring.translation import network_scores
from alignkit.neural.settings import SOFTMAX, LstmSettings, parse_attention
from alignkit.neural.training.loop import CPU, adam, optimise
from alignkit.neural.training.translation import batch_loss
from alignkit.support.stages import Stage, no_progress, progress_of_parts
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, EOS
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import Progress

FIRST = EOS + 1  #: the id of the first word
KINDS = ("permutation", "subset", "independent", "mixture", "text")
EARLY = 20  #: a step at which networks have hardly learned
CONFIRMED = 2  #: consecutive measurements at which a network must have solved the task to stop
#: (generator, B) -> int64 source (B, L), previous (B, T) and target (B, T)
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class SequencePlan(ExperimentSettings):
    """Settings that the experiments on sequences share, with the paper's values for copying (section 3.3).

    Attributes:
        hidden: size of embeddings, LSTMs and the output layer.
        batch: sequences per step.
        steps: of Adam.
        every: steps between measurements.
        learning_rate: of Adam.
        products: precision of the factors of matrix products, see :func:`alignkit.neural.devices.rounded`. With
            bfloat16, results depend on whether the processor has units for it, but not on the number of threads.
        solved: a network stops once its accuracy was at least this at two consecutive measurements; never if
            above 1.
        attended: it stops, too, once its attention to own tokens was so many times what it was before the first
            step; never if above the length.
        learned: a network with a lower accuracy at its last step has failed.
    """

    hidden: int = 256
    batch: int = 128
    steps: int = 300
    every: int = 10
    learning_rate: float = 1e-3
    products: Products = "float32"
    solved: float = 0.99
    attended: float = 1e6
    learned: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.products not in get_args(Products):
            raise AlignkitError(f"products must be one of {', '.join(get_args(Products))}, not {self.products!r}")


@dataclass(frozen=True)
class Sequences:
    """A distribution of sequences of one length.

    Attributes:
        kind: ``permutation``, all types in random order; ``subset``, ``length`` of them without repetition;
            ``independent``, tokens drawn independently; ``mixture``, a permutation of the first or of the second
            half of the types, with equal probability; ``text``, one of the sentences.
        types: the number of different tokens.
        length: of a sequence.
        order: int64 (length,): the target's t-th token is the source's order[t]-th; None copies.
        sentences: int64 (M, length), those of a text, of words numbered from 0.
    """

    kind: str
    types: int
    length: int
    order: np.ndarray | None = None
    sentences: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_known(self.kind, KINDS, "kind of sequences")
        fits = {
            "permutation": self.types == self.length,
            "subset": self.types >= self.length,
            "independent": True,
            "mixture": self.types == 2 * self.length,
            "text": self.sentences is not None and len(self.sentences) > 0,
        }
        if self.length < 1 or self.types < 1 or not fits[self.kind]:
            raise AlignkitError(f"no {self.kind} sequences of {self.length} tokens from {self.types} types")

    @property
    def vocabulary(self) -> int:
        """V: padding, which never occurs, BOS and EOS, then the types."""
        return FIRST + self.types

    def sources(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """Draws sources, int64 (count, length), without EOS."""
        if self.kind == "independent":
            return generator.integers(0, self.types, (count, self.length))
        if self.sentences is not None:
            return generator.choice(self.sentences, count)
        pool = self.length if self.kind == "mixture" else self.types
        drawn = generator.permuted(np.tile(np.arange(pool), (count, 1)), axis=1)[:, : self.length]
        if self.kind == "mixture":
            drawn = drawn + self.length * generator.integers(0, 2, (count, 1))
        return drawn

    def targets(self, sources: np.ndarray) -> np.ndarray:
        """The targets of sources (count, length)."""
        return sources if self.order is None else sources[:, self.order]

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws sources with EOS, the decoder's input, which begins with BOS, and targets with EOS.

        Each is int64 (count, length + 1), word i having the id FIRST + i; see :data:`Draw`.
        """
        sources = self.sources(generator, count)
        targets = self.targets(sources) + FIRST
        end = np.full((count, 1), EOS)
        source, target = np.hstack([sources + FIRST, end]), np.hstack([targets, end])
        return source, np.hstack([np.full((count, 1), BOS), targets]), target

    def bitext(self, generator: np.random.Generator, count: int) -> Bitext:
        """``count`` pairs as :meth:`draw` draws them, for the probes of a network; words are numerals."""
        source, _, target = self.draw(generator, count)
        vocabulary = Vocabulary.from_tokens(["<pad>", "<s>", "</s>", *map(str, range(self.types))])
        return Bitext(_corpus(source, vocabulary), _corpus(target, vocabulary))

    def counts(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """The co-occurrence table C (types, types) of ``count`` drawn pairs, without EOS."""
        sources = self.sources(generator, count)
        vocabulary = Vocabulary.from_tokens(map(str, range(self.types)))
        sides = (_corpus(words, vocabulary) for words in (sources, self.targets(sources)))
        return cooccurrence(Bitext(*sides)).to_dense()

    def gold(self) -> np.ndarray:
        """int64 (length + 1,): the source place of each target place; EOS is aligned with EOS."""
        return np.append(np.arange(self.length) if self.order is None else self.order, self.length)

    def chance(self) -> float:
        """The highest expected token accuracy without the source, EOS included.

        Without repetition, the best guess for the t-th token is one that has not occurred yet. In a mixture, the
        first token decides the half.
        """
        t = np.arange(self.length)
        if self.kind == "independent":
            guesses = np.full(self.length, 1 / self.types)
        elif self.kind == "mixture":
            guesses = 1 / (self.length - t)
            guesses[0] = 1 / self.types
        else:
            guesses = 1 / (self.types - t)
        return float((guesses.sum() + 1) / (self.length + 1))


def _corpus(tokens: np.ndarray, vocabulary: Vocabulary) -> Corpus:
    offsets = np.arange(len(tokens) + 1, dtype=np.int64) * tokens.shape[1]
    return Corpus(tokens.astype(np.int32).ravel(), offsets, vocabulary)


def exact_count_table(sequences: Sequences) -> np.ndarray:
    """The expected C (types, types) of one copied pair, over all sequences without repetition of a tiny task."""
    table = np.zeros((sequences.types, sequences.types))
    drawn = list(permutations(range(sequences.types), sequences.length))
    for words in drawn:
        table[np.ix_(words, words)] += 1 / sequences.length
    return table / len(drawn)


def contrast(table: np.ndarray) -> float:
    """The mean of the diagonal of C over the mean of its other non-zero entries.

    How much more often a word co-occurs with itself than with another word. At 1, C says nothing about which
    word translates to which.
    """
    others = table[~np.eye(len(table), dtype=bool)]
    return float(np.diag(table).mean() / others[others > 0].mean())


def random_network(vocabulary: int, hidden: int, seed: int, attention: str = "general") -> EncoderDecoder:
    """The copying network of the paper (section 3.3): one layer each, the encoder one way, no dropout.

    Its initial weights are drawn from the seed.
    """
    sizes: dict[str, Any] = {"vocabulary": vocabulary, "embedding": hidden, "hidden": hidden, "layers": 1}
    settings = LstmSettings(**sizes, bidirectional=False, attention=attention, dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EncoderDecoder(settings)


@dataclass(frozen=True, eq=False)
class SequenceRun:
    """The training run of one network.

    Attributes:
        steps: int64 (N,), the steps at which it was measured, from 0; fewer if it stopped early.
        accuracy: float64 (N,), token accuracy under teacher forcing, on new sequences.
        loss: float64 (N,), nats per token, on the same sequences.
        attention: float64 (N,), :func:`own_attention` on the same sequences; empty if that was not measured.
        network: after the last step; not kept by all experiments.
    """

    steps: np.ndarray
    accuracy: np.ndarray
    loss: np.ndarray
    attention: np.ndarray = field(default_factory=lambda: np.empty(0))
    network: EncoderDecoder = field(default=None)  # type: ignore[assignment]


Groups = Mapping[str, Sequence[SequenceRun]]  #: of networks, by what they have in common


def own_attention(weights: Tensor, source: Tensor, target: Tensor) -> float:
    """The mean attention, over target tokens, to source tokens that are the same.

    Args:
        weights: (B, T, L).
        source: int64 (B, L).
        target: int64 (B, T).
    """
    same = (target[:, :, None] == source[:, None, :]).double()
    return float((weights.detach().double() * same).sum(-1).mean())


def train_on_sequences(
    starts: Sequence[EncoderDecoder],
    seeds: Sequence[int],
    draw: Draw,
    plan: SequencePlan,
    progress: Progress = no_progress,
    *,
    frozen: Sequence[str] = (),
    uniform: bool = False,
) -> list[SequenceRun]:
    """Trains a copy of each of these networks by Adam, on batches of its own, one network per thread.

    Args:
        starts: the networks as they are before.
        seeds: of each network's sequences.
        draw: draws a batch.
        plan: of the training; the networks' sizes are those of ``starts``.
        progress: called with the steps done by all networks together.
        frozen: parts of the networks that keep their weights.
        uniform: use uniform attention, 1/L, in place of the learned one.

    Returns:
        the runs, in the order of ``starts``; they do not depend on the number of threads.
    """
    done, lock, stopped = [0] * len(starts), threading.Lock(), threading.Event()

    def train(k: int) -> SequenceRun:
        network = deepcopy(starts[k]).requires_grad_(True)
        for name in frozen:
            network.get_submodule(name).requires_grad_(False)
        generator = np.random.default_rng(seeds[k])
        measured: list[tuple[int, float, float, float]] = []
        solved = False

        def loss(step: int) -> Tensor:
            nonlocal solved
            source, previous, target = (torch.from_numpy(part) for part in draw(generator, plan.batch))
            encoding = network.encode(source.t(), np.full(plan.batch, source.shape[1]))
            decoded = network.decode(previous.t(), encoding, encoding.start, uniform)
            logits = network.output(decoded.features)  # (B, T, V)
            nats = cross_entropy(logits.flatten(0, 1), target.flatten())
            # A batch is measured before the network is trained on it, so always on new sequences.
            if step % plan.every == 0 or step == plan.steps:
                accuracy = float((logits.argmax(-1) == target).double().mean())
                attention = own_attention(decoded.weights, source, target)
                measured.append((step, accuracy, float(nats.detach()), attention))
                latest, level = measured[-CONFIRMED:], plan.attended * measured[0][3]
                enough = all(one[1] >= plan.solved for one in latest) or all(one[3] >= level for one in latest)
                solved = len(latest) == CONFIRMED and enough
            return nats

        def report(step: int) -> None:
            if stopped.is_set():
                raise AlignkitError("stopped")
            with lock:
                done[k] = step
                stage(sum(done), len(starts) * plan.steps)

        with one_thread(CPU):  # torch counts threads per thread
            for step in optimise(adam(network.parameters(), plan.learning_rate), loss, plan.steps):
                if step == plan.steps and not solved:
                    with torch.no_grad():
                        loss(step)
                report(step)
                if solved:
                    report(plan.steps)  # it takes no more
                    break
        steps, accuracies, losses, attentions = map(np.array, zip(*measured, strict=True))
        return SequenceRun(steps, accuracies, losses, attentions, network)

    workers = min(torch.get_num_threads(), len(starts))
    with rounded(plan.products), Stage("training", progress) as stage, ThreadPoolExecutor(workers) as pool:
        try:
            trained = [pool.submit(train, k) for k in range(len(starts))]
            for each in as_completed(trained):  # so that the first error is seen at once
                each.result()
            return [each.result() for each in trained]
        except BaseException:  # Ctrl-C too: without this the threads would go on for minutes
            stopped.set()
            raise


def train_networks(
    sequences: Sequences, plan: SequencePlan, seeds: int, progress: Progress, *, attention: str = "general"
) -> list[SequenceRun]:
    """Trains a network from each of the seeds 0, 1, ...; they share no sequences and no initial weights."""
    starts = [random_network(sequences.vocabulary, plan.hidden, seed, attention) for seed in range(seeds)]
    return train_on_sequences(starts, range(seeds), sequences.draw, plan, progress)


def known_words(sequences: Sequences, networks: Sequence[EncoderDecoder], pairs: Bitext) -> np.ndarray:
    """float64: per network, the share of target words for which beta is largest at their translation.

    Args:
        sequences: those of the pairs.
        networks: those to probe.
        pairs: of :meth:`Sequences.bitext`.
    """
    gold = sequences.gold()[:-1]
    betas = [network_scores(network, pairs, "beta") for network in networks]
    return np.array([np.mean([(matrix.argmax(1)[:-1] == gold).mean() for matrix in beta]) for beta in betas])


def failures(runs: Sequence[SequenceRun], learned: float) -> int:
    """The number of networks with an accuracy below ``learned`` at the last step."""
    return sum(bool(run.accuracy[-1] < learned) for run in runs)


def reached(steps: np.ndarray, curve: np.ndarray, level: float) -> float:
    """The first of the steps at which a curve is at least ``level``, NaN if there is none."""
    above = np.nonzero(curve >= level)[0]
    return float(steps[above[0]]) if len(above) else float("nan")


def left_uniform(run: SequenceRun, level: float) -> float:
    """The first measured step from which on attention to the own word is at least ``level``, or NaN."""
    below = np.nonzero(run.attention < level)[0]
    first = below[-1] + 1 if len(below) else 0
    return float(run.steps[first]) if first < len(run.steps) else float("nan")


def summary(runs: Sequence[SequenceRun], learned: float) -> dict[str, object]:
    """Columns of a table: the failures among some networks, and when the others have learned."""
    failed = failures(runs, learned)
    steps = [reached(run.steps, run.accuracy, learned) for run in runs if run.accuracy[-1] >= learned]
    return {
        "runs": len(runs),
        "failed": failed,
        "share": failed / len(runs),
        "mean accuracy": float(np.mean([run.accuracy[-1] for run in runs])),
        "median step learned": float(np.median(steps)) if steps else float("nan"),
    }


def failure_claim(text: str, runs: Sequence[SequenceRun], plan: SequencePlan, **bounds: float) -> Claim:
    """A claim about the share of networks that fail."""
    statistic = f"share of {len(runs)} seeds with a token accuracy below {plan.learned} at step {plan.steps}"
    return share_claim(text, statistic, failures(runs, plan.learned), len(runs), **bounds)


def failure_difference(
    text: str, groups: Groups, one: str, other: str, plan: SequencePlan, **bounds: float
) -> Claim:
    """A claim about the difference of the shares of failures in two groups of networks."""
    first, second = ((failures(groups[name], plan.learned), len(groups[name])) for name in (one, other))
    value, low, high = share_difference(*first, *second)
    statistic = f"share with an accuracy below {plan.learned} at step {plan.steps}, difference {one} - {other}"
    return claim(text, statistic, value, (low, high), **bounds)


def color_of(run: SequenceRun, plan: SequencePlan) -> str:
    """The color of a network's curve: red if it has failed."""
    return "tab:red" if run.accuracy[-1] < plan.learned else "tab:blue"


def curves(runs: Sequence[SequenceRun], **labels: object) -> pd.DataFrame:
    """Raw rows: labels, run, step, accuracy, loss; a network that stopped early has no further rows."""
    frames = []
    for number, run in enumerate(runs):
        columns = {"step": run.steps.astype(int), "accuracy": run.accuracy.round(4), "loss": run.loss.round(4)}
        frames.append(pd.DataFrame({**labels, "run": number, **columns}))
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class CopyingSettings(SequencePlan):
    """The sequences and the networks; the defaults are the paper's.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks per kind of sequences.
        kinds: of sequences, see :class:`Sequences`.
        length: tokens of a sequence; also the number of types of ``permutation`` and ``independent``.
        subset_types: number of types of ``subset``.
        pairs: sequences that C is counted on.
    """

    size = ("seeds", "length", "subset_types", "hidden", "batch", "steps")
    paper: ClassVar = dict(seeds=20, length=40, subset_types=60, hidden=256, batch=128, steps=300)
    seeds: int = 20
    kinds: tuple[str, ...] = ("permutation", "subset", "independent", "mixture")
    length: int = 40
    subset_types: int = 60
    pairs: int = 5000


#: (kind, types, length): copying permutations of three words, and three of five
EXAMPLES = (("permutation", 3, 3), ("subset", 5, 3))
QUICK_COPYING = CopyingSettings(seeds=6, length=20, subset_types=30, hidden=64, batch=64, pairs=1000)


def run_copying(settings: CopyingSettings, progress: Progress = no_progress) -> Result:
    """Trains all networks and counts the failures."""
    types = {"subset": settings.subset_types, "mixture": 2 * settings.length}
    tasks = {kind: Sequences(kind, types.get(kind, settings.length), settings.length) for kind in settings.kinds}
    runs: dict[str, list[SequenceRun]] = {}
    tables: dict[str, np.ndarray] = {}
    part = progress_of_parts(progress, len(tasks))
    counts, table = [], []
    for kind, sequences in tasks.items():
        C = tables[kind] = sequences.counts(np.random.default_rng(0), settings.pairs) / settings.pairs
        runs[kind] = train_networks(sequences, settings, settings.seeds, part(kind))
        row = {"setting": kind, "types": sequences.types, "diagonal of C / rest": contrast(C)}
        table.append({**row, "chance": sequences.chance(), **summary(runs[kind], settings.learned)})
        source, target = np.triu_indices(len(C))  # C is symmetric
        columns = {"source": source, "target": target, "count": C[source, target].round(5)}
        counts.append(pd.DataFrame({"kind": kind, **columns}))
    accuracy = pd.concat([curves(group, kind=kind) for kind, group in runs.items()], ignore_index=True)
    rows = {"accuracy": accuracy, "counts": pd.concat(counts, ignore_index=True)}

    def draw(figure: Figure) -> None:
        """Accuracy of every seed above, C below, and the smallest example at the bottom."""
        axes = figure.subplots(3, max(len(runs), len(EXAMPLES)), squeeze=False, height_ratios=[2, 2, 1])
        top = max(float(C.max()) for C in tables.values())
        for column, (kind, group) in enumerate(runs.items()):
            above, below = axes[0, column], axes[1, column]
            for run in group:
                above.plot(run.steps, run.accuracy, color=color_of(run, settings), lw=0.8, alpha=0.7)
                if run.steps[-1] < settings.steps:
                    rest = [run.steps[-1], settings.steps], [run.accuracy[-1]] * 2  # after a network stopped
                    above.plot(*rest, color="tab:blue", lw=0.8, alpha=0.3, ls=":")
            above.set(title=kind, ylim=(0, 1.02), xlim=(0, settings.steps), xlabel="step")
            above.axhline(tasks[kind].chance(), color="gray", lw=0.6, ls="--")
            picture = below.imshow(tables[kind], vmin=0, vmax=top, cmap="viridis")
            below.set(xticks=[], yticks=[], xlabel="output word")
        axes[0, 0].set_ylabel("token accuracy")
        axes[1, 0].set_ylabel("input word")
        figure.colorbar(picture, ax=list(axes[1]), label="C per pair", shrink=0.8)
        for axis in (*axes[0, len(runs) :], *axes[1, len(runs) :], *axes[2, len(EXAMPLES) :]):
            axis.axis("off")
        for axis, (kind, types, length) in zip(axes[2], EXAMPLES, strict=False):
            axis.imshow(exact_count_table(Sequences(kind, types, length)), vmin=0, vmax=1 / length, cmap="viridis")
            axis.set(xticks=[], yticks=[], title=f"C of {length} of {types}")

    return Result(pd.DataFrame(table), tuple(copying_claims(runs, settings)), rows, draw)


def copying_claims(runs_by_kind: Groups, settings: CopyingSettings) -> Iterator[Claim]:
    """The claims about the kinds of sequences that were trained on."""
    length, rarely = settings.length, "judged as: for less than a fifth of the seeds"
    if runs := runs_by_kind.get("permutation"):
        text = f"copying permutations of {length} fails for"
        yield failure_claim(f"{text} some seeds (section 3.3)", runs, settings, above=0.0)
        half = f"{text} about half of the seeds, a quarter to three quarters (the slides)"
        yield failure_claim(half, runs, settings, above=0.25, below=0.75)
    if runs := runs_by_kind.get("subset"):
        text = f"copying {length} of {settings.subset_types} never fails (section 3.3); {rarely}"
        yield failure_claim(text, runs, settings, below=0.2)
    if runs := runs_by_kind.get("independent"):
        text = f"copying {length} independent draws never fails (Setting 2 of the slides); {rarely}"
        yield failure_claim(text, runs, settings, below=0.2)
    if runs := runs_by_kind.get("mixture"):
        text = "permutations of two disjoint sets sometimes fail, since C is flat within a set (appendix A.3)"
        yield failure_claim(text, runs, settings, above=0.0)


TASKS = ("copy", "reorder")
ATTENTIONS = ("general", "uniform")
MARGIN = 0.05  #: shares that differ by less count as equal
Runs = dict[tuple[str, str], list[SequenceRun]]  #: by task and attention


@dataclass(frozen=True)
class PermutationFunctionSettings(SequencePlan):
    """The sequences and the networks; the defaults are the paper's.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks per task and attention.
        length: tokens of a sequence.
        types: words that a sequence is drawn from without repetition.
        order_seed: of the order of the positions.
        pairs: on which the probe is measured.
    """

    least = dict.fromkeys(("order_seed",), 0)
    size = ("seeds", "length", "types", "hidden", "batch", "steps")
    paper: ClassVar = dict(seeds=20, length=40, types=60, hidden=256, batch=128, steps=300)
    seeds: int = 20
    length: int = 40
    types: int = 60
    order_seed: int = 0
    pairs: int = 50


QUICK_PERMUTATION_FUNCTION = PermutationFunctionSettings(
    seeds=3, length=20, types=30, hidden=64, batch=64, pairs=20
)


def tasks(settings: PermutationFunctionSettings) -> dict[str, Sequences]:
    """Copying, and reordering of the same sequences."""
    order = np.random.default_rng(settings.order_seed).permutation(settings.length)
    copied = Sequences("subset", settings.types, settings.length)
    return {"copy": copied, "reorder": replace(copied, order=order)}


def count_difference(distributions: dict[str, Sequences], settings: PermutationFunctionSettings) -> float:
    """The largest difference between entries of the tasks' tables C on the same 1000 sources; exact."""
    one, other = (each.counts(np.random.default_rng(settings.order_seed), 1000) for each in distributions.values())
    return float(np.abs(one - other).max())


def run_permutation_function(settings: PermutationFunctionSettings, progress: Progress = no_progress) -> Result:
    """Trains both tasks with learned and with uniform attention, and probes the latter."""
    distributions = tasks(settings)
    runs: Runs = {}
    part = progress_of_parts(progress, len(TASKS) * len(ATTENTIONS))
    for task, attention in product(TASKS, ATTENTIONS):
        sequences, told = distributions[task], part(f"{task}, {attention}")
        runs[task, attention] = train_networks(sequences, settings, settings.seeds, told, attention=attention)
    known = {}
    for task, sequences in distributions.items():  # on new pairs
        pairs = sequences.bitext(np.random.default_rng([settings.order_seed, settings.seeds]), settings.pairs)
        known[task] = known_words(sequences, [run.network for run in runs[task, "uniform"]], pairs)
    accuracy = {key: float(np.mean([run.accuracy[-1] for run in part])) for key, part in runs.items()}
    table = [
        {
            "task": task,
            "runs": settings.seeds,
            "failed": failures(runs[task, "general"], settings.learned),
            "mean accuracy": accuracy[task, "general"],
            "mean accuracy, uniform": accuracy[task, "uniform"],
            "beta_uf largest at the translation": float(known[task].mean()),
            "chance": 1 / (settings.length + 1),
        }
        for task in TASKS
    ]
    rows = pd.concat([curves(part, task=t, attention=a) for (t, a), part in runs.items()], ignore_index=True)
    probes = [pd.DataFrame({"task": t, "run": range(len(s)), "known": np.round(s, 5)}) for t, s in known.items()]

    def draw(figure: Figure) -> None:
        """Accuracy of every seed on the left, known words on the right."""
        left, right = figure.subplots(1, 2, width_ratios=[2, 1])
        colors = {"copy": "tab:blue", "reorder": "tab:red"}
        for (task, attention), part in runs.items():
            for number, run in enumerate(part):
                style = "-" if attention == "general" else ":"
                label = f"{task}, {'attention' if attention != 'uniform' else 'uniform'}" if not number else None
                left.plot(run.steps, run.accuracy, style, color=colors[task], lw=0.9, alpha=0.8, label=label)
        left.set(xlabel="step", ylabel="token accuracy", ylim=(0, 1.02), xlim=(0, settings.steps))
        left.legend(fontsize="small")
        for place, task in enumerate(TASKS):
            spread = np.linspace(-0.15, 0.15, len(known[task]))
            right.plot(place + spread, known[task], "o", color=colors[task], ms=4)
        right.axhline(1 / (settings.length + 1), color="gray", ls="--", lw=0.8, label="chance")
        right.set(xticks=[0, 1], xticklabels=TASKS, ylim=(0, 1.02), xlim=(-0.5, 1.5))
        right.set(ylabel="beta_uf largest at the translation")
        right.legend(fontsize="small")

    claims = permutation_function_claims(runs, known, count_difference(distributions, settings), settings)
    raw = {"accuracy": rows, "known": pd.concat(probes, ignore_index=True)}
    return Result(pd.DataFrame(table), tuple(claims), raw, draw)


def permutation_function_claims(
    runs: Runs, known: dict[str, np.ndarray], difference: float, settings: PermutationFunctionSettings
) -> Iterator[Claim]:
    """The claims, from the runs, the share of known words per task, and the difference of the tables C."""
    never = f"a fixed reordering of {settings.length} of {settings.types} is never learned (section 6.2)"
    text = f"{never}; judged as: fails for more than four fifths of the seeds"
    yield failure_claim(text, runs["reorder", "general"], settings, above=0.8)
    text = "copying the same sequences is learned; judged as: fails for less than a third of the seeds"
    yield failure_claim(text, runs["copy", "general"], settings, below=1 / 3)
    text = "both tasks have the same co-occurrence table C (section 6.2)"
    yield claim(text, "largest difference between entries, on the same sources", difference, below=1e-12)
    text = f"beta_uf knows as many words as for copying (section 6.2); judged as: within {MARGIN}"
    statistic = "share of words whose largest beta_uf is at the translation, reordering minus copying"
    gain = averaged(known["reorder"] - known["copy"])
    yield claim(text, statistic, *gain, above=-MARGIN, below=MARGIN)


#: what the theory says of normalizers: the sparse ones, and the hard ones by how they are trained
SPARSE, HARD = ("entmax15", "sparsemax", "entmax"), ("straight-through", "gumbel", "reinforce")


@dataclass(frozen=True)
class CopyingMechanismsSettings(SequencePlan):
    """The sequences and the networks; smaller than the paper's, so that all mechanisms take minutes.

    The learning rate is three times the paper's: softmax then learns from nearly every seed, and there is room to
    fail more often than it does.

    Attributes (others are those of :class:`SequencePlan`):
        seeds: networks per mechanism.
        mechanisms: normalizers of :data:`alignkit.neural.settings.NORMALIZERS`; the others are compared
            with softmax.
        length: tokens of a sequence, and number of types.
    """

    size = ("seeds", "mechanisms", "length", "hidden", "batch", "steps", "learning_rate")
    seeds: int = 20
    mechanisms: tuple[str, ...] = (SOFTMAX, *SPARSE[:2], *HARD)
    length: int = 20
    hidden: int = 64
    batch: int = 64
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.mechanisms:
            parse_attention("experiment", f"general+{name}")


QUICK_COPYING_MECHANISMS = CopyingMechanismsSettings(seeds=4, length=10, hidden=32, batch=32)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionRun(SequenceRun):
    """A network's training, and what its attention left out.

    Attributes (others are those of :class:`SequenceRun`; the network is not kept):
        outside: (N,), per measured step the share of target tokens whose own source token has a weight of 0.
        support: (N,), the mean number of source tokens with a weight above 0.
    """

    outside: np.ndarray
    support: np.ndarray


def train_mechanism(name: str, seed: int, settings: CopyingMechanismsSettings) -> AttentionRun:
    """Trains one network; it is measured, in evaluation mode, on the sequences of a step before that step."""
    sequences = Sequences("permutation", settings.length, settings.length)
    network = random_network(sequences.vocabulary, settings.hidden, seed, f"general+{name}")
    generator, measured = np.random.default_rng(seed), []

    def loss(_: int) -> Tensor:
        return batch_loss(network.train(), batch)

    optimiser = adam(network.parameters(), settings.learning_rate)
    for step in optimise(optimiser, loss, settings.steps, seed=seed):
        batch = Batcher(sequences.bitext(generator, settings.batch), CPU)(np.arange(settings.batch))
        if step % settings.every and step != settings.steps:
            continue
        network.eval()
        with torch.no_grad():
            encoding = network.encode(batch.source, batch.source_lengths)
            decoded = network.decode(batch.previous, encoding, encoding.start)
            logits = network.output(decoded.features.flatten(0, 1))
            right = logits.argmax(1) == batch.targets
            nats = cross_entropy(logits, batch.targets)
        held = decoded.weights > 0  # (B, T, L); the t-th target token is the t-th source token
        outside = 1 - held.diagonal(dim1=1, dim2=2).double().mean()
        numbers = (right.double().mean(), nats, outside, held.double().sum(2).mean())
        measured.append((step, *map(float, numbers)))
        if len(measured) >= CONFIRMED and all(one[1] >= settings.solved for one in measured[-CONFIRMED:]):
            break
    steps, accuracy, losses, outsides, supports = map(np.array, zip(*measured, strict=True))
    return AttentionRun(steps, accuracy, losses, outside=outsides, support=supports)


def run_copying_mechanisms(settings: CopyingMechanismsSettings, progress: Progress = no_progress) -> Result:
    """Trains a network per mechanism and seed, and compares the failures."""
    by_mechanism: dict[str, list[AttentionRun]] = {name: [] for name in settings.mechanisms}
    with one_thread(CPU), Stage("training", progress) as stage:
        for number, (name, runs) in enumerate(by_mechanism.items()):
            for seed in range(settings.seeds):
                runs.append(train_mechanism(name, seed, settings))
                stage(number * settings.seeds + seed + 1, len(by_mechanism) * settings.seeds, name)
    rows, table = [], []
    early = min(EARLY, settings.steps) // settings.every * settings.every  # the last step measured by then
    for name, runs in by_mechanism.items():
        frame = curves(runs, mechanism=name)
        frame["outside"] = np.concatenate([one.outside for one in runs]).round(4)
        frame["support"] = np.concatenate([one.support for one in runs]).round(2)
        rows.append(frame)
        start = [one.outside[one.steps <= early][-1] for one in runs]  # some have learned all before
        row = {"mechanism": name, **summary(runs, settings.learned)}
        row[f"own token outside at step {early}"] = float(np.mean(start))
        row["at the end"] = float(np.mean([one.outside[-1] for one in runs]))
        table.append(row | {"support at the end": float(np.mean([one.support[-1] for one in runs]))})

    def draw(figure: Figure) -> None:
        """Accuracy of every network above, the share of own tokens outside of the support below."""
        axes = figure.subplots(2, len(by_mechanism), sharex=True, sharey=True, squeeze=False)
        for column, (name, runs) in enumerate(by_mechanism.items()):
            for one in runs:
                for row, values in enumerate((one.accuracy, one.outside)):
                    axes[row, column].plot(one.steps, values, color=color_of(one, settings), lw=0.8, alpha=0.7)
            axes[0, column].set(title=name, xlim=(0, settings.steps), ylim=(0, 1.02))
            axes[1, column].set_xlabel("step")
        axes[0, 0].set_ylabel("token accuracy")
        axes[1, 0].set_ylabel("own token has weight 0")

    claims = tuple(copying_mechanisms_claims(by_mechanism, settings))
    return Result(pd.DataFrame(table), claims, {"accuracy": pd.concat(rows, ignore_index=True)}, draw)


def copying_mechanisms_claims(by_mechanism: Groups, settings: CopyingMechanismsSettings) -> Iterator[Claim]:
    """That each other mechanism fails more often than softmax; none if softmax was not trained."""
    why = {
        **dict.fromkeys(SPARSE, "no gradient outside its support"),
        "straight-through": "one position, softmax's gradient in place of its own",
        "gumbel": "one position with noise, softmax's gradient in place of its own",
        "reinforce": "one sampled position, a gradient of samples",
    }
    for name in by_mechanism if SOFTMAX in by_mechanism else ():
        if name != SOFTMAX:
            reason = why.get(name.partition(":")[0])
            text = f"{name}{f' ({reason})' if reason else ''} fails on permutations more often than softmax"
            yield failure_difference(text, by_mechanism, name, SOFTMAX, settings, above=0.0)
