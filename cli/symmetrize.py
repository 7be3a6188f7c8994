"""``alignkit symmetrize``."""

from __future__ import annotations

import click

from alignkit.links.heuristics import DEFAULT_METHOD, method_names
from alignkit_cli.options import output_option, write_output


@click.command("symmetrize")
@click.argument("forward", metavar="FORWARD")
@click.argument("reverse", metavar="REVERSE")
@click.option(
    "-m",
    "--method",
    type=click.Choice(method_names(needs_scores=False)),
    default=DEFAULT_METHOD,
    show_default=True,
    help="How to combine them, as in Moses.",
)
@output_option
def command(forward: str, reverse: str, method: str, output: str | None) -> None:
    """Combine two alignments of the same text, both with the source index first.

    FORWARD comes from the source-to-target model, REVERSE from the target-to-source model (`--reverse`).
    """
    from alignkit.links.links import parse_links
    from alignkit.links.symmetrization import symmetrize
    from alignkit.text.reading import read_lines

    first, second = (parse_links(path, read_lines(path)).possible for path in (forward, reverse))
    write_output(symmetrize(first, second, method).to_pharaoh(), output)
