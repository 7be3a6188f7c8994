"""Links moved to the tokens of another tokenization."""

from __future__ import annotations

import logging

import numpy as np

from alignkit.errors import AlignkitError, InputError, counted
from alignkit.links.gold import read_links
from alignkit.links.links import Links, LinksLike, as_links, check_range, links_of_keys
from alignkit.support.arrays import offsets_of
from alignkit.text.bitext import Bitext, check_bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.token_maps import TokenMap, first_difference, token_map
from alignkit.types import PathLike

log = logging.getLogger(__name__)

#: Links that are made at a time, before repetitions are dropped.
_MOST_LINKS = 1 << 22


def remap_links(links: LinksLike, old: Bitext, new: Bitext) -> Links:
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
    links = as_links(links)
    for text in (old, new):
        check_bitext(text)
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
            raise InputError(path, f"has {counted(count, 'line')}, {old[0]} has {len(before):,}")
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
    total = offsets_of(counts)
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
