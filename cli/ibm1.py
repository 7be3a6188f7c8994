"""``alignkit ibm1``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.classical.settings import IBM1Settings
from alignkit_cli.fitting import (
    PROBABILITY,
    direction_options,
    estimation_options,
    fit_and_write,
    knowledge_options,
    result_options,
    text_options,
)
from alignkit_cli.options import memory_options, setting_option, with_given


@click.command("ibm1")
@text_options
@estimation_options(IBM1Settings)
@setting_option(
    IBM1Settings,
    "null_probability",
    type=PROBABILITY,
    metavar="P0",
    help="Fix the probability of NULL; the L source words share the rest.  [default: NULL is one of L + 1 words]",
)
@setting_option(
    IBM1Settings,
    "dirichlet",
    type=click.FloatRange(min=1e-3),
    help="Estimate by variational Bayes with this Dirichlet prior, as 0.01.  [default: maximum likelihood]",
)
@knowledge_options
@direction_options
@memory_options
@result_options
def command(**options: Any) -> None:
    """Align a bitext with IBM Model 1: one line of source-target links per sentence pair.

    Links are zero-based and in Pharaoh format: "0-0 1-2" links source token 0 to target token 0 and source
    token 1 to target token 2. A pair with a blank side gets an empty line.
    """
    fit_and_write("ibm1", with_given(IBM1Settings(), options), options)
