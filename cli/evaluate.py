"""``alignkit evaluate``."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import click

from alignkit.lab.report.tables import class_tables, finite, records
from alignkit.links.formats import GOLD_BASES, GOLD_FORMATS
from alignkit.links.gold import FEWEST_LINES
from alignkit_cli import shared
from alignkit_cli.parameter_types import InputPath, OutputPath

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.metrics.aer import LinkCounts

LINKS = InputPath(stdin=True, scores=True)
NAMES = {"AER": "aer", "precision": "precision", "recall": "recall", "F1": "f1"}


@shared.command("evaluate", "alignkit evaluate gold links --by-class")
@shared.argument("gold", "GOLD", required=False, type=LINKS)
@shared.argument("hypothesis", "HYP", required=False, type=LINKS)
@shared.choice_option("--gold-format", choices=GOLD_FORMATS)
@shared.choice_option(
    "--gold-base",
    "base",
    choices=GOLD_BASES,
    help="The first token index in GOLD. auto takes 1 for naacl; for pharaoh it takes 1, with a warning, if "
    f"index 0 never occurs and the sentence lengths (--text) or at least {FEWEST_LINES} lines confirm it.",
)
@shared.choice_option("--hyp-base", "hypothesis_base", choices=GOLD_BASES)
@click.option("--sample", is_flag=True)
@shared.files_option("--text")
@click.option("--by-class", is_flag=True)
@click.option("--per-sentence", type=OutputPath())
@shared.json_option
@shared.quiet_option
def evaluate_command(
    gold: str | None, hypothesis: str | None, per_sentence: str | None, by_class: bool, **options: Any
) -> None:
    """Score links against gold links: alignment error rate (AER), precision, recall and F1.

    Each comes with its 95 % bootstrap interval. GOLD and HYP have a line of links for each sentence pair, counted
    from 0, with the source first. Lines of HYP after those of GOLD are not compared, so the test pairs can precede
    the training text.

    Args:
        GOLD: Gold links: sure ones as "s-t", possible ones as "spt" or "s?t". With --sample, give HYP alone.
        HYP: The links to score. Lines beyond those of GOLD are not compared. It may also be a head of an attention
            file, FILE:LAYER.HEAD (see `alignkit heads`), which links each target word to its best source word.
        --gold-format: pharaoh: a line of links per sentence pair; naacl: a line "sentence s t [S|P]" per link, all
            counted from 1. auto decides by the first line, here and in HYP.
        --hyp-base: The same of HYP.
        --sample: Score links of the sample's text (`alignkit align --sample`) against its gold links.
        --text: The text, to find the index base and links outside their sentence pair, which are errors. It may
            continue after the last gold pair, as HYP may; --by-class counts words in all of it.
        --by-class: Also print errors by class: one-to-many links, and the links' probabilities if HYP has them;
            with --text also word frequency, punctuation and sentence length.
        --per-sentence: Also write counts and measures of every pair as CSV.
        --json: Print one JSON object; figures are fractions.
    """
    if options["sample"]:
        import alignkit_data

        if hypothesis is not None:
            raise click.UsageError("Give GOLD or --sample, not both.")
        gold, hypothesis = os.fspath(alignkit_data.path("test.gold")), gold
        options["text"] = options["text"] or shared.sample_files()
    if gold is None or hypothesis is None:
        raise click.UsageError(f"Missing argument {'HYP' if gold else 'GOLD'}.")
    from alignkit.uses.evaluation import read_evaluated

    reading = {name: options[name] for name in ("gold_format", "hypothesis_base", "text")}
    found = read_evaluated(gold, hypothesis, gold_base=options["base"], **reading)
    counts = found.counts()
    if per_sentence is not None:
        shared.write_output(pairs_csv(counts).encode(), per_sentence)
    errors = found.errors() if by_class else None
    shared.write_output(as_text(counts, errors, options["as_json"]))


def as_text(counts: LinkCounts, errors: pd.DataFrame | None, as_json: bool) -> str:
    """The result as one line of text and the errors by class as tables, or everything as JSON."""
    total = counts.total()
    intervals = total.intervals
    if as_json:
        fields: dict[str, Any] = {name: getattr(total, name) for name in NAMES.values()}
        fields |= {"links": total.links, "sure": total.sure, "possible": total.possible, "sentences": len(counts)}
        for name, (low, high) in intervals.items():
            fields |= {f"{name}_low": low, f"{name}_high": high}
        if errors is not None:
            fields["classes"] = records(errors)
        return json.dumps(finite(fields))
    shares = []
    for name, field in NAMES.items():
        low, high = intervals[field]
        spread = "" if math.isnan(low) else f" ({100 * low:.1f}-{100 * high:.1f})"
        shares.append(f"{name} {100 * getattr(total, field):.1f} %{spread}")
    line = "  ".join([*shares, f"links {total.links}"])
    if errors is None:
        return line
    note = "wrong: proposed, but no gold link; missed: a sure gold link that was not proposed"
    return "\n\n".join([line, class_tables(errors, ("links", "sure", "wrong", "missed")), note])


def pairs_csv(counts: LinkCounts) -> str:
    """CSV with a row per sentence pair; empty where a measure is not defined."""
    import pandas as pd

    from alignkit.metrics.aer import AER

    names = ("links", "sure", "possible", "links_in_sure", "links_in_possible")
    columns, measures = dict(zip(names, vars(counts).values(), strict=True)), AER.values(counts)
    columns |= {name: measures[name] for name in NAMES.values()}
    table = pd.DataFrame(columns, index=pd.RangeIndex(1, len(counts) + 1, name="line"))
    return str(table.to_csv(float_format="%.6g", lineterminator="\n"))
