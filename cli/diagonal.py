"""``alignkit diagonal``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.classical.settings import DIRICHLET_RANGE, TENSION_RANGE, DiagonalSettings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    align_and_write,
    align_settings,
    direction_options,
    estimation_options,
    result_options,
    text_options,
)
from alignkit_cli.options import needs, setting_option, with_given
from alignkit_cli.parameter_types import PROBABILITY, RealNumber


@alignkit_command("diagonal")
@text_options
@estimation_options(DiagonalSettings)
@setting_option(
    DiagonalSettings,
    "null_probability",
    type=PROBABILITY,
    help="The probability that a target word comes from NULL.",
)
@setting_option(
    DiagonalSettings,
    "dirichlet",
    type=RealNumber(*DIRICHLET_RANGE),
    help="The concentration of the Dirichlet prior over a word's translations; the lower, the fewer translations.",
)
@click.option("--no-dirichlet", is_flag=True, help="Estimate without a Dirichlet prior, by maximum likelihood.")
@setting_option(
    DiagonalSettings,
    "tension",
    type=RealNumber(*TENSION_RANGE),
    help="How strongly the diagonal is favoured before the first iteration, from 0.1 to 14.",
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
    """Align a text with fast_align's model, fitted on it.

    IBM Model 2 whose positions favour the diagonal of the sentence pair (Dyer, Chahuneau and Smith 2013). A
    fast_align run with -I n makes n - 1 iterations as counted here.

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    needs("dirichlet", "a Dirichlet prior (without --no-dirichlet)", not no_dirichlet)
    needs("null_probability", "NULL (without --no-null)", options["null"])
    if no_dirichlet:
        options["dirichlet"] = None
    estimation = with_given(DiagonalSettings(), options)
    align_and_write(align_settings(options, method="diagonal", estimation=estimation, iterations=None), options)
