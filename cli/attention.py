"""``alignkit attention``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.text.line_pairs import check_has_words
from alignkit_cli.analysis_options import device_option
from alignkit_cli.options import note, quiet_option, reading_options, threads_option
from alignkit_cli.progress import progress_bar


@click.command("attention")
@click.argument("model", metavar="MODEL")
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="TGT", required=False)
@click.option("-o", "--output", required=True, metavar="FILE", help="The scores file to write, an .npz.")
@click.option(
    "--layer",
    "layers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this decoder layer, counted from 0; may be repeated.  [default: all]",
)
@click.option("--prefix", default="", help='What the model expects before each source line, as ">>deu<<".')
@click.option("--source-language", metavar="CODE", help="Language code of a multilingual model, as deu_Latn.")
@click.option("--target-language", metavar="CODE", help="The same of the target.")
@click.option("--batch-size", type=click.IntRange(min=1), default=16, show_default=True, help="Pairs at a time.")
@device_option
@reading_options
@threads_option
@quiet_option
def command(model: str, output: str, quiet: bool, **options: Any) -> None:
    """Save the cross-attention of a Hugging Face encoder-decoder model: every layer and head.

    MODEL is a folder, or a name that transformers downloads (Marian, NLLB, mBART, T5, BART, ...). It is given both
    sides of the text and generates nothing: a row is the attention while its target token is predicted. The file
    goes wherever scores are read, as FILE:LAYER.HEAD (FILE:LAYER.HEAD+1 for the shifted rows, those of the step
    after each token); `alignkit heads` finds the head that aligns best.

    Needs transformers: pip install 'alignkit[transformers]'.
    """
    save_attention(model, output, quiet, options)


def save_attention(model: str, output: str, quiet: bool, options: dict[str, Any]) -> None:
    """Read the text, load the model, save its attention."""
    from alignkit.neural.devices import set_threads
    from alignkit.neural.hugging_face import cross_attention, load_pretrained
    from alignkit.text.reading import read_line_pairs

    reading = {name: options[name] for name in ("encoding_errors", "lowercase")}
    sides = read_line_pairs(options["source"], options["target"], **reading)
    check_has_words(sides, "score")
    set_threads(options["threads"])
    languages = {name: options[name] for name in ("source_language", "target_language")}
    loaded = load_pretrained(model, **languages)
    with progress_bar("attention", quiet) as bar:
        heads = cross_attention(
            *loaded,
            *sides,
            layers=sorted(set(options["layers"])) or None,
            prefix=options["prefix"],
            batch_size=options["batch_size"],
            device=options["device"],
            progress=bar,
        )
    heads.save(output)
    note(f"{output}: {len(heads)} sentence pairs, {heads.described}", quiet)
