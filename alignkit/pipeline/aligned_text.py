"""A text with the aligner that links it, and its links written in any format."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from io import RawIOBase
from typing import IO, TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.hmm.joint import JointHMM
from alignkit.errors import InputError, counted, find_known
from alignkit.links.coverage import Coverage, without_counterpart
from alignkit.links.formats import OUTPUT_FORMATS, Alignment, render, sentence_score_lines
from alignkit.links.links import AlignedPair, Link, Links
from alignkit.scores import Scores, first_pairs
from alignkit.support.arrays import places_of
from alignkit.support.files import atomic_write
from alignkit.support.stages import Stage
from alignkit.text.bitext import Bitext
from alignkit.text.spellings import folded
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("alignkit.pipeline")

BLOCK = 10_000  # sentence pairs that a saved aligner links at a time, or that are described at a time
MANY_PAIRS = 10  # in so many pairs without any link something is wrong
FREQUENT = 20  # words that tell the sides of a text
WRITTEN_BLOCK = 100_000  # sentence pairs whose links are written at a time


@dataclass(frozen=True, eq=False)
class AlignedText:
    """A text and the aligner that links it; ``aligned[m]`` is pair m with its links and their probabilities.

    Attributes:
        bitext: M pairs of whitespace words.
        aligner: an aligner of whitespace words; :func:`alignkit.load` reads what its ``save`` writes.
        fitted: the links from fitting the aligner, and the probability of each, float64 (K,); or None.
        block: the number of pairs that are linked at a time; None: all.
        errors: the errors of malformed lines, whose pairs are blank; a slice of the text has none.
        ids: the ``id`` given with each pair, or None; empty: no pair has one.
        alpha: gives the probability of every link where it is not ``aligner.score(bitext)``, as in the text of the
            fit; or None.
    """

    bitext: Bitext
    aligner: Aligner
    fitted: tuple[Links, np.ndarray] | None = None
    block: int | None = None
    errors: tuple[InputError, ...] = ()
    ids: tuple[Any, ...] = ()
    alpha: Callable[[], Scores] | None = None

    @cached_property
    def links(self) -> Links:
        """The links of all pairs, source first."""
        return Links.concatenated([alignment.links for alignment in self.alignments()])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """float64 (K,): the probability of each link."""
        if self.fitted is not None:
            return self.fitted[1]
        return self.aligner.link_probabilities(self.bitext, self.links)

    @cached_property
    def sentence_scores(self) -> np.ndarray:
        """float64 (M, 1 or 2): see :meth:`alignkit.aligner.Aligner.sentence_scores`."""
        return self.aligner.sentence_scores(self.bitext)

    @cached_property
    def without_counterpart(self) -> tuple[np.ndarray, np.ndarray]:
        """float32 (N_src,) and (N_tgt,): the probability of each token that it has no counterpart."""
        return without_counterpart(self.score())

    def coverage(self, m: int) -> Coverage:
        """Which words of pair m have no counterpart."""
        m = range(len(self))[m]
        sides = zip((self.bitext.source, self.bitext.target), self.without_counterpart, strict=True)
        found = [values[side.offsets[m] : side.offsets[m + 1]].tolist() for side, values in sides]
        return Coverage(self.bitext.source.words(m), self.bitext.target.words(m), *found)

    def __len__(self) -> int:
        return len(self.bitext)

    @overload
    def __getitem__(self, m: int) -> AlignedPair: ...

    @overload
    def __getitem__(self, m: slice) -> AlignedText: ...

    def __getitem__(self, m: int | slice) -> AlignedPair | AlignedText:
        """Pair m: its words, and its links with their probabilities; or the text of a slice of pairs."""
        if isinstance(m, slice):
            chosen = np.arange(len(self))[m]
            return AlignedText(
                self.bitext.take(chosen),
                self.aligner,
                (self.links.take(chosen), self.probabilities[places_of(self.links, chosen)]),
                ids=tuple(self.ids[k] for k in chosen) if self.ids else (),
                alpha=self.fitted and partial(_alpha_of_pairs, self, chosen),
            )
        pairs = self.links[m].tolist()
        first = int(self.links.offsets[range(len(self))[m]])
        probabilities = self.probabilities[first : first + len(pairs)].tolist()
        links = tuple(Link(s, t, p) for (s, t), p in zip(pairs, probabilities, strict=True))
        source, target = self.bitext.source, self.bitext.target
        spans = tuple(source.spans_of(m)), tuple(target.spans_of(m))
        find_coverage = partial(self.coverage, m)
        return AlignedPair(tuple(source.words(m)), tuple(target.words(m)), links, *spans, find_coverage)

    def __iter__(self) -> Iterator[AlignedPair]:
        return (self[m] for m in range(len(self)))

    def __repr__(self) -> str:
        return f"AlignedText({counted(len(self), 'pair')}, by {self.aligner!r})"

    def _repr_html_(self) -> str:
        """Grids of the first pairs, for notebooks: target by source words, links shaded by their probability."""
        return first_pairs(f"{len(self)} aligned pairs", len(self), lambda m: self[m].heat_map())

    def to_frame(self) -> pd.DataFrame:
        """A data frame with a row for each link: pair, source_index, target_index, source, target, probability."""
        import pandas as pd

        pair, (s, t) = self.links.sentences, self.links.pairs.T
        source, target = (
            np.array(side.vocabulary.tokens, object)[side.tokens[side.offsets[pair] + index]]
            for side, index in ((self.bitext.source, s), (self.bitext.target, t))
        )
        columns = {"pair": pair, "source_index": s, "target_index": t, "source": source, "target": target}
        return pd.DataFrame({**columns, "probability": self.probabilities})

    def score(self, kind: str = "alpha") -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind that the aligner does not have."""
        return self.alpha() if kind == "alpha" and self.alpha else self.aligner.score(self.bitext, kind)

    def alignments(
        self, *, probabilities: bool = False, scored: bool = False, words: bool = False
    ) -> Iterator[Alignment]:
        """The alignments of blocks of pairs, in their order.

        Args:
            probabilities, scored, words: include the probabilities of the links, the scores of the sentences, the
                words of both sides. Words come with sentence scores where the aligner has them.

        Raises:
            AlignkitError: the aligner does not give what is asked for.
        """
        aligner, size, (links, posteriors) = self.aligner, len(self.bitext), self.fitted or (None, None)
        step = BLOCK if probabilities or scored or words else WRITTEN_BLOCK
        step = max(self.block or step, 1)
        if links is None and self.block is None and size > step:
            links = aligner.links(self.bitext)
        for low in range(0, max(size, 1), step):
            high, values = min(low + step, size), None
            text = self.bitext.block(low, high)
            if links is not None:
                part = links.block(low, high)
                if posteriors is not None:
                    values = posteriors[links.offsets[low] : links.offsets[high]]
                elif probabilities:
                    values = aligner.link_probabilities(text, part)
            elif probabilities:
                part, values = aligner.links_and_probabilities(text)
            else:
                part = aligner.links(text)
            source, target, pairs = text.source, text.target, range(len(text))
            raw = source.spans is not None and target.spans is not None
            yield Alignment(
                part,
                [source.words(m) for m in pairs] if words else (),
                [target.words(m) for m in pairs] if words else (),
                values if probabilities else None,
                aligner.sentence_scores(text) if scored or (words and aligner.predicts) else None,
                is_reverse=aligner.predicts == ("source",),
                spans=[(source.spans_of(m), target.spans_of(m)) for m in pairs] if raw else (),
                ids=self.ids[low:high],
            )

    def write(
        self, output: PathLike = "-", output_format: str = "pharaoh", sentence_scores: PathLike | None = None
    ) -> None:
        """Write the alignment to a file, which appears only when it is complete; arguments as in
        :func:`write_alignments`."""
        write_alignments([self], output, output_format, sentence_scores)


def _alpha_of_pairs(text: AlignedText, pairs: np.ndarray) -> Scores:
    alpha = text.score()
    return Scores.from_matrices(alpha[m] for m in pairs.tolist())


class Written(NamedTuple):
    """What :func:`write_alignments` wrote: the numbers of pairs, links, target words and empty lines.

    ``blank`` counts pairs with a blank side, ``malformed`` lines that are not pairs.
    """

    pairs: int = 0
    links: int = 0
    words: int = 0
    blank: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        """The numbers as text, such as ``6 pairs (1 with a blank side), 12 links (0.92 per target word)``."""
        kinds = (self.blank, "with a blank side"), (self.malformed, "malformed and skipped")
        empty = ", ".join(f"{number:,} {kind}" for number, kind in kinds if number)
        left_out = f" ({empty})" if empty else ""
        density = f" ({self.links / self.words:.2f} per target word)" if self.words else ""
        return f"{counted(self.pairs, 'pair')}{left_out}, {counted(self.links, 'link')}{density}"


def write_alignments(
    texts: Iterable[AlignedText],
    output: PathLike = "-",
    output_format: str = "pharaoh",
    sentence_scores: PathLike | None = None,
    first: int = 0,
) -> Written:
    """Write the alignments of texts in one format, as they come.

    Files appear only when they are complete; standard output is flushed after every block. If no link reaches the
    threshold, this is logged.

    Args:
        texts: the texts, in order.
        output: a file; "-" for standard output.
        output_format: a name in :data:`alignkit.links.formats.OUTPUT_FORMATS`.
        sentence_scores: a file for the sentence scores, or None.
        first: the number of the first pair, counted from 0, for formats that number pairs.

    Raises:
        AlignkitError: there is no such format, or a file cannot be written.
    """
    chosen, scored = find_known(output_format, OUTPUT_FORMATS, "format"), sentence_scores is not None
    counts = np.zeros(len(Written()), np.int64)
    with (
        _opened(output) as links,
        _opened("-" if sentence_scores is None else sentence_scores) as scores,
        Stage("pairs linked") as stage,
    ):
        for text in texts:
            for alignment in text.alignments(
                probabilities=chosen.needs_probabilities, words=chosen.needs_words, scored=scored
            ):
                links.write(render(alignment, output_format, first + int(counts[0]) + 1))
                links.flush()
                if scored and alignment.sentence_scores is not None:
                    scores.write(sentence_score_lines(alignment.sentence_scores))
                    scores.flush()
                counts[:2] += len(alignment.links), len(alignment.links.pairs)
                stage(int(counts[0]), 0)
            if text.errors and not counts[4]:
                log.warning("skipped %s", text.errors[0])
            errors, blank = len(text.errors), int((text.bitext.shapes == 0).any(axis=1).sum())
            counts[2:] += text.bitext.target.lengths.sum(), blank - errors, errors
    written = Written(*counts.tolist())
    filled = written.pairs - written.blank - written.malformed
    if filled >= MANY_PAIRS and not written.links and isinstance(text.aligner, JointHMM):
        log.warning("no link reaches the threshold of %g; a lower one would", text.aligner.threshold)
    if filled >= MANY_PAIRS and text.fitted is None and _seem_exchanged(text):
        log.warning("more source words are target words of the model: are source and target exchanged?")
    return written


def _seem_exchanged(text: AlignedText) -> bool:
    """Whether the model knows more of the most frequent source words as target words than as source words."""
    model, side = text.aligner, text.bitext.source
    known = getattr(model, "source", None), getattr(model, "target", None)
    frequent = np.argsort(-np.bincount(side.tokens), kind="stable")[:FREQUENT]
    words = {form for i in frequent.tolist() for form in (side.vocabulary[i], folded(side.vocabulary[i]))}
    source, target = (sum(w in each for w in words) if isinstance(each, Vocabulary) else 0 for each in known)
    return target > source


def _opened(path: PathLike) -> AbstractContextManager[IO[bytes]]:
    if path != "-":
        return atomic_write(path)
    if isinstance(sys.stdout.buffer, RawIOBase):  # python -u: a write may stop short there, without an error
        return open(os.dup(sys.stdout.fileno()), "wb")
    return nullcontext(sys.stdout.buffer)
