"""The options and the way from text to links that all commands share which fit an aligner."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from alignkit.align_settings import AlignSettings, Estimation, FitSettings, LinkSettings
from alignkit.classical.settings import KINDS
from alignkit.links.heuristics import DEFAULT_THRESHOLD, method_names
from alignkit.types import SCORE_ENDINGS, assigned
from alignkit_cli.options import (
    Command,
    apply,
    choose_text,
    format_options,
    give_memory_back,
    needs,
    note,
    note_blanks,
    output_option,
    quiet_option,
    sample_option,
    set_option,
    setting_option,
    text_arguments,
    threads_option,
)
from alignkit_cli.parameter_types import PASSES, SHARE, TEXT, Checked, InputPath, OutputPath
from alignkit_cli.progress import ProgressBar

if TYPE_CHECKING:
    from alignkit.aligner import Aligner
    from alignkit.pipeline import AlignedText


def estimation_options(settings: object) -> Callable[[Command], Command]:
    """--iterations, --null where the model may lack it, and --set, of a model's settings."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}  # type: ignore[arg-type]
    options = [setting_option(settings, "iterations", type=PASSES, help="Number of EM iterations.")]
    if "null" in values:
        what = "Whether a target word may come from NULL, an empty word that every source sentence gets."
        options.append(setting_option(settings, "null", "--null/--no-null", help=what))
    others = [
        f"{name} ({json.dumps(value)})" for name, value in values.items() if name not in ("iterations", "null")
    ]
    assignments = set_option(
        f"Another setting of the model; may be given several times. There are {', '.join(others)}; "
        f"`{type(settings).__name__}` in docs/api.md explains them.",
    )
    return lambda command: apply(command, *options, assignments)


def knowledge_options(command: Command) -> Command:
    """--prior and --start."""
    prior = setting_option(
        FitSettings,
        "prior",
        type=TEXT,
        help="Use the lexicon of another text, as `alignkit lexicon` writes it: its probabilities count like some "
        "occurrences of each word.",
    )
    start = setting_option(
        FitSettings,
        "start",
        type=InputPath(),
        help="Start from a saved model of the same kind and direction instead of uniform probabilities. Word "
        "pairs that it does not have are initialised uniformly.",
    )
    return apply(command, prior, start)


def direction_options(command: Command) -> Command:
    """--reverse, --symmetrize and --threshold."""
    reverse = setting_option(
        FitSettings,
        "reverse",
        is_flag=True,
        show_default=False,
        help="Fit p(source | target); links are still printed with the source first.",
    )
    symmetrization = setting_option(
        LinkSettings,
        "symmetrization",
        "--symmetrize",
        "symmetrization",
        type=click.Choice(method_names()),
        help="Fit both directions and combine their links by a heuristic of Moses, or by the product of their "
        "posteriors.",
    )
    threshold = setting_option(
        LinkSettings,
        "threshold",
        type=SHARE,
        help="With --symmetrize product: link two words if the geometric mean of their posteriors is at least "
        f"this.  [default: {DEFAULT_THRESHOLD}]",
    )
    return apply(command, reverse, symmetrization, threshold)


def result_options(command: Command) -> Command:
    """What is fitted on, what is saved, output files, and the number of threads."""
    fit_on = click.option(
        "--fit-on",
        type=Checked("n|p%", "alignkit.pipeline:sample_share"),
        help="Fit the model on a random sample of N pairs, or of P percent of them, and link all pairs by it, in "
        "bounded memory: for texts of millions of pairs. The joint model is adapted to each block of the text. "
        "SRC and TGT must be files, which are read several times.",
    )
    model = click.option(
        "--save-model",
        type=OutputPath(replaces="start"),
        help="Also save the fitted model, for `alignkit align --model FILE`, and for --start.",
    )
    scores = click.option(
        "--save-scores",
        type=OutputPath(*SCORE_ENDINGS),
        help="Also write the score matrices to FILE.npz, or with pyarrow to FILE.parquet.",
    )
    kind = click.option(
        "--kind",
        type=click.Choice(list(KINDS)),
        default=KINDS[0],
        show_default=True,
        help="The scores that --save-scores writes: alpha, the posterior over source words, or beta, Trans(target "
        "word | source word).",
    )
    others = (format_options, threads_option, output_option, quiet_option)
    return apply(command, fit_on, model, scores, kind, *others)


def text_options(command: Command) -> Command:
    """SRC, TGT, --sample, and how to read them."""
    return text_arguments(sample_option(command))


def align_settings(options: Mapping[str, Any], **values: Any) -> AlignSettings:
    """The settings of an alignment: the options that are called like one of their fields, and ``values``."""
    names = {each.name for part in vars(AlignSettings()).values() for each in fields(part)}
    return AlignSettings.of(**{name: options[name] for name in names if name in options} | values)


def fit_and_write(method: str, estimation: Estimation, options: Mapping[str, Any]) -> None:
    """Fit a model of a method, with the settings that --iterations, --null and --set change, and write links."""
    given = {name: options[name] for name in ("iterations", "null") if name in options}
    estimation = assigned(replace(estimation, **given), options["assignments"])
    align_and_write(align_settings(options, method=method, estimation=estimation, iterations=None), options)


def align_and_write(
    settings: AlignSettings, options: Mapping[str, Any], model: str | None = None, skip: bool = False
) -> None:
    """Fit or load an aligner, and write what is asked for; links come last, when all other work is done.

    Args:
        settings: of the alignment.
        options: of the command.
        model: a saved aligner; None: one is fitted.
        skip: go on after malformed lines of a stream.
    """
    source, target = choose_text(options["source"], options["target"], options["sample"])
    threads, quiet, shard = options["threads"], options["quiet"], options.get("shard")
    streamed = model is not None and source == "-" and target is None
    in_blocks = streamed or shard is not None or options["fit_on"] is not None or settings.linking.adapt
    needs("shard", "--model and files", model is not None and not streamed)
    needs("on_error", '--model and "-" as SRC', streamed)
    needs("kind", "--save-scores", options["save_scores"] is not None)
    if options["save_scores"] is not None and (in_blocks or settings.fitting.reverse):
        refused = 'with none of --fit-on, --adapt, --shard and "-"' if in_blocks else "not with --reverse"
        raise click.UsageError(
            f"--save-scores writes source-to-target scores of the whole text; it goes {refused}."
        )
    from alignkit.pipeline import align, align_blocks, align_stream

    if model is not None and streamed:
        texts = align_stream(sys.stdin.buffer, model, settings=settings, threads=threads or 1, skip=skip)
        write_alignments(texts, options)
        return
    if model is None:
        give_memory_back()
    with ProgressBar("fitting", quiet, 1 if settings.linking.symmetrization is None else 2) as progress:
        how: dict[str, Any] = {"settings": settings, "model": model, "threads": threads, "progress": progress}
        if in_blocks:
            found = align_blocks(source, target, fit_on=options["fit_on"], shard=shard or (1, 1), **how)
            aligner, blocks, first = found.aligner, found.texts, found.low
        else:
            aligned = align(source, target, **how)
            aligner, blocks, first = aligned.aligner, iter([aligned]), 0
    if progress.summary:
        fitting = settings.fitting
        note(f"{aligner.name if fitting.chosen.is_joint else fitting.method}: {progress.summary}", quiet)
    save_model(aligner, options)
    if options["save_scores"] is not None:
        aligned.score(options["kind"]).save(options["save_scores"])
    write_alignments(blocks, options, first)


def save_model(aligner: Aligner, options: Mapping[str, Any]) -> None:
    """Save an aligner, if --save-model asks for it; a joint one pruned to --model-size."""
    if options["save_model"] is None:
        return
    if options.get("model_size") is not None:
        from alignkit.classical.hmm.joint import JointHMM, pruned

        assert isinstance(aligner, JointHMM)
        aligner, lost = pruned(aligner, options["model_size"])
        note(f"{options['save_model']}: {lost}", options["quiet"])
    aligner.save(options["save_model"])


def write_alignments(texts: Iterable[AlignedText], options: Mapping[str, Any], first: int = 0) -> None:
    """Write the alignments of texts as they come, by --output, --format and --sentence-scores.

    At the end, say how many pairs have an empty line because a side is blank or a line malformed.

    Args:
        texts: in their order.
        options: of the command.
        first: the number of the first pair, from 0.
    """
    from alignkit.pipeline import AlignmentWriter
    from alignkit.text.pairs import blank_pairs

    blanks, errors = 0, 0
    output = options["output"] or "-"
    with AlignmentWriter(output, options["output_format"], options["sentence_scores"], first) as writer:
        for text in texts:
            for alignment in text.alignments(**writer.wanted):
                writer.write(alignment)
            if text.errors and not errors:
                note(f"skipped {text.errors[0]}", options["quiet"])
            errors += len(text.errors)
            blanks += blank_pairs(text.bitext) - len(text.errors)
    note_blanks(blanks, options["quiet"])
    if errors:
        lines = "line: its output line is" if errors == 1 else "lines: their output lines are"
        note(f"{errors} malformed {lines} empty", options["quiet"])
