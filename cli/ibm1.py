"""``alignkit ibm1``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from alignkit_cli.fitting import (
    Outputs,
    direction_options,
    estimation_options,
    knowledge_options,
    load_prior,
    load_start,
    result_options,
    run,
    text_options,
)
from alignkit_cli.options import memory_options

if TYPE_CHECKING:
    from alignkit.text.bitext import Bitext


@click.command("ibm1")
@text_options
@estimation_options
@click.option(
    "--null-probability",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    metavar="P0",
    help="Fix the probability of NULL; the L source words share the rest.  [default: NULL is one of L + 1 words]",
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=1e-3),
    help="Estimate by variational Bayes with this Dirichlet prior, as 0.01.  [default: maximum likelihood]",
)
@knowledge_options
@direction_options
@memory_options
@result_options
def command(
    iterations: int,
    null: bool,
    null_probability: float | None,
    alpha: float | None,
    tolerance: float,
    prune: float,
    prior: str | None,
    prior_weight: float,
    start: str | None,
    **options: Any,
) -> None:
    """Align a bitext with IBM Model 1: one line of source-target links per sentence pair.

    Links are zero-based and in Pharaoh format: "0-0 1-2" links source token 0 to target token 0 and source
    token 1 to target token 2. A pair with a blank side gets an empty line.
    """

    in_blocks = prior is None and start is None
    if options["max_memory"] is not None and not in_blocks:
        raise click.UsageError("--max-memory goes with neither --prior nor --start.")

    def fit(
        text: Bitext,
        threads: int,
        progress: Callable[[int, int, str], None],
        turned: bool,
        block_tokens: int | None = None,
    ) -> Any:
        from alignkit.classical.ibm1 import fit_ibm1

        return fit_ibm1(
            text,
            threads=threads,
            progress=progress,
            iterations=iterations,
            null=null,
            null_probability=null_probability,
            alpha=alpha,
            tolerance=tolerance,
            prune=prune,
            block_tokens=block_tokens,
            prior=load_prior(prior, prior_weight, turned),
            start=load_start(start, "ibm1", text),
        )

    run(fit, Outputs(**options, start=start), in_blocks=in_blocks)
