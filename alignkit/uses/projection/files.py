"""Files of labels, spans or tags, projected onto a translation; labels and spans are in columns or JSON lines."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from alignkit.errors import InputError, abbreviated, counted
from alignkit.support.files import Record, parse_json
from alignkit.support.packages import need
from alignkit.types import PathLike, Progress
from alignkit.uses.projection.spans import DEFAULT_RULE, LinkedPair, Span, WeightedLink, pairs_with_links
from alignkit.uses.projection.tags import (
    Splitter,
    TaggedLine,
    covered,
    parse_tags,
    without_punctuation,
    word_spans,
    words_at,
)

log = logging.getLogger(__name__)

OUTSIDE = "O"
_IN_SPAN = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_BREAKS = str.maketrans("\n\r", "  ")


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence with labels of spans, or of words.

    Attributes:
        line: number of its first line.
        words: of the sentence.
        spans: those with a label, in order.
        labels: of the spans.
        of_words: whether each word has its label, whatever its neighbours have.
    """

    line: int
    words: Sequence[str]
    spans: Sequence[Span]
    labels: Sequence[str]
    of_words: bool

    def onto(
        self, path: PathLike, target: str, places: Sequence[Span], pair: LinkedPair
    ) -> tuple[str, list[dict[str, Any]]]:
        """The target's words in columns with their labels, a blank line at the end; and labels without a place.

        Where spans would overlap, each keeps the words with the more probable links. A word with a label of its
        own gives it to the target words whose most probable link is with it.
        """
        words = words_at(target, places)
        new, unplaced = [OUTSIDE] * len(words), []
        for span, label, chosen in zip(self.spans, self.labels, self._chosen(pair, len(words)), strict=True):
            for k, t in enumerate(chosen):
                new[t] = label if self.of_words else f"{'I' if k else 'B'}-{label}"
            if not chosen:
                text = " ".join(self.words[span[0] : span[1]])
                unplaced.append({"line": self.line, "label": label, "text": text})
        rows = [f"{word}\t{label}\n" for word, label in zip(words, new, strict=True)]
        return "".join([*rows, "\n"]), unplaced

    def _chosen(self, pair: LinkedPair, size: int) -> list[Sequence[int]]:
        """The target words of each span."""
        if not self.of_words:
            return [range(*(place or (0, 0))) for place in pair.apart(self.spans, (0, size))]
        best: dict[int, WeightedLink] = {}  # of each target word; the first of equals, as links are sorted
        for s, t, p in pair.links:
            if p >= pair.least and (t not in best or p > best[t][2]):
                best[t] = s, t, p
        return [[t for s, t, _ in best.values() if s == start] for start, _ in self.spans]


def parse_columns(path: PathLike, lines: Sequence[str]) -> list[LabelledSentence]:
    """Sentences in columns: a word and its label on each line, first and last, and a blank line after a sentence.

    Columns are separated by tabs, or by spaces in a line without tabs. Labels are those of spans, ``B-X``, ``I-X``
    and ``O``, if one of them begins with B or I and a dash; other letters of such schemes are understood.

    Args:
        path: the file of the lines, for messages.
        lines: the lines. Two blank ones stand around an empty sentence.

    Raises:
        InputError: a line has no label, or not as many columns as the first one; or a label has not the form of
            the others.
    """
    sentences: list[list[tuple[int, str, str]]] = [[]]
    width = 0
    for number, line in enumerate(lines, 1):
        cells = line.split("\t") if "\t" in line else words_at(line, word_spans(line))
        if not any(cells):
            sentences.append([])
            continue
        width = width or len(cells)
        if len(cells) != width or width < 2 or not (cells[0] and cells[-1]):
            wanted = f"{width} columns, as the lines before" if width > 1 else "a word and its label"
            raise InputError(path, f"has {counted(len(cells), 'column')}, not {wanted}", line=number)
        sentences[-1].append((number, cells[0], cells[-1]))
    if not sentences[-1]:
        sentences.pop()
    rows = [row for sentence in sentences for row in sentence]
    of_words = not any(label.startswith(("B-", "I-")) for _, _, label in rows)
    for number, _, label in rows:
        if not of_words and label != OUTSIDE and not _IN_SPAN.fullmatch(label):
            problem = f"the label {abbreviated(label)!r} is neither O nor like B-X and I-X, as others are"
            raise InputError(path, problem, line=number)
    labelled = []
    for sentence in sentences:
        spans: list[Span] = []
        names: list[str] = []
        for i, (_, _, label) in enumerate(sentence):
            match = None if of_words else _IN_SPAN.fullmatch(label)
            name = match[2] if match else label
            if match and match[1] in "IEL" and names and (spans[-1][1], names[-1]) == (i, name):
                spans[-1] = spans[-1][0], i + 1
            elif label != OUTSIDE:
                spans.append((i, i + 1))
                names.append(name)
        first = sentence[0][0] if sentence else 0
        labelled.append(LabelledSentence(first, [word for _, word, _ in sentence], spans, names, of_words))
    return labelled


@dataclass(frozen=True)
class JsonSentence:
    """A JSON object with a sentence and its spans.

    Attributes:
        line: of the file.
        record: the object.
        words: of the sentence.
        in_text: true if spans count characters of a text, false if they count words.
        spans: of words, one for each item of ``spans`` in the record.
    """

    line: int
    record: dict[str, Any]
    words: Sequence[str]
    in_text: bool
    spans: Sequence[Span]

    def onto(
        self, path: PathLike, target: str, places: Sequence[Span], pair: LinkedPair
    ) -> tuple[str, list[dict[str, Any]]]:
        """The object with the target instead of the source, and ``unplaced``: the spans without a place there."""
        target = target.removesuffix("\r")
        text = self.record.get("text", "").translate(_BREAKS)
        found, unplaced = [], []
        for item, span in zip(self.record["spans"], self.spans, strict=True):
            place = pair.project(span)
            if place is None:
                unplaced.append(item)
                continue
            start, end = place.start, place.end
            if self.in_text:
                # An empty range is in front of its word, or behind the last one.
                first = places[start][0] if start < len(places) else places[-1][1]
                chosen = first, places[end - 1][1] if start < end else first
                start, end = without_punctuation(text, target, (item["start"], item["end"]), chosen)
            found.append({**item, "start": start, "end": end, "probability": float(f"{place.probability:.4g}")})
        new: dict[str, Any] = {"spans": found, "unplaced": unplaced}
        if self.in_text:
            new["text"] = target
        else:
            new["tokens"] = words_at(target, places)
        record = self.record | new
        return json.dumps(record, ensure_ascii=False) + "\n", [{"line": self.line, **item} for item in unplaced]


def parse_json_lines(path: PathLike, lines: Sequence[str], splitter: Splitter = word_spans) -> list[JsonSentence]:
    """JSON objects with spans, one on each line.

    The sentence is ``text`` or a list ``tokens``; ``spans``, a list of objects, has ``start`` and ``end`` of each
    span, in characters of the text or in tokens. All else is kept.

    Args:
        path: the file of the lines, for messages.
        lines: the lines.
        splitter: finds the words of a text.

    Raises:
        InputError: a line is not such an object, or a span is outside its sentence.
    """
    sentences = []
    for number, line in enumerate(lines, 1):
        record = Record(path, parse_json(path, line, line=number), line=number)
        in_text = "text" in record or "tokens" not in record
        text = record.text("text").translate(_BREAKS) if in_text else ""
        characters = splitter(text)
        words = words_at(text, characters) if in_text else record.texts("tokens")
        spans = []
        for k, item in enumerate(record.rows("spans")):
            part = Record(path, item, name=f"spans[{k}]", line=number)
            start = part.whole("start", 0, len(text if in_text else words))
            span = start, part.whole("end", start, len(text if in_text else words))
            spans.append(covered(characters, span) if in_text else span)
        kept = {name: record.value(name) for name in record}
        sentences.append(JsonSentence(number, kept, words, in_text, spans))
    return sentences


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
