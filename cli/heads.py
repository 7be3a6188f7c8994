"""``alignkit heads``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import AlignkitError, counted, of_file
from alignkit.lab.heads.exports import EXPORTS
from alignkit.lab.report.tables import align_columns, finite, percent, records, to_json
from alignkit.metrics.protocol import MetricSettings
from alignkit.pipeline.settings import ReadSettings
from alignkit_cli import shared
from alignkit_cli.parameter_types import TEXT, InputPath, OutputPath
from alignkit_cli.progress import ProgressBar

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.lab.heads.ranking import HeadRanking

    Elsewhere = tuple[pd.DataFrame, list[tuple[int, int]]]

SHIFTS = ("", "+1")
TOP = 10  #: rows of the printed table


@shared.command("heads", "alignkit heads heads.npz corpus.de corpus.en --gold gold")
@shared.argument("scores", "SCORES", type=InputPath())
@shared.side_arguments(required=True)
@click.option("--gold", type=TEXT)
@click.option("--model", type=InputPath(folder=True))
@click.option("--beta", type=InputPath())
@click.option("--other", "others", multiple=True, type=InputPath())
@click.option(
    "--export",
    "exports",
    nargs=2,
    multiple=True,
    type=(click.Choice(list(EXPORTS)), OutputPath()),
    metavar="FORMAT FILE",
    help=f"Also write the heads for other programs ({', '.join(EXPORTS)}); in an existing configuration of "
    "CTranslate2 or Hugging Face, everything else stays. May be given several times.",
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
    from alignkit.lab.heads.exports import export_heads
    from alignkit.lab.heads.ranking import compare_rankings, rank_heads_of_file
    from alignkit.lab.interop.heads import read_ranking

    with ProgressBar("heads", options["quiet"]) as bar:
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
    from alignkit.lab.interop.heads import AttentionHeads

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
