"""Classical aligners against scores of other systems, without a network. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.analysis.settings import CompareSettings
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.interop.external_scores import ExternalScores
from alignkit.interop.other_systems import read_scores
from alignkit.interop.projection import is_between_tokens, project_scores, scores_without_specials
from alignkit.metrics.registry import compare, find_metric
from alignkit.scores import Scores
from alignkit.settings import with_options
from alignkit.text.bitext import Bitext
from alignkit.text.line_pairs import LinePairs
from alignkit.types import PathLike, Progress
from alignkit.workflow.align import align
from alignkit.workflow.reading import read_text
from alignkit.workflow.settings import AlignSettings

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.neural.aligners import NeuralAligner


@dataclass(frozen=True)
class Comparison:
    """The result of :func:`compare_networks`.

    Attributes:
        table: as :func:`compare_aligners` returns it.
        network: the one with attention.
        training: the text that everything was fitted on.
        pairs: the text that was scored.
    """

    table: pd.DataFrame
    network: NeuralAligner | None
    training: Bitext
    pairs: Bitext


def compare_classical(
    pairs: LinePairs,
    others: Mapping[str, PathLike] | None = None,
    *,
    training: LinePairs | None = None,
    settings: CompareSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Compare IBM Model 1, the aligner of :func:`alignkit.align` and scores of other systems, between words.

    Args:
        pairs: the text to score.
        others: name -> a file of another system's alpha scores (:mod:`alignkit.interop.other_systems`).
        training: the text that the aligners are fitted on; ``pairs`` if not given. Words that it lacks have zeros.
        settings: defaults if not given; what is said there of networks does not count.
        progress: of the fit.
        **options: fields of :class:`CompareSettings` that replace those of ``settings``.

    Returns:
        a comparison whose ``network`` is None, of ``ibm1.beta``, ``align.alpha`` and ``NAME.alpha``.

    Raises:
        AlignkitError: scores cannot be read or are not of these pairs, a name is taken, or there is no such
            metric.
    """
    settings = with_options(settings or CompareSettings(), options)
    metric = find_metric(settings.metric)
    bitext = read_text(pairs.source, pairs.target, AlignSettings())
    text = bitext if training is None else read_text(training.source, training.target, AlignSettings())
    read = {name: read_scores(path, bitext.shapes) for name, path in (others or {}).items()}
    scores = with_others({}, bitext, read, specials=False)  # scores of other text are refused before any fit
    ibm1 = fit_ibm1(text, iterations=settings.iterations, null=settings.null, threads=settings.threads)
    classical = {"ibm1.beta": ibm1.score(bitext, "beta")}
    if settings.ibm_alpha:
        classical["ibm1.alpha"] = ibm1.score(bitext, "alpha")
    aligned = align(text, threads=settings.threads, progress=progress)
    classical["align.alpha"] = aligned.aligner.score(bitext, "alpha")
    taken = sorted(set(classical) & set(scores))
    if taken:
        raise AlignkitError(f"the names of other systems' scores must be new; taken is {taken[0]}")
    return Comparison(compare({**classical, **scores}, metric, settings), None, text, bitext)


def with_others(
    scores: Mapping[str, Scores], pairs: Bitext, others: Mapping[str, ExternalScores], *, specials: bool = True
) -> dict[str, Scores]:
    """The scores with those of other systems beside them, as ``NAME.alpha``, on the same tokens.

    Args:
        scores: name -> scores of the pairs.
        pairs: of subwords with BOS and EOS; or of words.
        others: name -> alpha scores of the same pairs.
        specials: whether the pairs are of subwords.

    Raises:
        AlignkitError: a name is taken, or scores are not of these pairs.
    """
    named = {name if name.endswith(".alpha") else f"{name}.alpha": found for name, found in others.items()}
    if len(named) < len(others) or set(named) & set(scores):
        raise AlignkitError(f"the names of other systems' scores must be new; taken are {', '.join(scores)}")
    joined = {**scores, **{name: project_scores(found, pairs, specials=specials) for name, found in named.items()}}
    if not specials or all(is_between_tokens(found, pairs) for found in named.values()):
        return joined
    return {name: scores_without_specials(each, pairs) for name, each in joined.items()}
