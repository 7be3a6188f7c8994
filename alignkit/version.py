"""The version of alignkit, and of the packages that a result was computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__version__ = "0.1.0"

PACKAGES = ("alignkit", "numpy", "numba", "torch", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of Python and of those ``PACKAGES`` that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
