"""Alignments to files: the one writer of every command that aligns."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import IO

from alignkit.errors import AlignkitError
from alignkit.links.formats import OUTPUT_FORMATS, Alignment, render, sentence_score_lines
from alignkit.storage import atomic_write
from alignkit.types import PathLike


class AlignmentWriter:
    """A context manager that writes alignments in their order, in one format, as they come.

    Files take their place only when the block ends well; standard output is flushed after every write.

    Args:
        output: a file; "-" for standard output.
        output_format: a name in :data:`alignkit.links.formats.OUTPUT_FORMATS`.
        sentence_scores: a file for the scores of the sentences, or None.
        first: the number of the first pair, from 0, in formats that number pairs.

    Raises:
        AlignkitError: there is no such format.
    """

    def __init__(
        self,
        output: PathLike = "-",
        output_format: str = "pharaoh",
        sentence_scores: PathLike | None = None,
        first: int = 0,
    ) -> None:
        if output_format not in OUTPUT_FORMATS:
            raise AlignkitError(f"unknown format {output_format!r}; known are {', '.join(OUTPUT_FORMATS)}")
        self.output = output
        self.output_format = output_format
        self.chosen = OUTPUT_FORMATS[output_format]
        self.sentence_scores = sentence_scores
        self.pairs = first
        self.stack = ExitStack()
        self.streams: list[IO[bytes]] = []

    @property
    def wanted(self) -> dict[str, bool]:
        """The parts that an alignment must have, as options of :func:`alignkit.aligner.alignment_of`."""
        return {
            "probabilities": self.chosen.needs_probabilities,
            "words": self.chosen.needs_words,
            "scored": self.sentence_scores is not None,
        }

    def __enter__(self) -> AlignmentWriter:
        with ExitStack() as stack:  # which removes the first file if the second cannot be opened
            for path in (self.output, self.sentence_scores):
                if path is not None and path != "-":
                    self.streams.append(stack.enter_context(atomic_write(path)))
                else:
                    self.streams.append(sys.stdout.buffer)
            self.stack = stack.pop_all()
        return self

    def write(self, alignment: Alignment) -> None:
        """Write all pairs of an alignment that has what is :attr:`wanted`."""
        self.streams[0].write(render(alignment, self.output_format, self.pairs + 1))
        self.streams[0].flush()
        if alignment.sentence_scores is not None and self.sentence_scores is not None:
            self.streams[1].write(sentence_score_lines(alignment.sentence_scores))
            self.streams[1].flush()
        self.pairs += len(alignment.links)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self.stack.__exit__(kind, error, trace)
