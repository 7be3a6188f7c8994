"""Lexicons as text, in the formats that dictionaries, Moses, eflomal and `alignkit lexicon` have."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from alignkit.errors import InputError, abbreviated
from alignkit.text.reading import read_lines
from alignkit.types import PathLike

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LexiconLine:
    """A format of lexicons.

    Attributes:
        name: for messages.
        shape: what a line is, for messages.
        pattern: matches a line, with the groups ``source`` and ``target``, empty in a line without words; and
            ``p`` and perhaps ``q``, p(target | source) and p(source | target), or ``count``. Without these, all
            pairs count the same.
        null: how the empty word is written, whose pairs are left out; None: there is none.
    """

    name: str
    shape: str
    pattern: re.Pattern[str]
    null: str | None = None


def _line(name: str, shape: str, pattern: str, null: str | None = None) -> LexiconLine:
    return LexiconLine(name, shape, re.compile(pattern), null)


_PAIR = r"(?P<source>[^\t]+)\t(?P<target>[^\t]+)"
_ENTRY = r"(?:(?!\|\|\|)[^\t])+"

#: The first that matches the first line is that of the file.
FORMATS = (
    _line(
        "the priors of eflomal",
        "LEX, source, target and count, or FERF, FERR, HMMF or HMMR and numbers, with tabs between them",
        rf"LEX\t{_PAIR}\t(?P<count>[^\t]+)|FER[FR]\t[^\t]+\t\d+\t[^\t]+|HMM[FR]\t-?\d+\t[^\t]+",
        "<NULL>",
    ),
    _line("a dictionary", "source ||| target", rf"(?P<source>{_ENTRY})\|\|\|(?P<target>{_ENTRY})"),
    _line("a dictionary", "source and target with a tab between them", _PAIR),
    _line(
        "a lexicon",
        "source, target and one or two probabilities, with tabs between them",
        rf"{_PAIR}\t(?P<p>[^\t]+)(\t(?P<q>[^\t]+)(\t\d+)?)?",
    ),
    _line(
        "a dictionary", "source and target with a space between them", r"(?P<source>[^ \t]+) (?P<target>[^ \t]+)"
    ),
    _line(
        "lexical weights of Moses",
        "target, source and p(target | source), with spaces between them",
        r"(?P<target>[^ \t]+) (?P<source>[^ \t]+) (?P<p>[^ \t]+)",
        "NULL",
    ),
)


def read_lexicon(path: PathLike) -> tuple[list[tuple[str, str]], list[float] | list[tuple[float, float]]]:
    """Read a lexicon: its pairs of words, and for each its count, or p(target | source) and p(source | target).

    Where the second probability is missing, the first stands for both. Entries of several words are left out, and
    their number is logged; so are blank lines, and pairs with the empty word.

    Raises:
        InputError: as :func:`alignkit.classical.priors.read_prior`.
    """
    found: LexiconLine | None = None
    first = phrases = 0
    counts: dict[tuple[str, str], float] = {}
    values: dict[tuple[str, str], tuple[float, float]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        if found is None:
            first, found = number, _format_of(path, line, number)
        taken = f"the file was taken for {found.name} by its line {first}"
        match = found.pattern.fullmatch(line)
        entry = {} if match is None else {name: text for name, text in match.groupdict().items() if text}
        try:
            numbers = [float(entry[name]) for name in ("p", "q", "count") if name in entry]
        except ValueError:
            match = None
        if match is None:
            raise InputError(path, f"must be {found.shape}", line=number, remedy=taken)
        what, most = ("count", 1e15) if "count" in entry else ("probability", 1)
        if not all(0 <= value <= most for value in numbers):
            raise InputError(path, f"a {what} lies outside [0, {most:g}]", line=number, remedy=taken)
        pair = entry.get("source", "").strip(), entry.get("target", "").strip()
        if "source" not in entry or found.null in pair:
            continue
        if any(" " in word for word in pair):
            phrases += 1
        elif "p" in entry:
            if pair in values:
                raise InputError(path, f"the pair {pair[0]!r}, {pair[1]!r} is there twice", line=number)
            values[pair] = numbers[0], numbers[-1]
        else:
            counts[pair] = counts.get(pair, 0) + numbers[0] if numbers else 1
    if phrases:
        log.info("%s: left out %d entries of several words", path, phrases)
    if not counts and not values:
        raise InputError(path, "has no pair of words, as a lexicon has")
    return (list(values), list(values.values())) if values else (list(counts), list(counts.values()))


def _format_of(path: PathLike, line: str, number: int) -> LexiconLine:
    for each in FORMATS:
        if each.pattern.fullmatch(line):
            return each
    remedy = "a dictionary has source<tab>target; docs/formats.md has the other forms"
    raise InputError(path, f"{abbreviated(line)!r} is no line of a lexicon", line=number, remedy=remedy)
