"""``alignkit symmetrize``."""

from __future__ import annotations

import click

from alignkit.errors import of_file
from alignkit.links.heuristics import DEFAULT_METHOD, method_names
from alignkit_cli.options import alignkit_command, argument, output_option, write_output
from alignkit_cli.parameter_types import TEXT, HeuristicName


@alignkit_command("symmetrize", "alignkit symmetrize forward.links reverse.links -m gdfa -o links")
@argument("forward", metavar="FORWARD", type=TEXT, help="Links of a source-to-target model, a line per pair.")
@argument(
    "reverse",
    metavar="REVERSE",
    type=TEXT,
    help="Links of a target-to-source model (--reverse), with the source index first as well.",
)
@click.option(
    "-m",
    "--method",
    type=HeuristicName(method_names(needs_scores=False)),
    default=DEFAULT_METHOD,
    show_default=True,
    help="How to combine them, as in Moses; gdfa, gdf, gd and intersect are short for some.",
)
@output_option
def command(forward: str, reverse: str, method: str, output: str | None) -> None:
    """Combine the alignments of both directions of a text.

    Prints a line of links for each line of FORWARD and REVERSE.
    """
    from alignkit.links.gold import read_links
    from alignkit.links.symmetrization import symmetrize

    links = read_links(forward), read_links(reverse)
    with of_file(f"{forward} and {reverse}"):
        found = symmetrize(*links, method)
    write_output(found.to_pharaoh(), output)
