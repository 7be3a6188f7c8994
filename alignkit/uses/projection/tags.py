"""Inline tags of a line of text (HTML and XML elements, empty elements, placeholders) put into its translation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from alignkit.errors import InputError, abbreviated
from alignkit.types import PathLike
from alignkit.uses.projection.spans import LinkedPair, Span

_TAG = re.compile(
    r"""<!--.*?--> | \{\w*\} | <(?P<end>/?)(?P<name>[^\W\d][\w:.-]*)(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^ \t]+")
_REFERENCE = re.compile(r"&#?\w+;")  # to a character
#: Elements of HTML that have no content and need no end.
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_DEEPEST = 100  # elements within each other
#: What finds the words of a line, as ranges of characters.
Splitter = Callable[[str], list[Span]]
_ESCAPE = "write &lt; for a < that begins no tag"


def word_spans(line: str) -> list[Span]:
    """The ranges of characters of the words of a line, which stand between ASCII spaces and tabs."""
    return [match.span() for match in _WORD.finditer(line.removesuffix("\r"))]


def words_at(line: str, spans: Sequence[Span]) -> list[str]:
    """The words with these characters."""
    return [line[start:end] for start, end in spans]


def covered(words: Sequence[Span], span: Span) -> Span:
    """The range of words that share a character with a span of characters; empty where there are none."""
    first = sum(end <= span[0] for _, end in words)
    last = sum(start < span[1] for start, _ in words)
    return (first, last) if span[0] < span[1] and first < last else (first, first)


def without_punctuation(source: str, target: str, span: Span, place: Span) -> Span:
    """The characters of a projected span, without marks at its ends if such were left out in the source.

    It ends within a word then, or begins there, and at most as many characters are left out here.

    Args:
        source, target: the texts.
        span: its characters in the source.
        place: the characters of the target words that it is projected onto.
    """
    from alignkit.text.vocabulary import is_punctuation

    start, end = place
    around = re.split(r"[ \t]", source[: span[0]])[-1], re.split(r"[ \t]", source[span[1] :], maxsplit=1)[0]
    for _ in around[0]:
        start += end - start > 1 and is_punctuation(target[start]) and not _REFERENCE.match(target, start)
    for _ in around[1]:
        is_whole = _REFERENCE.fullmatch(target, max(target.rfind("&", start, end), start), end)
        end -= end - start > 1 and is_punctuation(target[end - 1]) and not is_whole
    return start, end


@dataclass
class Tag:
    """An element, or a tag or placeholder that stands alone.

    Attributes:
        opening, closing: as they are written; ``closing`` is empty for what stands alone.
        start, end: the characters [start, end) of the text without tags that are in it.
        children: what is in it, in order.
    """

    opening: str
    start: int
    end: int
    closing: str = ""
    children: list[Tag] = field(default_factory=list)


@dataclass(frozen=True)
class TaggedLine:
    """A line of text whose tags are taken out.

    Attributes:
        line: its number.
        text: what is left.
        places: of the words of the text.
        tags: the outermost ones, in order.
    """

    line: int
    text: str
    places: Sequence[Span]
    tags: Sequence[Tag]

    @property
    def words(self) -> list[str]:
        """The words of the text."""
        return words_at(self.text, self.places)

    def onto(
        self, path: PathLike, target: str, places: Sequence[Span], pair: LinkedPair
    ) -> tuple[str, list[dict[str, Any]]]:
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
        if found is not None:
            problem = f"has the tag {abbreviated(found[0])!r}"
            raise InputError(path, problem, line=self.line, remedy="give the translation without tags")
        placing = _Placing((self.text, target), (self.places, places), pair)
        end = places[-1][1] if places else len(target.removesuffix("\r"))
        sizes = len(self.places), len(places)
        placing.place(self.tags, (0, sizes[0]), (0, sizes[1]), (0, end))
        parts: list[str] = []
        at = 0
        for offset, tag in placing.out:
            parts += [target[at:offset], tag]
            at = offset
        unplaced = [
            {"line": self.line, "tag": tag.opening, "text": self.text[tag.start : tag.end]}
            for tag in placing.unplaced
        ]
        return "".join([*parts, target[at:], "\n"]), unplaced


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


class _Placing:
    """Tags put into a line.

    Args:
        texts: the text without tags, and the line.
        places: of their words.
        pair: the links between these.

    Attributes:
        out: tags as they are written, and the place of the character that each goes in front of, in order.
        unplaced: tags whose place the links do not tell.
    """

    def __init__(
        self, texts: tuple[str, str], places: tuple[Sequence[Span], Sequence[Span]], pair: LinkedPair
    ) -> None:
        self.texts, self.pair = texts, pair
        self.source, self.words = places
        self.out: list[tuple[int, str]] = []
        self.unplaced: list[Tag] = []

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
                start, stop = without_punctuation(*self.texts, (tag.start, tag.end), place)
            start, stop = min(max(start, low), high), min(max(stop, low), high)
            self.out.append((start, tag.opening))
            self.place(tag.children, span, (first, last), (start, stop))
            self.out.append((stop, tag.closing))

    def _between(
        self, i: int, tag: Tag, span: Span, places: Sequence[Span | None], inside: Span, region: Span
    ) -> Span:
        """An empty range for a tag without words, outside of those of its neighbours."""
        place = self.pair.position(span[0])
        if (
            span[0] == span[1] and not inside[0] < span[0] < inside[1]
        ):  # what begins or ends an element goes on to do so
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
