"""``alignkit ibm1``."""

from __future__ import annotations

from typing import Any

import click

from alignkit_cli.options import (
    choose_text,
    note,
    note_blanks,
    output_option,
    quiet_option,
    sample_option,
    text_arguments,
    threads_option,
    write_output,
)

METHODS = ["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]


@click.command("ibm1")
@text_arguments
@sample_option
@click.option("--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="EM iterations.")
@click.option("--null/--no-null", default=True, show_default=True, help="An empty source word in every sentence.")
@click.option("--reverse", is_flag=True, help="Fit p(source | target); links are still printed source first.")
@click.option("--symmetrize", "method", type=click.Choice(METHODS), help="Fit both directions and combine them.")
@click.option("--scores", metavar="FILE", help="Also write the score matrices (.npz, or .parquet with pyarrow).")
@click.option(
    "--kind",
    type=click.Choice(["alpha", "beta"]),
    default="alpha",
    show_default=True,
    help="Scores to write: alpha, the posterior over source words, or beta, Trans(target word | source word).",
)
@click.option("--model", metavar="FILE", help="Also save the model, for `alignkit align --model FILE`.")
@threads_option
@click.option("--seed", type=int, help="Accepted as in every aligner; IBM Model 1 draws no random numbers.")
@output_option
@quiet_option
def command(**options: Any) -> None:
    """Align a bitext with IBM Model 1: one line of source-target links per sentence pair.

    Links are zero-based and in Pharaoh format: "0-0 1-2" links source token 0 to target token 0 and source
    token 1 to target token 2. A pair with a blank side gets an empty line.
    """
    run(**options)


def run(
    source: str | None,
    target: str | None,
    *,
    sample: bool,
    lowercase: bool,
    encoding_errors: str,
    iterations: int,
    null: bool,
    reverse: bool,
    method: str | None,
    scores: str | None,
    kind: str,
    model: str | None,
    threads: int | None,
    seed: int | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Reads, fits, writes; every output is written after all work is done."""
    from alignkit.bitext import Bitext
    from alignkit.classical.bidirectional import fit_bidirectional
    from alignkit.classical.ibm1 import IBM1, fit_ibm1
    from alignkit.reading import blank_pairs, read_bitext

    del seed
    if method is not None and (reverse or scores or model):
        raise click.UsageError("--symmetrize fits two models; it goes with none of --reverse, --scores, --model.")
    if reverse and scores:
        raise click.UsageError("--scores writes source-to-target scores; exchange SRC and TGT to get the others.")
    source, target = choose_text(source, target, sample)
    bitext = read_bitext(source, target, encoding_errors=encoding_errors, lowercase=lowercase)

    def fit(text: Bitext) -> IBM1:
        def report(done: int, total: int, message: str) -> None:
            note(f"iteration {done} of {total}: {message}", quiet)

        return fit_ibm1(text, iterations, null, threads, report)

    if method is not None:
        links = fit_bidirectional(bitext, fit, method).links(bitext)
    else:
        fitted = fit(bitext.reversed if reverse else bitext)
        links = fitted.links(bitext.reversed).reversed if reverse else fitted.links(bitext)
        if model is not None:
            fitted.save(model)
        if scores is not None:
            fitted.score(bitext, kind).save(scores)
    write_output(links.to_pharaoh(), output)
    note_blanks(blank_pairs(bitext), quiet)
