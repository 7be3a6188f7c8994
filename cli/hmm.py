"""``alignkit hmm``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from alignkit_cli.fitting import (
    Outputs,
    direction_options,
    knowledge_options,
    load_prior,
    load_start,
    result_options,
    run,
    text_options,
)

if TYPE_CHECKING:
    from alignkit.text.bitext import Bitext


@click.command("hmm")
@text_options
@click.option("--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="EM iterations.")
@click.option(
    "--lexical-iterations",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="Iterations of IBM Model 1 before them.",
)
@click.option(
    "--null-probability",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    metavar="P0",
    help="The probability that a target word comes from NULL.  [default: 0.2; with --bayes 0.05]",
)
@click.option(
    "--bayes",
    is_flag=True,
    help="Sparse priors, back-off to word classes and fertility, as the best aligner (`alignkit align`) has them.",
)
@click.option(
    "--agreement",
    is_flag=True,
    help="Fit both directions, which share their links while they learn (after Liang, Taskar and Klein 2006), and "
    "link where the mean of their posteriors, weighted by the words of each side, reaches 0.45.",
)
@click.option(
    "--decode",
    type=click.Choice(["posterior", "viterbi"]),
    default="posterior",
    show_default=True,
    help="posterior: link each target word to its likeliest source word; viterbi: the links of the likeliest "
    "alignment of the sentence as a whole.",
)
@knowledge_options
@direction_options
@result_options
def command(
    iterations: int,
    lexical_iterations: int,
    null_probability: float | None,
    bayes: bool,
    agreement: bool,
    decode: str,
    prior: str | None,
    prior_weight: float,
    start: str | None,
    **options: Any,
) -> None:
    """Align a bitext with a hidden Markov model: one line of source-target links per sentence pair.

    Words are translated in the order of a chain over the source positions (Vogel, Ney and Tillmann 1996). Links
    are zero-based and in Pharaoh format; a pair with a blank side gets an empty line.
    """

    if agreement and (options["method"] or options["reverse"] or decode != "posterior"):
        raise click.UsageError("--agreement goes with none of --symmetrize, --reverse, --decode viterbi.")
    if agreement and bayes:
        raise click.UsageError("--agreement with --bayes is what `alignkit align` does; use that.")

    def fit(text: Bitext, threads: int, progress: Callable[[int, int, str], None], turned: bool) -> Any:
        from dataclasses import replace

        from alignkit.classical.hmm.joint import fit_joint
        from alignkit.classical.hmm.model import fit_hmm
        from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings

        base = replace(JOINT_SETTINGS, tolerance=0.0) if bayes else HMMSettings()
        settings = replace(base, iterations=iterations, lexical_iterations=lexical_iterations)
        if null_probability is not None:
            settings = replace(settings, null_probability=null_probability)
        known = load_prior(prior, prior_weight, turned)
        common: dict[str, Any] = {"threads": threads, "progress": progress, "prior": known}
        if agreement:
            return fit_joint(text, settings, start=load_start(start, "hmm-joint", text), **common)
        return fit_hmm(text, settings, decode=decode, start=load_start(start, "hmm", text), **common)

    run(fit, Outputs(**options, start=start))
