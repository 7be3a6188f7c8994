"""Evaluate files of links against files of gold links."""

from __future__ import annotations

import logging
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.errors import InputError, counted, of_file, shown_path
from alignkit.lab.interop.heads import split_choice
from alignkit.lab.interop.other_systems import read_heads
from alignkit.links.from_scores import best_links
from alignkit.links.gold import GoldFile, is_naacl, parse_gold
from alignkit.links.links import Links, check_range, parse_probabilities
from alignkit.metrics.aer import LinkCounts, WordFacts, count_links, error_table
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)


def evaluate_files(
    gold: PathLike,
    hypothesis: PathLike,
    *,
    gold_format: str = "auto",
    gold_base: str | int = "auto",
    hypothesis_base: str | int = "auto",
    text: tuple[PathLike, PathLike] | None = None,
    by_class: bool = False,
) -> tuple[LinkCounts, pd.DataFrame | None]:
    """Count the links of a file, and the gold links among them, of each sentence pair.

    Only as many lines of the hypothesis are read as there are gold sentence pairs, so that test pairs may stand
    before a training text; a note says so. A warning is logged where token indices seem to be counted from 1.

    Args:
        gold: sure and possible links of M sentence pairs.
        hypothesis: links of at least as many; or ``FILE:LAYER.HEAD``, a head of an attention file, each of whose
            target words is linked to the source word that it attends to most.
        gold_format, gold_base: as of :func:`alignkit.links.gold.parse_gold`.
        hypothesis_base: the same of the hypothesis; auto is also 1 where neither file has an index 0 and the gold
            links are found to count from 1.
        text: the two sides of the text, which may go on after the gold links; a link outside its sentence pair is
            then an error.
        by_class: whether to make the table of :func:`alignkit.metrics.aer.error_table`, too.

    Returns:
        the counts; and the table, or None.

    Raises:
        InputError: a file cannot be read, a line is not a list of links, a link is outside its sentence pair, or
            the hypothesis has fewer sentence pairs than the gold links.
    """
    bitext = read_bitext(*text) if text is not None else None
    shapes = bitext.shapes if bitext is not None else None
    known = parse_gold(gold, read_lines(gold), file_format=gold_format, base=gold_base, shapes=shapes)
    if not len(known.gold.possible.pairs):
        raise InputError(gold, "has no links, so there is nothing to score against")
    links, probabilities, warning, pairs = _read_hypothesis(hypothesis, known, hypothesis_base, shapes)
    count = len(known.gold)
    if len(links) < count:
        problem = f"has links for {counted(len(links), 'pair')}, {shown_path(gold)} for {count:,}"
        raise InputError(hypothesis, problem)
    if shapes is not None:
        check_range(gold, known.gold.possible, shapes)
        check_range(hypothesis, links, shapes)
    names = shown_path(gold), shown_path(hypothesis)
    if known.warning and known.base and warning:  # an error would be the only line
        remedy = "if they count from 0, give --gold-base 0 --hyp-base 0"
        warning = f"{names[0]} and {names[1]}: index 0 never occurs: both are read as counting from 1 ({remedy})"
    elif known.warning:
        log.warning(known.warning)
    if warning:
        log.warning(warning)
    if pairs > count:
        log.info(
            "%s has %s pairs, %s %d: the first %d are compared", names[1], f"{pairs:,}", names[0], count, count
        )
    facts = WordFacts.of(bitext) if bitext is not None else None
    errors = error_table(known.gold, links, facts, probabilities) if by_class else None
    return count_links(known.gold, links), errors


def _read_hypothesis(
    path: PathLike, gold: GoldFile, base: str | int, shapes: np.ndarray | None
) -> tuple[Links, np.ndarray | None, str | None, int]:
    """The links of the sentence pairs of the gold links, their probabilities if they have any, a warning if they
    are found to count from 1, and the number of pairs of the file."""
    count = len(gold.gold)
    place, choice = split_choice(path)
    if choice is not None:
        heads = read_heads(place)
        with of_file(place):
            links = best_links(heads.word_scores(choice), null=False)
        return links.block(0, count), None, None, len(links)
    if path != "-" and zipfile.is_zipfile(path):
        remedy = f"of a file of scores name a head, as {path}:0.0"
        raise InputError(path, "is an archive, not links", remedy=remedy)
    lines = read_lines(path)
    if is_naacl(lines):
        found = parse_gold(path, lines, file_format="naacl", base=base)
        links = found.gold.possible
        # A pair without links has no line in this format.
        offsets = np.append(links.offsets, np.full(max(count - len(links), 0), len(links.pairs)))
        return Links(links.pairs, offsets).block(0, count), None, found.warning, len(links)
    given: dict[str, Any] = {"file_format": "pharaoh", "shapes": shapes, "option": "--hyp-base"}
    found = parse_gold(path, lines[:count], base=base, **given)
    # In few lines, no index 0 is nothing strange, unless the gold links have it.
    warning = found.warning if found.base or (gold.gold.possible.pairs == 0).any() else None
    if base == "auto" and shapes is None and gold.base and gold.warning and found.warning and not found.base:
        found, warning = parse_gold(path, lines[:count], base=1, **given), found.warning  # as the gold links do
    return found.gold.possible, parse_probabilities(path, lines[:count]), warning, len(lines)
