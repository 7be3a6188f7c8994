"""Files of links and gold links: lines of links, or the format of the shared tasks; tokens counted from 0 or 1."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_known, counted, shown_path
from alignkit.links.formats import GOLD_BASES, GOLD_FORMATS
from alignkit.links.links import GoldLinks, Links, check_range, links_of_keys, parse_links, parse_probabilities
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines, read_utf8, split_lines
from alignkit.types import PathLike

log = logging.getLogger(__name__)

#: In fewer lines, zero-based links may well never have index 0.
FEWEST_LINES = 10
#: If links lay anywhere in their sentences, so many indices would have to be 0 before none of them is a sign.
_EXPECTED_ZEROS = 10

# Sentence, source position, target position, S or P, confidence (Mihalcea and Pedersen 2003).
_NAACL = re.compile(r"(0*\d{1,7})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SP]))?(?:\s+[0-9.eE+-]+)?\s*\Z", re.ASCII)


@dataclass(frozen=True)
class GoldFile:
    """The links of a file.

    Attributes:
        gold: zero-based.
        base: the index of the first token in the file, 0 or 1.
        warning: a note for the user about how the base was determined, if one is due.
    """

    gold: GoldLinks
    base: int
    warning: str | None = None


def is_naacl(lines: Sequence[str]) -> bool:
    """True if the first line that is not blank has the form ``sentence s t [S|P] [confidence]``."""
    first = next((line for line in lines if line.strip()), "")
    return _NAACL.match(first.strip()) is not None


def parse_gold(
    path: PathLike,
    lines: Sequence[str],
    *,
    file_format: str = "auto",
    base: str | int = "auto",
    shapes: np.ndarray | None = None,
    option: str = "--gold-base",
) -> GoldFile:
    """Parse gold links (or any links) in either format.

    Args:
        path: the file of the lines, for messages.
        lines: one per sentence pair (pharaoh) or per link (naacl).
        file_format: a name in ``GOLD_FORMATS``; auto decides by the first line.
        base: a name in ``GOLD_BASES``; auto is 1 for the NAACL format, by definition, unless it links position 0
            with position 0, and :func:`find_base` decides for Pharaoh.
        shapes: int (at least M, 2), T and L of the sentence pairs, if the text is known; makes auto reliable.
        option: that sets the base on the command line, for messages.

    Raises:
        InputError: a malformed line; index 0 in Pharaoh links that count from 1.
        AlignkitError: an unknown format or base.
    """
    base = str(base)
    if file_format not in GOLD_FORMATS or base not in GOLD_BASES:
        raise AlignkitError(f"formats are {', '.join(GOLD_FORMATS)}; bases are {', '.join(GOLD_BASES)}")
    naacl = is_naacl(lines) if file_format == "auto" else file_format == "naacl"
    if naacl:
        return _naacl_gold(path, lines, base)
    gold = parse_links(path, lines)
    if base == "auto":
        found, warning = find_base(path, gold.possible, shapes, option)
    else:
        found, warning = int(base), None
    if found:
        gold = GoldLinks(*(_shifted(path, each, option) for each in (gold.sure, gold.possible)))
    return GoldFile(gold, found, warning)


def _shifted(path: PathLike, links: Links, option: str) -> Links:
    """The zero-based form of links that count from 1."""
    zero = (links.pairs == 0).any(axis=1)
    if zero.any():
        line, problem = int(links.sentences[zero.argmax()]) + 1, "index 0 in links that count from 1"
        raise InputError(path, problem, line=line, remedy=f"give {option} 0, in Python base=0")
    return Links(links.pairs - np.int32(1), links.offsets)


def find_base(
    path: PathLike, links: Links, shapes: np.ndarray | None = None, option: str = "--gold-base"
) -> tuple[int, str | None]:
    """Determine whether links count from 0 or from 1.

    Links that count from 1 never have index 0, and some index equals the length of its sentence. If the lengths
    are not known, the absence of index 0 decides, provided that at least ``FEWEST_LINES`` lines have links, and so
    many that some would have it by chance.

    Returns:
        (0 or 1, a warning if the user should check it).
    """
    name = shown_path(path)
    if len(links.pairs) == 0 or (links.pairs == 0).any():
        return 0, None
    if shapes is not None:
        if len(shapes) < len(links):
            raise InputError(path, f"has {counted(len(links), 'line')}, the text {counted(len(shapes), 'pair')}")
        sentence = links.sentences
        past = (links.pairs[:, 0] >= shapes[sentence, 1]) | (links.pairs[:, 1] >= shapes[sentence, 0])
        if past.any():
            m = int(sentence[past.argmax()])
            return 1, (
                f"{name}: index 0 never occurs, and line {m + 1} has an index past the end of its sentence: "
                "read as counting from 1"
            )
    starts = links.offsets[:-1][np.diff(links.offsets) > 0]  # of the links of each line that has some
    sizes = np.maximum.reduceat(links.pairs, starts).mean(axis=0) + 1  # of sentences, source and target
    is_enough = len(starts) >= FEWEST_LINES and len(links.pairs) * (1 / sizes).sum() >= _EXPECTED_ZEROS
    if shapes is None and is_enough:
        return 1, (
            f"{name}: index 0 occurs in none of {len(starts)} lines with links: read as counting from 1 "
            f"(if it counts from 0, give {option} 0, in Python base=0)"
        )
    return 0, f"{name}: index 0 never occurs; if the file counts from 1, give {option} 1, in Python base=1"


def _naacl_gold(path: PathLike, lines: Sequence[str], base: str) -> GoldFile:
    """Sentences always count from 1. With base 1, position 0 is NULL, and a line with it is not a link."""
    rows: list[tuple[int, int, int]] = []
    marks: list[bool] = []
    warning = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _NAACL.match(line.strip())
        if match is None or int(match[1]) < 1:
            remedy = "lines look like 1 3 4 S: sentence, source and target position, S or P"
            raise InputError(path, f"{line.strip()[:40]!r} is not a link", line=number, remedy=remedy)
        rows.append((int(match[1]) - 1, int(match[2]), int(match[3])))
        marks.append(match[4] != "P")
        if base == "auto" and not any(rows[-1][1:]):  # NULL has no link with NULL
            base = "0"
            warning = (
                f"{shown_path(path)}: line {number} links position 0 with position 0: read as counting from 0"
            )
    first = 1 if base == "auto" else int(base)
    table = np.array(rows, np.int64).reshape(-1, 3) - [0, first, first]
    links = (table[:, 1:] >= 0).all(axis=1)  # not those with NULL
    sure = links & np.array(marks, bool)
    count = int(table[:, 0].max(initial=-1)) + 1
    gold = GoldLinks(_links_of_rows(table[sure], count), _links_of_rows(table[links], count))
    return GoldFile(gold, first, warning)


def _links_of_rows(rows: np.ndarray, count: int) -> Links:
    """Links of ``count`` pairs from rows (sentence, s, t) in any order, with repetitions."""
    rows = np.unique(rows, axis=0)
    offsets = np.searchsorted(rows[:, 0], np.arange(count + 1)).astype(np.int64)
    return Links(rows[:, 1:].astype(np.int32), offsets)


CHUNK = 1 << 24  # bytes read at a time
_LONGEST = 9  # digits of a number
_DASH, _NEWLINE = ord("-"), ord("\n")


def read_plain_links(data: bytes) -> Links | None:
    """The links of lines ``s-t s-t``, or None if anything else is in them, an error or not.

    Args:
        data: valid UTF-8, one line per sentence pair; without a line end at its end if the last one lacks it.
    """
    parts, begin = [], 0
    while begin < len(data):
        end = data.rfind(b"\n", begin, begin + CHUNK) + 1
        end = end if end > begin else data.find(b"\n", begin) + 1 or len(data)
        part = _links_of(np.frombuffer(data, np.uint8, end - begin, begin))
        if part is None:
            return None
        parts.append(part)
        begin = end
    return Links.concatenated(parts)


def _links_of(text: np.ndarray) -> Links | None:
    digit = (text - ord("0")) < 10  # uint8 wraps around
    dashes = text == _DASH
    blank = (text == ord(" ")) | (text == ord("\t")) | (text == ord("\r")) | (text == _NEWLINE)
    if not (digit | dashes | blank).all():
        return None
    edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    if len(starts) % 2 or len(starts) != 2 * int(dashes.sum()) or (ends - starts > _LONGEST).any():
        return None
    if not (np.array_equal(ends[::2] + 1, starts[1::2]) and dashes[ends[::2]].all()):
        return None
    spaced = text.tobytes().replace(b"-", b" ")
    numbers = np.fromstring(spaced, np.int64, len(starts), sep=" ").reshape(-1, 2)
    newlines = np.flatnonzero(text == _NEWLINE)
    lines = len(newlines) + int(text[-1] != _NEWLINE)
    widths = (numbers.max(axis=0, initial=0) + 1).tolist()
    if lines * widths[0] * widths[1] >= 1 << 62:
        return None
    keys = (np.searchsorted(newlines, starts[::2]) * widths[0] + numbers[:, 0]) * widths[1] + numbers[:, 1]
    return links_of_keys(keys, widths, lines)


def read_links(path: PathLike, *, base: str | int = "auto") -> Links:
    """Read the links of an alignment, sure and possible ones alike: ``s-t``, a line per sentence pair.

    Probabilities (``0-1:0.93``) are ignored. The file may be compressed.

    Args:
        path: the file.
        base: the number of the first token in it, 0 or 1; auto is 1, with a warning, where index 0 never occurs
            (:func:`alignkit.links.gold.find_base`). The links are zero-based in any case.

    Raises:
        InputError: it cannot be read, or an item is not a link, with its line.
        AlignkitError: an unknown base.
    """
    check_known(str(base), GOLD_BASES, "base")
    data = read_utf8(path)
    links = read_plain_links(data)
    links = links if links is not None else parse_links(path, split_lines(data)).possible
    if base == "auto":
        base, warning = find_base(path, links, option="--hyp-base")
        if base == 1:  # in few lines, no index 0 is nothing strange
            log.warning(warning)
    return _shifted(path, links, "--hyp-base") if str(base) == "1" else links


def read_links_of(path: PathLike, shapes: np.ndarray, *, whole: bool = True) -> tuple[Links, np.ndarray | None]:
    """The links of a text, and their probabilities, if they have some (:func:`parse_probabilities`).

    A warning is logged if they count from 1, which an index past the end of its sentence shows.

    Args:
        path: a line of links for each sentence pair.
        shapes: int32 (M, 2), T and L of each pair.
        whole: there must be a line for each pair, not only for the first ones.

    Raises:
        InputError: it cannot be read, an item is not a link or has no probability, there is not a line for each
            pair, or a link is outside its pair.
    """
    data = read_utf8(path)
    links, probabilities = read_plain_links(data), None
    if links is None:
        lines = split_lines(data)
        links, probabilities = parse_links(path, lines).possible, parse_probabilities(path, lines)
    base, warning = find_base(path, links, shapes)
    links = _shifted(path, links, "") if base else links
    check_range(path, links, shapes, whole=whole)
    if base:  # an error would be the only line
        log.warning(warning)
    return links, probabilities


def note_first(path: PathLike, links: Links, shapes: np.ndarray) -> None:
    """Log a note if links are only those of the first pairs of a text."""
    if len(links) < len(shapes):
        lines, pairs = counted(len(links), "line"), f"{len(shapes):,}"
        log.info("%s has %s, the text %s pairs: the links are those of the first", shown_path(path), lines, pairs)


def read_gold(
    path: PathLike, *, file_format: str = "auto", base: str | int = "auto", shapes: np.ndarray | None = None
) -> GoldLinks:
    """Read gold links, sure and possible.

    Args:
        path: a file, which may be compressed.
        file_format: ``pharaoh``, a line ``s-t spt`` per sentence pair; ``naacl``, a line per link; auto decides by
            the first line.
        base: the number of the first token, 0 or 1; auto is 1, with a warning, where index 0 never occurs
            (:func:`alignkit.links.gold.find_base`).
        shapes: int (at least M, 2), T and L of the sentence pairs, if the text is known.

    Raises:
        InputError: it cannot be read, a line is not one of links, or a link is outside its pair.
        AlignkitError: unknown format or base.
    """
    known = parse_gold(path, read_lines(path), file_format=file_format, base=base, shapes=shapes)
    if shapes is not None:
        check_range(path, known.gold.possible, shapes)
    if known.warning:  # an error would be the only line
        log.warning(known.warning)
    return known.gold


class Sample(NamedTuple):
    """Sentence pairs, and gold links of the first of them."""

    bitext: Bitext
    gold: GoldLinks


def sample() -> Sample:
    """The German-English sample that comes with alignkit: 1,040 sentence pairs, the first 100 with gold links.

    >>> bitext, gold = sample()
    >>> len(bitext), len(gold)
    (1040, 100)
    """
    from alignkit_data import path

    return Sample(read_bitext(path("sample.de"), path("sample.en")), read_gold(path("test.gold"), base=0))
