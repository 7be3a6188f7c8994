"""``alignkit experiment``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from alignkit.errors import find_known
from alignkit.support.packages import is_here, missing, need
from alignkit_cli import shared
from alignkit_cli.parameter_types import THREADS, OutputFolder


def list_experiments(context: click.Context, _: click.Parameter, listing: bool) -> None:
    """Print a line for each experiment, or JSON if --json is given, and exit."""
    if listing:
        from alignkit.lab.experiments import EXPERIMENTS

        listed = EXPERIMENTS.values()
        width = max(map(len, EXPERIMENTS))
        lines = "\n".join(f"{e.name:<{width}}  {e.summary} ({e.source})" for e in listed)
        rows = [{"name": e.name, "summary": e.summary, "source": e.source} for e in listed]
        shared.write_output(json.dumps(rows, indent=1) if context.params["as_json"] else lines)
        context.exit()


@shared.command("experiment", "alignkit experiment toy-classifier -o results")
@shared.argument("name", "NAME", required=False)
@click.option("--list", is_flag=True, expose_value=False, callback=list_experiments)
@click.option("--quick", is_flag=True)
@click.option("--settings", "show", is_flag=True)
@shared.set_option
@click.option("-o", "--output", "folder", type=OutputFolder())
@click.option("--json", "as_json", is_flag=True, is_eager=True)
@click.option("--threads", type=THREADS)
@shared.quiet_option
def experiment_command(name: str | None, quick: bool, folder: str | None, quiet: bool, **options: Any) -> None:
    """Reproduce an experiment of the papers: its table, a verdict for each claim, its plot.

    A claim holds, or does not hold, if the whole interval of its statistic says so; otherwise it is undecided.
    With --quick, no claim is judged.

    Args:
        NAME: One of the experiments that --list shows.
        --list: List all experiments and exit.
        --quick: Run at a small size, not the paper's, in less than two minutes.
        --settings: List the settings of NAME with their values and exit.
        --set: Change a setting; may be given several times.
        --output: Also write the result as JSON, its rows as CSV, and the plot (needs matplotlib).
        --json: Print JSON instead of text.
        --threads: Number of threads. [default: all cores]
    """
    import dataclasses

    from alignkit.lab.experiments import EXPERIMENTS, result_json, result_text, save_result

    if name is None:
        raise click.UsageError("Missing argument NAME (--list shows all).")
    experiment = find_known(name, EXPERIMENTS, "experiment")
    settings = experiment.settings(quick, options["assignments"])
    if options["show"]:
        values = dataclasses.asdict(settings).items()
        shared.write_output("\n".join(f"{key}={text(value)}" for key, value in values))
        return
    need("torch", "sacrebleu")
    if folder is not None and not is_here("matplotlib"):
        click.echo(f"{name}: there will be no plot ({missing('matplotlib')})", err=True)
    size = "quick size" if quick else settings.size_text()
    if options["assignments"]:
        size += f", with {', '.join(options['assignments'])}"
    shared.note(f"{name}: {size}", quiet)
    with shared.ProgressBar(name, quiet) as bar:
        from alignkit.neural.devices import set_threads

        set_threads(options["threads"])
        result = experiment.run(settings, bar, quick)
    paths = [] if folder is None else save_result(Path(folder), experiment, settings, result, size)
    rendered = result_json(experiment, settings, result, size) if options["as_json"] else None
    shared.write_output(rendered or result_text(experiment, result, size))
    for path in paths:
        shared.note(f"wrote {path}", quiet)


def text(value: object) -> str:
    """A setting as --set takes it."""
    if isinstance(value, tuple):
        return ",".join(map(text, value))
    return value if isinstance(value, str) else json.dumps(value)
