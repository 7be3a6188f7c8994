"""The options and the way from text to links that all commands share which fit an aligner."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from alignkit.links.formats import OUTPUT_FORMATS
from alignkit.links.heuristics import method_names
from alignkit.pipeline.settings import KNOWLEDGE, METHODS, AlignSettings, FitSettings, LinkSettings
from alignkit.support.settings import SCORE_ENDINGS, assigned
from alignkit_cli.options import (
    Function,
    Option,
    alignkit_command,
    apply,
    choice_option,
    choose_text,
    give_memory_back,
    needs,
    note,
    output_option,
    quiet_option,
    sample_option,
    set_option,
    setting_option,
    text_arguments,
    threads_option,
    tokenize_option,
    write_output,
)
from alignkit_cli.parameter_types import PASSES, TEXT, Checked, HeuristicName, InputPath, OutputPath
from alignkit_cli.progress import FitTrace, ProgressBar

if TYPE_CHECKING:
    from alignkit.pipeline.aligned_text import Written

#: Settings of a model that have an option of their own.
OWN = ("iterations", "null")
#: What the commands print, for help.
PRINTED = (
    'Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target '
    "word and the second source word to the third target word. The line is empty if a side is blank."
)
#: Seconds from which on the number of pairs a second means something.
LEAST_TIMED = 0.1


def estimation_options(settings: object) -> Option:
    """--iterations, --null where the model may lack it, and --set, of a model's settings."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}  # type: ignore[arg-type]
    options = [setting_option(settings, "iterations", type=PASSES, help="Number of EM iterations.")]
    if "null" in values:
        what = "Whether a target word may come from NULL, an empty word that every source sentence gets."
        options.append(setting_option(settings, "null", "--null/--no-null", help=what))
    others = [f"{name} ({json.dumps(value)})" for name, value in values.items() if name not in OWN]
    assignments = set_option(
        f"Another setting of the model; may be given several times. The settings are {', '.join(others)}; "
        f"`{type(settings).__name__}` in docs/api.md explains them."
    )
    return lambda command: apply(command, *options, assignments)


def knowledge_options(command: Function) -> Function:
    """--prior and --start."""
    prior = setting_option(
        FitSettings,
        "prior",
        type=TEXT,
        help="Use a dictionary or lexicon as a prior. `alignkit lexicon`, Moses and eflomal write lexicons. Its "
        "probabilities count like some occurrences of each word.",
    )
    start = setting_option(
        FitSettings,
        "start",
        type=InputPath(),
        help="Start from a saved model of the same kind and direction instead of uniform probabilities. Word "
        "pairs that it does not have start uniform.",
    )
    return apply(command, prior, start)


def direction_options(command: Function) -> Function:
    """--reverse and --symmetrize."""
    reverse = setting_option(
        FitSettings,
        "reverse",
        is_flag=True,
        show_default=False,
        help="Fit p(source | target); links are still printed with the source first.",
    )
    symmetrization = symmetrization_option(
        "Fit both directions and combine their links, by a heuristic of Moses or the product of their posteriors."
    )
    return apply(command, reverse, symmetrization)


def symmetrization_option(what: str) -> Option:
    """--symmetrize; ``what`` says what it does."""
    return setting_option(
        LinkSettings,
        "symmetrization",
        "--symmetrize",
        "symmetrization",
        type=HeuristicName(method_names()),
        metavar="METHOD",
        help=f"{what} One of {', '.join(method_names())}; gdfa, gdf, gd and intersect are short for some.",
    )


def result_options(command: Function) -> Function:
    """What is fitted on and saved, output files, and the number of threads."""
    fit_on = click.option(
        "--fit-on",
        type=Checked("n|p%", "alignkit.pipeline.align:sample_share"),
        help="Fit on a random sample of the pairs, for texts of millions of pairs. The model then links all pairs "
        "in bounded memory; `align` adapts its model to each block of the text. SRC and TGT must be files, which "
        "are read several times.",
    )
    model = click.option(
        "--save-model",
        type=OutputPath(replaces="start"),
        help="Also save the fitted model, for --model and --start.",
    )
    scores = click.option(
        "--save-scores",
        type=OutputPath(*SCORE_ENDINGS),
        help="Also write the score matrices to FILE.npz or, with pyarrow, to FILE.parquet.",
    )
    output_format = choice_option(
        "--format",
        "output_format",
        choices=OUTPUT_FORMATS,
        help="How links are written. "
        + "; ".join(f"{name}: {one.help}" for name, one in OUTPUT_FORMATS.items())
        + ".",
    )
    trace = click.option(
        "--trace",
        type=OutputPath(),
        help="Also write a table (TSV) of the iterations: log-likelihood, or score with priors, and seconds.",
    )
    files = (fit_on, model, scores, trace, output_format)
    return apply(command, *files, threads_option, output_option, quiet_option)


def text_options(command: Function) -> Function:
    """SRC, TGT, --sample, and how to read them."""
    return text_arguments(tokenize_option(sample_option(command)))


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
    source, target = choose_text(options["source"], options["target"], options["sample"])
    threads, quiet, scores = options["threads"], options["quiet"], options["save_scores"]
    fit_on, shard = options["fit_on"], options.get("shard")
    streamed = model is not None and source == "-" and target is None
    gold = settings.linking.gold
    in_blocks = streamed or shard is not None or fit_on is not None or settings.linking.adapt
    needs("shard", "--model and files", model is not None and not streamed)
    needs("on_error", '--model and "-" as SRC', streamed)
    needs("kind", "--save-scores", scores is not None)
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

    # A saved model links a text of any size, unless all scores are wanted or the text can be read only once.
    whole = scores is not None or gold is not None
    in_blocks |= model is not None and not whole and path_read_once(PairFiles(source, target)) is None

    began = time.monotonic()

    def close(written: Written) -> None:
        """Say what was done, in any case if something was left out."""
        seconds = time.monotonic() - began
        names = [options.get(name) for name in ("output", "save_model", "save_scores", "sentence_scores", "trace")]
        made = "".join(f"; {name}" for name in names if name not in (None, "-"))
        rate = f" ({written.pairs / seconds:,.0f} pairs/s)" if seconds >= LEAST_TIMED else ""
        note(f"{written}, {seconds:.1f} s{rate}{made}", quiet and not written.malformed)

    files = options["output"] or "-", options["output_format"], options.get("sentence_scores")
    if model is not None and streamed:
        texts = align_stream(sys.stdin.buffer, model, settings=settings, threads=threads or 1, skip=skip)
        close(write_alignments(texts, *files))
        return
    if model is None:
        give_memory_back()
    label = "fitting" if model is None else "aligning"
    with ProgressBar(label, quiet, 1 if settings.linking.symmetrization is None else 2) as progress:
        trace = FitTrace(progress)
        how: dict[str, Any] = {"settings": settings, "model": model, "threads": threads, "progress": trace}
        if in_blocks:
            found = align_blocks(source, target, fit_on=fit_on, shard=shard or (1, 1), **how)
            aligner, blocks, first = found.aligner, found.texts, found.low
        else:
            aligned = align(source, target, **how)
            aligner, blocks, first = aligned.aligner, iter([aligned]), 0
    if options["trace"] is not None:
        write_output("".join(f"{row}\n" for row in trace.rows).encode(), options["trace"])
    if options["save_model"] is not None:
        if options.get("model_size") is not None:
            from alignkit.classical.hmm.joint import pruned

            aligner, lost = pruned(aligner, options["model_size"])
            note(f"{options['save_model']}: {lost}", quiet)
        aligner.save(options["save_model"])
    if scores is not None:
        aligned.score(options.get("kind", "alpha")).save(scores)
    close(write_alignments(blocks, *files, first=first))


def fit_command(method: str, what: str) -> click.Command:
    """The command that aligns a text by a method, fitted on it.

    Args:
        method: a name in :data:`METHODS`, and of the command.
        what: the beginning of its help.
    """
    estimation = METHODS[method].estimation
    knowledge = [knowledge_options] if METHODS[method].takes >= KNOWLEDGE else []

    def run(**options: Any) -> None:
        names = {text.partition("=")[0].strip().replace("-", "_") for text in options["assignments"]}
        for name in names.intersection(OWN):
            raise click.UsageError(f"--set {name} has an option of its own; use that.")
        if "null_probability" in names and not options.get("null", True):
            raise click.UsageError("--set null_probability does not go with --no-null.")
        given = {name: options[name] for name in OWN if name in options}
        fitted = assigned(replace(estimation, **given), options["assignments"])
        align_and_write(align_settings(options, method=method, estimation=fitted, iterations=None), options)

    run.__doc__ = f"{what}\n\n{PRINTED}"
    decorators = (text_options, estimation_options(estimation), *knowledge, direction_options, result_options)
    example = f"alignkit {method} corpus.de corpus.en --symmetrize gdfa -o links"
    return alignkit_command(method, example)(apply(run, *decorators))
