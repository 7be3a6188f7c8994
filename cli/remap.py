"""``alignkit remap``."""

from __future__ import annotations

import click

from alignkit_cli.options import (
    alignkit_command,
    argument,
    choice_option,
    output_option,
    quiet_option,
    write_output,
)
from alignkit_cli.parameter_types import TEXT


@alignkit_command("remap", "alignkit remap words.de words.en links --to pieces.de pieces.en")
@argument("source", metavar="SRC", type=TEXT, help="The source text, with spaces between its tokens.")
@argument("target", metavar="TGT", type=TEXT, help="The target text.")
@argument("links", metavar="LINKS", type=TEXT, help="Links between these tokens, a line per sentence pair.")
@click.option(
    "--to", "new", type=(TEXT, TEXT), metavar="SRC TGT", required=True, help="The same text with other tokens."
)
@choice_option(
    "--on-error",
    choices=["stop", "skip"],
    help="Stop at a sentence whose characters in --to differ from those in SRC and TGT, or skip it and print an "
    "empty line.",
)
@output_option
@quiet_option
def command(
    source: str, target: str, links: str, new: tuple[str, str], on_error: str, output: str | None, quiet: bool
) -> None:
    """Move links from one tokenization of a text to another.

    Either tokenization may be words, subwords (marked as by SentencePiece, BPE or WordPiece) or the words between
    the spaces of untokenized text. Two new tokens are linked if they share a character with two linked old tokens;
    from words to subwords and back, links stay the same. Prints a line of links for each line of LINKS.
    """
    from alignkit.uses.remapping import remap_files

    write_output(remap_files(links, (source, target), new, skip=on_error == "skip").to_pharaoh(), output)
