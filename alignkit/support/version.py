"""The versions of alignkit and of the packages that results depend on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

__version__ = "0.1.0"

PACKAGES = ("alignkit", "numpy", "numba", "torch", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """The versions of Python and of those ``PACKAGES`` that are installed."""
    import platform

    return {"python": platform.python_version(), **installed(PACKAGES)}


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those of the packages that are installed."""
    # Imported here: it would be most of the time that ``import alignkit`` takes.
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
