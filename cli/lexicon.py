"""``alignkit lexicon``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import get_args

import click

from alignkit.classical.settings import SHORTLIST, LexiconFormat
from alignkit_cli.options import output_option


@click.command("lexicon")
@click.argument("model", metavar="MODEL")
@click.argument("reverse", metavar="[REVERSE]", required=False)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(get_args(LexiconFormat)),
    default=get_args(LexiconFormat)[0],
    show_default=True,
    help='tsv: source, target, p(target | source), and p(source | target) with REVERSE. moses: "target source '
    'p(target | source)", the lexical weights lex.f2e; with REVERSE, -o PREFIX writes PREFIX.f2e and PREFIX.e2f. '
    "shortlist: like moses, without NULL and with the best translations only, for Marian.",
)
@click.option(
    "--best",
    type=click.IntRange(min=1),
    help=f"The largest number of translations of a source word.  [default: all; shortlist: {SHORTLIST}]",
)
@click.option(
    "--min-probability",
    "minimum",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    show_default=True,
    help="The lowest probability of a pair.",
)
@output_option
def command(
    model: str,
    reverse: str | None,
    file_format: LexiconFormat,
    best: int | None,
    minimum: float,
    output: str | None,
) -> None:
    """Write the translation table of a saved model (`ibm1 --save-model`) as text.

    MODEL is of the direction source to target; REVERSE, of the same text, of the other (`--reverse`). Source words
    are in order of their bytes, their translations with the likeliest first.
    """
    from alignkit.aligner.registry import load_aligner
    from alignkit.classical.lexicon import lexicon_files, lexicon_of

    if reverse is not None and file_format == "moses" and output in (None, "-"):
        raise click.UsageError("Two Moses files cannot both go to standard output; give -o PREFIX.")
    lexicons = [lexicon_of(load_aligner(path)) for path in (model, reverse) if path is not None]
    files = lexicon_files(*lexicons, file_format=file_format, best=best, minimum=minimum)
    for suffix, parts in files.items():
        write_parts(parts, f"{output}{suffix}" if suffix else output)


def write_parts(parts: Iterable[bytes], output: str | None) -> None:
    """Write parts of a text to a file, whole or not at all, or to standard output."""
    if output is None or output == "-":
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    from alignkit.storage import atomic_write

    with atomic_write(output) as stream:
        stream.writelines(parts)
