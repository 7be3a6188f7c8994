"""Spans of tokens projected through links; links moved to the tokens of another tokenization."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.links.gold import read_links
from alignkit.links.links import Links, check_range, links_of_keys
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.token_maps import TokenMap, first_difference, token_map
from alignkit.types import PathLike

#: A range [start, end) of tokens or characters.
Span = tuple[int, int]


@dataclass(frozen=True)
class ProjectedSpan:
    """Where a span of source tokens is in the target sentence.

    Attributes:
        start, end: the smallest range [start, end) with all target tokens that are linked to the span. A part of a
            span is projected into the range of the whole, so nested markup stays nested.
        runs: the ranges of consecutive target tokens that are linked to the span, in order. More than one: other
            tokens stand between them.
        is_consistent: true if no target token in [start, end) is linked to a source token outside of the span, as
            phrase extraction asks of its phrases (Koehn, Och and Marcu 2003). Disjoint spans that are both
            consistent do not overlap in the target.
        coverage: the share of the span's source tokens that have a link.
    """

    start: int
    end: int
    runs: tuple[Span, ...]
    is_consistent: bool
    coverage: float

    @property
    def longest_run(self) -> Span:
        """The longest of the runs, the first of equals: a guess that one wrong link far away does not widen."""
        return max(self.runs, key=lambda run: run[1] - run[0])


def project_spans(spans: Iterable[Iterable[Span]], links: Links) -> list[list[ProjectedSpan | None]]:
    """Project spans of source tokens onto the target tokens that are linked to them.

    A span without links has no projection (None). An empty span (p, p), such as a line break before token p, goes
    in front of the target tokens of the next source token that has links, or, without one, behind those of the
    last one; its range is empty as well. For spans of target tokens, give ``links.reversed``.

    Args:
        spans: of each of M sentence pairs, any number of ranges [start, end) of source tokens, which may overlap.
        links: of the M pairs.

    Raises:
        AlignkitError: a span ends before it starts, or starts below 0; or not as many lists of spans as pairs.
    """
    lists = [list(each) for each in spans]
    if len(lists) != len(links):
        raise AlignkitError(f"spans of {len(lists)} sentence pairs, links of {len(links)}")
    return [[_project(span, pairs) for span in each] for each, pairs in zip(lists, links, strict=True)]


def _project(span: Span, pairs: np.ndarray) -> ProjectedSpan | None:
    first, last = span
    if not 0 <= first <= last:
        raise AlignkitError(f"{span} is no span: it must be a range (start, end) of token numbers")
    if first == last:
        return _project_position(first, pairs)
    source, target = pairs.T
    inside = (source >= first) & (source < last)
    if not inside.any():
        return None
    found = np.unique(target[inside])
    start, end = int(found[0]), int(found[-1]) + 1
    strays = ~inside & (target >= start) & (target < end)
    cuts = np.flatnonzero(np.diff(found) > 1) + 1
    runs = tuple((int(run[0]), int(run[-1]) + 1) for run in np.split(found, cuts))
    return ProjectedSpan(start, end, runs, not strays.any(), len(np.unique(source[inside])) / (last - first))


def _project_position(place: int, pairs: np.ndarray) -> ProjectedSpan | None:
    """The projection of the empty span before source token ``place``."""
    if not len(pairs):
        return None
    source, target = pairs.T
    after = source[source >= place]
    at = target[source == after.min()].min() if len(after) else target[source == source.max()].max() + 1
    return ProjectedSpan(int(at), int(at), ((int(at), int(at)),), True, 1.0)


log = logging.getLogger(__name__)

#: Links that are made at a time, before repetitions are dropped.
_MOST_LINKS = 1 << 22


def remap_links(links: Links, old: Bitext, new: Bitext) -> Links:
    """Links between the tokens of ``new``, from those between the tokens of ``old``, another tokenization.

    Words of tokenized text, subwords, and the words between the spaces of untokenized text can stand on either
    side. Two new tokens are linked if two linked old tokens share a character with them
    (:func:`alignkit.text.token_maps.token_map`). From words to subwords, all subwords of linked words are linked
    with each other; back, the words of linked subwords. The way to subwords and back to words thus gives the same
    links, and so does every way over a finer tokenization and back.

    Args:
        links: of M pairs, between the tokens of ``old``.
        old, new: M pairs with the same characters on each side.

    Raises:
        AlignkitError: a sentence has other characters in ``new`` than in ``old``, or a link is outside its pair.
    """
    check_range("links", links, old.shapes)
    if not len(links) == len(old) == len(new):
        raise AlignkitError(f"{len(links)} lines of links, {len(old)} old and {len(new)} new sentence pairs")
    maps = token_map(old.source, new.source), token_map(old.target, new.target)
    found = first_differing(maps)
    if found is not None:
        side, m, problem = found
        raise AlignkitError(
            f"{('source', 'target')[side]} sentence {m} has other characters in the new text: {problem}"
        )
    return remap_through(links, *maps)


def remap_files(
    links: PathLike, old: tuple[PathLike, PathLike], new: tuple[PathLike, PathLike], *, skip: bool = False
) -> Links:
    """Links between the tokens of ``new``, from a file of links between the tokens of ``old``.

    Args:
        links: zero-based, a line for each of M sentence pairs; probabilities are dropped.
        old, new: source and target file of the same M pairs, tokens with spaces between them; see
            :func:`remap_links`.
        skip: go on after a sentence that has other characters in the new text than in the old one: its pair gets
            no links, and a warning with the number of such pairs is logged.

    Raises:
        InputError: a file cannot be read; links and texts have different numbers of lines; a link is outside its
            sentence pair; or, unless they are skipped, a sentence has other characters.
    """
    before, after = read_bitext(*old), read_bitext(*new)
    found = read_links(links)
    for path, count in ((links, len(found)), (new[0], len(after))):
        if count != len(before):
            raise InputError(path, f"has {count} lines, {old[0]} has {len(before)}")
    check_range(links, found, before.shapes)
    maps = token_map(before.source, after.source), token_map(before.target, after.target)
    differing = first_differing(maps)
    if differing is not None:
        side, m, shown = differing
        problem = f"has other characters than {old[side]}: {shown}"
        remedy = "give two tokenizations of the same text, or go on with --on-error skip"
        error = InputError(new[side], problem, line=m + 1, remedy=remedy)
        if not skip:
            raise error
        count = int((maps[0].differs | maps[1].differs).sum())
        pairs = "1 pair differs and has no links" if count == 1 else f"{count} pairs differ and have no links"
        log.warning("%s; the first: %s, line %d", pairs, error.path, m + 1)
    return remap_through(found, *maps)


def first_differing(maps: tuple[TokenMap, TokenMap]) -> tuple[int, int, str] | None:
    """The side and number of the first sentence that has other characters in the new text, and what differs."""
    differs = maps[0].differs | maps[1].differs
    if not differs.any():
        return None
    m = int(differs.argmax())
    side = 0 if maps[0].differs[m] else 1
    old, new = first_difference(maps[side].old.words(m), maps[side].new.words(m))
    return side, m, f"{new!r} where the old one has {old!r}"


def remap_through(links: Links, source: TokenMap, target: TokenMap) -> Links:
    """Links moved through the maps of both sides; those of a pair with a side that differs are dropped."""
    sentence = links.sentences
    places = [tokens.old.offsets[sentence] + links.pairs[:, side] for side, tokens in enumerate((source, target))]
    low = [tokens.first[place] for tokens, place in zip((source, target), places, strict=True)]
    high = [tokens.end[place] for tokens, place in zip((source, target), places, strict=True)]
    size = [stop - start for start, stop in zip(low, high, strict=True)]
    counts = size[0].astype(np.int64) * size[1]
    total = np.concatenate([[0], np.cumsum(counts)])
    ends = total[links.offsets]  # the first new link of each pair, with repetitions
    widths = [int(tokens.new.lengths.max(initial=0)) + 1 for tokens in (source, target)]
    most_pairs = max((1 << 62) // (widths[0] * widths[1]), 1)  # a key for each place fits int64
    parts, begin = [], 0
    while begin < len(links):
        stop = max(int(np.searchsorted(ends, ends[begin] + _MOST_LINKS, "right")) - 1, begin + 1)
        stop = min(stop, begin + most_pairs)
        span = slice(links.offsets[begin], links.offsets[stop])
        repeats = counts[span]
        within = np.arange(ends[stop] - ends[begin]) - np.repeat(total[:-1][span] - ends[begin], repeats)
        row, column = np.divmod(within, np.repeat(size[1][span], repeats))
        row += np.repeat((sentence[span] - begin) * widths[0] + low[0][span], repeats)
        column += np.repeat(low[1][span], repeats)
        parts.append(links_of_keys(row * widths[1] + column, widths, stop - begin))
        begin = stop
    return Links.concatenated(parts)
