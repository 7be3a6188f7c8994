"""``alignkit atools``, which is also installed as ``atools``, the name that fast_align's users know."""

from __future__ import annotations

import click

from alignkit.links.heuristics import FAST_ALIGN
from alignkit_cli.options import alignkit_command, write_output
from alignkit_cli.parameter_types import TEXT

COMMANDS = sorted(["convert", "display", "fmeasure", "invert", *FAST_ALIGN])


@alignkit_command("atools", "alignkit atools -i forward.links -j reverse.links -c grow-diag-final-and")
@click.option("-i", "--input_1", "first", type=TEXT, required=True, help="Links, source first.")
@click.option(
    "-j", "--input_2", "second", type=TEXT, help="Links of the other direction, source first; or gold links."
)
@click.option("-c", "--command", "name", type=click.Choice(COMMANDS), required=True, help="What to do with them.")
def command(first: str, second: str | None, name: str) -> None:
    """Combine, compare, invert or draw alignments as fast_align's atools does.

    Prints the same as that program, a line of links for each line of input. Its grow-diag adds links in another
    order than that of Moses, which `alignkit symmetrize` follows, so their results differ now and then.
    """
    from alignkit.uses.atools import atools

    write_output(atools(name, first, second), None)
