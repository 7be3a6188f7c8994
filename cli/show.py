"""``alignkit show``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import AlignkitError, abbreviated
from alignkit.links.terminal import BLOCKS, grid, marks_for, printable
from alignkit.pipeline.settings import AlignSettings, ReadSettings
from alignkit_cli.options import (
    alignkit_command,
    argument,
    choose_text,
    reading_options,
    sample_option,
    side_arguments,
    tokenize_option,
    with_given,
    work_options,
    write_output,
)
from alignkit_cli.parameter_types import TEXT, InputPath
from alignkit_cli.progress import ProgressBar

if TYPE_CHECKING:
    from alignkit.links.links import AlignedPair
    from alignkit.text.bitext import Bitext

SHOWN = 3  #: pairs that are shown if there is no choice of them
SHORT = range(4, 10)  #: words of a side of these
FAINTEST = 1e-3  #: a link is one however improbable it is


class PairChoice(click.ParamType):
    """How many pairs, as 5, or the first and last line of them, as 10-12; (0, N) or (A, B)."""

    name = "n|a-b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})", str(value))
        if not match or not int(match[1] or 1) or int(match[1] or 1) > int(match[2]):
            self.fail(f"{abbreviated(str(value))} is neither a number of pairs nor lines as 10-12.", param, ctx)
        return int(match[1] or 0), int(match[2])


@alignkit_command("show", "alignkit show corpus.de corpus.en links --pairs 10-12")
@side_arguments()
@argument(
    "links",
    metavar="[LINKS]",
    required=False,
    type=TEXT,
    help="The links of the text, or of its first lines, with or without probabilities.  [default: the text is "
    "aligned]",
)
@click.option(
    "--pairs",
    type=PairChoice(),
    default=str(SHOWN),
    show_default=True,
    help="Which sentence pairs: the first N short ones, or lines A to B.",
)
@click.option("--words", is_flag=True, help="Print the linked words of each pair on one line.")
@click.option(
    "--model", type=InputPath(folder=True), help="Align with a saved model, or a run of `alignkit train`."
)
@sample_option
@reading_options
@tokenize_option
@work_options
def command(source: str | None, target: str | None, links: str | None, **options: Any) -> None:
    """Draw sentence pairs in the terminal, target by source words.

    A link is a filled square; the less probable it is, the fainter. Grids are in colour on a terminal that has it,
    unless NO_COLOR is set, and in ASCII where there are no other characters.
    """
    if links is not None and options["model"] is not None:
        raise click.UsageError("Give LINKS or --model, not both.")
    if links is None and target is not None and are_links(target):
        target, links = None, target
    text = choose_text(source, target, options["sample"])
    reading = with_given(ReadSettings(), options)
    from alignkit.pipeline.align import align
    from alignkit.text.pairs import read_text

    with ProgressBar("aligning", options["quiet"]) as bar:
        if links is None:
            how = {"model": options["model"], "threads": options["threads"], "progress": bar}
            aligned = align(*text, settings=AlignSettings(reading), **how)
            chosen = chosen_pairs(aligned.bitext.shapes.tolist(), options["pairs"])
            pairs = [aligned[m] for m in chosen]
        else:
            bitext = read_text(*text, **vars(reading))
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


def are_links(path: str) -> bool:
    """True if a file has nothing but links: given as the second of two, it is not the target text."""
    from alignkit.text.reading import read_lines

    lines = read_lines(path) if path != "-" else []
    return any(map(str.strip, lines)) and all(re.fullmatch(r"(\s*\d+[-p?]\d+(:\S+)?)*\s*", line) for line in lines)


def linked_pairs(bitext: Bitext, path: str, choice: tuple[int, int]) -> tuple[list[int], list[AlignedPair]]:
    """The numbers of the chosen pairs, and the pairs with the links of a file, whose probability is 1 or given."""
    import numpy as np

    from alignkit.links.links import AlignedPair, Link, check_range, parse_links, parse_probabilities
    from alignkit.text.reading import read_lines

    lines = read_lines(path)
    links, known = parse_links(path, lines).possible, parse_probabilities(path, lines)
    check_range(path, links, bitext.shapes)
    values = np.ones(len(links.pairs)) if known is None else np.nan_to_num(known, nan=1.0)
    chosen, pairs = chosen_pairs(bitext.shapes[: len(links)].tolist(), choice), []
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


def picture(matrix: Iterable[Iterable[float]], source: Sequence[str], target: Sequence[str]) -> list[str]:
    """The grid of a pair in what standard output can show."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return grid(matrix, source, target, marks_for(encoding()), colour=colour)


def draw(lines: Iterable[str]) -> None:
    """Print lines as far as standard output has the characters."""
    write_output("".join(f"{line}\n" for line in lines).encode(encoding(), "replace"), None)
