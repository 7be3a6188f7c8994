"""``alignkit lexicon``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from alignkit_cli.options import output_option

if TYPE_CHECKING:
    from alignkit.classical.lexicon import Lexicon

SHORTLIST = 100  # Marian's own default


@click.command("lexicon")
@click.argument("model", metavar="MODEL")
@click.argument("reverse", metavar="[REVERSE]", required=False)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["tsv", "moses", "shortlist"]),
    default="tsv",
    show_default=True,
    help='tsv: source, target, p(target | source), and p(source | target) with REVERSE. moses: "target source '
    'p(target | source)", the lexical weights lex.f2e; with REVERSE, -o PREFIX writes PREFIX.f2e and PREFIX.e2f. '
    "shortlist: as moses, without NULL, the best translations only, for Marian.",
)
@click.option(
    "--best",
    type=click.IntRange(min=1),
    help="At most so many translations of a source word.  [default: all; shortlist: 100]",
)
@click.option(
    "--min-probability",
    "minimum",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    show_default=True,
    help="Only pairs at least so probable.",
)
@output_option
def command(
    model: str, reverse: str | None, file_format: str, best: int | None, minimum: float, output: str | None
) -> None:
    """Write the translation table of a saved model (`ibm1 --model`) as text.

    MODEL is of the direction source to target; REVERSE, of the same text, of the other (`--reverse`). Source words
    are in order of their bytes, their translations with the likeliest first.
    """
    from alignkit.aligner.registry import load_aligner
    from alignkit.classical.lexicon import lexicon_of, moses, tsv

    if reverse is not None and file_format == "shortlist":
        raise click.UsageError("A shortlist has one direction; give one MODEL.")
    if reverse is not None and file_format == "moses" and output in (None, "-"):
        raise click.UsageError("Two Moses files cannot both go to standard output; give -o PREFIX.")
    forward = lexicon_of(load_aligner(model))
    other = lexicon_of(load_aligner(reverse)) if reverse is not None else None
    if other is not None:
        check_reverse(forward, other)
    if file_format == "tsv":
        write(tsv(forward, other, best, minimum), output)
    elif file_format == "shortlist":
        write(moses(forward, best or SHORTLIST, minimum, null=False), output)
    elif other is None:
        write(moses(forward, best, minimum), output)
    else:
        write(moses(forward, best, minimum), f"{output}.f2e")
        write(moses(other, best, minimum), f"{output}.e2f")


def check_reverse(forward: Lexicon, reverse: Lexicon) -> None:
    """Two models of the same direction share no words, as a rule, crosswise."""
    if not any(word in reverse.target for word in forward.source) and len(forward.source):
        raise click.UsageError(
            "REVERSE knows no source word of MODEL as a target word: is it of the other direction?"
        )


def write(parts: Iterable[bytes], output: str | None) -> None:
    """Writes pieces of text to a file, whole or not at all, or to standard output."""
    if output is None or output == "-":
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    from alignkit.storage import atomic_write

    with atomic_write(output) as stream:
        stream.writelines(parts)
