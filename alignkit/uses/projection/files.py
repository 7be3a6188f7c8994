"""Files of labels, spans or tags, projected onto a translation."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

from alignkit.errors import InputError, counted
from alignkit.support.packages import need
from alignkit.types import PathLike, Progress
from alignkit.uses.projection.labels import JsonSentence, LabelledSentence, parse_columns, parse_json_lines
from alignkit.uses.projection.spans import DEFAULT_RULE, pairs_with_links
from alignkit.uses.projection.tags import Splitter, TaggedLine, parse_tags, word_spans, words_at

log = logging.getLogger(__name__)

Sentences = Sequence[TaggedLine | LabelledSentence | JsonSentence]

#: The registry of formats: each reads the lines of a file as sentences, which have ``words``, and ``onto`` to
#: project what is to be projected. The splitter finds the words of a text.
FORMATS: dict[str, Callable[[PathLike, Sequence[str], Splitter], Sentences]] = {
    "tags": parse_tags,
    "conll": lambda path, lines, _: parse_columns(path, lines),
    "json": parse_json_lines,
}


def project_files(
    source: PathLike,
    target: PathLike,
    links: PathLike | None = None,
    *,
    file_format: str = "tags",
    rule: str = DEFAULT_RULE,
    least: float = 0.0,
    tokenize: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Project labels, spans or tags of a text onto its translation; what has no place in the links is logged.

    Args:
        source: the text with them.
        target: its translation, a sentence on each line.
        links: between the words of both, with or without probabilities; None: the text is aligned.
        file_format: a key of :data:`FORMATS`.
        rule, least: as in :func:`alignkit.uses.projection.spans.project_spans`.
        tokenize: find the words of raw text (:mod:`alignkit.text.raw_text`); else they are between spaces.
        threads, progress: of the alignment, as in :func:`alignkit.align`.

    Returns:
        The text of each target sentence with labels, spans or tags.

    Raises:
        InputError: a file cannot be read or is malformed; the files have different numbers of sentences; or a link
            is outside its pair.
        MissingPackageError: ``tokenize`` lacks its package.
    """
    import numpy as np

    from alignkit.links.gold import read_links_of
    from alignkit.text.raw_text import unicode_word_spans
    from alignkit.text.reading import read_lines, read_utf8

    if tokenize:
        need("icu4py")
    splitter = unicode_word_spans if tokenize else word_spans
    lines = read_utf8(target).decode().split("\n")  # \r stays
    if lines[-1] == "":
        lines.pop()
    sentences = FORMATS[file_format](source, read_lines(source), splitter)
    if all(isinstance(each, TaggedLine) and not each.tags for each in sentences):
        log.warning("%s has no tags; labels and spans need the format conll or json", source)
    if len(sentences) != len(lines):
        raise InputError(source, f"has {counted(len(sentences), 'sentence')}, {target} has {len(lines):,}")
    places = [splitter(line) for line in lines]
    words = [words_at(line, spans) for line, spans in zip(lines, places, strict=True)]
    text = [sentence.words for sentence in sentences], words
    if links is not None:
        shapes = np.array([[len(y), len(x)] for x, y in zip(*text, strict=True)], np.int32).reshape(-1, 2)
        found, probabilities = read_links_of(links, shapes)
    else:
        from alignkit.pipeline.align import align

        aligned = align(*text, threads=threads, progress=progress)
        found, probabilities = aligned.links, aligned.probabilities
    parts, missing = [], 0
    pairs = pairs_with_links(found, probabilities, rule, least)
    for sentence, line, spans, pair in zip(sentences, lines, places, pairs, strict=True):
        part, unplaced = sentence.onto(target, line, spans, pair)
        parts.append(part)
        missing += len(unplaced)
        for item in unplaced:
            log.warning("no place in the links: %s", json.dumps(item, ensure_ascii=False))
    log.info("%s; labels or tags without a place in the links: %s", counted(len(parts), "sentence"), missing)
    return parts
