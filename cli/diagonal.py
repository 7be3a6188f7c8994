"""``alignkit diagonal``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.classical.settings import TENSION_RANGE, DiagonalSettings
from alignkit_cli.fitting import (
    PROBABILITY,
    direction_options,
    estimation_options,
    fit_and_write,
    result_options,
    text_options,
)
from alignkit_cli.options import needs, setting_option, with_given


@click.command("diagonal")
@text_options
@estimation_options(DiagonalSettings)
@setting_option(
    DiagonalSettings,
    "null_probability",
    type=PROBABILITY,
    metavar="P0",
    help="The probability that a target word comes from NULL.",
)
@setting_option(
    DiagonalSettings,
    "dirichlet",
    type=click.FloatRange(min=1e-3),
    help="The concentration of the Dirichlet prior over a word's translations.",
)
@click.option("--no-dirichlet", is_flag=True, help="Estimate without a Dirichlet prior, by maximum likelihood.")
@setting_option(
    DiagonalSettings,
    "tension",
    type=click.FloatRange(*TENSION_RANGE),
    help="How strongly the diagonal is favoured at the start.",
)
@setting_option(
    DiagonalSettings,
    "optimize_tension",
    "--optimize-tension/--fixed-tension",
    help="Whether to fit the tension to the text in the course of EM.",
)
@direction_options
@result_options
def command(no_dirichlet: bool, **options: Any) -> None:
    """Align a bitext with fast_align's model: one line of source-target links per sentence pair.

    IBM Model 2 whose positions favour the diagonal of the sentence pair (Dyer, Chahuneau and Smith 2013). Links
    are zero-based and in Pharaoh format; a pair with a blank side gets an empty line. A fast_align run with -I n
    makes n - 1 iterations as counted here.
    """
    needs("dirichlet", "a prior (without --no-dirichlet)", not no_dirichlet)
    needs("null_probability", "NULL (without --no-null)", options["null"])
    if no_dirichlet:
        options["dirichlet"] = None
    fit_and_write("diagonal", with_given(DiagonalSettings(), options), options)
