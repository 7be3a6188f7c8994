"""The registry of metrics, and the table of one of them over several sets of scores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Literal, Unpack

from alignkit.aligner import Aligner
from alignkit.errors import AlignkitError, check_type, find_known
from alignkit.metrics.aer import AER
from alignkit.metrics.agreement import AGREEMENT
from alignkit.metrics.kendall import TAU
from alignkit.metrics.protocol import Metric, MetricOptions, MetricSettings
from alignkit.scores import SCORE_KINDS, Scores, ScoresLike, as_scores
from alignkit.support.settings import with_options
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd

#: All metrics by name.
METRICS: dict[str, Metric] = {metric.name: metric for metric in (AGREEMENT, TAU, AER)}
#: Those that compare one set of scores with another.
SCORE_METRICS = tuple(metric for metric in METRICS.values() if metric.reference == "scores")
#: Their names, for type checkers.
ScoreMetric = Literal["agreement", "tau"]
#: The one that the papers report.
MAIN = SCORE_METRICS[0]


def find_metric(name: str) -> Metric:
    """The metric that compares scores with scores of that name.

    Raises:
        AlignkitError: there is none.
    """
    return find_known(name, {metric.name: metric for metric in SCORE_METRICS}, "metric of two sets of scores")


def compare(
    scores: Mapping[str, ScoresLike | Aligner],
    metric: Metric | str = MAIN,
    settings: MetricSettings | None = None,
    *,
    text: Bitext | None = None,
    **options: Unpack[MetricOptions],
) -> pd.DataFrame:
    """A metric of every ordered pair of different score sets.

    Args:
        scores: name (as ``ibm1.beta``) -> scores, or arrays (see :func:`alignkit.scores.as_scores`), all of
            the same sentence pairs; or an aligner, which scores ``text``: by the kind in which its name ends after
            a dot, else by alpha.
        metric: one that compares scores with scores, or its name: ``agreement`` or ``tau``.
        settings: of the metric.
        text: which aligners score.
        **options: fields of :class:`MetricSettings`, which replace those of ``settings``.

    Returns:
        one row per (u, v) with the columns u, v and those of :meth:`Metric.measure`; shares are fractions.

    Raises:
        AlignkitError: there is no such metric or option, or the scores are not of the same sentence pairs.
    """
    import pandas as pd

    settings = with_options(MetricSettings, settings, options)
    check_type(scores, Mapping, "scores must be a dict of names and scores")
    chosen = find_metric(metric) if isinstance(metric, str) else metric
    check_type(chosen, Metric, "a metric must be a name or a Metric")
    sets = {}
    for name, each in scores.items():
        if isinstance(each, Aligner):
            if not isinstance(text, Bitext):
                raise AlignkitError(f"{name} is an aligner; give the Bitext that it is to score as text=")
            kind = name.rpartition(".")[2]
            each = each.score(text, kind if kind in SCORE_KINDS else "alpha")
        sets[name] = as_scores(each)
    pairs = list(permutations(sets, 2))
    found = [chosen.measure(sets[u], sets[v], settings) for u, v in pairs]
    rows = [{"u": u, "v": v, **values} for (u, v), values in zip(pairs, found, strict=True)]
    nothing = Scores.from_matrices([])
    return pd.DataFrame(rows, columns=["u", "v", *chosen.measure(nothing, nothing)])
