"""alignkit: word alignment, classical and neural side by side.

Every aligner maps a bitext to scores, a (T, L) matrix per sentence pair; see :mod:`alignkit.aligner.protocol`.
The names below are imported when first used, so that ``import alignkit`` loads neither Numba nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.aligner.protocol import Aligner as Aligner
    from alignkit.aligner.registry import load_aligner as load_aligner
    from alignkit.classical.cooccurrence import cooccurrence as cooccurrence
    from alignkit.classical.ibm1 import IBM1 as IBM1
    from alignkit.classical.ibm1 import fit_ibm1 as fit_ibm1
    from alignkit.errors import AlignkitError as AlignkitError
    from alignkit.errors import InputError as InputError
    from alignkit.links.links import GoldLinks as GoldLinks
    from alignkit.links.links import Links as Links
    from alignkit.metrics.aer import evaluate as evaluate
    from alignkit.metrics.agreement import agreement as agreement
    from alignkit.scores.scores import Scores as Scores
    from alignkit.text.bitext import Bitext as Bitext
    from alignkit.text.bitext import Corpus as Corpus
    from alignkit.text.reading import read_bitext as read_bitext
    from alignkit.text.vocabulary import Vocabulary as Vocabulary

_WHERE = {
    "Aligner": "alignkit.aligner.protocol",
    "load_aligner": "alignkit.aligner.registry",
    "Bitext": "alignkit.text.bitext",
    "Corpus": "alignkit.text.bitext",
    "cooccurrence": "alignkit.classical.cooccurrence",
    "IBM1": "alignkit.classical.ibm1",
    "fit_ibm1": "alignkit.classical.ibm1",
    "AlignkitError": "alignkit.errors",
    "InputError": "alignkit.errors",
    "GoldLinks": "alignkit.links.links",
    "Links": "alignkit.links.links",
    "evaluate": "alignkit.metrics.aer",
    "agreement": "alignkit.metrics.agreement",
    "read_bitext": "alignkit.text.reading",
    "Scores": "alignkit.scores.scores",
    "Vocabulary": "alignkit.text.vocabulary",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'alignkit' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
