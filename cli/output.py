"""Where alignments go: the one writer of all commands that align."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from alignkit.links.formats import OUTPUT_FORMATS, Alignment, render, sentence_score_lines

if TYPE_CHECKING:
    from alignkit.aligner.protocol import Aligner
    from alignkit.links.links import Links
    from alignkit.text.bitext import Bitext

BLOCK = 10_000  # pairs described at a time


class AlignmentOutput:
    """A context manager that writes alignments in their order, in one format, as they come.

    Files take their place only when the block ends well; standard output is flushed after every write.

    Args:
        output_format: a key of ``alignkit.links.formats.OUTPUT_FORMATS``.
        output: a file; None or "-" for standard output.
        sentence_scores: a file for a score per pair, or None.
    """

    def __init__(self, output_format: str, output: str | None, sentence_scores: str | None) -> None:
        self.output_format = output_format
        self.output = output
        self.sentence_scores = sentence_scores
        self.pairs = 0
        self.stack = ExitStack()
        self.streams: list[IO[bytes]] = []

    @property
    def wanted(self) -> dict[str, bool]:
        """What an alignment must have to be written."""
        return {
            "probabilities": OUTPUT_FORMATS[self.output_format].needs_probabilities,
            "words": OUTPUT_FORMATS[self.output_format].needs_words,
            "scored": self.sentence_scores is not None,
        }

    def __enter__(self) -> AlignmentOutput:
        from alignkit.storage import atomic_write

        for path in (self.output, self.sentence_scores):
            if path is not None and path != "-":
                self.streams.append(self.stack.enter_context(atomic_write(path)))
            else:
                self.streams.append(sys.stdout.buffer)
        return self

    def write(self, alignment: Alignment) -> None:
        """Writes all pairs of an alignment that has what is :attr:`wanted`."""
        self.streams[0].write(render(alignment, self.output_format, self.pairs + 1))
        self.streams[0].flush()
        if self.sentence_scores is not None:
            assert alignment.sentence_scores is not None
            self.streams[1].write(sentence_score_lines(alignment.sentence_scores))
            self.streams[1].flush()
        self.pairs += len(alignment.links)

    def write_links(self, links: Links, bitext: Bitext, aligner: Aligner) -> None:
        """Write the links of a bitext of words, with what the aligner that made them says about them."""
        from alignkit.aligner.alignment import alignment_of

        if not any(self.wanted.values()):
            self.write(Alignment(links))
            return
        for low in range(0, len(links), BLOCK):
            high = min(low + BLOCK, len(links))
            part = bitext.block(low, high)
            self.write(alignment_of(aligner, part, links.block(low, high), **self.wanted))

    def __exit__(self, *details: Any) -> bool | None:
        kind: type[BaseException] | None = details[0]
        trace: TracebackType | None = details[2]
        return self.stack.__exit__(kind, details[1], trace)
