"""``alignkit evaluate``."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import click

from alignkit.links.formats import GOLD_BASES, GOLD_FORMATS
from alignkit_cli.options import note, quiet_option, write_output

if TYPE_CHECKING:
    import numpy as np

    from alignkit.links.links import Links
    from alignkit.metrics.aer import LinkCounts

NAMES = {"AER": "aer", "precision": "precision", "recall": "recall", "F1": "f1"}


@click.command("evaluate")
@click.argument("gold", metavar="GOLD")
@click.argument("hypothesis", metavar="HYP")
@click.option(
    "--gold-format",
    type=click.Choice(GOLD_FORMATS),
    default="auto",
    show_default=True,
    help='pharaoh: a line of links per sentence pair; naacl: a line "sentence s t [S|P]" per link, all counted '
    "from 1. auto looks at the first line, here and in HYP.",
)
@click.option(
    "--gold-base",
    type=click.Choice(GOLD_BASES),
    default="auto",
    show_default=True,
    help="What token indices in GOLD count from. auto takes 1 for naacl, and for pharaoh if index 0 never "
    "occurs and the sentence lengths (--text) or enough lines (10) bear it out; it warns when it does.",
)
@click.option(
    "--text",
    nargs=2,
    metavar="SRC TGT",
    help="The text: a link outside its sentence pair is then an error, and the index base is known.",
)
@click.option("--per-sentence", metavar="FILE", help="Also write counts and measures of every pair as CSV.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; figures are fractions.")
@quiet_option
def command(
    gold: str,
    hypothesis: str,
    gold_format: str,
    gold_base: str,
    text: tuple[str, str] | None,
    per_sentence: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score links HYP against gold links GOLD: AER, precision, recall and F1, with 95 % bootstrap intervals.

    Both hold a line per sentence pair, zero-based, source first. Gold has sure links "s-t" and possible links
    "spt" or "s?t". Only as many lines of HYP are read as GOLD has, so test pairs may stand before the training
    text.
    """
    from alignkit.links.gold import parse_gold
    from alignkit.links.links import check_range
    from alignkit.metrics.aer import count_links
    from alignkit.text.reading import read_lines

    gold_lines = read_lines(gold)
    shapes = read_shapes(*text) if text is not None else None
    known = parse_gold(gold, gold_lines, file_format=gold_format, base=gold_base, shapes=shapes)
    if known.warning:
        note(f"warning: {known.warning}", quiet)
    links = read_hypothesis(hypothesis, len(known.gold), quiet, checked=shapes is not None)
    if shapes is not None:
        check_range(gold, known.gold.possible, shapes)
        check_range(hypothesis, links, shapes)
    counts = count_links(known.gold, links)
    if per_sentence is not None:
        write_output(table(counts), per_sentence)
    write_output(f"{as_text(counts, seed, as_json)}\n".encode(), None)


def read_hypothesis(path: str, count: int, quiet: bool, checked: bool) -> Links:
    """The first ``count`` lines of links; says so if they look as if they counted from 1.

    A longer hypothesis is the usual procedure (test text first, training text after it); a shorter one is not.
    """
    from alignkit.links.gold import FEWEST_LINES, is_naacl, parse_gold
    from alignkit.links.links import Links
    from alignkit.text.reading import read_lines

    lines = read_lines(path)
    if is_naacl(lines):
        links = parse_gold(path, lines, file_format="naacl").gold.possible
        sentences = [[(int(s), int(t)) for s, t in pair] for pair in links][:count]
        # A pair without links has no line in this format.
        return Links.from_lists([*sentences, *([[]] * (count - len(sentences)))])
    links = parse_gold(path, lines[:count], file_format="pharaoh", base="0").gold.possible
    linked = sum(len(pair) > 0 for pair in links)
    if not checked and linked >= FEWEST_LINES and not (links.pairs == 0).any():
        note(f"warning: {path}: index 0 never occurs; links are read as counting from 0", quiet)
    return links


def read_shapes(source: str, target: str) -> np.ndarray:
    """int32 (M, 2): target and source lengths of the text."""
    from alignkit.text.reading import read_bitext

    return read_bitext(source, target).shapes


def as_text(counts: LinkCounts, seed: int, as_json: bool) -> str:
    """The result as one line of text, or as JSON."""
    total, intervals = counts.total(), counts.intervals(seed)
    if as_json:
        fields: dict[str, Any] = {name: number(getattr(total, name)) for name in NAMES.values()}
        fields |= {"links": total.links, "sure": int(counts.sure.sum()), "possible": int(counts.possible.sum())}
        fields |= {"sentences": len(counts)}
        for name, (low, high) in intervals.items():
            fields |= {f"{name}_low": number(low), f"{name}_high": number(high)}
        return json.dumps(fields)
    shares = []
    for name, field in NAMES.items():
        low, high = intervals[field]
        spread = "" if math.isnan(low) else f" ({100 * low:.1f}-{100 * high:.1f})"
        shares.append(f"{name} {100 * getattr(total, field):.1f} %{spread}")
    return "  ".join([*shares, f"links {total.links}"])


def number(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else value


def table(counts: LinkCounts) -> bytes:
    """CSV with a row per sentence pair; empty where a measure is not defined."""
    rows = ["line,links,sure,possible,links_in_sure,links_in_possible,aer,precision,recall,f1"]
    columns = (counts.found, counts.sure, counts.possible, counts.in_sure, counts.in_possible)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for line, (integers, result) in enumerate(zip(numbers, counts.each(), strict=True), 1):
        shares = (getattr(result, field) for field in NAMES.values())
        cells = [*map(str, integers), *("" if math.isnan(x) else f"{x:.6g}" for x in shares)]
        rows.append(",".join([str(line), *cells]))
    return "".join(f"{row}\n" for row in rows).encode()
