"""Pairs of lines to train on: which are held out, and whether there are words in any."""

from __future__ import annotations

from alignkit.errors import AlignkitError

Sides = tuple[list[str], list[str]]  #: the lines of both sides, equal in number
#: The most pairs that become the validation text where none is given, but at most one in so many of the text.
MOST_HELD_OUT, HELD_OUT_SHARE = 1000, 20


def hold_out_pairs(lines: Sides) -> tuple[Sides, Sides]:
    """Split off the last 1,000 pairs, but at most one in twenty and at least one: (text, validation text)."""
    source, target = lines
    size = max(1, min(MOST_HELD_OUT, len(source) // HELD_OUT_SHARE))
    return (source[:-size], target[:-size]), (source[-size:], target[-size:])


def check_has_words(lines: Sides, purpose: str) -> None:
    """Raise AlignkitError if no pair has words on both sides; a network of blanks would still have a loss."""
    if not any(x.strip() and y.strip() for x, y in zip(*lines, strict=True)):
        raise AlignkitError(f"no pair with words on both sides to {purpose}; give another text")
