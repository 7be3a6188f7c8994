"""``alignkit lab``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import click

from alignkit.errors import counted
from alignkit.lab.report.tables import NONE, align_columns, records, to_json
from alignkit.lab.time_course import Part
from alignkit.lab.translation import AUTHORS, LabSettings, find_lab_runs
from alignkit.metrics.protocol import Metric
from alignkit.metrics.registry import MAIN, SCORE_METRICS
from alignkit.neural.settings import PRESETS, check_run
from alignkit.support.packages import need
from alignkit.support.settings import assigned
from alignkit_cli import shared
from alignkit_cli.parameter_types import COUNT, PERCENT, InputPath, OutputFolder, OutputPath

if TYPE_CHECKING:
    from alignkit.lab.translation import Lab


@shared.command("lab", "alignkit lab runs/general --uniform runs/uniform")
@shared.argument("run_dir", "[RUN]", type=InputPath(folder=True))
@shared.run_option("--other")
@shared.run_option("--uniform")
@shared.files_option("--train", "training")
@shared.files_option("--valid")
@click.option("-o", "--output", "folder", type=OutputFolder())
@shared.choice_option("--preset", choices=PRESETS)
@shared.set_option
@shared.setting_option(LabSettings, "on", type=click.Choice(get_args(Part)))
@click.option("--limit", type=COUNT)
@click.option("--bleu", is_flag=True)
@click.option("--authors", is_flag=True)
@shared.setting_option(LabSettings, "percent", type=PERCENT)
@shared.seed_option()
@shared.device_option
@shared.json_option
@click.option("--csv-steps", type=OutputPath())
@shared.reading_options
@shared.work_options
def lab_command(**options: Any) -> None:
    """Measure how far a network's attention agrees with other scores.

    With --train, the runs are trained first: two with attention, of different seeds, and one with uniform
    attention (FOLDER/general-0, general-1 and uniform-0); after an interruption, the same command resumes. Runs
    must keep their checkpoints, as those of the paper preset do.

    For each pair of scores u, v the table gives A(u, v), the share of target tokens whose best source token by u
    is among the top 5 % by v, with chance level and interval; xi, the performance of the second network when its
    attention first agreed better than that with the final attention; and Kendall's tau. docs/lab.md explains every
    column.

    Args:
        RUN: A run directory of `alignkit train` with attention, or the FOLDER of an earlier --train.
        --other: A run of another seed on the same text, needed for xi.
        --uniform: A run with --attention uniform on the same text, for uniform.beta.
        --train: Train all three runs on this text first.
        --valid: With --train: the held-out text.
        --output: With --train: the folder for the three runs.
        --preset: With --train: the sizes of the networks, and how they are trained.
        --set: With --train: any setting, such as training.epochs=5, as in `alignkit train`. May be given several
            times.
        --on: The text whose pairs are scored: the validation or the training text.
        --limit: Score only N pairs, drawn at random. [default: all for valid, 1,000 for train]
        --bleu: Also compute xi from BLEU, which takes long: --other translates at each of its checkpoints.
        --authors: Evaluate as the authors do: RUN's network at the logged step with the highest accuracy;
            uniform.beta and other.beta at the step where each row is largest; rows with uniform.beta in both
            directions; a proxy trained with a bias, which its beta omits.
        --seed: The seed of the drawn pairs, the proxy and the bootstrap; with --train, of the networks.
        --json: Print JSON with counts and intervals.
        --csv-steps: Also write agreement, tau and performance at every logged step of every run as CSV.
    """
    if options["training"] is None:
        if any(options[name] is not None for name in ("valid", "folder")):
            raise click.UsageError("--valid and -o belong to --train SRC TGT.")
        for name in ("preset", "assignments", "lowercase"):
            shared.needs(name, "--train", False)
        if options["run_dir"] is None:
            raise click.UsageError("Give RUN, or --train SRC TGT -o FOLDER.")
    elif any(options[name] is not None for name in ("run_dir", "other", "uniform")):
        raise click.UsageError("Give RUN (with --other and --uniform) or --train, not both.")
    elif options["folder"] is None:
        raise click.UsageError("--train needs -o FOLDER for the three runs.")
    place = options["run_dir"] or options["folder"]
    if options["run_dir"] is not None:
        check_run(find_lab_runs(place).get("general-0", place), "train", checkpoint=False)
    need("torch", "sacrebleu")
    from alignkit.lab.translation import lab, train_lab_runs
    from alignkit.neural.devices import set_threads
    from alignkit.text.pairs import read_training_pairs

    authors = AUTHORS if options["authors"] else {}
    settings = shared.with_given(LabSettings(), options, all_steps=options["csv_steps"] is not None, **authors)
    set_threads(settings.threads)
    if options["training"] is not None:
        training = PRESETS[options["preset"]].change(training={"seed": settings.seed})
        training = assigned(training, options["assignments"])
        texts = read_training_pairs(options["training"], options["valid"], **shared.reading_of(options))
        with shared.ProgressBar("training", options["quiet"]) as bar:
            train_lab_runs(options["folder"], *texts, training, bar, options["device"])
        shared.note(f"{options['folder']}: the three runs are trained", options["quiet"])
    kept = find_lab_runs(place)
    with shared.ProgressBar("lab", options["quiet"]) as bar:
        others = options["other"] or kept.get("general-1"), options["uniform"] or kept.get("uniform-0")
        found = lab(kept.get("general-0", place), *others, settings, options["device"], bar)
    if settings.all_steps:
        shared.write_output(
            found.time_courses.to_csv(index=False, lineterminator="\n").encode(), options["csv_steps"]
        )
    shared.write_output(render_lab(found, settings, options["as_json"]))


def render_lab(found: Lab, settings: LabSettings, as_json: bool) -> str:
    """The table as text or JSON."""
    if as_json:
        seeds = None if found.seeds is None else records(found.seeds)
        more = {"xi_star": found.stars, "seeds": seeds, "notes": list(found.notes)}
        return to_json(found.table, "lab", {**more, **found.facts})
    table, facts = found.table, found.facts
    header = [f"{MAIN.symbol}(u, v)"]
    for metric in SCORE_METRICS:
        name = metric.name
        own = ["%", "95 %", "chance", "xi", "xi BLEU"]
        header += own if metric is MAIN else [name, "95 %", f"{name} xi", f"{name} xi BLEU"]
    grid = [header, *(_cells(row) for row in table.to_dict(orient="records"))]
    keep = [i for i in range(len(header)) if i < 4 or any(row[i] != NONE for row in grid[1:])]
    grid = [[row[i] for i in keep] for row in grid]
    star = {"accuracy": "token accuracy {:.3f}", "bleu": "BLEU {:.1f}"}
    stars = ", ".join(star[name].format(value) for name, value in found.stars.items())
    lines = [
        f"{counted(facts['scored_pairs'], 'pair')} of the {facts['text']} text, "
        f"{int(table['rows'].max())} target tokens; trained on {counted(facts['training_pairs'], 'pair')}.",
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
    if found.seeds is None or found.seeds.empty:
        return []
    columns: dict[str, tuple[str, Callable[[float], str]]] = {
        MAIN.name: (f"{MAIN.symbol}({found.facts['network']['name']}.alpha, alpha(step)) %", MAIN.text),
        "accuracy": ("accuracy", "{:.3f}".format),
        "bleu": ("BLEU", "{:.1f}".format),
    }
    shown = {name: each for name, each in columns.items() if found.seeds[name].notna().any()}
    grid = [["step", *(head for head, _ in shown.values())]]
    for row in found.seeds.to_dict(orient="records"):
        cells = [NONE if math.isnan(row[name]) else text(row[name]) for name, (_, text) in shown.items()]
        grid.append([f"{row['step']:.0f}", *cells])
    return ["", "The second run while it learned:", "", align_columns(grid)]


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
    return "-" if math.isnan(value) else metric.text(value)


def _xi(row: dict[str, Any], column: str) -> str:
    if column in row["not_reached"].split():
        return "not reached"
    value = row[column]
    if math.isnan(value):
        return "-"
    return f"{value:.1f}" if column.endswith("bleu") else f"{value:.3f}"
