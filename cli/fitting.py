"""What the commands that fit a lexical model share: their options, and the way from text to links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import AlignkitError
from alignkit_cli.options import (
    check_outputs,
    choose_text,
    format_options,
    give_memory_back,
    needs,
    note,
    note_blanks,
    output_option,
    quiet_option,
    sample_option,
    text_arguments,
    threads_option,
)
from alignkit_cli.output import AlignmentOutput

if TYPE_CHECKING:
    from alignkit.links.links import Links
    from alignkit.text.bitext import Bitext

METHODS = ["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
Command = Callable[..., Any]
#: (bitext, threads, progress, turned: whether its sides are exchanged) -> a fitted model, a dataclass with links,
#: score, save and threads; one that can do with less memory takes block_tokens, the size of its blocks
Fit = Callable[..., Any]
#: (bitext, threads, progress) -> (forward, reverse), two such models
FitBoth = Callable[..., tuple[Any, Any]]


@dataclass(frozen=True)
class Outputs:
    """What to fit and to write: the options of :func:`direction_options`, :func:`result_options` and reading."""

    source: str | None
    target: str | None
    sample: bool
    lowercase: bool
    encoding_errors: str
    reverse: bool
    method: str | None
    threshold: float
    scores: str | None
    kind: str
    model: str | None
    output_format: str
    sentence_scores: str | None
    threads: int | None
    seed: int | None
    output: str | None
    quiet: bool
    max_memory: str | None = None
    temp_dir: str | None = None
    start: str | None = None


def apply(command: Command, decorators: list[Callable[[Command], Command]]) -> Command:
    """The command with these options, in this order."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def estimation_options(command: Command) -> Command:
    """--iterations, --null and when to stop and what to drop."""
    decorators = [
        click.option(
            "--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="EM iterations."
        ),
        click.option(
            "--null/--no-null", default=True, show_default=True, help="An empty source word in every sentence."
        ),
        click.option(
            "--tolerance",
            type=click.FloatRange(min=0),
            default=0.0,
            help="Stop earlier, once the log-likelihood rises by less than this share of itself.",
        ),
        click.option(
            "--prune",
            type=click.FloatRange(min=0, max=1, max_open=True),
            default=0.0,
            help="Drop word pairs with a lower probability after the last iteration; the others keep theirs.",
        ),
    ]
    return apply(command, decorators)


def knowledge_options(command: Command) -> Command:
    """--prior, --prior-weight and --start."""
    decorators = [
        click.option(
            "--prior",
            metavar="LEXICON",
            help="A lexicon from another text, as `alignkit lexicon` writes it: its probabilities count as if so "
            "many occurrences of each word (--prior-weight) had been seen.",
        ),
        click.option(
            "--prior-weight",
            type=click.FloatRange(min=0),
            default=5.0,
            show_default=True,
            help="Occurrences of each word that the lexicon of --prior counts for.",
        ),
        click.option(
            "--start",
            metavar="MODEL",
            help="Go on from a saved model of the same kind and direction instead of a uniform start. Word pairs "
            "that it does not have start as if nothing were known.",
        ),
    ]
    return apply(command, decorators)


def load_prior(path: str | None, weight: float, turned: bool = False) -> Any:
    """The lexicon of --prior, or None; ``turned``: for a text with its sides exchanged."""
    from alignkit.classical.priors import read_prior

    if path is None:
        return None
    prior = read_prior(path, weight)
    return prior.reversed if turned else prior


def load_start(path: str | None, kind: str, text: Bitext | None = None) -> Any:
    """The model of --start, or None; an error if it is not an aligner of this name, or of other words."""
    from alignkit.aligner.registry import load_aligner
    from alignkit.errors import InputError

    if path is None:
        return None
    model = load_aligner(path)
    if model.name != kind:
        maker = "align --save-model" if kind == "hmm-joint" else f"{kind} --model"
        raise InputError(path, f"is a model of kind {model.name}; give one that `alignkit {maker}` wrote")
    if text is not None:
        check_words_shared(path, model, text)
    return model


def check_words_shared(path: str, model: Any, text: Bitext) -> None:
    """Refuses a model that shares no word with one side of a text, for to start from it would do nothing.

    Raises:
        InputError: it is of the other direction, or of another text altogether.
    """
    from alignkit.errors import InputError

    for name, known, side in (("source", model.source, text.source), ("target", model.target, text.target)):
        words = side.vocabulary
        if len(words) and not any(word in known for word in words):
            hint = "is it of the other direction, or of text in another case?"
            raise InputError(path, f"knows no {name} word of this text; {hint}")


def direction_options(command: Command) -> Command:
    """--reverse, --symmetrize and --threshold."""
    decorators = [
        click.option(
            "--reverse", is_flag=True, help="Fit p(source | target); links are still printed source first."
        ),
        click.option(
            "--symmetrize",
            "method",
            type=click.Choice([*METHODS, "product"]),
            help="Fit both directions, at once, and combine them, as Moses does; or by the product of their "
            "posteriors.",
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(min=0, max=1),
            default=0.2,
            show_default=True,
            help="With --symmetrize product: link where the geometric mean of both posteriors reaches it.",
        ),
    ]
    return apply(command, decorators)


def result_options(command: Command) -> Command:
    """What to write, with how many threads."""
    decorators = [
        click.option(
            "--scores", metavar="FILE", help="Also write the score matrices (.npz, or .parquet with pyarrow)."
        ),
        click.option(
            "--kind",
            type=click.Choice(["alpha", "beta"]),
            default="alpha",
            show_default=True,
            help="Scores to write: alpha, the posterior over source words, or beta, Trans(target word | source "
            "word).",
        ),
        click.option("--model", metavar="FILE", help="Also save the model, for `alignkit align --model FILE`."),
        format_options,
        threads_option,
        click.option("--seed", type=int, help="Accepted as in every aligner; this one draws no random numbers."),
        output_option,
        quiet_option,
    ]
    return apply(command, decorators)


def text_options(command: Command) -> Command:
    """SRC, TGT, --sample, and how to read them."""
    return text_arguments(sample_option(command))


def run(fit: Fit, wanted: Outputs, in_blocks: bool = False, fit_both: FitBoth | None = None) -> None:
    """Reads, fits, writes; every output is written after all work is done.

    Args:
        fit: fits a model on a text.
        wanted: the command's options.
        in_blocks: ``fit`` takes the size of blocks, so that the text may be larger than memory.
        fit_both: fits both directions at once, where there is a quicker way than fitting each.
    """
    from alignkit.parallel import thread_count
    from alignkit.text.reading import blank_pairs, read_bitext

    if wanted.method is not None and (wanted.reverse or wanted.scores or wanted.model):
        raise click.UsageError("--symmetrize fits two models; it goes with none of --reverse, --scores, --model.")
    if wanted.method is not None and wanted.start is not None:
        raise click.UsageError("--symmetrize fits two models, and --start gives one; fit the directions apart.")
    needs("threshold", "--symmetrize product", wanted.method == "product")
    needs("kind", "--scores", wanted.scores is not None)
    needs("prior_weight", "--prior", click.get_current_context().params.get("prior") is not None)
    check_outputs(wanted.output or "-", wanted.sentence_scores, wanted.scores, wanted.model)
    if wanted.reverse and wanted.scores:
        raise click.UsageError("--scores writes source-to-target scores; exchange SRC and TGT to get the others.")
    give_memory_back()
    source, target = choose_text(wanted.source, wanted.target, wanted.sample)
    threads = thread_count(wanted.threads)
    options = {"encoding_errors": wanted.encoding_errors, "lowercase": wanted.lowercase, "threads": threads}
    block = None
    if in_blocks:
        bitext, block = read_within(wanted, source, target, **options)
    else:
        bitext = read_bitext(source, target, **options)  # type: ignore[arg-type]
    if block is not None:
        fit = partial(fit, block_tokens=block)
    if wanted.method is not None:
        if block is not None:
            fit_both = None
        linker, directions = _fit_directions(fit, fit_both, bitext, wanted, threads, at_once=block is None)
    else:
        text = bitext.reversed if wanted.reverse else bitext
        fitted = fit(text, threads, _report("", wanted.quiet), wanted.reverse)
        linker = _Reversed(fitted) if wanted.reverse else fitted
        directions = (None, fitted) if wanted.reverse else (fitted, None)
        if wanted.model is not None:
            fitted.save(wanted.model)
        if wanted.scores is not None:
            fitted.score(bitext, wanted.kind).save(wanted.scores)
    with AlignmentOutput(wanted.output_format, wanted.output, wanted.sentence_scores) as writer:
        if block is None:
            writer.write_links(linker.links(bitext), bitext, *directions)
        else:
            from alignkit.classical.memory import parts

            for part in parts(bitext, block):
                writer.write_links(linker.links(part), part, *directions)
    note_blanks(blank_pairs(bitext), wanted.quiet)


@dataclass(frozen=True)
class _Reversed:
    """Links of a target-to-source model, source first."""

    model: Any

    def links(self, bitext: Bitext) -> Links:
        return self.model.links(bitext.reversed).reversed


def read_within(wanted: Outputs, source: str, target: str | None, **options: Any) -> tuple[Bitext, int | None]:
    """The text, in memory or on disk, and the size of the blocks to fit it in (None: as one).

    Raises:
        AlignkitError: it takes more than --max-memory, however it is done.
    """
    from alignkit.classical import memory
    from alignkit.text.on_disk import read_bitext_to_disk, text_size
    from alignkit.text.reading import read_bitext

    limit = memory.usual_limit() if wanted.max_memory is None else memory.parse_size(wanted.max_memory)
    size = text_size(source, target, unknown=0 if wanted.max_memory is None else limit)
    if memory.TEXT * size <= limit:
        bitext = read_bitext(source, target, **options)
    else:
        note(f"a large text (about {memory.show_size(size)}): its ids are kept on disk", wanted.quiet)
        bitext = read_bitext_to_disk(source, target, folder=wanted.temp_dir, **options)
    block = memory.block_tokens(
        bitext,
        limit,
        both=wanted.method is not None,
        threads=options["threads"],
        strict=wanted.max_memory is not None,
    )
    if block is not None and wanted.scores is not None:
        raise AlignkitError(f"--scores needs all of the text in memory, more than {memory.show_size(limit)}")
    return bitext, block


def _fit_directions(
    fit: Fit, fit_both: FitBoth | None, bitext: Bitext, wanted: Outputs, threads: int, at_once: bool
) -> tuple[Any, tuple[Any, Any]]:
    """What links by both directions, fitted together, concurrently or one after the other; and the two models."""
    from alignkit.classical.symmetrized import Bidirectional, fit_concurrently

    def fit_one(text: Bitext, share: int) -> Any:
        turned = text is not bitext
        report = _report("reverse, " if turned else "", wanted.quiet)
        # Its links are found when the other direction is done with its threads.
        return replace(fit(text, share, report, turned), threads=threads)

    assert wanted.method is not None
    if fit_both is not None:
        pair = fit_both(bitext, threads, _report("", wanted.quiet))
        both = Bidirectional(*pair, wanted.method, threads=threads)
    elif at_once:
        both = fit_concurrently(bitext, fit_one, wanted.method, threads)
    else:
        both = Bidirectional(fit_one(bitext, threads), fit_one(bitext.reversed, threads), wanted.method)
    both = replace(both, threshold=wanted.threshold)
    return both, (both.forward, both.reverse)


def _report(label: str, quiet: bool) -> Callable[[int, int, str], None]:
    def report(done: int, total: int, message: str) -> None:
        note(f"{label}iteration {done} of {total}: {message}", quiet)

    return report
