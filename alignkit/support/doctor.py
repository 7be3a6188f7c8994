"""What alignkit finds on this machine: versions, threads, GPU, the folder of compiled kernels, what is missing."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass

from alignkit.errors import first_line
from alignkit.kernels.cache_folder import base_folder, make_writable
from alignkit.support.packages import PACKAGES, Package, __version__, imported, installed, is_here
from alignkit.support.threads import thread_count

GPU = "alignkit.neural.devices:gpu_names"


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        alignkit, python, system: versions.
        packages: versions of the packages that are installed.
        threads: how many are used by default.
        gpus: names of the GPUs that networks can use.
        cache_folder: of compiled kernels.
        cache_bytes: their size.
        problems: what does not work as it should, each with its remedy; packages that only a part needs are none.
        missing: the packages that are not installed.
    """

    alignkit: str
    python: str
    system: str
    packages: dict[str, str]
    threads: int
    gpus: tuple[str, ...]
    cache_folder: str
    cache_bytes: int
    problems: tuple[str, ...]
    missing: tuple[Package, ...]


def diagnose() -> Diagnosis:
    """Look at this machine; nothing is changed, except that the folder of compiled kernels is made."""
    missing = tuple(package for name, package in PACKAGES.items() if not is_here(name))
    problems = [f"alignkit needs {each.distribution}: {each.get}" for each in missing if each.needed_for is None]
    gpus: tuple[str, ...] = ()
    if is_here("torch"):
        try:
            gpus = tuple(imported(GPU)())
        except Exception as error:  # a broken installation fails in many ways
            problems.append(f"PyTorch cannot be used ({first_line(error)}); install it again")
    folder = base_folder() / "kernels"
    reason = make_writable(folder)
    if reason is not None:
        remedy = "set ALIGNKIT_CACHE to a folder that can be written"
        problems.append(f"compiled kernels cannot be kept in {folder} ({reason}): {remedy}")
    cache_bytes = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                cache_bytes += os.path.getsize(os.path.join(place, name))
    return Diagnosis(
        __version__,
        platform.python_version(),
        f"{platform.system()} {platform.release()}, {platform.machine()}",
        installed(package.distribution for package in PACKAGES.values()),
        thread_count(),
        gpus,
        str(folder),
        cache_bytes,
        tuple(problems),
        missing,
    )
