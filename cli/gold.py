"""``alignkit gold``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.errors import counted
from alignkit.pipeline.settings import AlignSettings, ReadSettings
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT
from alignkit_cli.progress import ProgressBar

PAIRS = 50  #: pairs in a page: what two hours of work are enough for


@shared.command("gold", "alignkit gold corpus.de corpus.en links -o gold.html")
@shared.linked_text_arguments()
@click.option("--pairs", type=COUNT, default=PAIRS)
@shared.output_option
def gold_command(**options: Any) -> None:
    """Draw sentence pairs at random, and write a page on which to correct their links.

    The page is one HTML file. Its button saves gold links for `alignkit align SRC TGT --gold FILE`: a line for
    each pair of the text, blank for pairs that were not corrected or have no link. Pairs have 4 to 40 words a
    side.

    Args:
        LINKS: The links of the text, or of its first lines, as a draft. [default: the text is aligned]
        --pairs: The number of sentence pairs.
    """
    source, target, links = shared.choose_linked_text(options)
    reading = shared.with_given(ReadSettings(), options)
    from alignkit.links.gold import note_first, read_links_of
    from alignkit.pipeline.align import align
    from alignkit.text.pairs import read_text
    from alignkit.uses.annotate import annotation_page, pairs_to_annotate

    with ProgressBar("aligning", options["quiet"]) as bar:
        how = shared.how_to_link(options, links, bar)
        if links is None:
            aligned = align(source, target, settings=AlignSettings(reading), **how)
            bitext, draft = aligned.bitext, aligned.links
        else:
            bitext = read_text(source, target, **vars(reading))
            draft, _ = read_links_of(links, bitext.shapes, whole=False)
            note_first(links, draft, bitext.shapes)
            bitext = bitext.block(0, len(draft))
    chosen = pairs_to_annotate(bitext, options["pairs"])
    shared.write_output(annotation_page(bitext, draft, chosen), options["output"])
    links_of_page = sum(len(draft[int(m)]) for m in chosen)
    shared.note(f"{counted(len(chosen), 'pair')}, {counted(links_of_page, 'link')}", options["quiet"])
