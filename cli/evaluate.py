"""``alignkit evaluate``."""

from __future__ import annotations

import dataclasses
import json
import math

import click

from alignkit_cli.options import write_output


@click.command("evaluate")
@click.argument("gold", metavar="GOLD")
@click.argument("hypothesis", metavar="HYP")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; figures are fractions.")
def command(gold: str, hypothesis: str, as_json: bool) -> None:
    """Score links HYP against gold links GOLD.

    Both hold a line per sentence pair. Gold has sure links "s-t" and possible links "spt", zero-based, source
    first. Only as many lines of HYP are read as GOLD has, so test pairs may stand before the training text.
    """
    from alignkit.links import parse_links
    from alignkit.metrics.aer import evaluate
    from alignkit.reading import read_lines

    gold_lines = read_lines(gold)
    lines = read_lines(hypothesis)
    # A longer hypothesis is the usual procedure (test text first, training text after it); a shorter one is not.
    links = parse_links(hypothesis, lines[: len(gold_lines)]).possible
    result = evaluate(parse_links(gold, gold_lines), links)
    if as_json:
        fields = dataclasses.asdict(result)
        numbers = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in fields.items()}
        text = json.dumps(numbers)
    else:
        names = {"AER": "aer", "precision": "precision", "recall": "recall", "F1": "f1"}
        shares = [f"{name} {100 * getattr(result, field):.1f} %" for name, field in names.items()]
        text = "  ".join([*shares, f"links {result.links}"])
    write_output(f"{text}\n".encode(), None)
