"""``alignkit explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alignkit_cli.analysis_options import csv_option, json_option
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import quiet_option, write_output
from alignkit_cli.parameter_types import COUNT, SEED, InputPath, RealNumber

if TYPE_CHECKING:
    import pandas as pd


@alignkit_command("explain")
@argument(
    "run_dir",
    metavar="RUN",
    type=InputPath(folder=True),
    help="The directory of a classifier's run, such as FOLDER/standard of `alignkit classify`.",
)
@click.option(
    "--other",
    type=InputPath(folder=True),
    metavar="RUN",
    help="A run of another seed on the same text, such as FOLDER/second, a yardstick for adversaries.",
)
@click.option(
    "--epsilon",
    type=RealNumber(0, 1, 0, 1),
    default=0.01,
    show_default=True,
    help="How far adversarial attention may change the probability.",
)
@click.option("--limit", type=COUNT, help="Test only the first texts, this many.  [default: all]")
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="The seed of random orders and the bootstrap."
)
@json_option("Print JSON.")
@csv_option
@quiet_option
def command(
    run_dir: str,
    other: str | None,
    epsilon: float,
    limit: int | None,
    seed: int,
    as_json: bool,
    csv: str | None,
    quiet: bool,
) -> None:
    """Test a classifier's attention as an explanation of its decisions, on the run's validation text.

    Prints whether attention orders words as gradients and leave-one-out do; what uniform and permuted attention
    change; the share of words to erase until a decision flips, by attention and by other orders; and the attention
    furthest from the learned one that changes the output by at most epsilon. All with 95 % intervals over texts.
    """
    from alignkit.analysis.explanation import explain_run

    table = explain_run(run_dir, other, epsilon=epsilon, limit=limit, seed=seed)
    if csv is not None:
        write_output(table.to_csv(index=False, lineterminator="\n").encode(), csv)
    write_output(f"{explanation_text(table, as_json)}\n".encode(), None)


def explanation_text(table: pd.DataFrame, as_json: bool) -> str:
    """The table as text, with what each test means below it, or as JSON."""
    from alignkit.report.tables import NONE, align_columns, to_json

    if as_json:
        return to_json(table, "explanation")

    def shown(value: float) -> str:
        return NONE if value != value else f"{value:.3f}"

    grid = [["test", "value", "95 % interval", "texts"]]
    grid += [
        [row.test, shown(row.value), f"{shown(row.low)} to {shown(row.high)}", str(row.texts)]
        for row in table.itertuples()
    ]
    width = max(len(row.test) for row in table.itertuples())
    return "\n".join(
        [align_columns(grid), "", *(f"{row.test:<{width}}  {row.meaning}" for row in table.itertuples())]
    )
