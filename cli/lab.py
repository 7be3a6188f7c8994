"""``alignkit lab``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import click

from alignkit.lab import BestBy, LabSettings
from alignkit.metrics.protocol import Metric
from alignkit.metrics.registry import MAIN, SCORE_METRICS
from alignkit.neural.settings import PRESETS, RunSettings, Tokens
from alignkit.packages import need
from alignkit_cli.analysis_options import (
    call_of,
    csv_option,
    device_option,
    ibm1_options,
    json_option,
    part_option,
    percent_option,
    preset_option,
    proxy_epochs_option,
    seed_option,
)
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import (
    needs,
    note,
    quiet_option,
    reading_options,
    threads_option,
    with_given,
    write_output,
)
from alignkit_cli.parameter_types import COUNT, NATURAL, PASSES, TEXT, InputPath, OutputFolder, OutputPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from alignkit.lab import Lab

#: parameters that go only with --train
PLAN = ("preset", "tokens", "pieces", "epochs", "steps")


@dataclass(frozen=True)
class LabCall:
    """Options that are no settings."""

    run_dir: str | None
    other: str | None
    uniform: str | None
    training: tuple[str, str] | None
    valid: tuple[str, str] | None
    folder: str | None
    preset: str
    tokens: str | None
    pieces: int | None
    epochs: int | None
    steps: int | None
    device: str
    as_json: bool
    csv: str | None
    csv_steps: str | None
    lowercase: bool
    encoding_errors: str
    quiet: bool

    def run_settings(self, seed: int) -> RunSettings:
        """The settings of the networks to be trained."""
        return PRESETS[self.preset].change(
            text={"tokens": self.tokens, "pieces": self.pieces},
            training={"seed": seed, "epochs": self.epochs, "steps": self.steps},
        )


@alignkit_command("lab")
@argument(
    "run_dir",
    metavar="[RUN]",
    required=False,
    type=InputPath(folder=True),
    help="A run directory of `alignkit train` with attention, or the FOLDER of an earlier --train.",
)
@click.option(
    "--other",
    type=InputPath(folder=True),
    metavar="RUN",
    help="A run of another seed on the same text, which xi is computed from.",
)
@click.option(
    "--uniform",
    type=InputPath(folder=True),
    metavar="RUN",
    help="A run with --attention uniform on the same text, for uniform.beta.",
)
@click.option(
    "--train", "training", nargs=2, type=TEXT, metavar="SRC TGT", help="Train all three runs on this text first."
)
@click.option("--valid", nargs=2, type=TEXT, metavar="SRC TGT", help="With --train: the held-out text.")
@click.option(
    "-o", "--output", "folder", type=OutputFolder(), help="With --train: the folder that the three runs go to."
)
@preset_option(PRESETS, "With --train: the sizes of the networks, and how they are trained.")
@click.option(
    "--tokens",
    type=click.Choice(get_args(Tokens)),
    help="With --train: the unit of the vocabulary.  [default: the preset's]",
)
@click.option("--pieces", type=COUNT, help="With --train: the number of subwords.  [default: the preset's]")
@click.option("--epochs", type=PASSES, help="With --train: passes over the text.  [default: the preset's]")
@click.option("--steps", type=NATURAL, help="With --train: stop after this number of batches.")
@part_option(LabSettings, "on", "The text whose pairs are scored: the validation or the training text.")
@click.option(
    "--limit",
    type=COUNT,
    help="Score only this number of pairs, drawn at random.  [default: all for valid, 1,000 for train]",
)
@ibm1_options
@click.option(
    "--bleu",
    is_flag=True,
    help="Also xi by BLEU, which takes long: --other translates at each of its checkpoints.",
)
@click.option(
    "--alpha-by",
    type=click.Choice(get_args(BestBy)),
    default=LabSettings.alpha_by,
    show_default=True,
    help="What makes a network of RUN the best: the lowest validation loss, or the highest accuracy or BLEU of a "
    "logged step, as in the authors' evaluation.",
)
@click.option(
    "--largest",
    is_flag=True,
    help="Take uniform.beta and other.beta in every row at the step where the row is largest, as the authors do.",
)
@click.option("--both-directions", is_flag=True, help="Rows with uniform.beta as A(u, v) and as A(v, u).")
@proxy_epochs_option
@click.option(
    "--proxy-bias",
    is_flag=True,
    help="Train the proxy with a bias, which its beta leaves out, as the authors do.",
)
@percent_option
@seed_option("The seed of the drawn pairs, the proxy and the bootstrap; with --train, of the networks.")
@device_option
@json_option("Print JSON with counts and intervals.")
@csv_option
@click.option(
    "--csv-steps",
    type=OutputPath(),
    help="Also write agreement, tau and performance at every logged step of every run as CSV.",
)
@reading_options
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Measure what a network's attention agrees with, and how much that is.

    With --train, the runs are trained first: two with attention, of different seeds, and one without
    (FOLDER/general-0, general-1 and uniform-0); after an interruption, the same command resumes. Runs must keep
    their checkpoints, as those of the paper preset do.

    For each pair of scores u, v the table gives A(u, v), the share of target tokens whose best source token by u
    is among the top 5 % by v, with chance and interval; xi, how good the second network was when its attention
    first agreed with the final one better than that; and Kendall's tau. docs/lab.md explains every column.
    """
    run_lab(call_of(LabCall, options), with_given(LabSettings(), options))


def run_lab(call: LabCall, settings: LabSettings) -> None:
    """Train if asked to, measure, print."""
    _check_usage(call)
    need("torch", "sacrebleu")
    from alignkit.lab import lab
    from alignkit.neural.devices import set_threads

    set_threads(settings.threads)
    if call.training is not None:
        train_first(call, call.training, settings.seed)
    runs = _runs(call)
    with progress_bar("lab", call.quiet) as bar:
        found = lab(*runs, settings, call.device, bar, all_steps=call.csv_steps is not None)
    if call.csv is not None:
        write_output(found.table.to_csv(index=False, lineterminator="\n").encode(), call.csv)
    if call.csv_steps is not None:
        write_output(found.time_courses.to_csv(index=False, lineterminator="\n").encode(), call.csv_steps)
    write_output(f"{render_lab(found, settings, call.as_json)}\n".encode(), None)


def _check_usage(call: LabCall) -> None:
    if call.training is None:
        if call.valid is not None or call.folder is not None:
            raise click.UsageError("--valid and -o belong to --train SRC TGT.")
        for name in PLAN:
            needs(name, "--train", False)
        if call.run_dir is None:
            raise click.UsageError("Give RUN, or --train SRC TGT -o FOLDER.")
    elif any(given is not None for given in (call.run_dir, call.other, call.uniform)):
        raise click.UsageError("Give RUN (with --other and --uniform) or --train, not both.")
    elif call.folder is None:
        raise click.UsageError("--train needs -o FOLDER for the three runs.")


def _runs(call: LabCall) -> tuple[str, str | None, str | None]:
    """The runs given, or those that the folder of a --train holds."""
    from alignkit.lab import find_lab_runs

    place = call.run_dir or call.folder
    assert place is not None
    found = {name: str(path) for name, path in find_lab_runs(place).items()}
    if "general-0" not in found:
        return place, call.other, call.uniform
    return found["general-0"], call.other or found.get("general-1"), call.uniform or found.get("uniform-0")


def train_first(call: LabCall, training: tuple[str, str], seed: int) -> None:
    """Train the three runs into the folder."""
    from alignkit.lab import train_lab_files

    assert call.folder is not None
    reading: dict[str, Any] = {"lowercase": call.lowercase, "encoding_errors": call.encoding_errors}
    with progress_bar("training", call.quiet) as bar:
        train_lab_files(call.folder, training, call.valid, call.run_settings(seed), bar, call.device, **reading)
    note(f"{call.folder}: the three runs are trained", call.quiet)


def render_lab(found: Lab, settings: LabSettings, as_json: bool) -> str:
    """The table as text or JSON."""
    from alignkit.report.tables import NONE, align_columns, records, to_json

    if as_json:
        seeds = None if found.seeds is None else records(found.seeds)
        more = {"xi_star": found.stars, "seeds": seeds, "notes": list(found.notes)}
        return to_json(found.table, "lab", {**more, **found.facts})
    table, facts = found.table, found.facts
    header = [f"{MAIN.symbol}(u, v)"]
    for metric in SCORE_METRICS:
        header += ["%", "95 %", "chance", "xi", "xi BLEU"] if metric is MAIN else _columns_of(metric)
    grid = [header, *(_cells(row) for row in table.to_dict(orient="records"))]
    keep = [i for i in range(len(header)) if i < 4 or any(row[i] != NONE for row in grid[1:])]
    grid = [[row[i] for i in keep] for row in grid]
    star = {"accuracy": "token accuracy {:.3f}", "bleu": "BLEU {:.1f}"}
    stars = ", ".join(star[name].format(value) for name, value in found.stars.items())
    lines = [
        f"{facts['scored_pairs']} pairs of the {facts['text']} text, {int(table['rows'].max())} target tokens; "
        f"trained on {facts['training_pairs']} pairs.",
        f"{MAIN.symbol}(u, v): {MAIN.describe(settings)}.",
        "",
        align_columns(grid),
        "",
        f"xi*: {stars} (the best of the first run).",
        *_seed_lines(found),
        *(f"Note: {text}." for text in found.notes),
    ]
    return "\n".join(lines)


def _seed_lines(found: Lab) -> list[str]:
    """The attention of the second run while it learns."""
    from alignkit.report.tables import NONE, align_columns

    if found.seeds is None or found.seeds.empty:
        return []
    columns = {MAIN.name: f"{MAIN.symbol}(lstm.alpha, alpha(step)) %", "accuracy": "accuracy", "bleu": "BLEU"}
    shown = {name: head for name, head in columns.items() if found.seeds[name].notna().any()}
    grid = [["step", *shown.values()]]
    for row in found.seeds.to_dict(orient="records"):
        texts = {
            MAIN.name: MAIN.text(row[MAIN.name]),
            "accuracy": f"{row['accuracy']:.3f}",
            "bleu": f"{row['bleu']:.1f}",
        }
        cells = [NONE if math.isnan(row[name]) else texts[name] for name in shown]
        grid.append([f"{row['step']:.0f}", *cells])
    return ["", "The second run while it learned:", "", align_columns(grid)]


def _columns_of(metric: Metric) -> list[str]:
    return [metric.name, "95 %", f"{metric.name} xi", f"{metric.name} xi BLEU"]


def _cells(row: dict[str, Any]) -> list[str]:
    """The cells of a row, in the order of the header."""
    cells = [f"{MAIN.symbol}({row['u']}, {row['v']})"]
    for metric in SCORE_METRICS:
        prefix = "" if metric is MAIN else f"{metric.name}_"
        value, low, high = (_text(metric, row[name]) for name in (metric.name, f"{prefix}low", f"{prefix}high"))
        cells += [value, f"{low}-{high}" if metric.share else f"{low}..{high}"]
        cells += [_text(metric, row["chance"])] if metric is MAIN else []
        cells += [_xi(row, f"{prefix}xi_{name}") for name in ("accuracy", "bleu")]
    return cells


def _text(metric: Metric, value: float) -> str:
    return "-" if metric.share and math.isnan(value) else metric.text(value)


def _xi(row: dict[str, Any], column: str) -> str:
    if column in row["not_reached"].split():
        return "not reached"
    value = row[column]
    if math.isnan(value):
        return "-"
    return f"{value:.1f}" if column.endswith("bleu") else f"{value:.3f}"
