"""Options of the commands that compare aligners; defaults and choices are the library's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from alignkit.metrics.protocol import MetricSettings
from alignkit_cli.options import Option, choice_option, setting_option
from alignkit_cli.parameter_types import PERCENT, SEED, Device, NamedInputPath

percent_option: Option = setting_option(
    MetricSettings,
    "percent",
    type=PERCENT,
    help="The share of source tokens that count as top ones in the agreement, in per cent of the sentence.",
)
device_option: Option = click.option(
    "--device",
    type=Device(),
    default="auto",
    show_default=True,
    help="Where the network runs: cpu, cuda, cuda:1 and so on; auto takes a GPU if there is one.",
)


def seed_option(what: str) -> Option:
    """--seed; ``what`` says of what."""
    return setting_option(MetricSettings, "seed", type=SEED, help=what)


def preset_option(presets: Mapping[str, Any], what: str) -> Option:
    """--preset, by default the first of the presets."""
    return choice_option("--preset", choices=presets, help=what)


def json_option(what: str) -> Option:
    """--json; ``what`` says what it prints."""
    return click.option("--json", "as_json", is_flag=True, help=what)


def _by_name(_: click.Context, __: click.Parameter, values: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Name -> file of the scores that were given; raises click.UsageError for a repeated name."""
    found: dict[str, str] = {}
    for name, path in values:
        if name in found:
            raise click.UsageError(f"--scores is given twice with the name {name!r}.")
        found[name] = path
    return found


def scores_option(what: str) -> Option:
    """--scores, a dict of files by their names; ``what`` says what is done with them."""
    text = (
        f"{what}: .npz, .parquet, JSON lines, Marian's soft alignments, inseq's JSON or Pharaoh links; choose one "
        "of several heads by FILE:LAYER.HEAD. May be given several times."
    )
    return click.option("--scores", multiple=True, type=NamedInputPath(), callback=_by_name, help=text)
