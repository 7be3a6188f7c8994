"""Files of translators: the units of TMX and XLIFF (1.2 and 2), read as their bytes arrive.

Python's expat tells where in the file everything is, so that tags can be put in and all other bytes stay. The
translate-toolkit writes a file anew, and takes the code within ``<bpt>`` or ``<ph>`` for text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.parsers import expat

from alignkit.errors import InputError, abbreviated, first_line
from alignkit.types import PathLike

DEEPEST = 100  # elements within each other
MOST = 1000  # elements in one text: the time to place them grows with the square of their number
SLICE = 1 << 16  # bytes whose units are held at a time
LONGEST = 1 << 20  # bytes of a tag or comment, which expat goes through anew with every slice
_BEGIN = re.compile(rb"(\xff\xfe|\xfe\xff|\xef\xbb\xbf)?\s*(<[?!].*?)?<([\w.-]+:)?(tmx|xliff)[\s>]", re.DOTALL)
_UNITS = frozenset(["tu", "trans-unit", "segment"])
#: Elements that hold one of their texts, and the elements that these are in.
_TEXTS = frozenset(
    {("tuv", "seg")} | {(unit, side) for unit in ("trans-unit", "segment") for side in ("source", "target")}
)
#: Inline elements that stand for code of the original document, which is no text, or a mark, by what it does.
_CODE = dict.fromkeys(["ph", "it", "ut"], "code")
_CODE |= dict.fromkeys(["bpt", "bx", "sc", "sm"], "begin") | dict.fromkeys(["ept", "ex", "ec", "em"], "end")
_BREAKS = str.maketrans("\t\r\n", "   ")
_REMEDY = "name two of its languages, as FILE:de,en"


class Piece(NamedTuple):
    """A piece of a text in a file.

    Attributes:
        start: the number of its first byte.
        kind: ``text``; ``open`` or ``close``, a tag; ``code``, an element that stands for code, whole, or
            ``begin`` or ``end``, where the code begins or ends something; ``other``, such as a comment.
        text: the characters of ``text``; of elements what tells which ``begin`` and ``end`` belong together.
    """

    start: int
    kind: str
    text: str


#: The pieces of a text, at the end its closing tag; none: there is no such text.
Segment = list[Piece]


def text_of(segment: Segment) -> str:
    """The characters of a text without inline elements; tabs and line breaks are spaces."""
    return "".join(piece.text for piece in segment if piece.kind == "text").translate(_BREAKS)


def has_units(data: bytes) -> bool:
    """True if a file that begins with these bytes is TMX or XLIFF, by its first element."""
    return _BEGIN.match(data[: 1 << 16].replace(b"\0", b"")) is not None  # UTF-16 has zeros


def read_units(
    path: PathLike, parts: Iterable[bytes], languages: tuple[str, ...] = ()
) -> Iterator[tuple[Segment, Segment]]:
    """The source and the target of each ``<tu>`` of TMX, ``<trans-unit>`` of XLIFF 1.2, ``<segment>`` of XLIFF 2.

    Args:
        path: the file, for messages.
        parts: its content.
        languages: of TMX, those of source and target; ``de`` is ``de-DE``, too. (): the source language of its
            header, or the first that it has, and the only other one.

    Raises:
        InputError: the file is not well-formed, has declarations in its DOCTYPE, an unknown entity, or more
            elements than :data:`DEEPEST` or :data:`MOST`; or its languages are others, or cannot be told.
    """
    reader, given = _Reader(path, languages), 0
    try:
        for data in (part[low : low + SLICE] for part in parts for low in range(0, len(part), SLICE)):
            reader.parser.Parse(data, False)
            yield from reader.units
            reader.units.clear()
            given += len(data)
            if given - reader.parser.CurrentByteIndex > LONGEST:
                raise reader.error(f"has a tag or comment of more than {LONGEST:,} bytes")
        reader.parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter of encodings that it does not have
        raise InputError(path, f"cannot be read as XML: {first_line(error)}") from error
    if reader.seen and len(reader.found) < 2:
        problem = f"has texts in {abbreviated(', '.join(sorted(reader.seen)))}, which are not source and target"
        raise InputError(path, problem, remedy=_REMEDY)


class _Reader:
    """What expat calls for each piece of a file; ``units`` are those that are complete."""

    def __init__(self, path: PathLike, languages: tuple[str, ...]) -> None:
        self.path = path
        self.units: list[tuple[Segment, Segment]] = []
        self.languages = [_plain(language) for language in languages]  # as far as they are known
        self.are_given = languages != ()
        self.seen: set[str] = set()  # all languages of TMX
        self.found: set[str] = set()  # those of ``languages`` that there are
        self.language = ""  # of the text
        self.texts: dict[str, Segment] = {}  # of the unit, by language, or as source and target
        self.open: list[str] = []
        self.segment: Segment | None = None
        self.level = self.code = 0  # the number of open elements when it, or code in it, began; 0: none has
        self.inner = 0  # the elements in it
        self.parser = parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler, parser.SkippedEntityHandler = self.doctype, self.entity
        parser.StartElementHandler, parser.EndElementHandler = self.start, self.end
        parser.CharacterDataHandler = lambda text: self.add("text", text)
        for name in ("Comment", "ProcessingInstruction", "StartCdataSection", "EndCdataSection"):
            setattr(parser, f"{name}Handler", lambda *_: self.add("other", ""))

    def error(self, problem: str, remedy: str | None = None) -> InputError:
        return InputError(self.path, problem, line=self.parser.CurrentLineNumber, remedy=remedy)

    def doctype(self, name: str, system: str | None, public: str | None, has_declarations: bool) -> None:
        # That a DTD is named, as often in TMX, does no harm: it is not read.
        if has_declarations:
            raise self.error("has declarations in its DOCTYPE, which may be hostile", "take them out")

    def entity(self, name: str, is_parameter: bool) -> None:
        raise self.error(f"has the unknown entity {abbreviated(name)}", "write the character")

    def add(self, kind: str, text: str) -> None:
        if self.segment is not None and not self.code:
            self.segment.append(Piece(self.parser.CurrentByteIndex, kind, text))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self.open.append(name)
        self.inner = 0 if self.segment is None else self.inner + 1
        if len(self.open) > DEEPEST or self.inner > MOST:
            raise self.error(f"has more than {DEEPEST} elements within each other, or {MOST:,} in one text")
        if self.segment is not None:
            names = [attributes[each] for each in ("startRef", "rid", "i", "id") if each in attributes]
            self.add(_CODE.get(name, "open"), "".join(names[:1]))
            self.code = self.code or (name in _CODE and len(self.open))
        elif tuple(self.open[-2:]) in _TEXTS:
            self.segment, self.level = [], len(self.open)
            self.texts.setdefault(self.language if name == "seg" else name, self.segment)
        elif name in _UNITS:
            self.texts = {}
            if not _UNITS.isdisjoint(self.open[:-1]):
                raise self.error(f"has a <{name}> within another unit")
        elif name == "tuv":
            self.language = _plain(attributes.get("xml:lang") or attributes.get("lang", ""))
            if not self.language:
                raise self.error("has a <tuv> without xml:lang")
        elif name == "xliff" and self.are_given:
            raise self.error("is XLIFF, which has a source and a target", "name no languages")
        elif not self.languages and attributes.get("srclang", "*all*") != "*all*":
            self.languages = [_plain(attributes["srclang"])]

    def end(self, name: str) -> None:
        if len(self.open) == self.code:
            self.code = 0
        else:
            self.add("close", "")
        if len(self.open) == self.level:
            self.segment, self.level = None, 0
        elif self.segment is None and self.open[-1] in _UNITS:
            self.units.append(self.unit())
        self.open.pop()

    def unit(self) -> tuple[Segment, Segment]:
        if self.open[-1] != "tu":
            return self.texts.get("source", []), self.texts.get("target", [])
        self.seen |= self.texts.keys()
        pair: list[Segment] = []
        for language in self.languages:
            near = [each for each in self.texts if f"{each}-".startswith(f"{language}-")]
            pair.append(self.texts.pop(min(near, key=len)) if near else [])
        if not self.are_given:
            self.languages += self.texts
            pair += self.texts.values()
            if len(self.languages) > 2:
                raise self.error(f"has the languages {abbreviated(', '.join(sorted(self.seen)))}", _REMEDY)
        self.found |= {language for language, text in zip(self.languages, pair, strict=True) if text}
        pair += [[], []]
        return pair[0], pair[1]


def _plain(language: str) -> str:
    return language.replace("_", "-").lower()
