"""The versions of alignkit and of the packages that results depend on."""

from __future__ import annotations

__version__ = "0.1.0"

PACKAGES = ("alignkit", "numpy", "numba", "torch", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """The versions of Python and of those ``PACKAGES`` that are installed."""
    # Imported here: they would be most of the time that ``import alignkit`` takes.
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
