"""The text formats of alignments: Pharaoh, with probabilities, GIZA++'s A3 and JSON lines; sentence scores.

All formats have the same number of lines for every sentence pair, even one without links. This module imports
nothing heavy, because the command line reads its choices from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.errors import AlignkitError, find_known
from alignkit.support.arrays import brief_repr

if TYPE_CHECKING:
    import numpy as np

    from alignkit.links.links import Links

#: The formats that :func:`alignkit.links.gold.parse_gold` reads, and the numbers from which a file may count
#: tokens.
GOLD_FORMATS = ("auto", "pharaoh", "naacl")
GOLD_BASES = ("auto", "0", "1")
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Alignment:
    """The alignment of M sentence pairs: links, and what an output format may need besides.

    Attributes:
        links: between whitespace words.
        source, target: the words of each pair.
        probabilities: float (K,), one for each link.
        sentence_scores: float64 (M, C): log p(target | source), natural logarithm, divided by the number of target
            words; with two directions, a second column with the same of the reverse direction.
        ids: what was given with each pair to tell it by, or None; empty: nothing with any.
        is_reverse: true if they are those of a target-to-source model alone; the sentence scores are then log
            p(source | target), divided by the number of source words.
        spans: if the text is raw, the characters [start, end) of each source and of each target word in its line,
            of each pair.
    """

    links: Links
    source: Sequence[Sequence[str]] = ()
    target: Sequence[Sequence[str]] = ()
    probabilities: np.ndarray | None = None
    sentence_scores: np.ndarray | None = None
    is_reverse: bool = False
    spans: Sequence[tuple[Spans, Spans]] = ()
    ids: Sequence[Any] = ()

    __repr__ = brief_repr


def with_probabilities(alignment: Alignment, first: int = 1) -> bytes:
    """One line ``s-t:p s-t:p`` per sentence pair, p with four significant digits."""
    assert alignment.probabilities is not None
    links = alignment.links
    rows = zip(links.pairs.tolist(), alignment.probabilities.tolist(), strict=True)
    items = [f"{s}-{t}:{p:.4g}" for (s, t), p in rows]
    bounds = links.offsets.tolist()
    return "".join(" ".join(items[bounds[m] : bounds[m + 1]]) + "\n" for m in range(len(links))).encode()


def character_offsets(alignment: Alignment, first: int = 1) -> bytes:
    """One line per sentence pair: ``start:end-start:end``, the characters [start, end) of a link's two words."""
    lines = []
    for pairs, (source, target) in zip(alignment.links, alignment.spans, strict=True):
        places = ((source[s], target[t]) for s, t in pairs.tolist())
        lines.append(" ".join(f"{a}:{b}-{c}:{d}" for (a, b), (c, d) in places) + "\n")
    return "".join(lines).encode()


def giza(alignment: Alignment, first: int = 1) -> bytes:
    """Three lines per sentence pair in the format of GIZA++ (Och and Ney 2003, file ``A3.final``).

    A comment with the number of the pair, counted from ``first``, the lengths and p(target | source), or 0 if it
    is not known; the target words; each source word, NULL first, with the one-based positions of its target
    words. A target word with several links is listed with each of them.

    In the alignment of a target-to-source model, source and target are exchanged in all of this, as in the files
    of the reverse run of GIZA++.
    """
    lines = []
    links, sides = alignment.links, (alignment.source, alignment.target)
    if alignment.is_reverse:
        links, sides = links.reversed, (alignment.target, alignment.source)
    for m, (pairs, x, y) in enumerate(zip(links, *sides, strict=True)):
        positions: list[list[int]] = [[] for _ in x]
        linked = set()
        for s, t in pairs.tolist():
            positions[s].append(t + 1)
            linked.add(t)
        unlinked = [t + 1 for t in range(len(y)) if t not in linked]
        score = "0"
        if alignment.sentence_scores is not None:
            score = exponential(alignment.sentence_scores[m, 0] * len(y))
        lengths = f"source length {len(x)} target length {len(y)}"
        lines.append(f"# Sentence pair ({first + m}) {lengths} alignment score : {score}")
        lines.append(" ".join(y))
        words = zip(["NULL", *x], [unlinked, *positions], strict=True)
        lines.append(" ".join(f"{word} ({{ {''.join(f'{t} ' for t in targets)}}})" for word, targets in words))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def json_line(record: dict[str, Any]) -> str:
    """A record as JSON on one line, also for programs that break lines at the separators of Unicode."""
    line = json.dumps(record, ensure_ascii=False)
    return line.translate({ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}) + "\n"


def json_lines(alignment: Alignment, first: int = 1) -> bytes:
    """One object per sentence pair: its ``id`` if one was given, lists ``src`` and ``tgt`` of words, ``links``
    of [s, t, probability], and the list ``scores`` of its sentence scores if there are any, null for a blank side.

    Of raw text, also lists ``src_offsets`` and ``tgt_offsets`` of [start, end), the characters of each word.
    """
    assert alignment.probabilities is not None
    rows = zip(alignment.links.pairs.tolist(), alignment.probabilities.tolist(), strict=True)
    items = [[*pair, float(f"{p:.4g}")] for pair, p in rows]
    lines, bounds = [], alignment.links.offsets.tolist()
    ids = alignment.ids or [None] * len(alignment.source)
    for m, (given, x, y) in enumerate(zip(ids, alignment.source, alignment.target, strict=True)):
        record: dict[str, Any] = {} if given is None else {"id": given}
        record |= {"src": list(x), "tgt": list(y), "links": items[bounds[m] : bounds[m + 1]]}
        if alignment.spans:
            record["src_offsets"], record["tgt_offsets"] = alignment.spans[m]
        if alignment.sentence_scores is not None:
            scores = alignment.sentence_scores[m].tolist()
            record["scores"] = [None if math.isnan(score) else float(f"{score:.6g}") for score in scores]
        lines.append(json_line(record))
    return "".join(lines).encode("utf-8", "backslashreplace")  # half a character in an id


@dataclass(frozen=True)
class OutputFormat:
    """A format that alignments are written in.

    Attributes:
        write: ``write(alignment, first)`` gives the text, ``first`` being the number of the first sentence pair.
        help: an example or description for the command line.
        needs_probabilities, needs_words, needs_spans: what it shows of an :class:`Alignment` besides the links;
            words come with the sentence scores where these are known.
    """

    write: Callable[[Alignment, int], bytes]
    help: str
    needs_probabilities: bool = False
    needs_words: bool = False
    needs_spans: bool = False


#: The registry of output formats.
OUTPUT_FORMATS = {
    "pharaoh": OutputFormat(lambda alignment, first: alignment.links.to_pharaoh(), '"0-0 1-2"'),
    "probabilities": OutputFormat(
        with_probabilities, '"0-0:0.93 1-2:0.5", the posterior of each link', needs_probabilities=True
    ),
    "giza": OutputFormat(giza, "the three lines per pair of GIZA++'s A3 files", needs_words=True),
    "json": OutputFormat(
        json_lines, "objects with words, links, posteriors and scores", needs_probabilities=True, needs_words=True
    ),
    "offsets": OutputFormat(
        character_offsets,
        '"0:3-0:4 4:9-5:10", the characters of both words of each link, with --tokenize',
        needs_spans=True,
    ),
}


def render(alignment: Alignment, output_format: str, first: int = 1) -> bytes:
    """The alignment as text.

    Args:
        alignment: with the probabilities or words that the format needs.
        output_format: a key of ``OUTPUT_FORMATS``.
        first: the number of the first sentence pair, for formats that number them.

    Raises:
        AlignkitError: an unknown format, or the alignment lacks what the format needs.
    """
    chosen = find_known(output_format, OUTPUT_FORMATS, "format")
    if chosen.needs_probabilities and alignment.probabilities is None:
        raise AlignkitError(f"the format {output_format} needs the probabilities of the links")
    if chosen.needs_words and len(alignment.source) != len(alignment.links):
        raise AlignkitError(f"the format {output_format} needs the words of every sentence pair")
    if chosen.needs_spans and len(alignment.spans) != len(alignment.links):
        raise AlignkitError(f"the format {output_format} is for raw text; it goes only with --tokenize")
    return chosen.write(alignment, first)


def exponential(logarithm: float) -> str:
    """e to the power of ``logarithm`` as a decimal number, as 1.2345e-400 where a float would be 0."""
    if math.isnan(logarithm):
        return "0"
    exponent = math.floor(logarithm / math.log(10))
    mantissa = f"{math.exp(logarithm - exponent * math.log(10)):.5g}"
    if mantissa == "10":
        mantissa, exponent = "1", exponent + 1
    return f"{mantissa}e{exponent:+03d}"


def sentence_score_lines(scores: np.ndarray) -> bytes:
    """One line per sentence pair: the columns of float64 (M, C), six significant digits, separated by tabs."""
    rows = scores.tolist()
    return "".join("\t".join(f"{x:.6g}" for x in row) + "\n" for row in rows).encode()
