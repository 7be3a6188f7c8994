"""Labels of words and spans, in columns or as JSON lines, put onto a translation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alignkit.errors import InputError, abbreviated
from alignkit.project.spans import LinkedPair, Span, WeightedLink
from alignkit.project.tags import covered, word_spans
from alignkit.records import Record, parse_json
from alignkit.types import PathLike

OUTSIDE = "O"
_IN_SPAN = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_BREAKS = str.maketrans("\n\r", "  ")


@dataclass(frozen=True)
class LabelledSentence:
    """A sentence with a label for each word.

    Attributes:
        line: number of its first line.
        words: of the sentence.
        labels: one for each word.
        in_spans: true if they are those of spans, ``B-X``, ``I-X`` and ``O``; false if each word has its own.
    """

    line: int
    words: Sequence[str]
    labels: Sequence[str]
    in_spans: bool

    @property
    def count(self) -> int:
        """The number of spans or labels."""
        return len(self._spans())

    def _spans(self) -> list[tuple[int, int, str]]:
        """(start, end, label) of the spans, or of the words that have a label."""
        found: list[tuple[int, int, str]] = []
        for i, label in enumerate(self.labels):
            match = _IN_SPAN.fullmatch(label) if self.in_spans else None
            name = match[2] if match else label
            if match and match[1] in "IEL" and found and found[-1][1:] == (i, name):
                found[-1] = (found[-1][0], i + 1, name)
            elif label != OUTSIDE:
                found.append((i, i + 1, name))
        return found

    def projected(self, size: int, pair: LinkedPair) -> tuple[list[str], list[dict[str, Any]]]:
        """The labels of ``size`` target words, and the labels that none of them has.

        Where spans would overlap, each keeps the words with the more probable links. A word with a label of its
        own gives it to the target words whose most probable link is with it.
        """
        spans = self._spans()
        labels, unplaced = [OUTSIDE] * size, []
        for (start, end, name), targets in zip(spans, self._targets(spans, pair), strict=True):
            for k, t in enumerate(targets):
                labels[t] = f"{'I' if k else 'B'}-{name}" if self.in_spans else name
            if not targets:
                unplaced.append({"start": start, "end": end, "label": name})
        return labels, unplaced

    def _targets(self, spans: Sequence[tuple[int, int, str]], pair: LinkedPair) -> list[Sequence[int]]:
        """The target words of each span."""
        if self.in_spans:
            sides = [(start, end) for start, end, _ in spans]
            found = [pair.project(side) for side in sides]
            places = pair.apart(sides, [place and (place.start, place.end) for place in found])
            return [range(*(place or (0, 0))) for place in places]
        best: dict[int, WeightedLink] = {}  # of each target word; the first of equals, as links are sorted
        for s, t, p in pair.links:
            if p >= pair.least and (t not in best or p > best[t][2]):
                best[t] = s, t, p
        return [[t for s, t, _ in best.values() if s == start] for start, _, _ in spans]

    def onto(self, target: str, target_path: PathLike, pair: LinkedPair) -> tuple[str, list[dict[str, Any]]]:
        """The target's words in columns with their labels, a blank line at the end; and what was not placed."""
        words = [target[start:end] for start, end in word_spans(target)]
        labels, unplaced = self.projected(len(words), pair)
        rows = [f"{word}\t{label}\n" for word, label in zip(words, labels, strict=True)]
        return "".join([*rows, "\n"]), [self._named(item) for item in unplaced]

    def _named(self, item: dict[str, Any]) -> dict[str, Any]:
        return {"line": self.line, **item, "text": " ".join(self.words[item["start"] : item["end"]])}


def parse_columns(path: PathLike, lines: Sequence[str]) -> list[LabelledSentence]:
    """Sentences in columns: a word and its label on each line, first and last, and a blank line after a sentence.

    Columns are separated by tabs, or by spaces in a line without tabs.

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
        cells = line.split("\t") if "\t" in line else [line[start:end] for start, end in word_spans(line)]
        if not any(cells):
            sentences.append([])
            continue
        width = width or len(cells)
        if len(cells) != width or width < 2 or not (cells[0] and cells[-1]):
            wanted = f"{width} columns, as the lines before" if width > 1 else "a word and its label"
            raise InputError(path, f"has {len(cells)} columns, not {wanted}", line=number)
        sentences[-1].append((number, cells[0], cells[-1]))
    if not sentences[-1]:
        sentences.pop()
    in_spans = _are_spans(path, ((line, label) for rows in sentences for line, _, label in rows))
    return [
        LabelledSentence(
            rows[0][0] if rows else 0, [word for _, word, _ in rows], [row[2] for row in rows], in_spans
        )
        for rows in sentences
    ]


def _are_spans(path: PathLike, labels: Iterable[tuple[int, str]]) -> bool:
    """True if the labels, each with its line, are ``B-X``, ``I-X`` and ``O``; raises InputError if only some are."""
    known = list(labels)
    if not any(label.startswith(("B-", "I-")) for _, label in known):
        return False
    for line, label in known:
        if label != OUTSIDE and not _IN_SPAN.fullmatch(label):
            problem = f"the label {abbreviated(label)!r} is neither O nor like B-X and I-X, as others are"
            raise InputError(path, problem, line=line)
    return True


@dataclass(frozen=True)
class JsonSentence:
    """A JSON object with a sentence and its spans or labels.

    Attributes:
        line: of the file.
        record: the object.
        words: of the sentence.
        characters: the range of each word in the text; None if there is no text, so that spans count words.
        spans: of words, one for each item of ``spans`` in the record.
        labelled: the labels of its words, if it has some.
    """

    line: int
    record: dict[str, Any]
    words: Sequence[str]
    characters: Sequence[Span] | None
    spans: Sequence[Span]
    labelled: LabelledSentence | None

    @property
    def count(self) -> int:
        """The number of spans and labels."""
        return len(self.spans) + (self.labelled.count if self.labelled else 0)

    def onto(self, target: str, target_path: PathLike, pair: LinkedPair) -> tuple[str, list[dict[str, Any]]]:
        """The object with the target instead of the source, and ``unplaced``: what has no place there."""
        target = target.removesuffix("\r")
        places = word_spans(target)
        words = [target[start:end] for start, end in places]
        found, unplaced = [], []
        for item, span in zip(self.record.get("spans", ()), self.spans, strict=True):
            place = pair.project(span)
            if place is None:
                unplaced.append(item)
                continue
            start, end = place.start, place.end
            if self.characters is not None:
                # An empty range is in front of its word, or behind the last one.
                first = places[start][0] if start < len(places) else places[-1][1]
                start, end = first, places[end - 1][1] if start < end else first
            found.append({**item, "start": start, "end": end, "probability": float(f"{place.probability:.4g}")})
        new: dict[str, Any] = {"text": target, "tokens": words, "spans": found}
        if self.labelled is not None:
            new["labels"], missing = self.labelled.projected(len(words), pair)
            unplaced += missing
        record = {name: new.get(name, value) for name, value in self.record.items()} | {"unplaced": unplaced}
        return json.dumps(record, ensure_ascii=False) + "\n", [{"line": self.line, **item} for item in unplaced]


def parse_json_lines(path: PathLike, lines: Sequence[str]) -> list[JsonSentence]:
    """JSON objects, one on each line, with spans or labels.

    ``text`` or a list ``tokens`` is the sentence; ``spans``, a list of objects, has ``start`` and ``end`` of each
    span, in characters of ``text`` or else in tokens; ``labels`` has a label for each token. All else is kept.

    Args:
        path: the file of the lines, for messages.
        lines: the lines.

    Raises:
        InputError: a line is not such an object, a span is outside its sentence, or there are not as many labels
            as tokens.
    """
    found = [_json_sentence(path, number, line) for number, line in enumerate(lines, 1)]
    labelled = [each.labelled for each in found if each.labelled]
    in_spans = _are_spans(path, ((each.line, label) for each in labelled for label in each.labels))
    return [
        replace(each, labelled=replace(each.labelled, in_spans=in_spans)) if each.labelled else each
        for each in found
    ]


def _json_sentence(path: PathLike, number: int, line: str) -> JsonSentence:
    record = Record(path, parse_json(path, line, line=number), line=number)
    text = record.text("text").translate(_BREAKS) if "text" in record or "tokens" not in record else None
    characters = None if text is None else word_spans(text)
    if text is None or "tokens" in record:
        words: Sequence[str] = record.texts("tokens")
    else:
        words = [text[start:end] for start, end in characters or ()]
    size, spans = len(words) if text is None else len(text), []
    for k, item in enumerate(record.rows("spans") if "spans" in record else ()):
        part = Record(path, item, name=f"spans[{k}]", line=number)
        start = part.whole("start", 0, size)
        span = start, part.whole("end", start, size)
        spans.append(span if characters is None else covered(characters, span))
    labelled = None
    if "labels" in record:
        labelled = LabelledSentence(number, words, record.texts("labels", len(words)), False)
    values = {name: record.value(name) for name in record}
    return JsonSentence(number, values, words, characters, spans, labelled)
