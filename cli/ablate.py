"""``alignkit ablate``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from alignkit.errors import counted
from alignkit.lab.report.tables import NONE, align_columns, to_json
from alignkit.metrics.protocol import MetricSettings
from alignkit.pipeline.settings import ReadSettings
from alignkit.support.packages import need
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, TEXT, InputPath, OutputPath
from alignkit_cli.progress import ProgressBar

if TYPE_CHECKING:
    from alignkit.lab.heads.ablation import Ablation


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
    with ProgressBar("heads", options["quiet"]) as bar:
        found = ablate_heads_of_file(scores, source, target, **how, progress=bar)
    if options["plot"] is not None:
        save_picture(options["plot"], lambda figure: draw_ablation(found.table, figure))
    facts = {"file": scores, "pairs": found.pairs, "tokens": found.tokens, "made": dict(found.made)}
    facts["ranked"] = [list(head) for head in found.ranked]
    text = to_json(found.table, "ablation", facts) if options["as_json"] else ablation_text(found)
    shared.write_output(text)


def ablation_text(found: Ablation) -> str:
    """The table, and which heads were the best."""
    measures = {"loss": 1, "cost": 1, "best_more": 1, "hits": 100, "gained": 100}  # and their units
    grid = [["heads off", "kind", "draws", "loss", "cost", "best cost more", "hits % of best left", "gained"]]
    for row in found.table.to_dict(orient="records"):
        cells = [f"{row['size']}" if row["size"] else NONE, row["kind"], f"{row['draws']}"]
        for name, unit in measures.items():
            value, low, high = (unit * row.get(each, math.nan) for each in (name, f"{name}_low", f"{name}_high"))
            digits = 3 if unit == 1 else 1
            shown = f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
            cells.append(NONE if math.isnan(value) else shown)
        grid.append(cells)
    listed = ", ".join(f"{layer}.{head}" for layer, head in found.ranked[: int(found.table["size"].max())])
    title = f"Loss: nats a target token of {counted(found.pairs, 'pair')}, {found.tokens:,} tokens."
    return f"{title}\n\n{align_columns(grid)}\n\nThe best heads, by the other pairs: {listed}."
