"""``alignkit doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from alignkit_cli.options import alignkit_command, quiet_option, write_output

if TYPE_CHECKING:
    from alignkit.support.doctor import Diagnosis


@alignkit_command("doctor", "alignkit doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@quiet_option
def command(as_json: bool, quiet: bool) -> None:
    """Show what alignkit finds on this machine, and how to install what is missing.

    Prints the versions, the number of threads, the GPUs, the folder of compiled kernels and the missing packages.
    The exit code is 1 if something does not work as it should. Packages that only some commands need may be
    missing.
    """
    from alignkit.support.doctor import diagnose

    found = diagnose()
    text = json.dumps(asdict(found), indent=1) if as_json else _text(found)
    write_output(f"{text}\n".encode(), None)
    if found.problems:
        click.get_current_context().exit(1)


def _text(found: Diagnosis) -> str:
    lines = [
        f"alignkit {found.alignkit}, Python {found.python}, {found.system}",
        f"packages: {', '.join(f'{name} {number}' for name, number in found.packages.items())}",
        f"threads: {found.threads}",
        f"GPU: {', '.join(found.gpus) or 'none that PyTorch can use'}",
        f"compiled kernels: {found.cache_folder}, {found.cache_bytes / 1e6:.1f} MB",
    ]
    lines += [
        f"not installed: {each.distribution}, for {each.needed_for} ({each.get})"
        for each in found.missing
        if each.needed_for is not None
    ]
    lines += [f"problem: {problem}" for problem in found.problems] or ["no problems found"]
    return "\n".join(lines)
