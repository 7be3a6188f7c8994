"""``alignkit attention``, ``heads`` and ``ablate``: what the attention heads of a model do."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import AlignkitError, counted, of_file
from alignkit.lab.heads.exports import EXPORTS, export_heads
from alignkit.lab.interop.heads import QUANTITIES, AttentionHeads, read_ranking
from alignkit.lab.report.tables import NONE, align_columns, finite, percent, records, to_json
from alignkit.metrics.protocol import MetricSettings
from alignkit.pipeline.settings import ReadSettings
from alignkit.support.packages import need
from alignkit.text.pairs import check_has_words
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, NATURAL, TEXT, Checked, InputPath, OutputPath

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.lab.heads.ranking import HeadRanking

    Elsewhere = tuple[pd.DataFrame, list[tuple[int, int]]]

SHIFTS = ("", "+1")
TOP = 10  #: rows of the printed table


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
    with shared.ProgressBar("attention", quiet) as bar:
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


@shared.command("heads", "alignkit heads heads.npz corpus.de corpus.en --gold gold", formats=", ".join(EXPORTS))
@shared.argument("scores", "SCORES", type=InputPath())
@shared.side_arguments(required=True)
@click.option("--gold", type=TEXT)
@click.option("--model", type=InputPath(folder=True))
@click.option("--beta", type=InputPath())
@click.option("--other", "others", multiple=True, type=InputPath())
@click.option(
    "--export", "exports", multiple=True, type=(click.Choice(list(EXPORTS)), OutputPath()), metavar="FORMAT FILE"
)
@click.option("--save-model", type=OutputPath((".npz",)))
@click.option("--times", type=InputPath())
@shared.json_option
@shared.reading_options
@shared.work_options
def heads_command(scores: str, source: str, target: str | None, **options: Any) -> None:
    """Rank every layer and head of an attention file by how well it aligns, with and without shifted rows.

    Hits are the linked target words whose source word with the most attention is one of theirs, by the links of
    --gold or, without it, of an aligner fitted on the text (that of `alignkit align`). A head is shown as
    LAYER.HEAD, with +1 for its shifted rows: each target word has the row of the step whose input it is, instead
    of the step that predicts it. Brackets are 95 % bootstrap intervals over sentence pairs. p tests whether a head
    has more hits than every baseline below the heads (chance, and positions alone), corrected for having looked at
    all heads; = marks heads that do not differ significantly from the first.

    Heads of a speech model are ranked by the distance of the words' starts and ends, as dynamic time warping finds
    them in a head's attention, from those of --times. Hits are the words whose frame with the most attention lies
    within them, give or take 50 ms.

    Args:
        SCORES: A file with several layers and heads, as `alignkit attention` writes it.
        --gold: Gold links of these pairs to compare with.
        --model: Without --gold: compare with a saved aligner instead of fitting one on the text.
        --beta: Compare each head with another quantity of the same head (`alignkit attention --quantity ov`):
            A(beta, alpha).
        --other: The ranking (--json) of the same model's heads on other text, to see whether the same heads are
            good there: rank correlations, and how many of the best ten are the same, beside chance. May be given
            several times.
        --export: Also write the heads for other programs ($formats); in an existing configuration of CTranslate2
            or Hugging Face, everything else stays. May be given several times.
        --save-model: Also combine heads into an aligner for `alignkit align --model`; it runs new text through the
            model that made SCORES.
        --times: For speech: a JSON list of the [start, end] of every word, in seconds, on each line; heads are
            ranked by these times.
        --json: Print JSON with all heads and everything that was measured.
    """
    if options["times"] is not None:
        unfit = ("gold", "model", "beta", "others", "exports", "save_model", "lowercase")
        if any(options[name] not in (None, (), False) for name in unfit):
            raise AlignkitError(
                "--times goes with none of --gold, --model, --beta, --other, --export, --save-model and "
                "--lowercase"
            )
        shared.write_output(speech_text(scores, options["times"], options["as_json"]))
        return
    from alignkit.lab.heads.ranking import compare_rankings, rank_heads_of_file

    with shared.ProgressBar("heads", options["quiet"]) as bar:
        files = {name: options[name] for name in ("gold", "model", "beta")}
        how: dict[str, Any] = {"reading": shared.with_given(ReadSettings(), options), "progress": bar}
        settings, combine = shared.with_given(MetricSettings(), options), options["save_model"] is not None
        found = rank_heads_of_file(scores, source, target, combine=combine, settings=settings, **files, **how)
    elsewhere = None
    if options["others"]:
        hits = {scores: found.table.set_index(["layer", "head", "shift"])["hits"].to_dict()}
        hits |= {path: read_ranking(path).hits for path in options["others"]}
        elsewhere = compare_rankings(hits)
    if found.combined is not None:
        found.combined[0].save(options["save_model"])
    for form, path in options["exports"]:
        export_heads(found, form, path)
    text = ranking_json(found, scores, elsewhere) if options["as_json"] else ranking_text(found, elsewhere)
    shared.write_output(text)


def speech_text(scores: str, times: str, as_json: bool) -> str:
    """The heads of a speech model, as a table or as JSON."""
    from alignkit.lab.heads.speech import rank_speech_heads, read_times

    with of_file(times):
        table = rank_speech_heads(AttentionHeads.load(scores), read_times(times))
    if as_json:
        return to_json(table, "heads", {})
    grid = [["head", "error ms", "interval", "hits %", "interval"]]
    for row in table.head(TOP).to_dict(orient="records"):
        error, low, high = (f"{1000 * row[name]:.0f}" for name in ("error", "low", "high"))
        hits, least, most = (percent(row[name]) for name in ("hits", "hits_low", "hits_high"))
        grid.append([f"{row['layer']}.{row['head']}", error, f"({low} to {high})", hits, f"({least} to {most})"])
    title = "Error: mean distance of the words' starts and ends by each head from the true ones."
    return f"{title}\n\n{align_columns(grid)}\n\nHits of a random frame: {percent(table['chance'][0])} %."


def ranking_json(found: HeadRanking, scores: str, elsewhere: Elsewhere | None) -> str:
    """Everything, as one JSON object."""
    facts = {
        "file": scores,
        "positions": records(found.positions),
        "linked": found.linked,
        "shifted_minus_not": finite(found.difference),
        "alignment_heads": [list(pair) for pair in found.alignment_heads],
        "mean": finite(found.mean),
        "halves": finite(found.halves),
        "others": [] if elsewhere is None else records(elsewhere[0]),
        "common": [] if elsewhere is None else [list(pair) for pair in elsewhere[1]],
        "pairs": found.pairs,
        "combined": combined_facts(found),
        "made": found.made,
    }
    return to_json(found.table, "heads", facts)


def combined_facts(found: HeadRanking) -> dict[str, Any] | None:
    """The heads of the aligner that was made, as LAYER.HEAD, with their weights, and its AER."""
    if found.combined is None:
        return None
    aligner, error = found.combined
    names = [f"{layer}.{head}{SHIFTS[shift]}" for layer, head, shift in aligner.heads]
    weights = dict(zip(names, aligner.weights.tolist(), strict=True))
    return {"aer": error, "bias": aligner.bias, "weights": weights}


def ranking_text(found: HeadRanking, elsewhere: Elsewhere | None) -> str:
    """The best heads as a table, what positions alone give, and what follows."""
    extra = [name for name in ("agreement", "words", "punctuation", "first") if name in found.table]
    titles = {"agreement": "A %", "words": "words %", "punctuation": "punct. %", "first": "first %"}
    grid = [["head", "hits %", "interval", "AER %", "p", *(titles[name] for name in extra), ""]]
    for row in found.table.head(TOP).to_dict(orient="records"):
        p = max(row["p_chance"], row["p_positions"])
        cells = [f"{row['layer']}.{row['head']}{SHIFTS[row['shift']]}", *_measures(row), f"{p:.3f}"]
        grid.append([*cells, *(percent(row[name]) for name in extra), "=" if row["tied"] else ""])
    grid += [
        [row["name"], *_measures(row), "", *("" for _ in extra), ""]
        for row in found.positions.to_dict(orient="records")
    ]
    hidden = len(found.table) - min(TOP, len(found.table))
    more = [f"and {counted(hidden, 'head')} more (--json)"] if hidden else []
    title = (
        f"Hits: per cent of {found.linked:,} linked target words whose source word with the most attention is one "
        "of theirs."
    )
    lines = [title, "", align_columns(grid), *more, "", *ranking_conclusions(found)]
    return "\n".join(lines if elsewhere is None else [*lines, "", *other_texts(*elsewhere)])


def _measures(row: dict[str, Any]) -> list[str]:
    """Hits, their interval and AER."""
    return [percent(row["hits"]), f"({percent(row['low'])} to {percent(row['high'])})", percent(row["aer"])]


def other_texts(table: pd.DataFrame, common: list[tuple[int, int]]) -> list[str]:
    """How far several texts rank the heads alike: each two of them, and what all have in common."""
    grid = [["text", "other", "Spearman", "p", "best shared", "by chance", "p", "best there, here", "and reverse"]]
    for row in table.to_dict(orient="records"):
        cells = [f"{row['correlation']:.2f}", f"{row['p']:.3f}", str(row["shared"]), f"{row['expected']:.1f}"]
        cells += [f"{row['p_shared']:.3f}", percent(row["here"]), percent(row["there"])]
        grid.append([row["text"], row["other"], *cells])
    listed = ", ".join(f"{layer}.{head}" for layer, head in common) or "none"
    title = "Other texts: rank correlation of all heads, the same ones of the best ten, hits of the other's best."
    return [title, "", align_columns(grid), "", f"Among the best ten on all texts: {listed}."]


def ranking_conclusions(found: HeadRanking) -> list[str]:
    """Sentences: on the shift of the best head, the mean of heads, and the halves of the text."""
    shift, halves = found.difference, found.halves
    name = f"{shift['layer']}.{shift['head']}"
    verdict = f"the rows of {name} are {'better shifted' if shift['difference'] > 0 else 'better as they are'}"
    if not (shift["low"] > 0 or shift["high"] < 0):
        verdict = f"this text does not show whether the rows of {name} are better shifted"
    change = f"{100 * shift['difference']:+.1f} ({percent(shift['low'])} to {percent(shift['high'])}) points"
    size = len(found.alignment_heads)
    combined = []
    if (facts := combined_facts(found)) is not None:
        weights = ", ".join(f"{name} {weight:.1f}" for name, weight in facts["weights"].items()) or "none"
        combined = [
            f"The aligner combines {len(facts['weights'])} heads ({weights}). Its AER, with each half of the "
            f"text judged after a fit of the other, is {percent(facts['aer'])} %."
        ]
    listed = ", ".join(f"{layer}.{head}" for layer, head in found.alignment_heads)
    mean = f"the mean of {size} heads" if size > 1 else "one head"
    return [
        f"Shift: {verdict}; shifted minus not: {change}.",
        f"alignment_heads: {listed} ({mean}, not shifted: hits {percent(found.mean['hits'])} %, "
        f"AER {percent(found.mean['aer'])} %).",
        "Chosen on one half of the text and judged on the other: "
        f"best head {percent(halves['head'])} % (on its own half {percent(halves['head_chosen'])} %), "
        f"mean {percent(halves['heads'])} % ({percent(halves['heads_chosen'])} %); "
        f"rank correlation of all heads {halves['correlation']:.2f}.",
        *combined,
    ]


@shared.command("ablate", "alignkit ablate heads.npz corpus.de corpus.en --gold gold")
@shared.argument("scores", "SCORES", type=InputPath())
@shared.side_arguments(required=True)
@click.option("--gold", type=TEXT)
@click.option("--model", type=InputPath(folder=True))
@click.option("--size", "sizes", type=COUNT, multiple=True)
@click.option("--draws", type=COUNT)
@click.option("--set-to", "fill", type=click.Choice(("zero", "mean")))
@click.option("--plot", type=OutputPath((".png",)))
@shared.json_option
@shared.seed_option()
@shared.device_option
@shared.reading_options
@shared.work_options
def ablate_command(scores: str, source: str, target: str | None, **options: Any) -> None:
    """Switch off the heads of a language model that align best, and see what its translations lose.

    The heads are ranked by their hits on the odd lines of the text (see `alignkit heads`). The model that SCORES
    names then reads the even lines: as it is, without the source, without the best heads, without as many random
    ones of the same layers, and without as many of any layers. Loss is nats a target token, teacher forced. What
    follows is the best head that is left, whether others take over: its hits, and how many more they are than
    those of the best of the same heads in the whole model. Brackets are 95 % bootstrap intervals over sentence
    pairs and random draws.

    Args:
        SCORES: The attention of a language model for this text, as `alignkit attention` writes it.
        --gold: Gold links of these pairs to rank the heads by.
        --model: Without --gold: rank by a saved aligner instead of fitting one on the text.
        --size: How many heads to switch off together; may be given several times. [default: 1, 2, 3, 5, 8 and 16]
        --draws: Random sets of heads of each size and kind, to hold the best against. [default: 4]
        --set-to: Set the outputs of the heads to zero, or to their mean over the text. [default: zero]
        --plot: Also draw the losses, by the number of heads.
        --json: Print JSON with everything that was measured.
        --seed: The seed of the random heads and the bootstrap.
    """
    if options["plot"] is not None:
        need("matplotlib")
    from alignkit.lab.experiments import save_picture
    from alignkit.lab.heads.ablation import ablate_heads_of_file, draw_ablation
    from alignkit.neural.devices import set_threads

    set_threads(options["threads"])
    given = {name: options[name] for name in ("gold", "model", "sizes", "draws", "fill", "device")}
    how: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, ())}
    how |= {"reading": shared.with_given(ReadSettings(), options)}
    how |= {"settings": shared.with_given(MetricSettings(), options)}
    with shared.ProgressBar("heads", options["quiet"]) as bar:
        table, facts = ablate_heads_of_file(scores, source, target, **how, progress=bar)
    if options["plot"] is not None:
        save_picture(options["plot"], lambda figure: draw_ablation(table, figure))
    as_json = options["as_json"]
    text = to_json(table, "ablation", {"file": scores, **facts}) if as_json else ablation_text(table, facts)
    shared.write_output(text)


def ablation_text(table: pd.DataFrame, facts: dict[str, Any]) -> str:
    """The table, and which heads were the best."""
    measures = {"loss": 1, "cost": 1, "best_more": 1, "hits": 100, "gained": 100}  # and their units
    grid = [["heads off", "kind", "draws", "loss", "cost", "best cost more", "hits % of best left", "gained"]]
    for row in table.to_dict(orient="records"):
        cells = [f"{row['size']}" if row["size"] else NONE, row["kind"], f"{row['draws']}"]
        for name, unit in measures.items():
            value, low, high = (unit * row.get(each, math.nan) for each in (name, f"{name}_low", f"{name}_high"))
            digits = 3 if unit == 1 else 1
            shown = f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
            cells.append(NONE if math.isnan(value) else shown)
        grid.append(cells)
    listed = ", ".join(f"{layer}.{head}" for layer, head in facts["ranked"][: int(table["size"].max())])
    title = f"Loss: nats a target token of {counted(facts['pairs'], 'pair')}, {facts['tokens']:,} tokens."
    return f"{title}\n\n{align_columns(grid)}\n\nThe best heads, by the other pairs: {listed}."
