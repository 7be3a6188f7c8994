"""Sequences to copy or to reorder, and what the experiments on them share (Snell et al., 3.3, 5.2 and 6.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.classical.cooccurrence import cooccurrence
from alignkit.errors import AlignkitError
from alignkit.neural.devices import Products
from alignkit.neural.ensemble.training import EnsembleTraining, MemberRun
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import BOS, EOS
from alignkit.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pandas as pd

FIRST = EOS + 1  #: the id of the first word
KINDS = ("permutation", "subset", "independent", "mixture")


@dataclass(frozen=True)
class Plan:
    """What the settings of these experiments share, with the paper's numbers.

    Attributes:
        hidden: size of embeddings, LSTMs and the output layer.
        batch, steps, every, learning_rate, products: of training, see :class:`EnsembleTraining`.
        solved: a network stops early once its accuracy was at least this twice in a row.
        learned: a network with less at its last step has failed.
    """

    hidden: int = 256
    batch: int = 128
    steps: int = 300
    every: int = 10
    learning_rate: float = 1e-3
    products: Products = "float32"
    solved: float = 0.99
    learned: float = 0.9

    @property
    def training(self) -> EnsembleTraining:
        """Small networks are trained together, large ones, which would only leave the cache, alone."""
        together = 1 if self.hidden >= 128 else 8
        numbers = (self.steps, self.batch, self.every, self.learning_rate, self.solved)
        return EnsembleTraining(*numbers, together=together, products=self.products)


@dataclass(frozen=True)
class Sequences:
    """A distribution of sequences of one length.

    Attributes:
        kind: ``permutation``, all of ``types`` types in random order; ``subset``, ``length`` of them without
            repetition; ``independent``, each token drawn for itself; ``mixture``, by a fair coin a permutation
            of the first or of the second half of the types.
        types: how many there are.
        length: of a sequence.
        order: int64 (length,): the target's t-th token is the source's order[t]-th; None copies.
    """

    kind: str
    types: int
    length: int
    order: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise AlignkitError(f"unknown kind of sequences {self.kind!r}; known are {', '.join(KINDS)}")
        fits = {
            "permutation": self.types == self.length,
            "subset": self.types >= self.length,
            "independent": True,
            "mixture": self.types == 2 * self.length,
        }
        if self.length < 1 or self.types < 1 or not fits[self.kind]:
            raise AlignkitError(f"no {self.kind} sequences of {self.length} tokens from {self.types} types")

    @property
    def vocabulary(self) -> int:
        """V: padding, which never occurs, beginning and end, then the types."""
        return FIRST + self.types

    def sources(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """int64 (count, length), without the end."""
        if self.kind == "independent":
            return generator.integers(0, self.types, (count, self.length))
        pool = self.length if self.kind == "mixture" else self.types
        drawn = generator.permuted(np.tile(np.arange(pool), (count, 1)), axis=1)[:, : self.length]
        if self.kind == "mixture":
            drawn = drawn + self.length * generator.integers(0, 2, (count, 1))
        return drawn

    def targets(self, sources: np.ndarray) -> np.ndarray:
        """The targets of sources (count, length)."""
        return sources if self.order is None else sources[:, self.order]

    def draw(self, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Source with its end, the decoder's input (the beginning first) and the target with its end.

        Each int64 (count, length + 1), word i with the id FIRST + i: what
        :data:`alignkit.neural.ensemble.training.Draw` asks for.
        """
        sources = self.sources(generator, count)
        targets = self.targets(sources) + FIRST
        end = np.full((count, 1), EOS)
        source, target = np.hstack([sources + FIRST, end]), np.hstack([targets, end])
        return source, np.hstack([np.full((count, 1), BOS), targets]), target

    def bitext(self, generator: np.random.Generator, count: int) -> Bitext:
        """``count`` pairs as :meth:`draw` gives them, for the probes of a network; words are named by number."""
        source, _, target = self.draw(generator, count)
        vocabulary = Vocabulary.from_tokens(["<pad>", "<s>", "</s>", *map(str, range(self.types))])
        return Bitext(_corpus(source, vocabulary), _corpus(target, vocabulary))

    def words(self, generator: np.random.Generator, count: int) -> Bitext:
        """``count`` pairs of words alone: no ends, and word i has the id i."""
        sources = self.sources(generator, count)
        vocabulary = Vocabulary.from_tokens(map(str, range(self.types)))
        return Bitext(_corpus(sources, vocabulary), _corpus(self.targets(sources), vocabulary))

    def gold(self, t: np.ndarray) -> np.ndarray:
        """The source place of target places t in [0, length]; the end belongs to the end."""
        order = np.arange(self.length) if self.order is None else self.order
        return np.append(order, self.length)[t]

    def chance(self) -> float:
        """The token accuracy that is possible without a look at the source, end included.

        Without repetition, the best guess for the t-th token is one of those not seen yet. In a mixture, the
        first token tells the half.
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
    """C (types, types) of ``count`` drawn pairs, dense, by :func:`alignkit.classical.cooccurrence.cooccurrence`,
    divided by ``count``: expected counts per pair."""
    bitext = sequences.words(np.random.default_rng(seed), count)
    return cooccurrence(bitext).to_dense() / count


def contrast(table: np.ndarray) -> float:
    """How much more often a word meets itself than another word that it meets at all: mean of the diagonal of C
    over the mean of its other entries above 0. At 1, C says nothing of which word is whose translation."""
    others = table[~np.eye(len(table), dtype=bool)]
    return float(np.diag(table).mean() / others[others > 0].mean())


def curves(runs: list[MemberRun], **labels: object) -> pd.DataFrame:
    """Raw rows of courses: labels, run, step, accuracy, loss; a solved network has no rows after it stopped."""
    import pandas as pd

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


def reached(run: MemberRun, level: float) -> float:
    """The first measured step with an accuracy of at least ``level``; NaN if there is none."""
    above = np.nonzero(run.accuracy >= level)[0]
    return float(run.steps[above[0]]) if len(above) else float("nan")
