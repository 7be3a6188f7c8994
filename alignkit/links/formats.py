"""Alignments as text: Pharaoh, Pharaoh with a probability per link, GIZA++'s A3; and a score per sentence.

Every writer keeps step with the text: one line (three in A3) per sentence pair, whatever is in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from alignkit.links.links import Links

#: name -> lines per sentence pair
FORMATS = {"pharaoh": 1, "probabilities": 1, "giza": 3}


@dataclass(frozen=True, eq=False)
class Alignment:
    """What a writer may be asked to write, of M sentence pairs.

    Attributes:
        links: between whitespace words.
        source, target: the words of each pair; only A3 shows them.
        probabilities: float (K,), one for each link.
        sentence_scores: float64 (M, C): log p(target | source), natural logarithm, divided by the number of target
            words; with two directions, the reverse's as a second column.
    """

    links: Links
    source: Sequence[Sequence[str]] = ()
    target: Sequence[Sequence[str]] = ()
    probabilities: np.ndarray | None = None
    sentence_scores: np.ndarray | None = None


def render(alignment: Alignment, output_format: str, first: int = 1) -> bytes:
    """The alignment in one of ``FORMATS``.

    Args:
        alignment: has what the format shows: probabilities, or words.
        output_format: a key of ``FORMATS``.
        first: number of the first sentence pair, which A3 shows.
    """
    if output_format == "pharaoh":
        return alignment.links.to_pharaoh()
    if output_format == "probabilities":
        return with_probabilities(alignment)
    return giza(alignment, first)


def with_probabilities(alignment: Alignment) -> bytes:
    """One line ``s-t:p s-t:p`` per sentence pair, p with four significant digits."""
    if alignment.probabilities is None:
        raise ValueError("there are no probabilities to write")
    links = alignment.links
    rows = zip(links.pairs.tolist(), alignment.probabilities.tolist(), strict=True)
    items = [f"{s}-{t}:{p:.4g}" for (s, t), p in rows]
    bounds = links.offsets.tolist()
    return "".join(" ".join(items[bounds[m] : bounds[m + 1]]) + "\n" for m in range(len(links))).encode()


def giza(alignment: Alignment, first: int = 1) -> bytes:
    """Three lines per sentence pair as GIZA++ writes them (Och and Ney 2003, file ``A3.final``).

    A comment with the number, the lengths and p(target | source), 0 if there is none; the target words; and each
    source word, NULL first, with the one-based positions of the target words linked to it. A target word with
    several links stands with each of them.
    """
    lines = []
    for m, (pairs, x, y) in enumerate(zip(alignment.links, alignment.source, alignment.target, strict=True)):
        places: list[list[int]] = [[] for _ in x]
        linked = set()
        for s, t in pairs.tolist():
            places[s].append(t + 1)
            linked.add(t)
        unlinked = [t + 1 for t in range(len(y)) if t not in linked]
        score = "0"
        if alignment.sentence_scores is not None:
            score = exponential(alignment.sentence_scores[m, 0] * len(y))
        lengths = f"source length {len(x)} target length {len(y)}"
        lines.append(f"# Sentence pair ({first + m}) {lengths} alignment score : {score}")
        lines.append(" ".join(y))
        words = zip(["NULL", *x], [unlinked, *places], strict=True)
        lines.append(" ".join(f"{word} ({{ {''.join(f'{t} ' for t in targets)}}})" for word, targets in words))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def exponential(logarithm: float) -> str:
    """e to the power of ``logarithm`` in decimal, as 1.2345e-400 even where a float would be 0."""
    if math.isnan(logarithm):
        return "0"
    exponent = math.floor(logarithm / math.log(10))
    mantissa = f"{math.exp(logarithm - exponent * math.log(10)):.5g}"
    if mantissa == "10":
        mantissa, exponent = "1", exponent + 1
    return f"{mantissa}e{exponent:+03d}"


def sentence_score_lines(scores: np.ndarray) -> bytes:
    """One line per sentence pair: the columns of float64 (M, C), six significant digits, tabs between them."""
    rows = scores.tolist()
    return "".join("\t".join(f"{x:.6g}" for x in row) + "\n" for row in rows).encode()
