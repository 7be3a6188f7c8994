"""``alignkit hmm``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from alignkit.classical.hmm.settings import JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    direction_options,
    estimation_options,
    fit_and_write,
    knowledge_options,
    result_options,
    text_options,
)


@alignkit_command("hmm")
@text_options
@estimation_options(HMMSettings())
@click.option(
    "--bayes",
    is_flag=True,
    help="Use the sparse priors, the back-off to word classes and the fertility of the best aligner "
    "(`alignkit align`).",
)
@click.option(
    "--agreement",
    is_flag=True,
    help="Fit both directions jointly, on shared expected links (after Liang, Taskar and Klein 2006), and "
    f"link where the probability that both give together is at least {JOINT_THRESHOLD}.",
)
@knowledge_options
@direction_options
@result_options
def command(bayes: bool, agreement: bool, **options: Any) -> None:
    """Align a text with a hidden Markov model, fitted on it.

    The source position of a word depends on that of the word before (Vogel, Ney and Tillmann 1996).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    if agreement and bayes:
        raise click.UsageError("--agreement with --bayes is what `alignkit align` does; use that.")
    base = replace(JOINT_SETTINGS, tolerance=HMMSettings.tolerance) if bayes else HMMSettings()
    fit_and_write("joint" if agreement else "hmm", base, options)
