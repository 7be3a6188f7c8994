"""``alignkit compare-mechanisms``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alignkit.neural.settings import NETWORKS, PRESETS, NetworkSettings, RunSettings
from alignkit_cli.analysis_options import csv_option, device_option, json_option, preset_option
from alignkit_cli.command import alignkit_command
from alignkit_cli.options import (
    choose_text,
    quiet_option,
    sample_option,
    set_option,
    text_arguments,
    threads_option,
    write_output,
)
from alignkit_cli.parameter_types import NATURAL, PASSES, SEED, TEXT, InputPath, OutputFolder, OutputPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

#: column -> (heading, factor, decimals)
COLUMNS = {
    "agreement": ("A %", 100, 1),
    "chance": ("chance", 100, 1),
    "support": ("support", 1, 2),
    "entropy": ("entropy", 1, 2),
    "loss": ("loss", 1, 3),
    "accuracy": ("accuracy %", 100, 1),
    "bleu": ("BLEU", 1, 1),
    "aer": ("AER %", 100, 1),
    "aer_shifted": ("shifted", 100, 1),
    "ms": ("ms/step", 1, 1),
}
LEGEND = """\
A: per cent of rows in which the source token that attention ranks first is among the top 5 % of IBM Model 1
(one iteration without NULL); support: weights above 0 in a row; entropy: of a row, nats; loss, accuracy: of the
validation text's tokens; shifted: AER where a row is the step whose input is the word; ms/step: of training.
ibm1's AER is that of five iterations with NULL."""


@alignkit_command("compare-mechanisms")
@text_arguments
@sample_option
@click.option("--valid", nargs=2, type=TEXT, metavar="SRC TGT", help="The text that they are measured on.")
@click.option(
    "--gold",
    type=InputPath(),
    metavar="LINKS",
    help="Gold links between the words of the validation text, for AER.",
)
@click.option(
    "-o", "--output", "folder", type=OutputFolder(), required=True, help="The folder that the runs go to."
)
@click.option(
    "--mechanisms",
    metavar="A,B,...",
    help="What to compare, separated by commas: general+sparsemax and the like, or "
    "transformer/scaled-dot+entmax15 for another architecture.  [default: thirteen of them]",
)
@preset_option(PRESETS, "The sizes of the networks, and how they are trained.")
@click.option("--epochs", type=PASSES, help="The number of passes over the text.  [default: the preset's]")
@click.option("--steps", type=NATURAL, help="Stop after this number of batches.  [default: no limit]")
@click.option("--seed", type=SEED, help="The seed of all networks.  [default: the preset's]")
@set_option(
    "As of `alignkit train`, for all runs. ARCHITECTURE.NAME=VALUE, such as transformer.layers=2, is for the "
    "mechanisms that name this architecture.",
)
@click.option("--plot", type=OutputPath(".png", ".svg"), help="Also write a picture.")
@device_option
@json_option("Print JSON; shares are fractions.")
@csv_option
@threads_option
@quiet_option
def command(folder: str, quiet: bool, **options: Any) -> None:
    """Train a network for every attention mechanism on one text, and print them side by side.

    The networks differ in nothing but their attention. Call it again with the same FOLDER to go on after an
    interruption, or with more mechanisms.
    """
    from alignkit.mechanism_comparison import MECHANISMS, compare_mechanisms, read_mechanism_text
    from alignkit.neural.devices import set_threads

    files = choose_text(options["source"], options["target"], options["sample"])
    valid, gold = options["valid"], options["gold"]
    if options["sample"] and valid is None:
        import alignkit_data

        valid = choose_text(None, None, True, "test")
        gold = gold or str(alignkit_data.path("test.gold"))
    reading = {name: options[name] for name in ("lowercase", "encoding_errors")}
    text = read_mechanism_text(files, valid, gold, **reading)
    names = [name.strip() for name in (options["mechanisms"] or ",".join(MECHANISMS)).split(",") if name.strip()]
    settings, networks = common_settings(options)
    set_threads(options["threads"])
    with progress_bar("training", quiet) as bar:
        table = compare_mechanisms(folder, text, names, settings, bar, options["device"], networks)
    if options["csv"] is not None:
        write_output(table.to_csv(index=False, lineterminator="\n").encode(), options["csv"])
    if options["plot"] is not None:
        from alignkit.report.plots import save_mechanism_plot

        save_mechanism_plot(table, options["plot"])
    write_output(f"{mechanism_table(table, options['as_json'])}\n".encode(), None)


def common_settings(options: dict[str, Any]) -> tuple[RunSettings, dict[str, NetworkSettings]]:
    """The preset with the given options, and the networks of architectures with settings of their own."""
    from alignkit.types import assigned

    training = {name: options[name] for name in ("epochs", "steps", "seed")}
    own: dict[str, list[str]] = {name: [] for name in NETWORKS}
    common = []
    for text in options["assignments"]:
        part, _, rest = text.strip().partition(".")
        if part in own:
            own[part].append(f"network.{rest}")
        else:
            common.append(text)
    settings = assigned(PRESETS[options["preset"]].change(training=training), common)
    networks = {
        name: assigned(settings.change(network={"architecture": name}), given).network
        for name, given in own.items()
        if given
    }
    return settings, networks


def mechanism_table(table: pd.DataFrame, as_json: bool) -> str:
    """The table as text or JSON."""
    from alignkit.report.tables import NONE, align_columns, to_json

    if as_json:
        return to_json(table, "mechanisms")
    shown = [name for name in COLUMNS if table[name].notna().any()]
    grid = [["mechanism", *(COLUMNS[name][0] for name in shown)]]
    for row in table.to_dict(orient="records"):
        cells = [NONE if row[n] != row[n] else f"{row[n] * COLUMNS[n][1]:.{COLUMNS[n][2]}f}" for n in shown]
        grid.append([row["mechanism"], *cells])
    return f"{align_columns(grid)}\n\n{LEGEND}"
