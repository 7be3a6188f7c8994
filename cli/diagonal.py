"""``alignkit diagonal``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from alignkit_cli.fitting import (
    Outputs,
    direction_options,
    estimation_options,
    result_options,
    run,
    text_options,
)
from alignkit_cli.options import needs

if TYPE_CHECKING:
    from alignkit.text.bitext import Bitext


@click.command("diagonal")
@text_options
@estimation_options
@click.option(
    "--null-probability",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    metavar="P0",
    default=0.08,
    show_default=True,
    help="The probability that a target word comes from NULL.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=1e-3),
    default=0.01,
    show_default=True,
    help="Of the Dirichlet prior over a word's translations.",
)
@click.option("--no-prior", is_flag=True, help="Without that prior: maximum likelihood.")
@click.option(
    "--tension",
    type=click.FloatRange(min=0.1, max=14),
    default=4.0,
    show_default=True,
    help="How strongly the diagonal is favoured, to start with.",
)
@click.option(
    "--optimize-tension/--fixed-tension",
    default=True,
    show_default=True,
    help="Whether to fit it to the text in the course of EM.",
)
@direction_options
@result_options
def command(
    iterations: int,
    null: bool,
    null_probability: float,
    alpha: float,
    no_prior: bool,
    tension: float,
    optimize_tension: bool,
    tolerance: float,
    prune: float,
    **options: Any,
) -> None:
    """Align a bitext with fast_align's model: one line of source-target links per sentence pair.

    IBM Model 2 whose positions favour the diagonal of the sentence pair (Dyer, Chahuneau and Smith 2013). Links
    are zero-based and in Pharaoh format; a pair with a blank side gets an empty line. A fast_align run with -I n
    makes n - 1 iterations as counted here.
    """

    needs("alpha", "a prior (without --no-prior)", not no_prior)
    needs("null_probability", "NULL (without --no-null)", null)

    def fit(text: Bitext, threads: int, progress: Callable[[int, int, str], None], turned: bool) -> Any:
        from alignkit.classical.diagonal import fit_diagonal

        return fit_diagonal(
            text,
            threads=threads,
            progress=progress,
            iterations=iterations,
            null=null,
            null_probability=null_probability,
            alpha=None if no_prior else alpha,
            tension=tension,
            optimize_tension=optimize_tension,
            tolerance=tolerance,
            prune=prune,
        )

    run(fit, Outputs(**options))
