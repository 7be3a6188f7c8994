"""``alignkit attention``."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from alignkit.errors import AlignkitError, counted
from alignkit.lab.interop.heads import QUANTITIES
from alignkit.text.pairs import check_has_words
from alignkit_cli import shared
from alignkit_cli.parameter_types import NATURAL, Checked, OutputPath
from alignkit_cli.progress import ProgressBar


@shared.command("attention", "alignkit attention Helsinki-NLP/opus-mt-de-en corpus.de corpus.en -o heads.npz")
@shared.argument("model", "MODEL")
@shared.side_arguments(required=True)
@click.option("-o", "--output", required=True, type=OutputPath((".npz",)))
@click.option("--layer", "layers", type=NATURAL, multiple=True)
@click.option("--prefix", default="", show_default=False, metavar="WORDS")
@click.option("--template", type=Checked("TEXT", "alignkit.lab.heads.hugging_face:split_template"))
@click.option("--quantity", type=click.Choice(QUANTITIES), default=QUANTITIES[0])
@click.option("--source-language", metavar="CODE")
@click.option("--target-language", metavar="CODE")
@shared.device_option
@shared.reading_options
@shared.work_options
def attention_command(model: str, output: str, quiet: bool, **options: Any) -> None:
    """Save a Hugging Face model's attention to the source, for every layer and head.

    The model is given both sides of the text and generates nothing: a row is the attention while its target token
    is predicted. For an encoder-decoder (Marian, NLLB, mBART, T5, BART and others) it is cross-attention; for a
    decoder-only language model (Llama, Qwen, Gemma, GPT-NeoX and others) it is the attention from the translation
    in a prompt to the source; for Whisper, from the transcript to the audio. Each line of SRC is then the path of
    a WAV file (one channel of 16 bits, 16,000 samples a second), each line of TGT its transcript, and each column
    20 ms. Every command that reads scores takes the file as FILE:LAYER.HEAD (FILE:LAYER.HEAD+1 for the shifted
    rows, those of the step after each token). `alignkit heads` finds the head that aligns best.

    Needs transformers; `alignkit doctor` says how to install it.

    Args:
        MODEL: A folder with the model, a GGUF file, or a name that transformers downloads.
        --output: The attention file to write.
        --layer: Only this decoder layer, counted from 0; may be given several times. [default: all]
        --prefix: What the model expects before each source line, such as ">>deu<<".
        --template: The prompt of a language model, such as 'German: {source} English: {target}'. [default:
            {source} = {target}]
        --quantity: What to save of each head: its weights; norms, the length of the vector that each source token
            adds to the output; or ov, the probability of the target token from that vector alone, a lexicon.
        --source-language: The source language code of a multilingual model, such as deu_Latn.
        --target-language: The target language code of a multilingual model; of Whisper, the language of the
            transcripts.
    """
    from alignkit.lab.heads import hugging_face
    from alignkit.lab.heads.speech import read_recordings, speech_attention
    from alignkit.neural.devices import set_threads
    from alignkit.text.pairs import read_line_pairs

    pairs = read_line_pairs(options["source"], options["target"], **shared.reading_of(options))
    check_has_words(pairs, "score")
    set_threads(options["threads"])
    languages = {name: options[name] for name in ("source_language", "target_language")}
    loaded = hugging_face.load_pretrained(model, **languages)
    is_pair, is_speech = loaded[0].config.is_encoder_decoder, hugging_face.is_speech(loaded[0].config)
    template: Any = options["template"]
    prefix, quantity = options["prefix"], options["quantity"]
    if is_speech and (prefix or template is not None or quantity != QUANTITIES[0]):
        raise AlignkitError("--prefix, --template and --quantity are for models of text")
    if is_pair and template is not None:
        raise AlignkitError("--template is for decoder-only language models; use --prefix for this model")
    if not is_pair and prefix:
        raise AlignkitError("--prefix is for encoder-decoders; put the text into --template")
    template = None if is_pair else template or hugging_face.TEMPLATE
    how: dict[str, Any] = {"layers": sorted(set(options["layers"])) or None, "device": options["device"]}
    with ProgressBar("attention", quiet) as bar:
        how["progress"] = bar
        if is_speech:
            heads = speech_attention(*loaded, read_recordings(pairs[0]), pairs[1], **how)
        else:
            how |= {"quantity": quantity, "folder": os.path.dirname(os.path.abspath(output))}
            if is_pair:
                heads = hugging_face.cross_attention(*loaded, *pairs, prefix=prefix, **how)
            else:
                heads = hugging_face.translation_attention(*loaded, *pairs, template=template, **how)
    made = {"model": model, "template": template, **languages, "prefix": prefix}
    made["quantity"] = quantity if quantity != QUANTITIES[0] else None
    heads = replace(heads, made={name: value for name, value in made.items() if value})
    heads.save(output)
    shared.note(f"{output}: {counted(len(heads), 'sentence pair')}, {heads.described}", quiet)
