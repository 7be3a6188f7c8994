"""``alignkit project``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.uses.projection import RULES
from alignkit.uses.projection_files import FORMATS
from alignkit_cli import shared
from alignkit_cli.parameter_types import SHARE, TEXT


@shared.command("project", "alignkit project tagged.de plain.en links -o tagged.en")
@shared.argument("source", "SRC", type=TEXT)
@shared.argument("target", "[TGT]", type=TEXT)
@shared.argument("links", "[LINKS]", type=TEXT)
@shared.choice_option("--format", "file_format", choices=FORMATS)
@shared.choice_option("--rule", choices=RULES)
@click.option("--least", type=SHARE, default=0.0)
@shared.tokenize_option
@shared.linking_options
@shared.output_option
@shared.work_options
def project_command(output: str | None, quiet: bool, **options: Any) -> None:
    """Copy the inline tags, labels or spans of a text into its translation, along the links.

    Prints a sentence for each sentence of SRC. No tag is lost or repeated, elements keep their nesting, and
    nothing else of TGT changes. Tags without linked words go, empty, before the words that follow them. Labels and
    spans without a place are left out. A message on standard error names each of these.

    Of TMX and XLIFF, prints the file, of which nothing else changes; LINKS has a line for each unit.

    Args:
        SRC: The source text with tags, labels or spans, as --format says; or, without TGT, a file of TMX or XLIFF,
            whose translations get the inline elements that they lack (of TMX, FILE:SOURCE,TARGET names languages).
        TGT: Its translation without them, a sentence per line.
        LINKS: Links between the words of both, not counting SRC's tags, with or without probabilities. Without
            LINKS, the text is aligned.
        --format: The format of SRC and of the output. tags: lines with elements, empty tags and placeholders, such
            as <b>this</b>, <br/> and {0}. conll: a word and its label on each line, a blank line after a sentence.
            json: objects with text or tokens, and spans with start and end.
        --rule: Where a span goes. hull: from the first to the last word that is linked to it. contiguous: to the
            range with the most of its links and the fewest of other words. head: to the adjacent words around its
            most probable link. unsplit: as hull, or nowhere if other words are in between.
        --least: Do not place spans whose words' links have a lower mean probability; a word without a link counts
            as 0.
    """
    from alignkit.uses.projection_files import project_files

    source, target, links = shared.choose_linked_text({**options, "sample": False})
    shared.needs("file_format", "TGT", target is not None)
    with shared.ProgressBar("aligning", quiet) as bar:
        how = {name: options[name] for name in ("file_format", "rule", "least", "tokenize")}
        parts = project_files(source, target, links, fitting=shared.how_to_link(options, links, bar), **how)
    shared.write_output(parts, output)
