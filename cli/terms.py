"""``alignkit terms``."""

from __future__ import annotations

import csv
from typing import Any

import click

from alignkit.lab.report.tables import to_json
from alignkit.uses.phrases import FUNCTION_WORDS, LEAST_COUNT, TERM_LENGTH
from alignkit_cli.analysis_options import json_option
from alignkit_cli.options import alignkit_command, output_option, reading_options, work_options, write_output
from alignkit_cli.parameter_types import COUNT, SHARE
from alignkit_cli.phrases import length_option, linked_text_arguments, read_linked_text


@alignkit_command("terms", "alignkit terms corpus.de corpus.en links -o terms.tsv")
@linked_text_arguments
@click.option("--min-count", type=COUNT, default=LEAST_COUNT, show_default=True, help="The least count of a term.")
@length_option(TERM_LENGTH)
@click.option(
    "--function-words",
    type=SHARE,
    default=FUNCTION_WORDS,
    show_default=True,
    help="A word that occurs more often than this share of the number of sentence pairs is a function word: no "
    "term begins or ends with one, or with punctuation.",
)
@click.option("--best", type=COUNT, help="The largest number of terms.  [default: all]")
@output_option
@json_option("Print one JSON object.")
@reading_options
@work_options
def command(
    min_count: int, function_words: float, best: int | None, output: str | None, as_json: bool, **options: Any
) -> None:
    """List the terms of several words and their translations.

    A line has source, target, count, log-likelihood ratio (Dunning 1993), the mean probability of the links, and
    the number and text of the first sentence pair with the term. Terms are phrase pairs, as of `alignkit phrases`,
    with at least two words on one side. They are ranked by the log-likelihood ratio, multiplied by the mean
    probability if LINKS has probabilities (`alignkit align --format probabilities`). A term within another one
    that is as frequent is left out.
    """
    from alignkit.uses.phrases.tables import find_terms

    table = find_terms(read_linked_text(**options), min_count, function_words, best)
    text = (
        to_json(table, "terms") + "\n"
        if as_json
        else table.to_csv(sep="\t", index=False, float_format="%.6g", quoting=csv.QUOTE_NONE, lineterminator="\n")
    )
    write_output(text.encode(), output)
