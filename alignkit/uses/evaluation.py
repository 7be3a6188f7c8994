"""Evaluate files of links against files of gold links."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import InputError, counted
from alignkit.lab.interop.heads import split_choice
from alignkit.lab.interop.other_systems import read_heads
from alignkit.links.from_scores import best_links
from alignkit.links.gold import FEWEST_LINES, is_naacl, parse_gold
from alignkit.links.links import GoldLinks, Links, check_range, parse_probabilities
from alignkit.metrics.aer import LinkCounts, count_links
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class EvaluatedLinks:
    """A hypothesis beside its gold links.

    Attributes:
        gold: of M sentence pairs.
        links: of the same.
        bitext: the text; the M pairs come first, and the rest was learned from as well; None if it is not known.
        probabilities: float64 (K,), of the K links, NaN where unknown; None if no link has one.
    """

    gold: GoldLinks
    links: Links
    bitext: Bitext | None = None
    probabilities: np.ndarray | None = None

    def counts(self) -> LinkCounts:
        """The number of links, and of gold links among them, of each sentence pair."""
        return count_links(self.gold, self.links)

    def errors(self) -> pd.DataFrame:
        """The table of :func:`alignkit.metrics.aer.error_table`."""
        from alignkit.metrics.aer import WordFacts, error_table

        facts = WordFacts.of(self.bitext) if self.bitext is not None else None
        return error_table(self.gold, self.links, facts, self.probabilities)


def read_evaluated(
    gold: PathLike,
    hypothesis: PathLike,
    *,
    gold_format: str = "auto",
    gold_base: str = "auto",
    text: tuple[PathLike, PathLike] | None = None,
) -> EvaluatedLinks:
    """Read a file of links and a file of gold links, and their text if it is given.

    Only as many lines of the hypothesis are read as there are gold sentence pairs, so that test pairs may stand
    before a training text. A warning is logged where token indices seem to be counted from 1.

    Args:
        gold: sure and possible links of M sentence pairs.
        hypothesis: links of at least as many; or ``FILE:LAYER.HEAD``, a head of an attention file, each of whose
            target words is linked to the source word that it attends to most.
        gold_format, gold_base: as of :func:`alignkit.links.gold.parse_gold`.
        text: the two sides of the text; a link outside its sentence pair is then an error.

    Raises:
        InputError: a file cannot be read, a line is not a list of links, a link is outside its sentence pair, or
            the hypothesis has fewer sentence pairs than the gold links.
    """
    bitext = read_bitext(*text) if text is not None else None
    shapes = bitext.shapes if bitext is not None else None
    known = parse_gold(gold, read_lines(gold), file_format=gold_format, base=gold_base, shapes=shapes)
    if not len(known.gold.possible.pairs):
        raise InputError(gold, "has no links, so there is nothing to score against")
    links, probabilities = _read_hypothesis(hypothesis, len(known.gold), checked=shapes is not None)
    if len(links) < len(known.gold):
        problem = f"has links for {counted(len(links), 'pair')}, {os.fspath(gold)} for {len(known.gold):,}"
        raise InputError(hypothesis, problem)
    if shapes is not None:
        check_range(gold, known.gold.possible, shapes)
        check_range(hypothesis, links, shapes)
    if known.warning:  # an error would be the only line
        log.warning(known.warning)
    return EvaluatedLinks(known.gold, links, bitext, probabilities)


def _read_hypothesis(path: PathLike, count: int, checked: bool) -> tuple[Links, np.ndarray | None]:
    """The links of the first ``count`` sentence pairs, and their probabilities if they have any."""
    place, choice = split_choice(path)
    if choice is not None:
        return best_links(read_heads(place).word_scores(choice), null=False).block(0, count), None
    lines = read_lines(path)
    if is_naacl(lines):
        links = parse_gold(path, lines, file_format="naacl").gold.possible
        # A pair without links has no line in this format.
        offsets = np.append(links.offsets, np.full(max(count - len(links), 0), len(links.pairs)))
        return Links(links.pairs, offsets).block(0, count), None
    links = parse_gold(path, lines[:count], file_format="pharaoh", base="0").gold.possible
    linked = sum(len(pair) > 0 for pair in links)
    if not checked and linked >= FEWEST_LINES and not (links.pairs == 0).any():
        log.warning("%s: index 0 never occurs; links are read as counting from 0", path)
    return links, parse_probabilities(path, lines[:count])
