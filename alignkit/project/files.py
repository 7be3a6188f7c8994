"""Files of labels, spans or tags, projected onto a translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from alignkit.errors import InputError
from alignkit.project.labels import parse_columns, parse_json_lines
from alignkit.project.spans import DEFAULT_RULE, LinkedPair, linked_pairs
from alignkit.project.tags import parse_tags, word_spans
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import numpy as np

    from alignkit.links.links import Links


class Annotated(Protocol):
    """A source sentence with what is to be projected: ``count`` labels, spans or tags."""

    @property
    def words(self) -> Sequence[str]:
        """The words of the sentence."""
        ...

    @property
    def count(self) -> int:
        """The number of labels, spans or tags."""
        ...

    def onto(self, target: str, target_path: PathLike, pair: LinkedPair) -> tuple[str, list[dict[str, Any]]]:
        """The target with them, as text, and those whose place the links do not tell."""
        ...


#: The registry of formats: name -> (reads the lines of a file, what they look like).
FORMATS: dict[str, tuple[Callable[[PathLike, Sequence[str]], Sequence[Annotated]], str]] = {
    "tags": (parse_tags, "text with inline tags, as <b>this</b>, <br/> or {0}"),
    "conll": (parse_columns, "a word and its label on a line, a blank line after each sentence"),
    "json": (parse_json_lines, "objects with text or tokens, and spans or labels"),
}


@dataclass(frozen=True)
class Projection:
    """What was projected onto a text.

    Attributes:
        sentences: the text of each target sentence with it.
        count: the number of labels, spans and tags.
        unplaced: those whose place the links do not tell, each with the number of its line.
    """

    sentences: Sequence[str]
    count: int
    unplaced: Sequence[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.count:,} projected, {len(self.unplaced):,} of them without a place in the links"


def project_files(
    source: PathLike,
    target: PathLike,
    links: PathLike | None = None,
    *,
    file_format: str = "tags",
    rule: str = DEFAULT_RULE,
    least: float = 0.0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Projection:
    """Project labels, spans or tags of a text onto its translation.

    Args:
        source: the text with them.
        target: its translation, a sentence on each line, words between spaces.
        links: between the words of both, with or without probabilities; None: the text is aligned.
        file_format: a key of :data:`FORMATS`.
        rule, least: as in :func:`alignkit.project.spans.project_spans`.
        threads, progress: of the alignment, as in :func:`alignkit.align`.

    Raises:
        InputError: a file cannot be read or is malformed; the files have different numbers of sentences; or a link
            is outside its pair.
    """
    from alignkit.text.reading import read_lines, read_utf8

    lines = read_utf8(target).decode().split("\n")  # with \r, which stays
    if lines[-1] == "":
        lines.pop()
    sentences = FORMATS[file_format][0](source, read_lines(source))
    if len(sentences) != len(lines):
        raise InputError(source, f"has {len(sentences)} sentences, {target} has {len(lines)}")
    words = [[line[start:end] for start, end in word_spans(line)] for line in lines]
    found, probabilities = _links(sentences, words, links, threads, progress)
    done = [
        sentence.onto(line, target, pair)
        for sentence, line, pair in zip(
            sentences, lines, linked_pairs(found, probabilities, rule, least), strict=True
        )
    ]
    unplaced = [item for _, items in done for item in items]
    return Projection([text for text, _ in done], sum(sentence.count for sentence in sentences), unplaced)


def _links(
    sentences: Sequence[Annotated],
    words: Sequence[Sequence[str]],
    path: PathLike | None,
    threads: int | None,
    progress: Progress | None,
) -> tuple[Links, np.ndarray | None]:
    """The links of a file, checked, or those of an alignment of the text; and their probabilities."""
    source = [sentence.words for sentence in sentences]
    if path is None:
        from alignkit.pipeline import align

        aligned = align(source, words, threads=threads, progress=progress)
        return aligned.links, aligned.probabilities
    import numpy as np

    from alignkit.links.links import check_range, parse_links, parse_probabilities
    from alignkit.text.reading import read_lines

    lines = read_lines(path)
    found = parse_links(path, lines).possible
    if len(found) != len(words):
        raise InputError(path, f"has {len(found)} lines, the text {len(words)} sentence pairs")
    check_range(path, found, np.array([[len(y), len(x)] for x, y in zip(source, words, strict=True)], np.int32))
    return found, parse_probabilities(path, lines)
