"""alignkit: word alignment, classical and neural side by side.

Every aligner maps a bitext to scores, one (T, L) matrix per sentence pair; see :mod:`alignkit.aligner`.
:func:`alignkit.align` reads a text, fits or loads an aligner and links the words in one call. The names below are
imported on first use, so that ``import alignkit`` loads neither Numba nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from alignkit.support.packages import __version__

if TYPE_CHECKING:
    from alignkit.aligner import Aligner as Aligner
    from alignkit.aligner import Symmetrized as Symmetrized
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
    from alignkit.links.coverage import Coverage as Coverage
    from alignkit.links.coverage import Gap as Gap
    from alignkit.links.gold import read_gold as read_gold
    from alignkit.links.gold import read_links as read_links
    from alignkit.links.gold import sample as sample
    from alignkit.links.links import AlignedPair as AlignedPair
    from alignkit.links.links import GoldLinks as GoldLinks
    from alignkit.links.links import Link as Link
    from alignkit.links.links import Links as Links
    from alignkit.links.symmetrization import symmetrize as symmetrize
    from alignkit.metrics.aer import evaluate as evaluate
    from alignkit.metrics.agreement import agreement as agreement
    from alignkit.metrics.kendall import kendall as kendall
    from alignkit.metrics.protocol import MetricSettings as MetricSettings
    from alignkit.metrics.registry import compare as compare
    from alignkit.pipeline.align import align as align
    from alignkit.pipeline.align import align_blocks as align_blocks
    from alignkit.pipeline.align import align_stream as align_stream
    from alignkit.pipeline.aligned_text import AlignedText as AlignedText
    from alignkit.pipeline.models import load as load
    from alignkit.pipeline.settings import AlignSettings as AlignSettings
    from alignkit.pipeline.training import train as train
    from alignkit.scores import Scores as Scores
    from alignkit.text.bitext import Bitext as Bitext
    from alignkit.text.bitext import Corpus as Corpus
    from alignkit.text.pairs import read_bitext as read_bitext
    from alignkit.text.vocabulary import Vocabulary as Vocabulary
    from alignkit.uses.projection import ProjectedSpan as ProjectedSpan
    from alignkit.uses.projection import project_spans as project_spans
    from alignkit.uses.remapping import remap_links as remap_links

#: module -> its public names; it is imported when one of them is first used
_PUBLIC = {
    "alignkit.aligner": "Aligner Symmetrized",
    "alignkit.classical.cooccurrence": "cooccurrence",
    "alignkit.classical.diagonal": "Diagonal fit_diagonal",
    "alignkit.classical.hmm.joint": "JointHMM fit_joint",
    "alignkit.classical.hmm.hmm": "HMM fit_hmm",
    "alignkit.classical.hmm.settings": "HMMSettings",
    "alignkit.classical.ibm1": "IBM1 fit_ibm1",
    "alignkit.classical.settings": "DiagonalSettings IBM1Settings",
    "alignkit.errors": "AlignkitError InputError",
    "alignkit.links.coverage": "Coverage Gap",
    "alignkit.links.links": "AlignedPair Link GoldLinks Links",
    "alignkit.links.gold": "read_gold read_links sample",
    "alignkit.uses.remapping": "remap_links",
    "alignkit.links.symmetrization": "symmetrize",
    "alignkit.metrics.aer": "evaluate",
    "alignkit.metrics.agreement": "agreement",
    "alignkit.metrics.kendall": "kendall",
    "alignkit.metrics.protocol": "MetricSettings",
    "alignkit.metrics.registry": "compare",
    "alignkit.scores": "Scores",
    "alignkit.text.bitext": "Bitext Corpus",
    "alignkit.text.pairs": "read_bitext",
    "alignkit.text.vocabulary": "Vocabulary",
    "alignkit.pipeline.aligned_text": "AlignedText",
    "alignkit.pipeline.align": "align align_stream align_blocks",
    "alignkit.pipeline.models": "load",
    "alignkit.pipeline.settings": "AlignSettings",
    "alignkit.pipeline.training": "train",
    "alignkit.uses.projection": "ProjectedSpan project_spans",
}
_WHERE = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'alignkit' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
