"""``alignkit heads``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alignkit.align_settings import ReadSettings
from alignkit.metrics.protocol import MetricSettings
from alignkit.report.tables import align_columns, finite, records, to_json
from alignkit_cli.analysis_options import json_option
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import (
    quiet_option,
    reading_options,
    side_arguments,
    threads_option,
    with_given,
    write_output,
)
from alignkit_cli.parameter_types import TEXT, InputPath, OutputPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from alignkit.heads.ranking import HeadRanking

SHIFTS = ("", "+1")
TOP = 10  #: rows of the printed table


@alignkit_command("heads", "alignkit heads heads.npz corpus.de corpus.en --gold gold")
@argument(
    "scores",
    metavar="SCORES",
    type=InputPath(),
    help="A file with several layers and heads, as `alignkit attention` writes it.",
)
@side_arguments(required=True)
@click.option("--gold", type=TEXT, help="Gold links of these pairs: rank by AER.")
@click.option(
    "--model",
    type=InputPath(folder=True),
    help="Without --gold: compare with a saved aligner instead of fitting one on the text.",
)
@click.option(
    "--alignment-heads",
    type=OutputPath(),
    help='Also write {"alignment_heads": [[layer, head], ...]} as CTranslate2 reads it; in an existing '
    "config.json, everything else stays.",
)
@json_option("Print JSON with all heads, intervals and means of heads.")
@reading_options
@threads_option
@quiet_option
def command(scores: str, source: str, target: str | None, **options: Any) -> None:
    """Rank every layer and head of an attention file by how well it aligns, its rows shifted and not.

    With --gold, heads are ranked by AER; without, by how often the best source word of an aligner that is fitted
    on the text (that of `alignkit align`) is at the top of the head's row. A head is shown as LAYER.HEAD, with +1
    for its shifted rows: each target word has the row of the step whose input it is, not of that which predicts
    it. The brackets have 95 % bootstrap intervals over sentence pairs; = marks heads that the text does not tell
    from the first.
    """
    from alignkit.heads.ranking import rank_heads_of_file, write_alignment_heads

    settings = with_given(MetricSettings(), options)
    with progress_bar("heads", options["quiet"]) as bar:
        found = rank_heads_of_file(
            scores,
            source,
            target,
            gold=options["gold"],
            model=options["model"],
            reading=with_given(ReadSettings(), options),
            settings=settings,
            progress=bar,
        )
    if options["alignment_heads"] is not None:
        write_alignment_heads(options["alignment_heads"], found.alignment_heads)
    text = ranking_json(found) if options["as_json"] else ranking_text(found, settings)
    write_output(f"{text}\n".encode(), None)


def ranking_json(found: HeadRanking) -> str:
    """Everything, as one JSON object."""
    facts = {
        "metric": found.metric.name,
        "shifted_minus_not": finite(found.difference),
        "means": records(found.means),
        "alignment_heads": [list(pair) for pair in found.alignment_heads],
        "positions": finite(found.positions),
    }
    return to_json(found.table, "heads", facts)


def ranking_text(found: HeadRanking, settings: MetricSettings) -> str:
    """The best heads as a table, what the shift does to the best one, and the heads whose mean is best."""
    metric = found.metric
    names = [metric.name, *(["precision", "recall"] if metric.reference == "gold" else ["chance"])]
    titles = {
        "aer": "AER %",
        "precision": "precision %",
        "recall": "recall %",
        "agreement": "A %",
        "chance": "chance %",
    }
    grid = [["head", titles[names[0]], "interval", *(titles[name] for name in names[1:]), ""]]
    for row in found.table.head(TOP).to_dict(orient="records"):
        interval = f"({metric.text(row['low'])} to {metric.text(row['high'])})"
        cells = [f"{row['layer']}.{row['head']}{SHIFTS[row['shift']]}", metric.text(row[names[0]]), interval]
        grid.append([*cells, *(metric.text(row[name]) for name in names[1:]), "=" if row["tied"] else ""])
    lines = [ranking_title(found, settings), "", align_columns(grid)]
    hidden = len(found.table) - min(TOP, len(found.table))
    return "\n".join(
        [*lines, *([f"and {hidden} more (--json)"] if hidden else []), "", *ranking_conclusions(found)]
    )


def ranking_title(found: HeadRanking, settings: MetricSettings) -> str:
    """What the numbers are."""
    if found.metric.reference == "gold":
        return "Alignment error rate of each head: every target word linked to the source word it attends to most."
    return (
        "A(aligner, head): per cent of target words whose best source word by the aligner is among the top "
        f"{settings.percent} % of the head's row."
    )


def ranking_conclusions(found: HeadRanking) -> list[str]:
    """Three sentences: on positions alone, on the shift of the best head, and on the mean of heads."""
    metric, shift = found.metric, found.difference
    name = f"{shift['layer']}.{shift['head']}"
    worse = shift["difference"] > 0 if metric.reference == "gold" else shift["difference"] < 0
    sure = shift["low"] > 0 or shift["high"] < 0
    verdict = f"the rows of {name} are {'better as they are' if worse else 'better shifted'}"
    if not sure:
        verdict = f"whether the rows of {name} are better shifted cannot be told from this text"
    interval = f"{metric.text(shift['low'])} to {metric.text(shift['high'])}"
    change = f"shifted minus not: {100 * shift['difference']:+.1f} ({interval}) points"
    size = len(found.alignment_heads)
    means = found.means[(found.means["shift"] == 0) & (found.means["heads"] == size)]
    value = f"{metric.symbol} {metric.text(float(means[metric.name].iloc[0]))} %"
    listed = ", ".join(f"{layer}.{head}" for layer, head in found.alignment_heads)
    of = f"the mean of {size} heads" if size > 1 else "one head"
    alone = ", ".join(f"{each} {metric.text(value)} %" for each, value in found.positions.items())
    return [
        f"By positions alone: {alone}.",
        f"Shift: {verdict}; {change}.",
        f"alignment_heads: {listed} ({of}, not shifted: {value}).",
    ]
