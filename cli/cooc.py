"""``alignkit cooc``."""

from __future__ import annotations

from typing import Any, get_args

import click

from alignkit.classical.settings import TABLE_ENDINGS, Weighting
from alignkit.errors import counted
from alignkit_cli.options import (
    alignkit_command,
    choice_option,
    choose_text,
    give_memory_back,
    note,
    sample_option,
    text_arguments,
    work_options,
)
from alignkit_cli.parameter_types import OutputPath


@alignkit_command("cooc", "alignkit cooc corpus.de corpus.en -o counts.tsv")
@text_arguments
@sample_option
@choice_option(
    "--weighting",
    choices=get_args(Weighting),
    help="The count of a source and a target token in the same sentence pair: 1 / the length of the source "
    "sentence, 1 / that of the target sentence, or one; presence counts the sentence pairs that contain both "
    "words.",
)
@click.option(
    "-o",
    "--output",
    type=OutputPath(*TABLE_ENDINGS),
    required=True,
    help="The table: FILE.tsv with words, or FILE.npz with arrays.",
)
@work_options
def command(weighting: Weighting, output: str, threads: int | None, quiet: bool, **options: Any) -> None:
    """Count how often each source word occurs with each target word in a sentence pair.

    With the default weighting this is the count table of IBM Model 1's first iteration.
    """
    from alignkit.classical.cooccurrence import cooccurrence, save_table
    from alignkit.text.pairs import read_bitext

    files = choose_text(options["source"], options["target"], options["sample"])
    give_memory_back()
    bitext = read_bitext(*files, encoding_errors=options["encoding_errors"], lowercase=options["lowercase"])
    table = cooccurrence(bitext, weighting, threads)
    save_table(output, table, bitext.source.vocabulary, bitext.target.vocabulary, weighting)
    note(f"{counted(len(table.values), 'word pair')} of {counted(len(bitext), 'sentence pair')}", quiet)
