"""``alignkit doctor``."""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from typing import Any

import click

from alignkit_cli import shared


@shared.command("doctor", "alignkit doctor")
@shared.json_option
@shared.quiet_option
def doctor_command(as_json: bool, quiet: bool) -> None:
    """Show what alignkit finds on this machine, and how to install what is missing.

    Prints the versions, the number of threads, the GPUs, the folder of compiled kernels and the missing packages.
    The exit code is 1 if something does not work as it should. Packages that only some commands need may be
    missing.

    Args:
        --json: Print JSON instead of text.
    """
    from alignkit.errors import AlignkitError, first_line
    from alignkit.kernels.cache_folder import base_folder, make_writable
    from alignkit.support.packages import PACKAGES, __version__, imported, installed, is_here, loaded_package
    from alignkit.support.threads import thread_count

    missing = [package for name, package in PACKAGES.items() if not is_here(name)]
    problems = [f"alignkit needs {each.distribution}: {each.get}" for each in missing if each.needed_for is None]
    gpus: list[str] = []
    if is_here("torch"):
        try:
            gpus = imported("alignkit.neural.devices:gpu_names")()
        except Exception as error:  # a broken installation fails in many ways
            problems.append(f"PyTorch cannot be used ({first_line(error)}); install it again")
    if is_here("lightgbm"):
        try:
            loaded_package("lightgbm")
        except AlignkitError as error:
            problems.append(str(error))
    folder, size = base_folder() / "kernels", 0
    reason = make_writable(folder)
    if reason is not None:
        remedy = "set ALIGNKIT_CACHE to a folder that can be written"
        problems.append(f"compiled kernels cannot be kept in {folder} ({reason}): {remedy}")
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.path.getsize(os.path.join(place, name))
    facts: dict[str, Any] = {
        "alignkit": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "packages": installed(package.distribution for package in PACKAGES.values()),
        "threads": thread_count(),
        "gpus": gpus,
        "cache_folder": str(folder),
        "cache_bytes": size,
        "problems": problems,
        "missing": [package._asdict() for package in missing],
    }
    lines = [
        f"alignkit {__version__}, Python {facts['python']}, {facts['system']}",
        f"packages: {', '.join(f'{name} {number}' for name, number in facts['packages'].items())}",
        f"threads: {facts['threads']}",
        f"GPU: {', '.join(gpus) or 'none that PyTorch can use'}",
        f"compiled kernels: {folder}, {size / 1e6:.1f} MB",
        *(f"not installed: {p.distribution}, for {p.needed_for} ({p.get})" for p in missing if p.needed_for),
        *([f"problem: {problem}" for problem in problems] or ["no problems found"]),
    ]
    text = json.dumps(facts, indent=1) if as_json else "\n".join(lines)
    shared.write_output(text)
    if problems:
        click.get_current_context().exit(1)
