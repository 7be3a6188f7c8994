"""Lexicons as text, in the formats that dictionaries, Moses, eflomal and `alignkit lexicon` have."""

from __future__ import annotations

import logging
import re
from math import inf

from alignkit.errors import InputError
from alignkit.text.reading import read_lines
from alignkit.types import PathLike

log = logging.getLogger(__name__)

_PAIR = r"(<NULL>|(?P<source>[^\t]+))\t(<NULL>|(?P<target>[^\t]+))"
_BARS = r"(?P<source>((?!\|\|\|)[^\t])+)\|\|\|(?P<target>((?!\|\|\|)[^\t])+)"
_NUMBERS = r"(?P<p>[^\t]+)(\t(?P<q>[^\t]+)(\t\d+)?)?"
_MOSES = r"(NULL|(?P<target>[^ \t]+)) (NULL|(?P<source>[^ \t]+)) (?P<p>[^ \t]+)"

#: What a lexicon may be -> a pattern of its lines, of which the first that is no comment decides, with the groups
#: ``source`` and ``target``, empty for a line of other things; and ``p`` and perhaps ``q``, p(target | source) and
#: p(source | target), or ``count``. Without numbers, all pairs count the same.
FORMATS = {
    "eflomal's priors (LEX source target count, with tabs)": rf"LEX\t{_PAIR}\t(?P<count>[^\t]+)"
    r"|FER[FR]\t[^\t]+\t\d+\t[^\t]+|HMM[FR]\t-?\d+\t[^\t]+",
    "a dictionary (source ||| target)": _BARS,
    "a dictionary (source, tab, target)": _PAIR,
    "a lexicon (source, target and one or two probabilities, with tabs)": rf"{_PAIR}\t{_NUMBERS}",
    "a dictionary (source, space, target)": r"(?P<source>[^ \t]+) (?P<target>[^ \t]+)",
    "lexical weights of Moses (target source p)": _MOSES,
}


def read_lexicon(path: PathLike) -> tuple[list[tuple[str, str]], list[float] | list[tuple[float, float]]]:
    """Read a lexicon: its pairs of words, and for each its count, or p(target | source) and p(source | target).

    Where the second probability is missing, the first stands for both. Entries of several words are left out, and
    their number is logged; so are blank lines, pairs with the empty word, and lines at the top that begin with #
    and are no entries.

    Raises:
        InputError: as :func:`alignkit.classical.priors.read_prior`.
    """
    lines, phrases = read_lines(path), 0
    first = next((n for n, line in enumerate(lines, 1) if line.strip() and line[0] != "#"), 1)
    example = "".join(lines[first - 1 : first])
    form = next((name for name, each in FORMATS.items() if re.fullmatch(each, example)), "a lexicon")
    counts: dict[tuple[str, str], float] = {}
    values: dict[tuple[str, str], tuple[float, float]] = {}
    for number, line in enumerate(lines, 1):
        match = re.fullmatch(FORMATS.get(form, _PAIR), line)
        if not line.strip() or (match is None and number < first):
            continue  # blank, or a comment
        entry = {} if match is None else {name: text for name, text in match.groupdict().items() if text}
        try:
            numbers = [float(entry[name]) for name in ("p", "q", "count") if name in entry]
        except ValueError:
            numbers = [-1]
        if match is None or not all(0 <= x < inf if "count" in entry else 0 <= x <= 1 for x in numbers):
            remedy = f"line {first} decides what the file is; probabilities lie in [0, 1], counts are not below 0"
            raise InputError(path, f"is not a line of {form}", line=number, remedy=remedy)
        pair = entry.get("source", "").strip(), entry.get("target", "").strip()
        if not all(pair):
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
        log.warning("%s: entries of several words that are left out: %d", path, phrases)
    if not counts and not values:
        raise InputError(path, "has no pair of words, as a lexicon has")
    return (list(values), list(values.values())) if values else (list(counts), list(counts.values()))
