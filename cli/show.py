"""``alignkit show``, ``omissions`` and ``gold``: sentence pairs to look at."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from alignkit.errors import AlignkitError, abbreviated, counted
from alignkit.lab.report.tables import percent
from alignkit.pipeline.settings import AlignSettings, ReadSettings
from alignkit.support.settings import LEAST_GAP
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, SHARE

if TYPE_CHECKING:
    from alignkit.links.coverage import Gap
    from alignkit.links.links import AlignedPair
    from alignkit.text.bitext import Bitext

SHOWN = 3  #: pairs that are shown if there is no choice of them
CORRECTED = 50  #: pairs in a page: what two hours of work are enough for
SHORT = range(4, 10)  #: words of a side of these
FAINTEST = 1e-3  #: a link is one however improbable it is
_COLOUR = re.compile(r"\x1b\[\d*m")
_JOINERS = "\u200c\u200d"  # within words of some scripts
_LEFT_TO_RIGHT = "\u200e"  # keeps the order of a line in terminals that write Hebrew or Arabic leftwards


class Marks(NamedTuple):
    """The characters of a picture, each two columns wide: squares, in the terminals' usual fonts.

    ``shades`` are those of links, the most probable last; ``corner`` and ``line`` lead from a word to its column.
    """

    nothing: str
    shades: tuple[str, ...]
    corner: str
    line: str


BLOCKS = Marks("· ", ("░░", "▒▒", "▓▓", "██"), "╭ ", "│ ")
PLAIN = Marks(". ", ("--", "++", "xx", "##"), ", ", "| ")


class PairChoice(click.ParamType):
    """How many pairs, as 5, or the first and last line of them, as 10-12; (0, N) or (A, B)."""

    name = "n|a-b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})", str(value))
        if not match or not int(match[1] or 1) or int(match[1] or 1) > int(match[2]):
            self.fail(f"{abbreviated(str(value))} is neither a number of pairs nor lines as 10-12.", param, ctx)
        return int(match[1] or 0), int(match[2])


@shared.command("show", "alignkit show corpus.de corpus.en links --pairs 10-12")
@shared.linked_text_arguments()
@click.option("--pairs", type=PairChoice(), default=str(SHOWN))
@click.option("--words", is_flag=True)
def show_command(**options: Any) -> None:
    """Draw sentence pairs in the terminal, target by source words.

    A link is a filled square; the less probable it is, the fainter. Grids are in colour on a terminal that has it,
    unless NO_COLOR is set, and in ASCII where there are no other characters.

    Args:
        LINKS: The links of the text, or of its first lines, with or without probabilities. [default: the text is
            aligned]
        --pairs: Which sentence pairs: the first N short ones, or lines A to B.
        --words: Print the linked words of each pair on one line.
    """
    source, target, links = shared.choose_linked_text(options)
    reading = shared.with_given(ReadSettings(), options)
    from alignkit.pipeline.align import align
    from alignkit.text.pairs import read_text

    with shared.ProgressBar("aligning", options["quiet"]) as bar:
        how = shared.how_to_link(options, links, bar)
        if links is None:
            aligned = align(source, target, settings=AlignSettings(reading), **how)
            chosen = chosen_pairs(aligned.bitext.shapes.tolist(), options["pairs"])
            pairs = [aligned[m] for m in chosen]
        else:
            bitext = read_text(source, target, **vars(reading))
            chosen, pairs = linked_pairs(bitext, links, options["pairs"])
    if options["words"]:
        joint = "\u2013" if marks_for(encoding()) is BLOCKS else "-"
        draw(printable(" ".join(joint.join(words) for words in pair.words)) for pair in pairs)
        return
    for m, pair in zip(chosen, pairs, strict=True):
        matrix = [[0.0] * len(pair.source) for _ in pair.target]
        for s, t, probability in pair.links:
            matrix[t][s] = max(probability, FAINTEST)
        draw([f"pair {m + 1}", *picture(matrix, pair.source, pair.target), ""])


@shared.command("omissions", "alignkit omissions corpus.de corpus.en")
@shared.text_arguments
@shared.tokenize_option
@shared.linking_options
@click.option("--least", type=SHARE, default=LEAST_GAP)
@shared.output_option
@shared.json_option
@shared.work_options
def omissions_command(least: float, output: str | None, as_json: bool, **options: Any) -> None:
    """Show what a translation leaves out, and what it adds.

    Prints each pair that has words without counterpart: its line, the share of its letters (those of scripts
    without case count twice) that is expected to be in such words, and both sides, with [-omissions-] in the
    source and {+additions+} in the target; in colour on a terminal that has it. Articles and other short words are
    not shown if they are alone.

    Args:
        --least: The least probability of each word that it has no counterpart.
        --json: Print a JSON object for each pair, with the probability of every word.
    """
    from alignkit.links.formats import json_line
    from alignkit.pipeline.align import align

    source, target = shared.choose_text(options)
    settings = AlignSettings(shared.with_given(ReadSettings(), options))
    with shared.ProgressBar("aligning", options["quiet"]) as bar:
        aligned = align(source, target, settings=settings, **shared.how_to_link(options, None, bar))
    coverages = map(aligned.coverage, range(len(aligned)))
    if as_json:
        records = ({"line": m + 1, **each.as_record(least)} for m, each in enumerate(coverages))
        shared.write_output((json_line(each).encode() for each in records), output)
        return
    colour = output is None and has_colour()
    lines, shown = [], 0
    for m, each in enumerate(coverages):
        gaps = each.omissions(least), each.additions(least)
        if any(gaps):
            shown += 1
            share = f"line {m + 1}  {percent(each.share)} %"
            lines += [share, marked(each.source, gaps[0], "[-", "-]", 31 if colour else None)]
            lines += [marked(each.target, gaps[1], "{+", "+}", 32 if colour else None), ""]
    if output is None:
        draw(lines)
    else:
        shared.write_output("".join(f"{line}\n" for line in lines).encode(), output)
    shared.note(f"{shown:,} of {counted(len(aligned), 'pair')} with omissions or additions", options["quiet"])


@shared.command("gold", "alignkit gold corpus.de corpus.en links -o gold.html")
@shared.linked_text_arguments()
@click.option("--pairs", type=COUNT, default=CORRECTED)
@shared.output_option
def gold_command(**options: Any) -> None:
    """Draw sentence pairs at random, and write a page on which to correct their links.

    The page is one HTML file. Its button saves gold links for `alignkit align SRC TGT --gold FILE`: a line for
    each pair of the text, blank for pairs that were not corrected or have no link. Pairs have 4 to 40 words a
    side.

    Args:
        LINKS: The links of the text, or of its first lines, as a draft. [default: the text is aligned]
        --pairs: The number of sentence pairs.
    """
    source, target, links = shared.choose_linked_text(options)
    reading = shared.with_given(ReadSettings(), options)
    from alignkit.links.gold import note_first, read_links_of
    from alignkit.pipeline.align import align
    from alignkit.text.pairs import read_text
    from alignkit.uses.annotate import annotation_page, pairs_to_annotate

    with shared.ProgressBar("aligning", options["quiet"]) as bar:
        how = shared.how_to_link(options, links, bar)
        if links is None:
            aligned = align(source, target, settings=AlignSettings(reading), **how)
            bitext, draft = aligned.bitext, aligned.links
        else:
            bitext = read_text(source, target, **vars(reading))
            draft, _ = read_links_of(links, bitext.shapes, whole=False)
            note_first(links, draft, bitext.shapes)
            bitext = bitext.block(0, len(draft))
    chosen = pairs_to_annotate(bitext, options["pairs"])
    shared.write_output(annotation_page(bitext, draft, chosen), options["output"])
    links_of_page = sum(len(draft[int(m)]) for m in chosen)
    shared.note(f"{counted(len(chosen), 'pair')}, {counted(links_of_page, 'link')}", options["quiet"])


def marked(words: Sequence[str], gaps: Sequence[Gap], start: str, end: str, colour: int | None) -> str:
    """The words with a mark before and after each gap; or, with the number of a colour, in this colour."""
    shown = [printable(word) for word in words]
    if colour is not None:
        start, end = f"\x1b[{colour}m", "\x1b[0m"
    for gap in gaps:
        shown[gap.start] = start + shown[gap.start]
        shown[gap.end - 1] += end
    return " ".join(shown)


def linked_pairs(bitext: Bitext, path: str, choice: tuple[int, int]) -> tuple[list[int], list[AlignedPair]]:
    """The numbers of the chosen pairs, and the pairs with the links of a file, whose probability is 1 or given."""
    import numpy as np

    from alignkit.links.gold import note_first, read_links_of
    from alignkit.links.links import AlignedPair, Link

    links, known = read_links_of(path, bitext.shapes, whole=False)
    values = np.ones(len(links.pairs)) if known is None else np.nan_to_num(known, nan=1.0)
    chosen, pairs = chosen_pairs(bitext.shapes[: len(links)].tolist(), choice), []
    note_first(path, links, bitext.shapes)
    for m in chosen:
        probabilities = values[links.offsets[m] : links.offsets[m + 1]].tolist()
        found = [Link(s, t, p) for (s, t), p in zip(links[m].tolist(), probabilities, strict=True)]
        pairs.append(AlignedPair(bitext.source.words(m), bitext.target.words(m), found))
    return chosen, pairs


def chosen_pairs(shapes: Sequence[Sequence[int]], choice: tuple[int, int]) -> list[int]:
    """The numbers of pairs to show, from 0.

    Args:
        shapes: T and L of each pair.
        choice: (0, N) for the first N pairs of a few words on each side, and others if there are too few of them;
            or the first and the last line.

    Raises:
        AlignkitError: there are not so many lines.
    """
    low, high = choice
    if low:
        if low > len(shapes):
            raise AlignkitError(f"there is no pair {low}, only {len(shapes)}")
        return list(range(low - 1, min(high, len(shapes))))
    filled = [m for m, shape in enumerate(shapes) if all(shape)]
    return sorted(sorted(filled, key=lambda m: not all(size in SHORT for size in shapes[m]))[:high])


def encoding() -> str:
    """The encoding of standard output."""
    return sys.stdout.encoding or "ascii"


def has_colour() -> bool:
    """Whether standard output shows colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def picture(matrix: Iterable[Iterable[float]], source: Sequence[str], target: Sequence[str]) -> list[str]:
    """The grid of a pair in what standard output can show."""
    return grid(matrix, source, target, marks_for(encoding()), colour=has_colour())


def draw(lines: Iterable[str]) -> None:
    """Print lines as far as standard output has the characters."""
    shared.write_output("".join(f"{line}\n" for line in lines).encode(encoding(), "replace"), None)


def grid(
    matrix: Iterable[Iterable[float]],
    source: Sequence[str],
    target: Sequence[str],
    marks: Marks = BLOCKS,
    *,
    colour: bool = False,
) -> list[str]:
    """The lines of a picture: each source word above its column, each target word at the end of its row.

    A word is the last of its line, so that no script and no width of characters can move a column.

    Args:
        matrix: (T, L), from 0, no link, to 1.
        source, target: the L and T words.
        marks: to draw with.
        colour: whether the terminal shows colours.
    """
    lines = [marks.line * s + marks.corner + printable(word) for s, word in enumerate(source)]
    most = len(marks.shades)
    for row, word in zip(matrix, target, strict=True):
        cells = []
        for value in map(float, row):
            cell = marks.shades[min(max(round(value * most), 1), most) - 1] if value > 0 else marks.nothing
            cells.append(f"\x1b[{32 if value > 0 else 2}m{cell}\x1b[0m" if colour else cell)
        lines.append(f"{''.join(cells)} {printable(word)}")
    for n, line in enumerate(lines):
        if any(unicodedata.bidirectional(each) in ("R", "AL") for each in line):
            lines[n] = _LEFT_TO_RIGHT + line
    return lines


def marks_for(encoding: str) -> Marks:
    """The marks that a terminal of this encoding can show."""
    try:
        "".join((*BLOCKS.shades, BLOCKS.nothing, BLOCKS.corner, BLOCKS.line)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return BLOCKS


def printable(text: str) -> str:
    """The text without what would steer a terminal."""
    return "".join(each if each.isprintable() or each in _JOINERS else "\ufffd" for each in text)


def width(line: str) -> int:
    """The number of columns that a line takes in a terminal."""
    widths = (
        0 if unicodedata.category(each) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in _COLOUR.sub("", line)
    )
    return sum(widths)


def beside(left: Sequence[str], right: Sequence[str], gap: int = 4) -> list[str]:
    """The lines of two pictures next to each other."""
    edge = max(map(width, left)) + gap
    return [a + " " * (edge - width(a)) + b for a, b in zip_longest(left, right, fillvalue="")]
