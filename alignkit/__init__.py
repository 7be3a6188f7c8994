"""alignkit: word alignment, classical and neural side by side.

Every aligner maps a bitext to scores, a (T, L) matrix per sentence pair; see :mod:`alignkit.aligner`.
:func:`alignkit.align` reads a text, fits or loads an aligner and links the words in one call.
The names below are imported when first used, so that ``import alignkit`` loads neither Numba nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.align_settings import AlignSettings as AlignSettings
    from alignkit.aligner import Aligner as Aligner
    from alignkit.aligner import Symmetrized as Symmetrized
    from alignkit.aligner import load_aligner as load_aligner
    from alignkit.classical.cooccurrence import cooccurrence as cooccurrence
    from alignkit.classical.diagonal import Diagonal as Diagonal
    from alignkit.classical.diagonal import fit_diagonal as fit_diagonal
    from alignkit.classical.hmm.hmm import HMM as HMM
    from alignkit.classical.hmm.hmm import fit_hmm as fit_hmm
    from alignkit.classical.hmm.joint import JointHMM as JointHMM
    from alignkit.classical.hmm.joint import fit_joint as fit_joint
    from alignkit.classical.hmm.settings import HMMSettings as HMMSettings
    from alignkit.classical.ibm1 import IBM1 as IBM1
    from alignkit.classical.ibm1 import fit_ibm1 as fit_ibm1
    from alignkit.classical.settings import DiagonalSettings as DiagonalSettings
    from alignkit.classical.settings import IBM1Settings as IBM1Settings
    from alignkit.errors import AlignkitError as AlignkitError
    from alignkit.errors import InputError as InputError
    from alignkit.links.gold import read_gold as read_gold
    from alignkit.links.gold import read_links as read_links
    from alignkit.links.links import AlignedPair as AlignedPair
    from alignkit.links.links import GoldLinks as GoldLinks
    from alignkit.links.links import Link as Link
    from alignkit.links.links import Links as Links
    from alignkit.links.projection import ProjectedSpan as ProjectedSpan
    from alignkit.links.projection import project_spans as project_spans
    from alignkit.links.projection import remap_links as remap_links
    from alignkit.links.symmetrization import symmetrize as symmetrize
    from alignkit.metrics.aer import evaluate as evaluate
    from alignkit.metrics.agreement import agreement as agreement
    from alignkit.metrics.kendall import kendall as kendall
    from alignkit.metrics.protocol import MetricSettings as MetricSettings
    from alignkit.metrics.registry import compare as compare
    from alignkit.pipeline import AlignedText as AlignedText
    from alignkit.pipeline import align as align
    from alignkit.pipeline import align_blocks as align_blocks
    from alignkit.pipeline import align_stream as align_stream
    from alignkit.pipeline import load as load
    from alignkit.scores import Scores as Scores
    from alignkit.text.bitext import Bitext as Bitext
    from alignkit.text.bitext import Corpus as Corpus
    from alignkit.text.pairs import read_bitext as read_bitext
    from alignkit.text.vocabulary import Vocabulary as Vocabulary

#: public name -> its module, imported when the name is first used
_WHERE = {
    "Aligner": "alignkit.aligner",
    "load_aligner": "alignkit.aligner",
    "Symmetrized": "alignkit.aligner",
    "cooccurrence": "alignkit.classical.cooccurrence",
    "Diagonal": "alignkit.classical.diagonal",
    "fit_diagonal": "alignkit.classical.diagonal",
    "JointHMM": "alignkit.classical.hmm.joint",
    "fit_joint": "alignkit.classical.hmm.joint",
    "HMM": "alignkit.classical.hmm.hmm",
    "fit_hmm": "alignkit.classical.hmm.hmm",
    "HMMSettings": "alignkit.classical.hmm.settings",
    "IBM1": "alignkit.classical.ibm1",
    "fit_ibm1": "alignkit.classical.ibm1",
    "DiagonalSettings": "alignkit.classical.settings",
    "IBM1Settings": "alignkit.classical.settings",
    "AlignkitError": "alignkit.errors",
    "InputError": "alignkit.errors",
    "AlignedPair": "alignkit.links.links",
    "Link": "alignkit.links.links",
    "read_gold": "alignkit.links.gold",
    "read_links": "alignkit.links.gold",
    "GoldLinks": "alignkit.links.links",
    "Links": "alignkit.links.links",
    "remap_links": "alignkit.links.projection",
    "ProjectedSpan": "alignkit.links.projection",
    "project_spans": "alignkit.links.projection",
    "symmetrize": "alignkit.links.symmetrization",
    "evaluate": "alignkit.metrics.aer",
    "agreement": "alignkit.metrics.agreement",
    "kendall": "alignkit.metrics.kendall",
    "MetricSettings": "alignkit.metrics.protocol",
    "compare": "alignkit.metrics.registry",
    "Scores": "alignkit.scores",
    "Bitext": "alignkit.text.bitext",
    "Corpus": "alignkit.text.bitext",
    "read_bitext": "alignkit.text.pairs",
    "Vocabulary": "alignkit.text.vocabulary",
    "AlignedText": "alignkit.pipeline",
    "align": "alignkit.pipeline",
    "align_stream": "alignkit.pipeline",
    "align_blocks": "alignkit.pipeline",
    "load": "alignkit.pipeline",
    "AlignSettings": "alignkit.align_settings",
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
