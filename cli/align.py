"""``alignkit align``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from alignkit_cli.fitting import check_words_shared, knowledge_options, load_prior, load_start
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
from alignkit_cli.output import BLOCK, AlignmentOutput
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alignkit.aligner.protocol import Aligner
    from alignkit.text.bitext import Bitext
    from alignkit.text.streaming import PairBatch


@click.command("align")
@text_arguments
@sample_option
@click.option(
    "--model", metavar="FILE", help="Use a saved aligner, a checkpoint or a run directory instead of fitting one."
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, max=1),
    help="Link where the probability of a link reaches it: higher for precision, lower for recall.  [default: "
    "0.45, or the model's]",
)
@knowledge_options
@click.option("--save-model", metavar="FILE", help="Also save the fitted model, for --model and --start.")
@format_options
@threads_option
@output_option
@quiet_option
def command(**options: Any) -> None:
    """Align a bitext: one line of source-target links per sentence pair (zero-based, Pharaoh format).

    Without --model, two hidden Markov models are fitted on this text, one for each direction, which share their
    links while they learn; where the text is too much for them, IBM Model 1 (grow-diag-final-and).
    With --model, a saved aligner links new text; words it never saw get no link. A neural aligner's links are
    between whitespace words, from attention summed over their subwords.

    With --model and "-", pairs are read from standard input ("SRC ||| TGT" or SRC<tab>TGT) and answered line by
    line, in bounded memory.
    """
    run(**options)


def run(
    source: str | None,
    target: str | None,
    *,
    sample: bool,
    lowercase: bool,
    encoding_errors: str,
    model: str | None,
    output_format: str,
    sentence_scores: str | None,
    threads: int | None,
    output: str | None,
    quiet: bool,
    threshold: float | None,
    save_model: str | None,
    **knowledge: Any,
) -> None:
    """Fits, or loads and reads; writes."""
    if model is not None and (save_model or knowledge["prior"] or knowledge["start"]):
        raise click.UsageError("--model fits nothing; it goes with none of --prior, --start, --save-model.")
    needs("prior_weight", "--prior", knowledge["prior"] is not None)
    check_outputs(output or "-", sentence_scores, save_model)
    source, target = choose_text(source, target, sample)
    reading = {"encoding_errors": encoding_errors, "lowercase": lowercase}
    writer = AlignmentOutput(output_format, output, sentence_scores)
    if model is None:
        fitting = Fitting(threads, threshold, save_model, quiet, **knowledge)
        blanks = fit_and_write(source, target, reading, fitting, writer)
    else:
        stream = source == "-" and target is None
        # Batches of a stream are small: threads would cost more than they give, so only those that are asked for.
        aligner = load(model, threads or 1 if stream else threads, threshold)
        batches = stdin_batches(aligner, reading) if stream else file_batches(source, target, reading)
        blanks = write_batches(aligner, batches, writer)
    note_blanks(blanks, quiet)


@dataclass(frozen=True)
class Fitting:
    """How to fit: the options of the command."""

    threads: int | None
    threshold: float | None
    save_model: str | None
    quiet: bool
    prior: str | None
    prior_weight: float
    start: str | None


def fit_and_write(
    source: str, target: str | None, reading: dict[str, Any], fitting: Fitting, writer: AlignmentOutput
) -> int:
    """Fits the best aligner on the text and writes its links; returns the number of pairs with a blank side."""
    from alignkit.classical.hmm.joint import THRESHOLD, fit_joint, fits_in_memory
    from alignkit.text.reading import blank_pairs, read_bitext

    give_memory_back()
    # Read before the text, which may take long: an error in them should not.
    prior = load_prior(fitting.prior, fitting.prior_weight)
    start = load_start(fitting.start, "hmm-joint")
    bitext = read_bitext(source, target, **reading)
    if start is not None and fitting.start is not None:
        check_words_shared(fitting.start, start, bitext)
    if not fits_in_memory(bitext):
        return fit_small(bitext, fitting, writer)
    threshold = THRESHOLD if fitting.threshold is None else fitting.threshold
    with progress_bar("aligning", fitting.quiet) as bar:
        fitted = fit_joint(
            bitext, threshold=threshold, threads=fitting.threads, progress=bar, prior=prior, start=start
        )
    if fitting.save_model is not None:
        fitted.save(fitting.save_model)
    with writer:
        writer.write_links(fitted.fitted_links, bitext, fitted)
    return blank_pairs(bitext)


def fit_small(bitext: Bitext, fitting: Fitting, writer: AlignmentOutput) -> int:
    """The same with IBM Model 1, which needs less memory."""
    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.text.reading import blank_pairs
    from alignkit.workflow.fitting import fit_symmetrized

    if fitting.threshold is not None or fitting.prior or fitting.start:
        raise click.UsageError(
            "Too long lines or too much text for the HMMs, which --threshold, --prior and --start are for; "
            "split the text, or use `alignkit ibm1`."
        )
    note("too long lines or too much text for the HMMs: IBM Model 1 in both directions instead", fitting.quiet)

    def fit(text: Bitext, threads: int) -> Aligner:
        return fit_ibm1(text, threads=threads)

    both = fit_symmetrized(bitext, fit, threads=fitting.threads)
    if fitting.save_model is not None:
        both.save(fitting.save_model)
    with writer:
        writer.write_links(both.links(bitext), bitext, both)
    return blank_pairs(bitext)


def load(model: str, threads: int | None, threshold: float | None = None) -> Aligner:
    """The saved aligner, told how many threads to use, and from which probability on to link."""
    from alignkit.aligner.protocol import HasThreshold, with_threshold
    from alignkit.aligner.registry import load_aligner

    aligner = load_aligner(model, threads)
    if threshold is None:
        return aligner
    if not isinstance(aligner, HasThreshold):
        raise click.UsageError(f"--threshold is for link probabilities of both directions; {model} has none.")
    return with_threshold(aligner, threshold)


def stdin_batches(aligner: Aligner, reading: dict[str, Any]) -> Iterator[PairBatch]:
    """What standard input has, as it comes; one pair at a time for a network, so that no answer's last bits
    depend on what happened to come with it."""
    from alignkit.aligner.protocol import HasTokenizer
    from alignkit.text.streaming import pair_batches

    return pair_batches("-", sys.stdin.buffer, single=isinstance(aligner, HasTokenizer), **reading)


def file_batches(source: str, target: str | None, reading: dict[str, Any]) -> Iterator[PairBatch]:
    """Blocks of the pairs of files, which are read and checked as a whole first."""
    from alignkit.text.reading import read_line_pairs
    from alignkit.text.streaming import PairBatch

    lines = read_line_pairs(source, target, **reading)
    for low in range(0, len(lines[0]), BLOCK):
        sides = ("".join(f"{line}\n" for line in side[low : low + BLOCK]).encode() for side in lines)
        yield PairBatch(low + 1, *sides)


def write_batches(aligner: Aligner, batches: Iterator[PairBatch], writer: AlignmentOutput) -> int:
    """Aligns and writes batch by batch; returns the number of pairs with a blank side."""
    from alignkit.aligner.alignment import alignment_of
    from alignkit.aligner.word_level import on_words
    from alignkit.text.bitext import Bitext
    from alignkit.text.reading import blank_pairs, encode_text

    aligner = on_words(aligner)
    blanks = 0
    with writer:
        for batch in batches:
            bitext = Bitext(encode_text(batch.source), encode_text(batch.target))
            writer.write(alignment_of(aligner, bitext, **writer.wanted))
            blanks += blank_pairs(bitext)
    return blanks
