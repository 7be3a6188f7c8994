"""What fast_align's program atools does: two alignments combined or compared, one converted, inverted or drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.links.gold import read_plain_links
from alignkit.links.heuristics import Heuristic, Steps
from alignkit.links.links import Links, parse_links
from alignkit.links.symmetrization import symmetrize
from alignkit.text.pairs import line_blocks
from alignkit.text.reading import file_parts, split_lines, valid_text
from alignkit.types import PathLike

#: command -> how two alignments are combined, whose rows are source words here.
COMBINING = {
    "intersect": Steps(),
    "union": Steps(from_union=True),
    "grow-diag": Steps(neighbours=8, in_order=True),
    "grow-diag-final": Steps(neighbours=8, unlinked=1, in_order=True),
    "grow-diag-final-and": Steps(neighbours=8, unlinked=2, in_order=True),
}
BLOCK = 100_000  # lines that are held in memory
MOST_CELLS = 1 << 24  # of a picture


def atools(command: str, first: PathLike, second: PathLike | None = None) -> Iterator[bytes]:
    """The output of ``atools -c COMMAND -i FIRST -j SECOND``, in parts.

    Args:
        command: ``convert`` (sort links and drop repeated ones), ``display`` (draw them), ``invert``; or with
            ``second`` ``fmeasure`` (precision, recall and F1 of the first, the second being right) or one of
            :data:`COMBINING`.
        first, second: files of links, ``s-t s-t``; the second, if any, has a line for each of the first's.

    Raises:
        InputError: an item is not a link, with its line.
        AlignkitError: there is a file too many or too few; they differ in the number of their lines; or there is
            nothing to measure.
    """
    of_one = {"convert", "display", "invert"}
    if (second is None) != (command in of_one):
        raise AlignkitError(f"{command} takes {'one file' if command in of_one else 'two files'} of links")
    sizes = np.zeros(3, np.int64)
    for blocks in _blocks([first] if second is None else [first, second]):
        links = blocks[0]
        if command == "fmeasure":
            both = symmetrize(blocks[0], blocks[1], "intersection")
            sizes += [len(part.pairs) for part in (both, *blocks)]
        elif command == "display":
            for m, pairs in enumerate(links):
                yield picture(pairs) + b"\n" + links.block(m, m + 1).to_pharaoh()
        elif command == "invert":
            yield links.reversed.to_pharaoh()
        elif command == "convert":
            yield links.to_pharaoh()
        else:
            a, b = (part.reversed for part in blocks)
            yield symmetrize(a, b, Heuristic(COMBINING[command])).reversed.to_pharaoh()
    if command == "fmeasure":
        right, predicted, wanted = sizes.tolist()
        if not right:
            raise AlignkitError(f"{os.fspath(first)} has no link of {second}: there is no F-measure")
        shares = {"P": right / predicted, "R": right / wanted, "F": 2 * right / (predicted + wanted)}
        yield "".join(f"{name}: {share:g}\n" for name, share in shares.items()).encode()


def _blocks(paths: Sequence[PathLike]) -> Iterator[list[Links]]:
    """The links of each file, a block of lines at a time."""
    bounds = range(0, 1 << 62, BLOCK)
    texts = [line_blocks(file_parts(path), bounds) for path in paths]
    for before, parts in zip(bounds, zip_longest(*texts, fillvalue=b""), strict=False):
        found = [_parsed(path, data, before) for path, data in zip(paths, parts, strict=True)]
        shortest = min(range(len(found)), key=lambda n: len(found[n]))
        if len(found[shortest]) < max(map(len, found)):
            lines = before + len(found[shortest])
            raise InputError(paths[shortest], f"ends after {lines} lines, the other file goes on")
        yield found


def _parsed(path: PathLike, data: bytes, before: int) -> Links:
    """The links of lines that stand after ``before`` others, perhaps after the sentences: ``... ||| s-t``."""
    links = read_plain_links(data)
    if links is not None:
        return links
    lines = split_lines(valid_text(path, data, first_line=before + 1))
    try:
        return parse_links(path, [line.rpartition(" ||| ")[2] for line in lines]).possible
    except InputError as error:
        raise InputError(path, error.problem, line=before + (error.line or 1), remedy=error.remedy) from error


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
