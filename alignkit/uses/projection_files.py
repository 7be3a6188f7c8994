"""Files of inline tags, labels or spans, projected onto a translation.

Tags are HTML and XML elements, empty elements and placeholders in lines of text, or the inline elements of TMX and
XLIFF; labels are in columns, spans in JSON lines.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

from alignkit.errors import InputError, abbreviated, counted
from alignkit.links.formats import json_line
from alignkit.support.files import Record, parse_json
from alignkit.support.packages import need
from alignkit.text.tokenization import WORD
from alignkit.text.translators import Segment, has_units, read_units, text_of
from alignkit.text.vocabulary import VISIBLE
from alignkit.types import PathLike
from alignkit.uses.projection import DEFAULT_RULE, LinkedPair, Span, WeightedLink, pairs_with_links

if TYPE_CHECKING:
    import numpy as np

    from alignkit.links.links import Links

log = logging.getLogger(__name__)

_TAG = re.compile(
    r"""<!--.*?--> | \{\w*\} | <(?P<end>/?)(?P<name>[^\W\d][\w:.-]*)(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>""",
    re.VERBOSE,
)
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"<\0": "utf-16-le", b"\xfe\xff": "utf-16-be", b"\0<": "utf-16-be"}
_PIECE = re.compile(r"&#?\w+;|.", re.DOTALL)  # a reference to a character, or a character
#: Elements of HTML that have no content and need no end.
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_DEEPEST = 100  # elements within each other
#: What finds the words of a line, as ranges of characters.
Splitter = Callable[[str], list[Span]]
_ESCAPE = "write &lt; for a < that begins no tag"
OUTSIDE = "O"
_IN_SPAN = re.compile(r"([BIESLU])-(.+)")
_BREAKS = str.maketrans("\n\r", "  ")


def word_spans(line: str) -> list[Span]:
    """The ranges of characters of the words of a line (:func:`alignkit.text.tokenization.split_words`)."""
    return [match.span() for match in WORD.finditer(line)] if VISIBLE.search(line) else []


def words_at(line: str, spans: Sequence[Span]) -> list[str]:
    """The words with these characters."""
    return [line[start:end] for start, end in spans]


def covered(words: Sequence[Span], span: Span) -> Span:
    """The range of words that share a character with a span of characters; empty where there are none."""
    first = sum(end <= span[0] for _, end in words)
    last = sum(start < span[1] for start, _ in words)
    return (first, last) if span[0] < span[1] and first < last else (first, first)


def without_punctuation(source: str, target: str, span: Span, place: Span, words: Sequence[Span]) -> Span:
    """The characters of a projected span, without marks at its ends if such were left out in the source.

    The span ends within a word then, or begins there, and at most as many characters are left out here. Of several
    marks, those stay that the span has in the source, or else as many.

    Args:
        source, target: the texts.
        span: its characters in the source.
        place: the characters of the target words that it is projected onto.
        words: the places of the source words that it has a part of, at least one.
    """
    from alignkit.text.vocabulary import is_punctuation

    def left_out(own: list[str], outside: str, found: list[str]) -> int:
        kept, marks = (list(takewhile(is_punctuation, pieces)) for pieces in (own, found))
        most = min(len(marks), len(outside), len(found) - 1)
        for n, mark in enumerate(marks[:most]):
            is_outside = mark in outside
            # Of marks that are on both sides in the source, or on neither, the span keeps as many as it has there.
            if not (is_outside if is_outside != (mark in kept) else len(marks) - n > len(kept)):
                return n
        return most

    start, end = place
    own = _PIECE.findall(source[slice(*span)])
    start += left_out(own, source[words[0][0] : span[0]], _PIECE.findall(target[start:end]))
    end -= left_out(own[::-1], source[span[1] : words[-1][1]], _PIECE.findall(target[start:end])[::-1])
    return start, end


@dataclass
class Tag:
    """An element, or a tag or placeholder that stands alone.

    Attributes:
        opening, closing: as they are written; ``closing`` is empty for what stands alone.
        start, end: the characters [start, end) of the text without tags that are in it.
        children: what is in it, in order.
        begin: of what ends something and stands alone, what begins it and stands alone, too.
        is_placed: whether it has been put into the translation.
    """

    opening: str
    start: int
    end: int
    closing: str = ""
    children: list[Tag] = field(default_factory=list)
    begin: Tag | None = None
    is_placed: bool = False


#: The text of a target sentence with what is projected, and what has no place in the links.
Projected = tuple[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class TaggedLine:
    """A line of text whose tags are taken out.

    Attributes:
        line: its number.
        text: what is left.
        places: of the words of the text.
        tags: the outermost ones, in order.
        target: how each character of the translation is written in its file; None: as itself, in a line without
            tags.
    """

    line: int
    text: str
    places: Sequence[Span]
    tags: Sequence[Tag]
    target: Sequence[str] | None = None

    @property
    def words(self) -> list[str]:
        """The words of the text."""
        return words_at(self.text, self.places)

    def onto(self, path: PathLike, target: str, places: Sequence[Span], pair: LinkedPair) -> Projected:
        """The target with the tags, and those for which its links name no place.

        Every tag is put into the target once, and nothing else of the target changes. Elements keep their nesting;
        of elements side by side that would overlap, each keeps the words with the more probable links. A tag
        whose place is not known stands, without content, where the words after it are.

        Args:
            path: the file of the target, for messages.
            target: the line.
            places: of its words.
            pair: the links between the words of both.

        Raises:
            InputError: the target has tags already.
        """
        found = _TAG.search(target)
        if found is not None and self.target is None:
            problem = f"has the tag {abbreviated(found[0])!r}"
            raise InputError(path, problem, line=self.line, remedy="give the translation without tags")
        placing = _Placing((self.text, target), self.places, places, pair)
        end = places[-1][1] if places else len(target.removesuffix("\r"))
        sizes = len(self.places), len(places)
        placing.place(self.tags, (0, sizes[0]), (0, sizes[1]), (0, end))
        written = target if self.target is None else self.target
        parts: list[str] = []
        at = 0
        for offset, tag in placing.out:
            parts += [*written[at:offset], tag]
            at = offset
        names = [(tag.opening, self.text[tag.start : tag.end]) for tag in placing.unplaced]
        unplaced = [{"line": self.line, "tag": opening, "text": text} for opening, text in names]
        return "".join([*parts, *written[at:], "\n"]), unplaced


def parse_tags(path: PathLike, lines: Sequence[str], splitter: Splitter = word_spans) -> list[TaggedLine]:
    """Lines of text with tags.

    Args:
        path: the file of the lines, for messages.
        lines: the lines.
        splitter: finds the words of a text.

    Raises:
        InputError: a tag is not closed on its line, or closed though it is not the last that is open; or too many
            elements are within each other.
    """
    tagged = []
    for number, line in enumerate(lines, 1):
        top, parts = Tag("", 0, 0), []
        waiting, at, length = [top], 0, 0
        for match in _TAG.finditer(line):
            parts.append(line[at : match.start()])
            at, length, text = match.end(), length + len(parts[-1]), match[0]
            name = (match["name"] or "").lower()
            if match["end"]:
                tag = waiting.pop()
                wanted = _TAG.match(tag.opening)
                if wanted is None or wanted["name"].lower() != name:
                    problem = f"{abbreviated(text)} does not close the last open tag"
                    raise InputError(path, problem, line=number, remedy=_ESCAPE)
                tag.end, tag.closing = length, text
                continue
            tag = Tag(text, length, length)
            waiting[-1].children.append(tag)
            if name and name not in _VOID and not text.endswith("/>"):
                waiting.append(tag)
            if len(waiting) > _DEEPEST:
                raise InputError(path, f"has more than {_DEEPEST - 1} elements within each other", line=number)
        if len(waiting) > 1:
            problem = f"{abbreviated(waiting[-1].opening)} is not closed on its line"
            raise InputError(path, problem, line=number, remedy=_ESCAPE)
        plain = "".join([*parts, line[at:]])
        tagged.append(TaggedLine(number, plain, splitter(plain), top.children))
    return tagged


def inline_tags(segment: Segment, written: Sequence[str]) -> list[Tag]:
    """The outermost inline elements of a text of TMX or XLIFF, in order.

    What begins and what ends something, such as ``<bpt>`` and ``<ept>``, are the tags of an element if all within
    is closed there, too; else each stands alone, in the translation as well what begins before what ends.

    Args:
        segment: the text.
        written: how its pieces are written.
    """
    top = Tag("", 0, 0)
    waiting: list[tuple[Tag, str | None]] = [(top, None)]  # with what ends it; None: a tag does
    begun: dict[str, Tag] = {}
    length = 0

    def let_stand_alone() -> None:
        tag, _ = waiting.pop()
        waiting[-1][0].children += tag.children
        tag.children = []

    for (_, kind, text), markup in zip(segment, written, strict=False):
        length += len(text) if kind == "text" else 0
        while kind == "close" and waiting[-1][1] is not None:
            let_stand_alone()
        if kind == "close" or (kind == "end" and waiting[-1][1] == text):
            tag, _ = waiting.pop()
            tag.end, tag.closing = length, markup
        elif kind not in ("text", "other"):
            tag = Tag(markup, length, length, begin=begun.get(text) if kind == "end" else None)
            waiting[-1][0].children.append(tag)
            if kind in ("open", "begin"):
                waiting.append((tag, text if kind == "begin" else None))
            if kind == "begin":
                begun[text] = tag
    while len(waiting) > 1:
        let_stand_alone()
    return top.children


@dataclass
class _Placing:
    """Tags put into a line.

    Attributes:
        texts: the text without tags, and the line.
        source, words: the places of their words.
        pair: the links between these.
        out: tags as they are written, and the place of the character that each goes in front of, in order.
        unplaced: tags whose place the links do not tell.
    """

    texts: tuple[str, str]
    source: Sequence[Span]
    words: Sequence[Span]
    pair: LinkedPair
    out: list[tuple[int, str]] = field(default_factory=list)
    unplaced: list[Tag] = field(default_factory=list)

    def place(self, tags: Sequence[Tag], inside: Span, region: Span, bounds: Span) -> None:
        """Put tags that stand side by side, and what is in them, into the place of the element that they are in.

        Args:
            tags: in order.
            inside: the source words of that element.
            region: its target words.
            bounds: the characters of these.
        """
        low, high = bounds
        spans = [covered(self.source, (tag.start, tag.end)) for tag in tags]
        places = self.pair.apart(spans, region)
        rows = []
        for i, (tag, span, place) in enumerate(zip(tags, spans, places, strict=True)):
            rows.append((place or self._between(i, tag, span, places, inside, region), i, tag, span))
        for (first, last), _, tag, span in sorted(rows, key=lambda row: row[:2]):
            start = stop = self.words[first][0] if first < region[1] else high
            if first < last:
                place = start, self.words[last - 1][1]
                own = self.source[slice(*span)]
                start, stop = without_punctuation(*self.texts, (tag.start, tag.end), place, own)
            start, stop = min(max(start, low), high), min(max(stop, low), high)
            if tag.begin is not None and not tag.begin.is_placed:  # the end comes first here: they change places
                tag.opening, tag.begin.opening = tag.begin.opening, tag.opening
            tag.is_placed = True
            self.out.append((start, tag.opening))
            self.place(tag.children, span, (first, last), (start, stop))
            self.out.append((stop, tag.closing))

    def _between(
        self, i: int, tag: Tag, span: Span, places: Sequence[Span | None], inside: Span, region: Span
    ) -> Span:
        """An empty range for a tag without words, outside of those of its neighbours."""
        place = self.pair.position(span[0])
        # What begins or ends an element goes on to do so.
        if span[0] == span[1] and not inside[0] < span[0] < inside[1]:
            place = region[span[0] >= inside[1] > inside[0]]
        if place is None or span[0] < span[1]:
            self.unplaced.append(tag)
        if place is None:  # without any link, as far along as in the source
            place = round(span[0] * len(self.words) / max(len(self.source), 1))
        place = min(max(place, region[0]), region[1])
        for k, other in enumerate(places):
            if other is not None and other[0] < place < other[1]:
                place = other[1] if k < i else other[0]
        return place, place


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

    def onto(self, path: PathLike, target: str, places: Sequence[Span], pair: LinkedPair) -> Projected:
        """The target's words in columns with their labels, a blank line at the end; and labels without a place.

        Where spans would overlap, each keeps the words with the more probable links. A word with a label of its
        own gives it to the target words whose most probable link is with it.
        """
        words = words_at(target, places)
        if self.of_words:
            best: dict[int, WeightedLink] = {}  # of each target word; the first of equals, as links are sorted
            for s, t, p in pair.links:
                if p >= pair.least and (t not in best or p > best[t][2]):
                    best[t] = s, t, p
            of_spans = [[t for s, t, _ in best.values() if s == start] for start, _ in self.spans]
        else:
            of_spans = [[*range(*(place or (0, 0)))] for place in pair.apart(self.spans, (0, len(words)))]
        new, unplaced = [OUTSIDE] * len(words), []
        for span, label, chosen in zip(self.spans, self.labels, of_spans, strict=True):
            for k, t in enumerate(chosen):
                new[t] = label if self.of_words else f"{'I' if k else 'B'}-{label}"
            if not chosen:
                text = " ".join(self.words[span[0] : span[1]])
                unplaced.append({"line": self.line, "label": label, "text": text})
        rows = [f"{word}\t{label}\n" for word, label in zip(words, new, strict=True)]
        return "".join([*rows, "\n"]), unplaced


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
        places: of the words in the text, whose characters spans count; None: they count words.
        spans: of words, one for each item of ``spans`` in the record.
    """

    line: int
    record: dict[str, Any]
    words: Sequence[str]
    places: Sequence[Span] | None
    spans: Sequence[Span]

    def onto(self, path: PathLike, target: str, places: Sequence[Span], pair: LinkedPair) -> Projected:
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
            if self.places is not None:
                # An empty range is in front of its word, or behind the last one.
                first = places[start][0] if start < len(places) else places[-1][1]
                own = self.places[slice(*span)]
                chosen = first, places[end - 1][1] if own else first
                marked = item["start"], item["end"]
                start, end = without_punctuation(text, target, marked, chosen, own) if own else chosen
            found.append({**item, "start": start, "end": end, "probability": float(f"{place.probability:.4g}")})
        new: dict[str, Any] = {"spans": found, "unplaced": unplaced}
        if self.places is not None:
            new["text"] = target
        else:
            new["tokens"] = words_at(target, places)
        record = self.record | new
        return json_line(record), [{"line": self.line, **item} for item in unplaced]


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
        sentences.append(JsonSentence(number, kept, words, characters if in_text else None, spans))
    return sentences


@dataclass(frozen=True)
class UnitFile:
    """A file of TMX or XLIFF, whose translations get the inline elements that their sources have.

    Attributes:
        data: the file.
        encoding: of it.
        units: their sources and targets.
    """

    data: bytes
    encoding: str
    units: Sequence[tuple[Segment, Segment]]

    @classmethod
    def read(cls, path: PathLike) -> UnitFile:
        """Read a file; its path may name languages, as of :func:`alignkit.text.translators.read_units`.

        Raises:
            InputError: as that says; or it is neither TMX nor XLIFF.
        """
        from alignkit.text.pair_formats import split_fields
        from alignkit.text.reading import file_chunks

        name, languages = split_fields(path)
        data = b"".join(file_chunks(name, -1))
        if not has_units(data):
            remedy = "give its translation, too: SRC TGT"
            raise InputError(name, "is neither TMX nor XLIFF, which have both sides", remedy=remedy)
        declared = re.match(rb"[^<]*<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.-]+)", data)
        encoding = _UTF_16.get(data[:2]) or (declared[1].decode() if declared else "utf-8")
        return cls(data, encoding, list(read_units(name, [data], languages)))

    def written(self, segment: Segment) -> list[str]:
        """How the pieces of a text are written."""
        return [self.data[piece.start : after.start].decode(self.encoding) for piece, after in pairwise(segment)]

    def parse(self, path: PathLike, lines: Sequence[str], splitter: Splitter) -> list[TaggedLine]:
        """The sources, with the elements that are to be put into their targets."""
        tagged = []
        for number, (source, target) in enumerate(self.units, 1):
            text, characters = text_of(source), list[str]()
            for piece, written in zip(target, self.written(target), strict=False):
                # A reference to a character has a piece of its own.
                characters += [written] if len(piece.text) == 1 else piece.text
            tags = inline_tags(source, self.written(source)) if _is_plain(target) else []
            tagged.append(TaggedLine(number, text, splitter(text), tags, characters))
        return tagged

    def filled(self, targets: Sequence[str]) -> list[bytes]:
        """The file with these targets, as far as they may have got elements, in parts."""
        parts, at = [], 0
        for (_, target), text in zip(self.units, targets, strict=True):
            if _is_plain(target):
                parts += [self.data[at : target[0].start], text.removesuffix("\n").encode(self.encoding)]
                at = target[-1].start
        return [*parts, self.data[at:]]


def _is_plain(segment: Segment) -> bool:
    """True if a text has no markup, and is not blank."""
    return all(piece.kind == "text" for piece in segment[:-1]) and text_of(segment).strip() != ""


Words = Sequence[Sequence[str]]
Sentences = Sequence[TaggedLine | LabelledSentence | JsonSentence]

#: Reads the lines of a file as sentences, which have ``words``, and ``onto`` to project what is to be projected.
#: The splitter finds the words of a text.
Parser = Callable[[PathLike, Sequence[str], Splitter], Sentences]

#: The registry of formats.
FORMATS: dict[str, Parser] = {
    "tags": parse_tags,
    "conll": lambda path, lines, _: parse_columns(path, lines),
    "json": parse_json_lines,
}


def project_files(
    source: PathLike,
    target: PathLike | None = None,
    links: PathLike | None = None,
    *,
    file_format: str = "tags",
    rule: str = DEFAULT_RULE,
    least: float = 0.0,
    tokenize: bool | None = None,
    fitting: Mapping[str, Any] | None = None,
) -> list[bytes]:
    """Project labels, spans or tags of a text onto its translation; what has no place in the links is logged.

    Args:
        source: the text with them; or a file of TMX or XLIFF, as :meth:`UnitFile.read` has it.
        target: its translation, a sentence on each line; None: TMX or XLIFF has it.
        links: between the words of both, with or without probabilities; None: the text is aligned.
        file_format: a key of :data:`FORMATS`, of a text.
        rule, least: as in :func:`alignkit.uses.projection.project_spans`.
        tokenize: find the words of raw text (:mod:`alignkit.text.raw_text`); else they are between spaces. None:
            as the text of the model was read, if there is one.
        fitting: further arguments of :func:`alignkit.align`.

    Returns:
        The text of each target sentence with labels, spans or tags, in UTF-8. Of TMX and XLIFF, the file in parts:
        translations without markup got the inline elements of their source.

    Raises:
        InputError: a file cannot be read or is malformed; the files have different numbers of sentences; or a link
            is outside its pair.
        MissingPackageError: ``tokenize`` lacks its package.
    """
    from alignkit.text.reading import read_utf8, split_lines

    options = {"model": None, "threads": None} | dict(fitting or {})
    if options["model"] is not None:
        from alignkit.pipeline.models import loaded_model

        options["model"] = loaded_model(options["model"], options["threads"])
        tokenize = options["model"].raw_text if tokenize is None else tokenize

    def link(*words: Words) -> tuple[Links, np.ndarray | None]:
        if links is None:
            from alignkit.pipeline.align import align

            aligned = align(*words, **options)
            return aligned.links, aligned.probabilities
        import numpy as np

        from alignkit.links.gold import read_links_of

        shapes = np.array([[len(y), len(x)] for x, y in zip(*words, strict=True)], np.int32).reshape(-1, 2)
        return read_links_of(links, shapes)

    given: list[str] = []
    parse = FORMATS[file_format]
    if target is None:
        units = UnitFile.read(source)
        lines, parse = [text_of(segment) for _, segment in units.units], units.parse
    else:
        text = read_utf8(source)
        if has_units(text):
            raise InputError(source, "is TMX or XLIFF, which has both sides", remedy="give no TGT")
        given, lines = split_lines(text), read_utf8(target).decode().split("\n")  # \r stays
        if lines[-1] == "":
            lines.pop()
    sides = (source, given), (target or source, lines)
    parts, unplaced = project_lines(*sides, link, parse=parse, rule=rule, least=least, tokenize=bool(tokenize))
    for item in unplaced:
        log.warning("no place in the links: %s", json.dumps(item, ensure_ascii=False))
    missing = len(unplaced)
    log.info("%s; labels or tags without a place in the links: %s", counted(len(parts), "sentence"), missing)
    if target is None:
        marked = sum(any(piece.kind != "text" for piece in segment[:-1]) for _, segment in units.units)
        log.info("translations that have markup of their own and stay as they are: %s", marked)
        return units.filled(parts)
    # Half a character, as "\\ud83d", is legal in JSON, and is written as it is there.
    return [part.encode("utf-8", "backslashreplace") for part in parts]


def project_lines(
    source: tuple[PathLike, Sequence[str]],
    target: tuple[PathLike, Sequence[str]],
    link: Callable[[Words, Words], tuple[Links, np.ndarray | None]],
    *,
    parse: Parser = parse_tags,
    rule: str = DEFAULT_RULE,
    least: float = 0.0,
    tokenize: bool = False,
) -> tuple[list[str], list[dict[str, Any]]]:
    """Project labels, spans or tags of lines onto their translation.

    Args:
        source, target: what messages call the text and its translation, and their lines.
        link: gives the links between the words of both, and their probabilities or None.
        parse: reads the lines of the source.
        rule, least, tokenize: as in :func:`project_files`.

    Returns:
        (the text of each target sentence with labels, spans or tags; those that have no place in the links).

    Raises:
        InputError: a line is malformed, or the texts have different numbers of sentences.
        MissingPackageError: ``tokenize`` lacks its package.
    """
    from alignkit.text.raw_text import unicode_word_spans

    if tokenize:
        need("icu4py")
    splitter = unicode_word_spans if tokenize else word_spans
    sentences = parse(*source, splitter)
    if parse is parse_tags and all(isinstance(each, TaggedLine) and not each.tags for each in sentences):
        log.warning("%s has no tags; labels and spans need the format conll or json", source[0])
    name, lines = target
    if len(sentences) != len(lines):
        raise InputError(source[0], f"has {counted(len(sentences), 'sentence')}, {name} has {len(lines):,}")
    places = [splitter(line) for line in lines]
    words = [words_at(line, spans) for line, spans in zip(lines, places, strict=True)]
    pairs = pairs_with_links(*link([sentence.words for sentence in sentences], words), rule, least)
    parts, missing = [], []
    for sentence, line, spans, pair in zip(sentences, lines, places, pairs, strict=True):
        part, unplaced = sentence.onto(name, line, spans, pair)
        parts.append(part)
        missing += unplaced
    return parts, missing
