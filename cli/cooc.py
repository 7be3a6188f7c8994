"""``alignkit cooc``."""

from __future__ import annotations

from typing import Any, get_args

import click

from alignkit.classical.settings import TABLE_ENDINGS, Weighting
from alignkit_cli.command import alignkit_command
from alignkit_cli.options import (
    choose_text,
    give_memory_back,
    memory_options,
    note,
    quiet_option,
    sample_option,
    text_arguments,
    threads_option,
    with_given,
)
from alignkit_cli.parameter_types import OutputPath
from alignkit_cli.sharing import count_and_write_shared, is_shared


@alignkit_command("cooc", ranks="divided")
@text_arguments
@sample_option
@click.option(
    "--weighting",
    type=click.Choice(get_args(Weighting)),
    default=get_args(Weighting)[0],
    show_default=True,
    help="What a source and a target token of the same sentence pair count: 1 / the length of the source "
    "sentence, 1 / that of the target sentence, or one; presence counts the sentence pairs that hold both words.",
)
@click.option(
    "-o",
    "--output",
    type=OutputPath(*TABLE_ENDINGS),
    required=True,
    help="The table: FILE.tsv with words, or FILE.npz with arrays.",
)
@memory_options
@threads_option
@quiet_option
def command(weighting: Weighting, output: str, threads: int | None, quiet: bool, **options: Any) -> None:
    """Count how often each source word occurs with each target word in a sentence pair.

    With the default weighting this is the count table of IBM Model 1's first iteration.
    """
    if is_shared():
        if options["max_memory"] is not None:
            raise click.UsageError(
                "--max-memory does not go with torchrun: ranks share the memory of their machines."
            )
        count_and_write_shared(options | {"output": output, "threads": threads, "quiet": quiet}, weighting)
        return
    from alignkit.classical.cooccurrence import cooccurrence, save_table
    from alignkit.parallel import thread_count
    from alignkit.workflow.reading import read_within_memory
    from alignkit.workflow.settings import AlignSettings

    files = choose_text(options["source"], options["target"], options["sample"])
    give_memory_back()
    settings = with_given(AlignSettings("ibm1"), options)
    bitext, block = read_within_memory(*files, settings, thread_count(threads))
    table = cooccurrence(bitext, weighting, threads, block)
    save_table(output, table, bitext.source.vocabulary, bitext.target.vocabulary, weighting)
    note(f"{len(table.values)} word pairs of {len(bitext)} sentence pairs", quiet)
