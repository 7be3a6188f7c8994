"""``alignkit phrases``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alignkit.uses.phrases import LONGEST, PHRASE_LENGTH
from alignkit_cli.options import (
    Command,
    alignkit_command,
    apply,
    argument,
    reading_options,
    side_arguments,
    work_options,
    write_output,
)
from alignkit_cli.parameter_types import InputPath, OutputPath
from alignkit_cli.progress import ProgressBar

if TYPE_CHECKING:
    from alignkit.uses.phrases.extraction import PhraseText


def linked_text_arguments(command: Command) -> Command:
    """SRC [TGT] [LINKS]."""
    given = "Links of SRC and TGT, a line per pair. Without them, the text is aligned as `alignkit align` does it."
    links = argument("links", metavar="[LINKS]", required=False, type=InputPath(), help=given)
    return apply(command, side_arguments(required=True), links)


def length_option(default: int) -> Command:
    """--max-length."""
    text, most = "The largest number of words of a phrase.", click.IntRange(1, LONGEST)
    attributes = {"type": most, "metavar": "N", "default": default, "show_default": True, "help": text}
    return click.option("--max-length", **attributes)


def read_linked_text(threads: int | None, quiet: bool, max_length: int, **options: Any) -> PhraseText:
    """The text of the arguments with its links."""
    from alignkit.uses.phrases.extraction import PhraseText

    with ProgressBar("fitting", quiet) as bar:
        return PhraseText.read(longest=max_length, fitting={"threads": threads, "progress": bar}, **options)


@alignkit_command("phrases", "alignkit phrases corpus.de corpus.en links -o phrase-table.gz")
@linked_text_arguments
@length_option(PHRASE_LENGTH)
@click.option(
    "-o",
    "--output",
    type=OutputPath(result=True, gzip=True),
    help="Write the table to FILE once it is complete; compressed if the name ends in .gz.",
)
@reading_options
@work_options
def command(output: str | None, **options: Any) -> None:
    """Write the phrase table of a text, as Moses does.

    A line has source phrase, target phrase, p(source | target), lex(source | target), p(target | source),
    lex(target | source), their links, and the counts of the target phrase, of the source phrase and of both, with
    ||| between them. Phrases are consistent with LINKS: no word of one is linked outside the other.

    While phrases are counted, they are stored in files of the temporary folder (TMPDIR).
    """
    from alignkit.uses.phrases.tables import gzipped, phrase_table

    table = phrase_table(read_linked_text(**options))
    write_output(gzipped(table) if output is not None and output.endswith(".gz") else table, output)
