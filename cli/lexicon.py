"""``alignkit lexicon``."""

from __future__ import annotations

from typing import get_args

import click

from alignkit.classical.settings import SHORTLIST, LexiconFormat
from alignkit.errors import InputError
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import note, output_option, quiet_option, write_output
from alignkit_cli.parameter_types import COUNT, InputPath


@alignkit_command("lexicon")
@argument("model", metavar="MODEL", type=InputPath(), help="A saved model (--save-model).")
@argument(
    "reverse",
    metavar="[REVERSE]",
    required=False,
    type=InputPath(),
    help="A model of the other direction of the same text (--reverse).",
)
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
    type=COUNT,
    help=f"The largest number of translations to write for a source word.  [default: all; shortlist: {SHORTLIST}]",
)
@click.option(
    "--both",
    is_flag=True,
    help="Take both directions from MODEL, a model of both (`align`, or --symmetrize), in place of REVERSE.",
)
@output_option
@quiet_option
def command(
    model: str,
    reverse: str | None,
    both: bool,
    file_format: LexiconFormat,
    best: int | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Write the translation table of a saved model as text.

    Source words are in the order of their bytes, their translations with the likeliest first. A model of target to
    source (--reverse) alone gives a lexicon of that direction, whose source words are those of the target text.
    """
    from alignkit.aligner import Reversed, load_aligner
    from alignkit.classical.lexicon import lexicon_files, lexicon_of, reverse_lexicon_of

    if both and reverse is not None:
        raise click.UsageError("Give REVERSE or --both, not both of them.")
    if (both or reverse is not None) and file_format == "moses" and output in (None, "-"):
        raise click.UsageError("Two Moses files cannot both go to standard output; give -o PREFIX.")
    aligners = [load_aligner(path) for path in (model, reverse) if path is not None]
    is_reversed = isinstance(aligners[0], Reversed)
    if is_reversed and reverse is not None:
        raise InputError(model, "is a model of target to source (--reverse)", remedy="give it as REVERSE")
    lexicons = [lexicon_of(aligner) for aligner in aligners]
    lexicons += [reverse_lexicon_of(aligners[0])] if both else []
    if is_reversed:
        note(f"{model}: a model of target to source (--reverse), and so is its lexicon", quiet)
    files = lexicon_files(*lexicons, file_format=file_format, best=best)
    for suffix, parts in files.items():
        write_output(parts, f"{output}{suffix}" if suffix else output)
