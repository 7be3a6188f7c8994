"""Options of the commands that compare aligners; defaults and choices are the library's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_args

import click

from alignkit.comparison import CompareSettings
from alignkit.time_course import Part
from alignkit_cli.options import apply, setting_option
from alignkit_cli.parameter_types import PASSES, SEED, Device, OutputPath, Percentage

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
Call = TypeVar("Call")

percent_option: Option = setting_option(
    CompareSettings,
    "percent",
    type=Percentage(),
    help="How many source tokens count as the top ones for the agreement, in per cent of the sentence.",
)
device_option: Option = click.option(
    "--device",
    type=Device(),
    default="auto",
    show_default=True,
    help="Where the network runs: cpu, cuda, cuda:1 and so on; auto takes a GPU if there is one.",
)
proxy_epochs_option: Option = setting_option(
    CompareSettings,
    "proxy_epochs",
    type=PASSES,
    help="Number of epochs that the bag-of-words proxy is trained for.  [default: its preset's]",
)
csv_option: Option = click.option("--csv", type=OutputPath(), help="Also write the table as CSV.")


def ibm1_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--iterations and --null, of IBM Model 1."""
    null = "--null/--no-null"
    return apply(
        command,
        setting_option(CompareSettings, "iterations", type=PASSES, help="Number of EM iterations of IBM Model 1."),
        setting_option(CompareSettings, "null", null, help="Whether IBM Model 1 has the empty word NULL."),
    )


def seed_option(what: str) -> Option:
    """--seed; ``what`` says of what."""
    return setting_option(CompareSettings, "seed", type=SEED, help=what)


def part_option(settings: object, field: str, what: str) -> Option:
    """--on, the part of a run's text that is scored, a field of the settings."""
    return setting_option(settings, field, "--on", field, type=click.Choice(get_args(Part)), help=what)


def preset_option(presets: Mapping[str, Any], what: str) -> Option:
    """--preset, by default the first of the presets."""
    names = list(presets)
    return click.option("--preset", type=click.Choice(names), default=names[0], show_default=True, help=what)


def json_option(what: str) -> Option:
    """--json; ``what`` says what it prints."""
    return click.option("--json", "as_json", is_flag=True, help=what)


def call_of(kind: type[Call], options: Mapping[str, Any]) -> Call:
    """The dataclass of a command's options that are no settings."""
    return kind(**{field.name: options[field.name] for field in fields(kind)})  # type: ignore[arg-type]
