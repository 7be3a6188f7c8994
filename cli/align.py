"""``alignkit align``."""

from __future__ import annotations

import click

from alignkit_cli.options import (
    choose_text,
    note_blanks,
    output_option,
    quiet_option,
    sample_option,
    text_arguments,
    threads_option,
    write_output,
)


@click.command("align")
@text_arguments
@sample_option
@click.option(
    "--model", metavar="FILE", help="Use a saved aligner, a checkpoint or a run directory instead of fitting one."
)
@threads_option
@output_option
@quiet_option
def command(
    source: str | None,
    target: str | None,
    sample: bool,
    lowercase: bool,
    encoding_errors: str,
    model: str | None,
    threads: int | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Align a bitext: one line of source-target links per sentence pair (zero-based, Pharaoh format).

    Without --model, IBM Model 1 is fitted on this text in both directions and symmetrised (grow-diag-final-and).
    With --model, a saved aligner links new text; words it never saw get no link. A neural aligner's links are
    between whitespace words, from attention summed over their subwords.
    """
    from alignkit.classical.bidirectional import fit_bidirectional
    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.linking import link_lines
    from alignkit.reading import blank_pairs, read_bitext, read_line_pairs

    source, target = choose_text(source, target, sample)
    if model is None:
        bitext = read_bitext(source, target, encoding_errors=encoding_errors, lowercase=lowercase)
        links = fit_bidirectional(bitext, lambda text: fit_ibm1(text, threads=threads)).links(bitext)
        blanks = blank_pairs(bitext)
    else:
        from alignkit.aligner import load_aligner

        aligner = load_aligner(model)
        lines = read_line_pairs(source, target, encoding_errors=encoding_errors, lowercase=lowercase)
        links = link_lines(aligner, *lines)
        blanks = sum(not a.strip(" \t") or not b.strip(" \t") for a, b in zip(*lines, strict=True))
    write_output(links.to_pharaoh(), output)
    note_blanks(blanks, quiet)
