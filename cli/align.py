"""``alignkit align``, ``ibm1``, ``diagonal`` and ``hmm``: the commands that align a text.

Args:
    --iterations: Number of EM iterations.
    --null: Whether a target word may come from NULL, an empty word that every source sentence gets.
    --start: Start from a saved model of the same kind and direction instead of uniform probabilities. Word pairs
        that it does not have start uniform.
    --reverse: Fit p(source | target); links are still printed with the source first.
    --fit-on: Fit on a random sample of the pairs, for texts of millions of pairs. The model then links all pairs
        in bounded memory; `align` adapts its model to each block of the text. SRC and TGT must be files, which are
        read several times.
    --set: Another setting of the model; may be given several times. The settings are $others; `$settings` in
        docs/api.md explains them.
    --symmetrize: Fit both directions and combine their links, by a heuristic of Moses or the product of their
        posteriors. One of $methods; gdfa, gdf, gd and intersect are short for some.
    --format: How links are written. $formats.
    --save-model: Also save the fitted model, for --model and --start.
    --save-scores: Also write the score matrices to FILE.npz or, with pyarrow, to FILE.parquet.
    --trace: Also write a table (TSV) of the iterations: log-likelihood, or score with priors, and seconds.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from itertools import chain, islice
from typing import Any

import click

from alignkit.classical.hmm.settings import JOINT_THRESHOLD, LINK_CHOICES
from alignkit.classical.settings import KINDS
from alignkit.links.formats import GOLD_BASES, OUTPUT_FORMATS
from alignkit.links.heuristics import method_names
from alignkit.pipeline.settings import (
    KNOWLEDGE,
    METHODS,
    QUALITIES,
    AlignSettings,
    FitSettings,
    LinkSettings,
)
from alignkit.support.settings import SCORE_ENDINGS, assigned
from alignkit.types import Progress
from alignkit_cli import shared
from alignkit_cli.parameter_types import PASSES, SHARE, Checked, HeuristicName, InputPath, OutputPath, Shard

#: Settings of a model that have an option of their own.
OWN = ("iterations", "null")
#: Seconds from which on the number of pairs a second means something.
LEAST_TIMED = 0.1

knowledge_options = shared.together(
    shared.prior_option, shared.setting_option(FitSettings, "start", type=InputPath())
)
result_options = shared.together(
    click.option("--fit-on", type=Checked("n|p%", "alignkit.pipeline.align:sample_share")),
    click.option("--save-model", type=OutputPath(replaces="start")),
    click.option("--save-scores", type=OutputPath(SCORE_ENDINGS)),
    click.option("--trace", type=OutputPath()),
    shared.choice_option("--format", "output_format", choices=OUTPUT_FORMATS),
    shared.threads_option,
    shared.output_option,
    shared.quiet_option,
)


symmetrization_option = shared.setting_option(
    LinkSettings,
    "symmetrization",
    "--symmetrize",
    "symmetrization",
    type=HeuristicName(method_names()),
    metavar="METHOD",
)
#: For explanations: how links are written, and how those of two directions are combined.
CHOICES = {
    "formats": "; ".join(f"{name}: {one.help}" for name, one in OUTPUT_FORMATS.items()),
    "methods": ", ".join(method_names()),
}


@shared.command(
    "align",
    "alignkit align corpus.de corpus.en --save-model m.npz -o links",
    threshold=JOINT_THRESHOLD,
    **CHOICES,
)
@shared.text_arguments
@shared.tokenize_option
@click.option("--model", "models", multiple=True, type=InputPath(folder=True))
@shared.setting_option(LinkSettings, "threshold", type=SHARE)
@shared.setting_option(LinkSettings, "links", type=click.Choice(list(LINK_CHOICES)))
@symmetrization_option
@shared.setting_option(FitSettings, "quality", type=click.Choice(list(QUALITIES)))
@shared.setting_option(FitSettings, "keep_case")
@knowledge_options
@shared.embeddings_option
@shared.setting_option(LinkSettings, "adapt")
@shared.gold_option
@shared.choice_option("--gold-base", choices=GOLD_BASES)
@click.option("--shard", type=Shard())
@click.option("--model-size", type=Checked("size", "alignkit.classical.cooccurrence:parse_size"))
@shared.choice_option("--on-error", choices=["stop", "skip"])
@shared.choice_option("--kind", choices=KINDS)
@click.option("--sentence-scores", type=OutputPath(stdout=True))
@result_options
def align_command(models: tuple[str, ...], on_error: str, **options: Any) -> None:
    """Align a text with the best aligner, or with a saved one.

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.

    Without --model, two hidden Markov models, one for each direction, are trained jointly on this text. For small
    texts, and with --quality best for texts of any size, several such models are trained, on words and on parts of
    words, and their probabilities of each link are averaged. With --model, a saved aligner links new text. The
    joint model links words that it has never seen by their spelling, and with --adapt also by their use in the new
    text; other models leave them unlinked. A neural aligner's links are between whitespace words, from attention
    summed over their subwords.

    --fit-on fits on a sample of the pairs. --shard links one part of the text, so that many jobs can share the
    work.

    With --model and "-" as SRC, pairs are read from standard input and answered line by line, in bounded memory.

    Args:
        --model: Align with a saved model, or a run of `alignkit train`, instead of fitting one. A checkpoint works
            too. Give it twice, with models of both directions, to combine their links.
        --threshold: Link words if the probability is at least this. Raise it for precision, lower it for recall.
            [default: $threshold, or the model's]
        --symmetrize: Combine two saved models (--model twice). One of $methods; gdfa, gdf, gd and intersect are
            short for some.
        --links: Find sure links, or all that are likely. Sure ones leave function words alone that only one
            language has. Without this option, links are those that suit most annotators.
        --quality: How much time to spend. fast takes five sixths of normal's time on large texts and less than
            half on small ones. best takes seven to nine times as long on large texts and two to three times on
            small ones; below some 2,000 sentence pairs it equals normal.
        --keep-case: Treat words that differ only in case as different words, and use words only, not their parts.
        --adapt: With --model: adapt the joint model to each block of the text before linking it (from standard
            input, to each pair). Links of words that the model has not seen get far better.
        --gold-base: The number of the first word in the file of --gold; auto finds it.
        --shard: With --model: link only the i-th of n parts of the text. The outputs of 1/n to n/n, joined, equal
            that of the whole text.
        --model-size: Prune the saved model to a file of at most this size, such as 100M. It keeps the word pairs
            with the most expected links; a message gives the share of the others.
        --on-error: With --model and "-" as SRC: stop at a malformed line, or skip it and print an empty line for
            it. At the end, standard error gives the number of skipped lines.
        --kind: The scores that --save-scores writes: alpha, the posterior over source words, or beta, Trans(target
            word | source word).
        --sentence-scores: Also write a line per pair: log p(target | source) per target word (natural logarithm);
            with two directions, log p(source | target) per source word after a tab; nan if a side is blank.
    """
    if len(models) > 2:
        raise click.UsageError("Give one --model, or two of opposite directions.")
    model = (models[0], models[1]) if len(models) == 2 else models[0] if models else None
    shared.needs(
        "symmetrization", "two of --model; the default aligner already has both directions", len(models) == 2
    )
    for name in ("save_model", "fit_on", "trace", *(field.name for field in fields(FitSettings))):
        shared.needs(name, "a fit, not with --model", model is None)
    shared.needs("adapt", "--model", model is not None)
    shared.needs("gold_base", "--gold", options["gold"] is not None)
    shared.needs(
        "model_size", "--save-model without --gold", options["save_model"] is not None and options["gold"] is None
    )
    settings = align_settings(options)
    fitting = settings.fitting
    is_folded = model is None and fitting.folds_case and not OUTPUT_FORMATS[options["output_format"]].needs_words
    if is_folded and not has_embeddings(fitting, options["source"], options["target"]):
        # The fit is that of the text in lower case; read so, the text is in memory once, not twice.
        settings = replace(settings, reading=replace(settings.reading, lowercase=True))
    align_and_write(settings, options, model, on_error == "skip")


def has_embeddings(fitting: FitSettings, source: str | None, target: str | None) -> bool:
    """Whether embeddings, which need words in their own case, may be evidence for a text."""
    from alignkit.pipeline import models
    from alignkit.text.reading import read_raw_lines

    may_add = fitting.adds_embeddings and all(map(models.is_here, models.E5_PACKAGES))
    if not may_add or source is None or not os.path.isfile(source):
        return may_add or fitting.embeddings not in (None, "none")
    lines = read_raw_lines(source)
    first = next(lines, b"")
    # Of TMX, XLIFF and Parquet, the lines do not tell the number of pairs.
    most = models.READ_TEXT * (100 if target is None and (b"<" in first[:4] or first[:4] == b"PAR1") else 1)
    return sum(1 for _ in islice(chain([first], lines), most + 1)) <= most


def fit_command(method: str) -> Callable[[shared.Function], click.Command]:
    """The decorator of a command that aligns a text by a method, a name in :data:`METHODS`, fitted on it."""
    estimation = METHODS[method].estimation
    values = {each.name: getattr(estimation, each.name) for each in fields(estimation)}
    others = ", ".join(f"{name} ({json.dumps(value)})" for name, value in values.items() if name not in OWN)
    options = shared.together(
        shared.text_arguments,
        shared.tokenize_option,
        shared.setting_option(estimation, "iterations", type=PASSES),
        *([shared.setting_option(estimation, "null", "--null/--no-null")] if "null" in values else []),
        shared.set_option,
        *([knowledge_options] if METHODS[method].takes >= KNOWLEDGE else []),
        shared.setting_option(FitSettings, "reverse"),
        symmetrization_option,
        result_options,
    )
    example = f"alignkit {method} corpus.de corpus.en --symmetrize gdfa -o links"
    command = shared.command(method, example, settings=type(estimation).__name__, others=others, **CHOICES)
    return lambda function: command(options(function))


@fit_command("ibm1")
def ibm1_command(**options: Any) -> None:
    """Align a text with IBM Model 1, fitted on it.

    All source positions are equally likely (Brown et al. 1993).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    fit_and_write("ibm1", **options)


@fit_command("diagonal")
def diagonal_command(**options: Any) -> None:
    """Align a text with fast_align's model, fitted on it.

    This is IBM Model 2 with positions that favour the diagonal of the sentence pair (Dyer, Chahuneau and Smith
    2013). A fast_align run with -I n makes n - 1 iterations as counted here.

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    fit_and_write("diagonal", **options)


@fit_command("hmm")
def hmm_command(**options: Any) -> None:
    """Align a text with a hidden Markov model, fitted on it.

    The source position of a word depends on that of the word before (Vogel, Ney and Tillmann 1996).

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.
    """
    fit_and_write("hmm", **options)


def fit_and_write(method: str, assignments: tuple[str, ...], **options: Any) -> None:
    """Align a text by a method, fitted on it.

    Args:
        method: a name in :data:`METHODS`.
        assignments: ``NAME=VALUE``, of its settings.
        **options: of the command.
    """
    names = {text.partition("=")[0].strip().replace("-", "_") for text in assignments}
    for name in names.intersection(OWN):
        raise click.UsageError(f"--set {name} has an option of its own; use that.")
    if "null_probability" in names and not options.get("null", True):
        raise click.UsageError("--set null_probability does not go with --no-null.")
    given = {name: options[name] for name in OWN if name in options}
    fitted = assigned(replace(METHODS[method].estimation, **given), assignments)
    align_and_write(align_settings(options, method=method, estimation=fitted, iterations=None), options)


def align_settings(options: Mapping[str, Any], **values: Any) -> AlignSettings:
    """The settings of an alignment: the options that are called like one of their fields, and ``values``."""
    names = {each.name for part in vars(AlignSettings()).values() for each in fields(part)}
    return AlignSettings.of(**{name: options[name] for name in names if name in options} | values)


def align_and_write(
    settings: AlignSettings,
    options: Mapping[str, Any],
    model: str | tuple[str, str] | None = None,
    skip: bool = False,
) -> None:
    """Fit or load an aligner, and write what is asked for; links come last, when all other work is done.

    Args:
        settings: of the alignment.
        options: of the command; all but `align` lack some.
        model: a saved aligner, or one of each direction; None: one is fitted.
        skip: go on after malformed lines of a stream.
    """
    source, target = shared.choose_text(options)
    threads, quiet, scores = options["threads"], options["quiet"], options["save_scores"]
    fit_on, shard = options["fit_on"], options.get("shard")
    streamed = model is not None and source == "-" and target is None
    gold = settings.linking.gold
    in_blocks = streamed or shard is not None or fit_on is not None or settings.linking.adapt
    shared.needs("shard", "--model and files", model is not None and not streamed)
    shared.needs("on_error", '--model and "-" as SRC', streamed)
    shared.needs("kind", "--save-scores", scores is not None)
    if scores is not None and (in_blocks or settings.fitting.reverse):
        refused = 'with none of --fit-on, --adapt, --shard and "-"' if in_blocks else "not with --reverse"
        raise click.UsageError(
            f"--save-scores writes source-to-target scores of the whole text; it goes {refused}."
        )
    is_raw = settings.reading.tokenize or model is not None or settings.fitting.start is not None
    if OUTPUT_FORMATS[options["output_format"]].needs_spans and not is_raw:
        raise click.UsageError(f"--format {options['output_format']} goes only with --tokenize.")
    from alignkit.pipeline.align import align, align_blocks, align_stream
    from alignkit.pipeline.aligned_text import write_alignments
    from alignkit.text.blocks import path_read_once
    from alignkit.text.pairs import PairFiles

    began = time.monotonic()
    first = 0
    if model is not None and streamed:
        blocks = align_stream(sys.stdin.buffer, model, settings=settings, threads=threads or 1, skip=skip)
    else:
        # A saved model links a text of any size, unless all scores are wanted or the text can be read only once.
        whole = scores is not None or gold is not None
        in_blocks |= model is not None and not whole and path_read_once(PairFiles(source, target)) is None
        if model is None:
            shared.give_memory_back()
        label = "fitting" if model is None else "aligning"
        with shared.ProgressBar(label, quiet, 1 if settings.linking.symmetrization is None else 2) as bar:
            trace = None if options["trace"] is None else FitTrace(bar)
            how: dict[str, Any] = {"settings": settings, "model": model, "threads": threads}
            how["progress"] = trace or bar
            if in_blocks:
                found = align_blocks(source, target, fit_on=fit_on, shard=shard or (1, 1), **how)
                aligner, blocks, first = found.aligner, found.texts, found.low
            else:
                aligned = align(source, target, **how)
                aligner, blocks = aligned.aligner, iter([aligned])
        ignores_case = model is None and getattr(aligner, "folds_case", False)  # a Linker says so itself
        if options["lowercase"] and ignores_case and not has_embeddings(settings.fitting, source, target):
            shared.note("--lowercase does not change the links: this model ignores case", quiet)
        if trace is not None:
            shared.write_output("\n".join(trace.rows), options["trace"])
        if options["save_model"] is not None:
            if options.get("model_size") is not None:
                from alignkit.classical.hmm.joint import JointHMM, pruned

                assert isinstance(aligner, JointHMM)  # of `align`, which fits no other
                aligner, lost = pruned(aligner, options["model_size"])
                shared.note(f"{options['save_model']}: {lost}", quiet)
            aligner.save(options["save_model"])
        if scores is not None:
            aligned.score(options.get("kind", "alpha")).save(scores)
    files = options["output"] or "-", options["output_format"], options.get("sentence_scores")
    written = write_alignments(blocks, *files, first=first)

    # What was done is said in any case if something was left out.
    seconds = time.monotonic() - began
    names = [options.get(name) for name in ("output", "save_model", "save_scores", "sentence_scores", "trace")]
    made = "".join(f"; {name}" for name in names if name not in (None, "-"))
    rate = f" ({written.pairs / seconds:,.0f} pairs/s)" if seconds >= LEAST_TIMED else ""
    shared.note(f"{written}, {seconds:.1f} s{rate}{made}", quiet and not written.malformed)


class FitTrace:
    """A progress of a fit that keeps what each iteration reports, for a table.

    Args:
        progress: is called too.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress, self.began = progress, time.monotonic()
        self.rows = ["fit\titeration\tmeasure\tvalue\tseconds"]
        self.iterations: Counter[str] = Counter()

    def __call__(self, done: int, total: int, message: str = "") -> None:
        """Keep the log-likelihood or score of an iteration, and its fit: ``reverse``, ``view 2``, or ``main``."""
        found = re.search(r"(?:(.*), )?(log-likelihood|score) (\S+)", message)
        if found:
            fit = found[1] or "main"
            self.iterations[fit] += 1
            seconds = time.monotonic() - self.began
            self.rows.append(f"{fit}\t{self.iterations[fit]}\t{found[2]}\t{found[3]}\t{seconds:.3f}")
        self.progress(done, total, message)
