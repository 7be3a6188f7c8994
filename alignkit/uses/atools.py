"""What fast_align's program atools does: two alignments combined or compared, one converted, inverted or drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from alignkit.errors import AlignkitError, InputError, counted
from alignkit.links.gold import read_plain_links
from alignkit.links.heuristics import FAST_ALIGN, Heuristic
from alignkit.links.links import Links, parse_links
from alignkit.links.symmetrization import symmetrize
from alignkit.text.reading import read_utf8, split_lines
from alignkit.types import PathLike

MOST_CELLS = 1 << 24  # of a picture


def atools(command: str, first: PathLike, second: PathLike | None = None) -> Iterator[bytes]:
    """The output of ``atools -c COMMAND -i FIRST -j SECOND``, in parts.

    Args:
        command: ``convert`` (sort links and drop repeated ones), ``display`` (draw them), ``invert``; or with
            ``second`` ``fmeasure`` (precision, recall and F1 of the first, the second being right) or one of
            :data:`alignkit.links.heuristics.FAST_ALIGN`.
        first, second: files of links, ``s-t s-t``; the second, if any, has a line for each of the first's.

    Raises:
        InputError: an item is not a link, with its line.
        AlignkitError: there is a file too many or too few; they differ in the number of their lines; or there is
            nothing to measure.
    """
    of_one = {"convert", "display", "invert"}
    if (second is None) != (command in of_one):
        raise AlignkitError(f"{command} takes {'one file' if command in of_one else 'two files'} of links")
    links = _read(first)
    if second is None:
        if command == "display":
            for m, pairs in enumerate(links):
                yield picture(pairs) + b"\n" + links.block(m, m + 1).to_pharaoh()
        else:
            yield (links.reversed if command == "invert" else links).to_pharaoh()
        return
    other = _read(second)
    if len(links) != len(other):
        short, lines = min((first, len(links)), (second, len(other)), key=lambda each: each[1])
        raise InputError(short, f"ends after {counted(lines, 'line')}, the other file goes on")
    if command != "fmeasure":
        yield symmetrize(links.reversed, other.reversed, Heuristic(FAST_ALIGN[command])).reversed.to_pharaoh()
        return
    shared = symmetrize(links, other, "intersection")
    right, predicted, wanted = (len(each.pairs) for each in (shared, links, other))
    if not right:
        raise AlignkitError(f"{os.fspath(first)} has no link of {second}: there is no F-measure")
    shares = {"P": right / predicted, "R": right / wanted, "F": 2 * right / (predicted + wanted)}
    yield "".join(f"{name}: {share:g}\n" for name, share in shares.items()).encode()


def _read(path: PathLike) -> Links:
    """The links of a file, whose lines may begin with the sentences: ``... ||| s-t``."""
    data = read_utf8(path)
    links = read_plain_links(data)
    if links is None:
        links = parse_links(path, [line.rpartition(" ||| ")[2] for line in split_lines(data)]).possible
    return links


def picture(pairs: np.ndarray) -> bytes:
    """The links of a pair, int (K, 2), as atools draws them: a row for each source word, a column for each target
    word, up to the last that has a link."""
    rows, columns = (pairs.max(axis=0, initial=0) + 1).tolist()
    if rows * columns > MOST_CELLS:
        raise AlignkitError(f"a picture of {rows} by {columns} words is too large to draw")
    cells = np.full((rows, columns), b".")
    cells[tuple(pairs.T)] = b"*"
    ruler = " " + "".join(str(t % 10) for t in range(columns))
    lines = (f"{s % 10}{row.tobytes().decode()}{s % 10}" for s, row in enumerate(cells))
    return "".join(f"{line}\n" for line in (ruler, *lines, ruler)).encode()
