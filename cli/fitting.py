"""The options and the way from text to links that all commands share which fit a lexical model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from alignkit.classical.settings import GREATEST_PRIOR_WEIGHT, KINDS
from alignkit.links.heuristics import DEFAULT_THRESHOLD, method_names
from alignkit.types import SCORE_ENDINGS
from alignkit.workflow.settings import METHODS, AlignSettings, Estimation
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
    setting_option,
    text_arguments,
    threads_option,
    with_given,
)
from alignkit_cli.parameter_types import PASSES, SHARE, TEXT, InputPath, OutputPath, RealNumber
from alignkit_cli.progress import FitProgress
from alignkit_cli.text_parts import sample_fit_options

if TYPE_CHECKING:
    from alignkit.aligner import Aligner
    from alignkit.workflow.align import AlignedText


def estimation_options(settings: object) -> Callable[[Command], Command]:
    """--iterations, --null and when to stop and what to drop, with the defaults of a model's settings."""
    iterations = setting_option(settings, "iterations", type=PASSES, help="Number of EM iterations.")
    null = setting_option(
        settings,
        "null",
        "--null/--no-null",
        help="Whether a target word may come from NULL, an empty word that every source sentence gets.",
    )
    tolerance = setting_option(
        settings,
        "tolerance",
        type=RealNumber(0, 1),
        help="Stop earlier, once the log-likelihood rises by less than this share of itself.",
    )
    prune = setting_option(
        settings,
        "prune",
        type=RealNumber(0, 1, 1),
        help="Drop word pairs with a lower probability than this after the last iteration; others keep theirs.",
    )
    return lambda command: apply(command, iterations, null, tolerance, prune)


def knowledge_options(command: Command) -> Command:
    """--prior, --prior-weight and --start."""
    prior = setting_option(
        AlignSettings,
        "prior",
        type=TEXT,
        help="Use the lexicon of another text, as `alignkit lexicon` writes it: its probabilities count like "
        "--prior-weight occurrences of each word.",
    )
    weight = setting_option(
        AlignSettings,
        "prior_weight",
        type=RealNumber(0, GREATEST_PRIOR_WEIGHT),
        help="The number of occurrences of each word that the lexicon of --prior counts for.",
    )
    start = setting_option(
        AlignSettings,
        "start",
        type=InputPath(),
        help="Start from a saved model of the same kind and direction instead of uniform probabilities. Word "
        "pairs that it does not have are initialised uniformly.",
    )
    return apply(command, prior, weight, start)


def direction_options(command: Command) -> Command:
    """--reverse, --symmetrize and --threshold."""
    reverse = setting_option(
        AlignSettings,
        "reverse",
        is_flag=True,
        show_default=False,
        help="Fit p(source | target); links are still printed with the source first.",
    )
    symmetrization = setting_option(
        AlignSettings,
        "symmetrization",
        "--symmetrize",
        "symmetrization",
        type=click.Choice(method_names()),
        help="Fit both directions and combine their links by a heuristic of Moses, or by the product of their "
        "posteriors.",
    )
    threshold = click.option(
        "--threshold",
        type=SHARE,
        default=DEFAULT_THRESHOLD,
        show_default=True,
        help="With --symmetrize product: link two words if the geometric mean of their posteriors is at least "
        "this.",
    )
    return apply(command, reverse, symmetrization, threshold)


def score_options(command: Command) -> Command:
    """--save-scores and --kind."""
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
    return apply(command, scores, kind)


def result_options(command: Command) -> Command:
    """Output files, and the number of threads."""
    model = click.option(
        "--save-model",
        type=OutputPath(replaces="start"),
        help="Also save the fitted model, for `alignkit align --model FILE`.",
    )
    others = (sample_fit_options, format_options, threads_option, output_option, quiet_option)
    return apply(command, score_options, model, *others)


def text_options(command: Command) -> Command:
    """SRC, TGT, --sample, and how to read them."""
    return text_arguments(sample_option(command))


def fit_and_write(method: str, estimation: Estimation, options: Mapping[str, Any]) -> None:
    """Fit a model, write what is asked for; links come last, when all other work is done.

    Args:
        method: a name in :data:`alignkit.workflow.settings.METHODS`.
        estimation: its settings.
        options: of the command.
    """
    check_options(method, options)
    source, target = choose_text(options["source"], options["target"], options["sample"])
    give_memory_back()
    by_scores = options["symmetrization"] in method_names(needs_scores=True)
    settings = with_given(
        AlignSettings(method),
        options,
        estimation=estimation,
        threshold=options["threshold"] if by_scores else None,
    )
    directions = 2 if settings.symmetrization is not None else 1
    if options["fit_on"] is not None:
        fit_on_sample(source, target, settings, options, directions)
        return
    from alignkit.workflow.align import align

    with FitProgress(directions, options["quiet"]) as progress:
        aligned = align(source, target, settings=settings, threads=options["threads"], progress=progress)
    note(f"{METHODS[method].models[0]}: {progress.summary}", options["quiet"])
    save_model(aligned.aligner, options)
    save_scores(aligned, options)
    write_alignments([aligned], options)


def fit_on_sample(
    source: str, target: str | None, settings: AlignSettings, options: Mapping[str, Any], directions: int = 1
) -> None:
    """Fit a model on a sample, save it if --save-model asks for that, and write the alignment of all pairs."""
    if options["save_scores"] is not None:
        raise click.UsageError("--save-scores needs the whole text in memory; it does not go with --fit-on.")
    from alignkit.workflow.parts import align_sampled

    quiet = options["quiet"]
    with FitProgress(directions, quiet=quiet) as progress:
        fit = align_sampled(
            source,
            target,
            options["fit_on"],
            seed=options["seed"],
            settings=settings,
            threads=options["threads"],
            progress=progress,
        )
    if progress.summary:
        note(f"{fit.aligner.name}: {progress.summary}", quiet)
    save_model(fit.aligner, options)
    write_alignments(fit.texts, options)


def save_model(aligner: Aligner, options: Mapping[str, Any]) -> None:
    """Save an aligner, if --save-model asks for it; a joint one pruned to --model-size."""
    if options["save_model"] is None:
        return
    if options.get("model_size") is not None:
        from alignkit.classical.hmm.joint import JointHMM
        from alignkit.classical.hmm.joint_views import JointViews
        from alignkit.classical.hmm.pruning import pruned

        assert isinstance(aligner, JointHMM | JointViews)
        aligner, lost = pruned(aligner, options["model_size"])
        note(f"{options['save_model']}: {lost}", options["quiet"])
    aligner.save(options["save_model"])


def save_scores(aligned: AlignedText, options: Mapping[str, Any]) -> None:
    """Write score matrices, if --save-scores asks for them."""
    if options["save_scores"] is not None:
        aligned.score(options["kind"]).save(options["save_scores"])


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Refuse options that do not go together.

    Raises:
        click.UsageError: naming them.
    """
    if options["symmetrization"] is not None and options["reverse"]:
        raise click.UsageError("--symmetrize fits both directions; it does not go with --reverse.")
    if options["reverse"] and options["save_scores"]:
        raise click.UsageError(
            "--save-scores writes source-to-target scores; exchange SRC and TGT to get the others."
        )
    needs("threshold", "--symmetrize product", options["symmetrization"] in method_names(needs_scores=True))
    needs("kind", "--save-scores", options["save_scores"] is not None)
    needs("seed", "--fit-on", options["fit_on"] is not None)
    if "prior" in METHODS[method].takes:
        needs("prior_weight", "--prior", options["prior"] is not None)


def write_alignments(texts: Iterable[AlignedText], options: Mapping[str, Any], first: int = 0) -> None:
    """Write the alignments of texts as they come, by --output, --format and --sentence-scores.

    At the end, say how many pairs have an empty line because a side is blank or a line malformed.

    Args:
        texts: in their order.
        options: of the command.
        first: the number of the first pair, from 0.
    """
    from alignkit.text.reading import blank_pairs
    from alignkit.workflow.writing import AlignmentWriter

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
