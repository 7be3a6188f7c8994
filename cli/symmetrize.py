"""``alignkit symmetrize``, ``atools`` and ``remap``: links that are made of other links."""

from __future__ import annotations

import click

from alignkit.errors import of_file
from alignkit.links.heuristics import DEFAULT_METHOD, FAST_ALIGN, method_names
from alignkit_cli import shared
from alignkit_cli.parameter_types import TEXT, HeuristicName

#: The commands of `atools`, which is also installed as ``atools``, the name that fast_align's users know.
ATOOLS = sorted(["convert", "display", "fmeasure", "invert", *FAST_ALIGN])


@shared.command("symmetrize", "alignkit symmetrize forward.links reverse.links -m gdfa -o links")
@shared.argument("forward", "FORWARD", type=TEXT)
@shared.argument("reverse", "REVERSE", type=TEXT)
@click.option("-m", "--method", type=HeuristicName(method_names(needs_scores=False)), default=DEFAULT_METHOD)
@shared.output_option
def symmetrize_command(forward: str, reverse: str, method: str, output: str | None) -> None:
    """Combine the alignments of both directions of a text.

    Prints a line of links for each line of FORWARD and REVERSE.

    Args:
        FORWARD: Links of a source-to-target model, a line per pair.
        REVERSE: Links of a target-to-source model (--reverse), with the source index first as well.
        --method: How to combine them, as in Moses; gdfa, gdf, gd and intersect are short for some.
    """
    from alignkit.links.gold import find_base, read_links
    from alignkit.links.symmetrization import symmetrize

    links = read_links(forward, base=0), read_links(reverse, base=0)  # the result counts as they do
    if find_base(forward, links[0])[0] != find_base(reverse, links[1])[0]:
        shared.note(f"warning: one of {forward} and {reverse} seems to count from 1 and the other from 0")
    with of_file(f"{forward} and {reverse}"):
        found = symmetrize(*links, method)
    shared.write_output(found.to_pharaoh(), output)


@shared.command("atools", "alignkit atools -i forward.links -j reverse.links -c grow-diag-final-and")
@click.option("-i", "--input_1", "first", type=TEXT, required=True)
@click.option("-j", "--input_2", "second", type=TEXT)
@click.option("-c", "--command", "name", type=click.Choice(ATOOLS), required=True)
def atools_command(first: str, second: str | None, name: str) -> None:
    """Combine, compare, invert or draw alignments as fast_align's atools does.

    Prints the same as that program, a line of links for each line of input. Its grow-diag adds links in another
    order than that of Moses, which `alignkit symmetrize` follows, so their results differ now and then.

    Args:
        --input_1: Links, source first.
        --input_2: Links of the other direction, source first; or gold links.
        --command: What to do with them.
    """
    from alignkit.uses.atools import atools

    shared.write_output(atools(name, first, second), None)


@shared.command("remap", "alignkit remap words.de words.en links --to pieces.de pieces.en")
@shared.argument("source", "SRC", type=TEXT)
@shared.argument("target", "TGT", type=TEXT)
@shared.argument("links", "LINKS", type=TEXT)
@click.option("--to", "new", type=(TEXT, TEXT), metavar="SRC TGT", required=True)
@shared.choice_option("--on-error", choices=["stop", "skip"])
@shared.output_option
@shared.quiet_option
def remap_command(
    source: str, target: str, links: str, new: tuple[str, str], on_error: str, output: str | None, quiet: bool
) -> None:
    """Move links from one tokenization of a text to another.

    Either tokenization may be words, subwords (marked as by SentencePiece, BPE or WordPiece) or the words between
    the spaces of untokenized text. Two new tokens are linked if they share a character with two linked old tokens;
    from words to subwords and back, links stay the same. Prints a line of links for each line of LINKS.

    Args:
        SRC: The source text, with spaces between its tokens.
        TGT: The target text.
        LINKS: Links between these tokens, a line per sentence pair.
        --to: The same text with other tokens.
        --on-error: Stop at a sentence whose characters in --to differ from those in SRC and TGT, or skip it and
            print an empty line.
    """
    from alignkit.uses.remapping import remap_files

    shared.write_output(remap_files(links, (source, target), new, skip=on_error == "skip").to_pharaoh(), output)
