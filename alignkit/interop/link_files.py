"""Links of other systems as scores: Pharaoh lines, with or without the probability of each link.

awesome-align writes links to one file and, with ``--output_prob_file``, their probabilities to another;
simalign's script numbers its lines; alignkit writes ``s-t:p``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import numpy as np

from alignkit.errors import InputError
from alignkit.links.links import Links, check_range, parse_links, parse_probabilities, without_line_numbers
from alignkit.scores import Scores, flat_offsets
from alignkit.types import PathLike

_LINK = re.compile(r"\s*\d+[-p?]\d+(:[0-9.e+-]+)?(\s|\Z)", re.ASCII)
_PROBABILITY = re.compile(r"[0-9.e+-]+\Z", re.ASCII)
_NUMBER = re.compile(r"\d+\t", re.ASCII)


def is_links(first: str) -> bool:
    """Whether the first line that is not blank is one of links, or there is none."""
    return not first or _LINK.match(_NUMBER.sub("", first, count=1) or "0-0") is not None


def split_probabilities(path: PathLike) -> tuple[PathLike, PathLike | None]:
    """The two files of ``LINKS:PROBABILITIES``; a path that is no such pair of existing files, and None."""
    links, colon, probabilities = os.fspath(path).rpartition(":")
    if colon and not os.path.exists(path) and os.path.exists(links) and os.path.exists(probabilities):
        return links, probabilities
    return path, None


def scores_from_links(
    path: PathLike, links: Links, shapes: np.ndarray | None, probabilities: np.ndarray | None = None
) -> Scores:
    """Scores that are 1, or the probability of the link, where there is a link and 0 elsewhere.

    Args:
        path: the file of the links, for messages.
        links: of M pairs.
        shapes: int32 (M, 2), T and L.
        probabilities: float (K,), of each link.

    Raises:
        InputError: no shapes, other numbers of pairs, or a link outside its pair, with the line.
    """
    if shapes is None:
        problem = "has links, which do not determine the lengths of the sentences"
        raise InputError(path, problem, remedy="give the text as well")
    if len(links) != len(shapes):
        raise InputError(path, f"has links for {len(links)} sentence pairs, the text has {len(shapes)}")
    check_range(path, links, shapes)
    shapes = np.ascontiguousarray(shapes, np.int32)
    offsets = flat_offsets(shapes)
    values = np.zeros(int(offsets[-1]), np.float32)
    m = links.sentences
    places = offsets[m] + links.pairs[:, 1].astype(np.int64) * shapes[m, 1] + links.pairs[:, 0]
    values[places] = 1 if probabilities is None else probabilities
    return Scores(values, offsets, shapes)


def read_link_lines(
    path: PathLike,
    lines: Sequence[str],
    shapes: np.ndarray | None,
    probability_file: tuple[PathLike, Sequence[str]] | None = None,
) -> Scores:
    """Scores of lines of links; a link without a probability counts as 1, of a repeated link the first counts.

    Args:
        path, lines: the file of the links ``s-t`` or ``s-t:p``.
        shapes: as of :func:`scores_from_links`.
        probability_file: another file, and its lines: the probability of each link of the same line.

    Raises:
        InputError: as of :func:`scores_from_links`; an item is no link or no probability, or the two files do not
            fit each other.
    """
    lines = without_line_numbers(path, lines)
    links = parse_links(path, lines).possible
    if probability_file is not None:
        lines = _joined(lines, *probability_file)
        path = probability_file[0]
    values = parse_probabilities(path, lines)
    return scores_from_links(path, links, shapes, values if values is None else np.nan_to_num(values, nan=1.0))


def _joined(lines: Sequence[str], path: PathLike, rows: Sequence[str]) -> list[str]:
    """Lines of ``s-t:p`` of lines of links and lines of probabilities."""
    if len(rows) != len(lines):
        raise InputError(path, f"has probabilities of {len(rows)} lines, the links have {len(lines)}")
    found = []
    for number, (line, row) in enumerate(zip(lines, rows, strict=True), 1):
        items, values = line.split(), row.split()
        if len(items) != len(values):
            raise InputError(path, f"{len(values)} probabilities for {len(items)} links", line=number)
        for value in values:
            if _PROBABILITY.match(value) is None:
                raise InputError(path, f"{value[:40]!r} is not a probability", line=number)
        found.append(" ".join(f"{item}:{value}" for item, value in zip(items, values, strict=True)))
    return found
