"""``alignkit align``."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import click

from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.classical.settings import KINDS
from alignkit.links.formats import OUTPUT_FORMATS
from alignkit.pipeline.settings import QUALITIES, FitSettings, LinkSettings
from alignkit_cli.fitting import (
    align_and_write,
    align_settings,
    knowledge_options,
    result_options,
    symmetrization_option,
    text_options,
)
from alignkit_cli.options import alignkit_command, choice_option, needs, setting_option
from alignkit_cli.parameter_types import SHARE, TEXT, Checked, EmbeddingSource, InputPath, OutputPath, Shard


@alignkit_command("align", "alignkit align corpus.de corpus.en --save-model m.npz -o links")
@text_options
@click.option(
    "--model",
    "models",
    multiple=True,
    type=InputPath(folder=True),
    help="Align with a saved model, or a run of `alignkit train`, instead of fitting one. A checkpoint works too. "
    "Give it twice, with models of both directions, to combine their links.",
)
@setting_option(
    LinkSettings,
    "threshold",
    type=SHARE,
    help="Link words if the probability is at least this. Raise it for precision, lower it for recall.  "
    f"[default: {JOINT_THRESHOLD}, or the model's]",
)
@symmetrization_option("Combine the links of two saved models (--model twice).")
@setting_option(
    FitSettings,
    "quality",
    type=click.Choice(list(QUALITIES)),
    help="How much time to spend. fast takes five sixths of normal's time on large texts and less than half on "
    "small ones. best takes seven to nine times as long on large texts and two to three times on small ones; "
    "below some 2,000 sentence pairs it equals normal.",
)
@setting_option(
    FitSettings,
    "keep_case",
    is_flag=True,
    help="Treat words that differ only in case as different words, and use words only, not their parts.",
)
@knowledge_options
@setting_option(
    FitSettings,
    "embeddings",
    type=EmbeddingSource(),
    metavar="e5|FOLDER|FILE[,FILE]",
    help="Use embeddings as evidence, above all for small texts. e5 is a multilingual encoder (the extra "
    "embeddings; `alignkit doctor` says how to install it) and takes about three minutes of one core for 10,000 "
    "sentence pairs. FOLDER holds another encoder for Hugging Face's transformers. FILE holds word vectors of "
    "both languages in one space, in the text format of word2vec and fastText; give one file or two.",
)
@setting_option(
    LinkSettings,
    "adapt",
    is_flag=True,
    help="With --model: adapt the joint model to each block of the text before linking it (from standard input, "
    "to each pair). Links of words that the model has not seen get far better.",
)
@setting_option(
    LinkSettings,
    "gold",
    type=TEXT,
    help="Learn from gold links of the first pairs. FILE has a line of links (0-0 1p2, where p marks a possible "
    "one) for each of them, or a blank line for a pair that is not annotated. The learned classifier is used if "
    "cross-validation within FILE shows that it helps, and is saved with --save-model. Needs the extra gold.",
)
@click.option(
    "--shard",
    type=Shard(),
    help="With --model: link only the i-th of n parts of the text. The outputs of 1/n to n/n, joined, equal that "
    "of the whole text.",
)
@click.option(
    "--model-size",
    type=Checked("size", "alignkit.classical.cooccurrence:parse_size"),
    help="Prune the saved model to a file of at most this size, such as 100M. It keeps the word pairs with the "
    "most expected links; a message gives the share of the others.",
)
@choice_option(
    "--on-error",
    choices=["stop", "skip"],
    help='With --model and "-" as SRC: stop at a malformed line, or skip it and print an empty line for it. At '
    "the "
    "end, standard error gives the number of skipped lines.",
)
@choice_option(
    "--kind",
    choices=KINDS,
    help="The scores that --save-scores writes: alpha, the posterior over source words, or beta, Trans(target "
    "word | source word).",
)
@click.option(
    "--sentence-scores",
    type=OutputPath(stdout=True),
    help="Also write a line per pair: log p(target | source) per target word (natural logarithm); with two "
    "directions, log p(source | target) per source word after a tab; nan if a side is blank.",
)
@result_options
def command(models: tuple[str, ...], on_error: str, **options: Any) -> None:
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
    """
    if len(models) > 2:
        raise click.UsageError("Give one --model, or two of opposite directions.")
    model = (models[0], models[1]) if len(models) == 2 else models[0] if models else None
    needs("symmetrization", "two of --model; the default aligner already has both directions", len(models) == 2)
    for name in ("save_model", "fit_on", "trace", *(field.name for field in fields(FitSettings))):
        needs(name, "a fit, not with --model", model is None)
    needs("adapt", "--model", model is not None)
    needs(
        "model_size", "--save-model without --gold", options["save_model"] is not None and options["gold"] is None
    )
    settings = align_settings(options)
    fitting = settings.fitting
    folds_case = fitting.method == "joint" and fitting.folds_case and fitting.embeddings is None
    if model is None and folds_case and not OUTPUT_FORMATS[options["output_format"]].needs_words:
        # The fit is that of the text in lower case; read so, the text is in memory once, not twice.
        settings = replace(settings, reading=replace(settings.reading, lowercase=True))
    align_and_write(settings, options, model, on_error == "skip")
