"""Options of the commands that compare aligners; defaults and choices are the library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_args

import click

from alignkit.analysis.settings import CompareSettings, Part
from alignkit.metrics.protocol import PERCENT

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
Settings = TypeVar("Settings")

percent_option: Option = click.option(
    "--percent", default=str(PERCENT), show_default=True, help="The top of a row for the agreement, in per cent."
)
device_option: Option = click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
proxy_epochs_option: Option = click.option(
    "--proxy-epochs", type=click.IntRange(min=1), help="Epochs of the proxy.  [default: its preset's]"
)
csv_option: Option = click.option("--csv", metavar="FILE", help="Also write the table as CSV.")


def ibm1_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--iterations and --null, of IBM Model 1."""
    iterations = click.option(
        "--iterations",
        type=click.IntRange(min=1),
        default=CompareSettings.iterations,
        show_default=True,
        help="EM iterations of IBM Model 1.",
    )
    null = click.option(
        "--null/--no-null", default=CompareSettings.null, show_default=True, help="NULL in IBM Model 1."
    )
    return iterations(null(command))


def seed_option(what: str) -> Option:
    """--seed; ``what`` says of what."""
    seed = CompareSettings.seed
    return click.option("--seed", type=click.IntRange(min=0), default=seed, show_default=True, help=what)


def part_option(name: str, what: str) -> Option:
    """--on, the part of a run's text that is scored, as the parameter ``name``."""
    choices = get_args(Part)
    return click.option("--on", name, type=click.Choice(choices), default=choices[0], show_default=True, help=what)


def preset_option(presets: dict[str, Any], what: str) -> Option:
    """--preset, the first of the presets if not given."""
    return click.option(
        "--preset", type=click.Choice(list(presets)), default=next(iter(presets)), show_default=True, help=what
    )


def json_option(what: str) -> Option:
    """--json; ``what`` says what it prints."""
    return click.option("--json", "as_json", is_flag=True, help=what)


def take(kind: type[Settings], options: dict[str, Any]) -> Settings:
    """The settings dataclass of those options that are its fields, which are removed from ``options``."""
    names = [field.name for field in fields(kind) if field.name in options]  # type: ignore[arg-type]
    return kind(**{name: options.pop(name) for name in names})
