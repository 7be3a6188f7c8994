"""Sequences to copy or reorder, and the networks trained on them (Snell et al. 2021, 3.3, 5.2 and 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.errors import AlignkitError, check_known
from alignkit.lab.experiments.ensemble import (
    MemberRun,
    Parameters,
    SequencePlan,
    copying_settings,
    initial_parameters,
    to_network,
    train_ensemble,
)
from alignkit.lab.experiments.protocol import Claim, claim, share_claim
from alignkit.metrics.intervals import share_difference
from alignkit.neural.scoring.translation import network_scores
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, EOS
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import Progress

FIRST = EOS + 1  #: the id of the first word
KINDS = ("permutation", "subset", "independent", "mixture", "text")


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

        Each is int64 (count, length + 1), word i having the id FIRST + i; see
        :data:`alignkit.lab.experiments.ensemble.Draw`.
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

    def words(self, generator: np.random.Generator, count: int) -> Bitext:
        """``count`` pairs of words alone: without EOS, and word i has the id i."""
        sources = self.sources(generator, count)
        vocabulary = Vocabulary.from_tokens(map(str, range(self.types)))
        return Bitext(_corpus(sources, vocabulary), _corpus(self.targets(sources), vocabulary))

    def gold(self, t: np.ndarray) -> np.ndarray:
        """The source places of target places t in [0, length]; EOS is aligned with EOS."""
        order = np.arange(self.length) if self.order is None else self.order
        return np.append(order, self.length)[t]

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


def count_table(sequences: Sequences, count: int, seed: int) -> np.ndarray:
    """The co-occurrence table C (types, types) of ``count`` drawn pairs, divided by ``count``."""
    bitext = sequences.words(np.random.default_rng(seed), count)
    return cooccurrence(bitext).to_dense() / count


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


def train_networks(
    sequences: Sequences, plan: SequencePlan, seeds: int, progress: Progress, *, attention: str = "general"
) -> list[MemberRun]:
    """Trains a network from each of the seeds 0, 1, ...; they share no sequences and no initial weights."""
    shape = copying_settings(sequences.vocabulary, plan.hidden, attention)
    starts = [initial_parameters(shape, seed) for seed in range(seeds)]
    return train_ensemble(starts, range(seeds), sequences.draw, plan, progress)


def known_words(sequences: Sequences, networks: Sequence[Parameters], shape: Any, pairs: Bitext) -> np.ndarray:
    """float64: per network, the share of target words for which beta is largest at their translation.

    Args:
        sequences: those of the pairs.
        networks: the parameters of each.
        shape: settings of the networks.
        pairs: of :meth:`Sequences.bitext`.
    """
    gold = sequences.gold(np.arange(sequences.length))
    betas = [network_scores(to_network(parameters, 0, shape), pairs, "beta") for parameters in networks]
    return np.array([np.mean([(matrix.argmax(1)[:-1] == gold).mean() for matrix in beta]) for beta in betas])


def final_accuracies(runs: Sequence[MemberRun]) -> np.ndarray:
    """float64: the token accuracy of each network at its last step."""
    return np.array([run.accuracy[-1] for run in runs])


def failures(runs: Sequence[MemberRun], learned: float) -> int:
    """The number of networks with an accuracy below ``learned`` at the last step."""
    return int((final_accuracies(runs) < learned).sum())


def reached(run: MemberRun, level: float) -> float:
    """The first measured step with an accuracy of at least ``level``, NaN if there is none."""
    above = np.nonzero(run.accuracy >= level)[0]
    return float(run.steps[above[0]]) if len(above) else float("nan")


def left_uniform(run: MemberRun, level: float) -> float:
    """The first measured step from which on attention to the own word is at least ``level``, or NaN."""
    below = np.nonzero(run.attention < level)[0]
    first = below[-1] + 1 if len(below) else 0
    return float(run.steps[first]) if first < len(run.steps) else float("nan")


def summary(runs: Sequence[MemberRun], learned: float) -> dict[str, object]:
    """Columns of a table: the failures among some networks, and when the others have learned."""
    failed = failures(runs, learned)
    steps = [reached(run, learned) for run in runs if run.accuracy[-1] >= learned]
    return {
        "runs": len(runs),
        "failed": failed,
        "share": failed / len(runs),
        "mean accuracy": float(final_accuracies(runs).mean()),
        "median step learned": float(np.median(steps)) if steps else float("nan"),
    }


def failure_claim(text: str, runs: Sequence[MemberRun], plan: SequencePlan, **bounds: float) -> Claim:
    """A claim about the share of networks that fail."""
    statistic = f"share of {len(runs)} seeds with a token accuracy below {plan.learned} at step {plan.steps}"
    return share_claim(text, statistic, failures(runs, plan.learned), len(runs), **bounds)


def failure_difference(
    text: str, groups: Mapping[str, Sequence[MemberRun]], one: str, other: str, plan: SequencePlan, **bounds: float
) -> Claim:
    """A claim about the difference of the shares of failures in two groups of networks."""
    counts = [
        number for name in (one, other) for number in (failures(groups[name], plan.learned), len(groups[name]))
    ]
    value, low, high = share_difference(*counts)
    statistic = f"share with an accuracy below {plan.learned} at step {plan.steps}, difference {one} - {other}"
    return claim(text, statistic, value, (low, high), **bounds)


def color_of(run: MemberRun, plan: SequencePlan) -> str:
    """The color of a network's curve: red if it has failed."""
    return "tab:red" if run.accuracy[-1] < plan.learned else "tab:blue"


def curves(runs: Sequence[MemberRun], **labels: object) -> pd.DataFrame:
    """Raw rows: labels, run, step, accuracy, loss; a network that stopped early has no further rows."""
    frames = [
        pd.DataFrame(
            {
                **labels,
                "run": number,
                "step": run.steps.astype(int),
                "accuracy": np.round(run.accuracy, 4),
                "loss": np.round(run.loss, 4),
            }
        )
        for number, run in enumerate(runs)
    ]
    return pd.concat(frames, ignore_index=True)
