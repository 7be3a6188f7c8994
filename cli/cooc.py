"""``alignkit cooc``."""

from __future__ import annotations

import click

from alignkit_cli.options import (
    choose_text,
    note,
    quiet_option,
    sample_option,
    text_arguments,
    threads_option,
)

WEIGHTINGS = ["source-length", "target-length", "one", "presence"]


@click.command("cooc")
@text_arguments
@sample_option
@click.option(
    "--weighting",
    type=click.Choice(WEIGHTINGS),
    default="source-length",
    show_default=True,
    help="What a meeting of two tokens counts: 1/L, 1/T, 1; or one per sentence pair (presence).",
)
@click.option("-o", "--output", metavar="FILE", required=True, help="FILE.npz, or FILE.tsv with words.")
@threads_option
@quiet_option
def command(
    source: str | None,
    target: str | None,
    sample: bool,
    lowercase: bool,
    encoding_errors: str,
    weighting: str,
    output: str,
    threads: int | None,
    quiet: bool,
) -> None:
    """Count how often each source word meets each target word in a sentence pair.

    With the default weighting this is the count table of IBM Model 1's first iteration.
    """
    from alignkit.classical.cooccurrence import cooccurrence, save_table
    from alignkit.text.reading import read_bitext

    source, target = choose_text(source, target, sample)
    bitext = read_bitext(source, target, encoding_errors=encoding_errors, lowercase=lowercase)
    table = cooccurrence(bitext, weighting, threads)  # type: ignore[arg-type]
    save_table(output, table, bitext.source.vocabulary, bitext.target.vocabulary, weighting)
    note(f"{len(table.values)} word pairs of {len(bitext)} sentence pairs", quiet)
