"""``alignkit lexicon``."""

from __future__ import annotations

from typing import get_args

import click

from alignkit.classical.settings import SHORTLIST, LexiconFormat
from alignkit.errors import InputError
from alignkit_cli.options import (
    alignkit_command,
    argument,
    choice_option,
    note,
    output_option,
    quiet_option,
    write_output,
)
from alignkit_cli.parameter_types import COUNT, InputPath


@alignkit_command("lexicon", "alignkit lexicon m.npz --best 3 -o lexicon.tsv")
@argument("first", metavar="MODEL|SRC", type=InputPath(), help="A saved model; or the source text of LINKS.")
@argument("second", metavar="[REVERSE|TGT]", required=False, type=InputPath(), help="A reverse model; or TGT.")
@argument("links", metavar="[LINKS]", required=False, type=InputPath(), help="Links of SRC and TGT to count.")
@choice_option(
    "--format",
    "file_format",
    choices=get_args(LexiconFormat),
    help="tsv: source, target, p(target | source); with REVERSE or LINKS, p(source | target); with LINKS, their "
    'number. moses: "target source p(target | source)", the lexical weights lex.f2e; with REVERSE or LINKS, -o '
    "PREFIX writes PREFIX.f2e and PREFIX.e2f. shortlist: like moses, without NULL and with the best translations "
    "only, for Marian. eflomal: its priors, counted from LINKS.",
)
@click.option(
    "--best",
    type=COUNT,
    help=f"The largest number of translations of a source word.  [default: all; shortlist: {SHORTLIST}]",
)
@click.option(
    "--both",
    is_flag=True,
    help="Take both directions from MODEL, a model of both (`align`, or --symmetrize), in place of REVERSE.",
)
@output_option
@quiet_option
def command(
    first: str,
    second: str | None,
    links: str | None,
    both: bool,
    file_format: LexiconFormat,
    best: int | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Write the translation table of a saved model, or of given links, as text.

    Source words are sorted by their bytes, their translations by decreasing probability. A model of target to
    source (--reverse) alone gives a lexicon of that direction, whose source words are those of the target text.

    With SRC TGT LINKS, the probabilities are relative frequencies: the number of links of two words, divided by
    the number of links of one of them plus its occurrences without a link.
    """
    from alignkit.aligner import Reversed, load_aligner
    from alignkit.classical.lexicon import LinkedWords, lexicon_files, lexicon_of, reverse_lexicon_of

    if both and second is not None:
        raise click.UsageError("--both goes only with one MODEL.")
    if (both or second is not None) and file_format == "moses" and output in (None, "-"):
        raise click.UsageError("Two Moses files cannot both go to standard output; give -o PREFIX.")
    counts = None if links is None else LinkedWords.read(first, second, links)
    if counts is None:
        aligners = [load_aligner(path) for path in (first, second) if path is not None]
        is_reversed = isinstance(aligners[0], Reversed)
        if is_reversed and second is not None:
            raise InputError(first, "is a model of target to source (--reverse)", remedy="give it as REVERSE")
        lexicons = [lexicon_of(aligner) for aligner in aligners]
        lexicons += [reverse_lexicon_of(aligners[0])] if both else []
        if is_reversed:
            note(f"{first}: a model of target to source (--reverse), and so is its lexicon", quiet)
    else:
        lexicons = [counts.lexicon] if file_format == "shortlist" else [counts.lexicon, counts.reversed.lexicon]
    for suffix, parts in lexicon_files(*lexicons, file_format=file_format, best=best, counts=counts).items():
        write_output(parts, f"{output}{suffix}" if suffix else output)
