"""``alignkit lab``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from alignkit_cli.options import needs, note, quiet_option, reading_options, threads_option, write_output
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from alignkit.analysis.lab import Lab, LabSettings
    from alignkit.neural.settings import RunSettings


@click.command("lab")
@click.argument("run_dir", metavar="[RUN]", required=False)
@click.option("--other", metavar="RUN", help="A run of another seed on the same text: gives xi.")
@click.option(
    "--uniform", metavar="RUN", help="A run with uniform attention on the same text: gives uniform.beta."
)
@click.option("--train", "training", nargs=2, metavar="SRC TGT", help="Train the three runs on this text first.")
@click.option("--valid", nargs=2, metavar="SRC TGT", help="With --train: the held-out text.")
@click.option("-o", "--output", "folder", metavar="FOLDER", help="With --train: where the three runs go.")
@click.option(
    "--preset", type=click.Choice(["paper", "small"]), default="paper", show_default=True, help="With --train."
)
@click.option("--tokens", type=click.Choice(["subwords", "words"]), help="With --train.  [default: subwords]")
@click.option("--pieces", type=click.IntRange(min=1), help="With --train: subwords.  [default: the preset's]")
@click.option("--epochs", type=click.IntRange(min=1), help="With --train.  [default: the preset's]")
@click.option("--steps", type=click.IntRange(min=0), help="With --train: stop after so many batches.")
@click.option(
    "--on",
    type=click.Choice(["valid", "train"]),
    default="valid",
    show_default=True,
    help="Score the validation or the training text.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Score so many pairs, drawn at random.  [default: all for valid, 1,000 for train]",
)
@click.option("--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="Of IBM 1's EM.")
@click.option("--null/--no-null", default=False, show_default=True, help="NULL in IBM 1's EM.")
@click.option("--bleu", is_flag=True, help="Translate at every checkpoint of --other for xi by BLEU; takes long.")
@click.option("--proxy-epochs", type=click.IntRange(min=1), help="Epochs of the proxy.  [default: its preset's]")
@click.option("--percent", default="5", show_default=True, help="What counts as the top of a row, in per cent.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of drawn pairs, proxy and bootstrap; with --train, of the networks.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with counts and intervals.")
@click.option("--csv", metavar="FILE", help="Also write the table as CSV.")
@click.option(
    "--csv-steps",
    metavar="FILE",
    help="Also write agreement, tau and performance at every logged step of every run as CSV.",
)
@reading_options
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Measure what a network's attention agrees with, and how much that is.

    RUN is a run of `alignkit train` with attention, or the FOLDER of an earlier --train. With --train, what is
    needed is trained first: two seeds with attention and one run without (FOLDER/general-0, general-1 and
    uniform-0); the same command goes on where it was interrupted. Runs must keep their checkpoints, as the paper
    preset does.

    For each pair of scores u, v the table gives A(u, v), the share of target tokens whose best source token by u
    is among the top 5 % by v, with chance and interval; xi, how good the second network was when its attention
    first agreed with the final one better than that; and Kendall's tau. docs/lab.md explains every column.
    """
    run(**options)


def run(
    run_dir: str | None,
    *,
    other: str | None,
    uniform: str | None,
    training: tuple[str, str] | None,
    valid: tuple[str, str] | None,
    folder: str | None,
    as_json: bool,
    csv: str | None,
    csv_steps: str | None,
    device: str,
    threads: int | None,
    quiet: bool,
    seed: int,
    **options: Any,
) -> None:
    """Trains what is to be trained, measures, prints."""
    plan = {name: options.pop(name) for name in ("preset", "tokens", "pieces", "epochs", "steps")}
    reading = {name: options.pop(name) for name in ("lowercase", "encoding_errors")}
    _check_usage(run_dir, training, valid, folder, other or uniform)
    from alignkit.analysis.lab import LabSettings, lab
    from alignkit.neural.devices import set_threads

    settings = LabSettings(**options, seed=seed, threads=threads, courses=csv_steps is not None)
    set_threads(threads)
    runs = (run_dir, other, uniform)
    if training is not None:
        assert folder is not None
        train_first(training, valid, folder, _run_settings(seed=seed, **plan), device, quiet, **reading)
        run_dir = folder
    assert run_dir is not None
    runs = _runs(run_dir, other, uniform)
    with progress_bar("lab", quiet) as bar:
        found = lab(*runs, settings, device, bar)
    if csv is not None:
        write_output(found.table.to_csv(index=False, lineterminator="\n").encode(), csv)
    if csv_steps is not None:
        write_output(found.course.to_csv(index=False, lineterminator="\n").encode(), csv_steps)
    write_output(f"{render(found, settings, as_json)}\n".encode(), None)


def _check_usage(
    run_dir: str | None,
    training: tuple[str, str] | None,
    valid: tuple[str, str] | None,
    folder: str | None,
    others: str | None,
) -> None:
    if training is None:
        if valid is not None or folder is not None:
            raise click.UsageError("--valid and -o belong to --train SRC TGT.")
        for name in ("preset", "tokens", "pieces", "epochs", "steps"):
            needs(name, "--train", False)
        if run_dir is None:
            raise click.UsageError("Give RUN, or --train SRC TGT -o FOLDER.")
    elif run_dir is not None or others is not None:
        raise click.UsageError("Give RUN (with --other and --uniform) or --train, not both.")
    elif folder is None:
        raise click.UsageError("--train needs -o FOLDER for the three runs.")


def _runs(run_dir: str, other: str | None, uniform: str | None) -> tuple[str, str | None, str | None]:
    """The runs that a folder of --train stands for; others as they are."""
    from alignkit.analysis.lab_runs import find_runs

    found = {name: str(path) for name, path in find_runs(run_dir).items()}
    if "general-0" not in found:
        return run_dir, other, uniform
    return found["general-0"], other or found.get("general-1"), uniform or found.get("uniform-0")


def _run_settings(preset: str, tokens: str | None, pieces: int | None, seed: int, **training: Any) -> RunSettings:
    from alignkit.neural.settings import PRESETS

    return PRESETS[preset].change(text={"tokens": tokens, "pieces": pieces}, training={"seed": seed, **training})


def train_first(
    training: tuple[str, str],
    valid: tuple[str, str] | None,
    folder: str,
    settings: RunSettings,
    device: str,
    quiet: bool,
    **reading: Any,
) -> None:
    """Trains the three runs into the folder."""
    from alignkit.analysis.lab_runs import train_runs
    from alignkit.neural.training.translation_run import LinePairs
    from alignkit.text.line_pairs import check_has_words, hold_out_pairs
    from alignkit.text.reading import read_line_pairs

    lines = read_line_pairs(*training, **reading)
    lines, held = (lines, read_line_pairs(*valid, **reading)) if valid is not None else hold_out_pairs(lines)
    check_has_words(lines, "train on")
    check_has_words(held, "judge the networks by (--valid)")
    with progress_bar("training", quiet) as bar:
        train_runs(folder, LinePairs(*lines), LinePairs(*held), settings, bar, device)
    note(f"{folder}: the three runs are trained", quiet)


def render(found: Lab, settings: LabSettings, as_json: bool) -> str:
    """The table as text or JSON."""
    from alignkit.report.tables import align_columns, to_json

    if as_json:
        return to_json(found.table, "lab", {"xi_star": found.stars, "notes": list(found.notes), **found.facts})
    table, facts = found.table, found.facts
    grid = [["A(u, v)", "%", "95 %", "chance", "xi", "xi BLEU", "tau", "95 %", "tau xi", "tau xi BLEU"]]
    for row in table.to_dict(orient="records"):
        cells = [f"A({row['u']}, {row['v']})", _percent(row["agreement"])]
        cells += [f"{_percent(row['low'])}-{_percent(row['high'])}", _percent(row["chance"])]
        cells += [_xi(row, "xi_accuracy"), _xi(row, "xi_bleu"), f"{row['tau']:.3f}"]
        cells += [f"{row['tau_low']:.3f}..{row['tau_high']:.3f}"]
        grid.append([*cells, _xi(row, "tau_xi_accuracy"), _xi(row, "tau_xi_bleu")])
    keep = [i for i in range(len(grid[0])) if i < 4 or any(row[i] != "-" for row in grid[1:])]
    grid = [[row[i] for i in keep] for row in grid]
    star = {"accuracy": "token accuracy {:.3f}", "bleu": "BLEU {:.1f}"}
    stars = ", ".join(star[name].format(value) for name, value in found.stars.items())
    lines = [
        f"{facts['scored_pairs']} pairs of the {facts['text']} text, {int(table['rows'].max())} target tokens; "
        f"trained on {facts['training_pairs']} pairs.",
        "A(u, v): per cent of target tokens whose best source token by u is among the top "
        f"{settings.percent} % by v.",
        "",
        align_columns(grid),
        "",
        f"xi*: {stars} (the best of the first run).",
        *(f"Note: {text}." for text in found.notes),
    ]
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.1f}"


def _xi(row: dict[str, Any], column: str) -> str:
    if column in row["not_reached"].split():
        return "not reached"
    value = row[column]
    if math.isnan(value):
        return "-"
    return f"{value:.1f}" if column.endswith("bleu") else f"{value:.3f}"
