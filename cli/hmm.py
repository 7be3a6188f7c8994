"""``alignkit hmm``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from alignkit.classical.hmm.settings import DECODINGS, JOINT_SETTINGS, JOINT_THRESHOLD, HMMSettings
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    align_and_write,
    align_settings,
    direction_options,
    knowledge_options,
    result_options,
    text_options,
)
from alignkit_cli.options import needs, setting_option, with_given
from alignkit_cli.parameter_types import GREATEST_PASSES, PASSES, PROBABILITY

NULL = f"{HMMSettings.null_probability}; with --bayes {JOINT_SETTINGS.null_probability}"


@alignkit_command("hmm")
@text_options
@setting_option(HMMSettings, "iterations", type=PASSES, help="Number of EM iterations.")
@setting_option(
    HMMSettings,
    "lexical_iterations",
    type=click.IntRange(0, GREATEST_PASSES),
    help="Number of iterations of IBM Model 1 before these.",
)
@click.option(
    "--null-probability",
    type=PROBABILITY,
    help=f"The probability that a target word comes from NULL.  [default: {NULL}]",
)
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
@setting_option(
    HMMSettings,
    "decode",
    type=click.Choice(list(DECODINGS)),
    help="posterior: link each target word to its likeliest source word; viterbi: the links of the likeliest "
    "alignment of the sentence as a whole.",
)
@knowledge_options
@direction_options
@result_options
def command(bayes: bool, agreement: bool, null_probability: float | None, **options: Any) -> None:
    """Align a text with a hidden Markov model, fitted on it.

    The source position of a word depends on that of the word before (Vogel, Ney and Tillmann 1996).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    directed = options["symmetrization"] or options["reverse"] or options["decode"] != HMMSettings.decode
    if agreement and directed:
        raise click.UsageError("--agreement goes with none of --symmetrize, --reverse, --decode viterbi.")
    if agreement and bayes:
        raise click.UsageError("--agreement with --bayes is what `alignkit align` does; use that.")
    needs("lexical_iterations", "a fit without --start", options["start"] is None)
    base = replace(JOINT_SETTINGS, tolerance=HMMSettings.tolerance) if bayes else HMMSettings()
    if null_probability is not None:
        base = replace(base, null_probability=null_probability)
    method, estimation = "joint" if agreement else "hmm", with_given(base, options)
    align_and_write(align_settings(options, method=method, estimation=estimation, iterations=None), options)
