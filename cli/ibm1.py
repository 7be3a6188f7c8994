"""``alignkit ibm1``."""

from __future__ import annotations

from typing import Any

from alignkit.classical.settings import DIRICHLET_RANGE, IBM1Settings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    align_and_write,
    align_settings,
    direction_options,
    estimation_options,
    knowledge_options,
    result_options,
    text_options,
)
from alignkit_cli.options import needs, setting_option, with_given
from alignkit_cli.parameter_types import PROBABILITY, RealNumber


@alignkit_command("ibm1")
@text_options
@estimation_options(IBM1Settings)
@setting_option(
    IBM1Settings,
    "null_probability",
    type=PROBABILITY,
    help="Fix the probability that a target word comes from NULL; the L source words share the rest.  [default: "
    "NULL is one of L + 1 words]",
)
@setting_option(
    IBM1Settings,
    "dirichlet",
    type=RealNumber(*DIRICHLET_RANGE),
    help="Estimate by variational Bayes with a Dirichlet prior of this concentration, such as 0.01: few "
    "translations for each word.  [default: maximum likelihood]",
)
@knowledge_options
@direction_options
@result_options
def command(**options: Any) -> None:
    """Align a text with IBM Model 1, fitted on it.

    All source positions are equally likely (Brown et al. 1993).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    needs("null_probability", "NULL (without --no-null)", options["null"])
    estimation = with_given(IBM1Settings(), options)
    align_and_write(align_settings(options, method="ibm1", estimation=estimation, iterations=None), options)
