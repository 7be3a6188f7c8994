"""``alignkit remap``."""

from __future__ import annotations

import click

from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import output_option, quiet_option, write_output
from alignkit_cli.parameter_types import TEXT


@alignkit_command("remap")
@argument(
    "links", metavar="LINKS", type=TEXT, help="Links between the tokens of --from, a line per sentence pair."
)
@click.option(
    "--from",
    "old",
    type=(TEXT, TEXT),
    metavar="SRC TGT",
    required=True,
    help="The two sides of the text whose tokens LINKS counts, with spaces between the tokens.",
)
@click.option(
    "--to",
    "new",
    type=(TEXT, TEXT),
    metavar="SRC TGT",
    required=True,
    help="The same text with other tokens.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="Stop at a sentence with other characters in --to than in --from, or skip its pair: print an empty line.",
)
@output_option
@quiet_option
def command(
    links: str, old: tuple[str, str], new: tuple[str, str], on_error: str, output: str | None, quiet: bool
) -> None:
    """Move links from one tokenization of a text to another.

    Words of tokenized text, subwords (marked as by SentencePiece, BPE or WordPiece) and the words between the
    spaces of untokenized text can stand on either side. Two new tokens are linked if they share a character with
    two old tokens that are linked; links of words come back the same from subwords. Prints a line of links for
    each line of LINKS.
    """
    from alignkit.links.projection import remap_files

    write_output(remap_files(links, old, new, skip=on_error == "skip").to_pharaoh(), output)
