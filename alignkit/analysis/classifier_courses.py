"""The time courses of classifiers: agreement and performance at every logged step, and what is read from them.

Appendices A.6, A.7 and A.9 of Snell et al. (2021) are about these: where a score of a run agrees most with
another, whether A(alpha, beta_uf) rises and falls again, and whether two seeds ever learn the same attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alignkit.analysis.time_course import TimeCourseSettings, measure_steps
from alignkit.errors import AlignkitError
from alignkit.metrics.bootstrap import bootstrap_ratio
from alignkit.metrics.protocol import PERCENT, MetricSettings, Percent
from alignkit.metrics.registry import MAIN
from alignkit.neural.training.classifier_run import ClassifierRun
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledText

if TYPE_CHECKING:
    import pandas as pd


def classifier_time_course(
    run: ClassifierRun,
    u: Scores,
    kind: str,
    text: LabelledText,
    settings: MetricSettings | None = None,
    device: str = "auto",
) -> pd.DataFrame:
    """A(u, v(step)) and performance at every logged step of a run, v(step) being its scores of ``kind`` then.

    Contextualised agreement is read from this: xi is the performance at the first step whose agreement exceeds a
    given one.

    Args:
        run: whose checkpoints are scored.
        u: scores of ``text``.
        kind: of the run's scores.
        text: what is scored.
        settings: of the metric.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        columns step, accuracy, loss (on the validation text), agreement, chance, low, high, rows, ties.

    Raises:
        AlignkitError: the run kept no checkpoints.
    """
    import pandas as pd

    if not run.checkpoints:
        raise AlignkitError(f"{run.path} has no checkpoints of its logged steps")
    options = (settings or MetricSettings()).metric_options()
    plan = TimeCourseSettings(**options, kinds=(kind,), metrics=(MAIN,), order="fixed")
    rows = []
    for each in measure_steps(run, text.bitext, {"u": u}, plan, device=device):
        (values,) = each.values.values()
        measured = each.network.metrics
        performance = {"accuracy": measured["valid.accuracy"], "loss": measured["valid.loss"]}
        rows.append({"step": each.step, **performance, **values})
    return pd.DataFrame(rows)


def strongest_step(course: pd.DataFrame, otherwise: int) -> int:
    """The step of a time course with the largest agreement; ``otherwise`` if it is undefined throughout."""
    if not course[MAIN.name].notna().any():
        return otherwise
    return int(course["step"][course[MAIN.name].idxmax()])


class RiseAndFall(NamedTuple):
    """A course that rises and falls again (A.7), both judged on texts that did not choose the peak.

    Attributes:
        step: of the peak, chosen on every other text.
        peak, first, last: the agreement at that step, at the first and at the last, on the other texts.
        rise, fall: peak minus first and peak minus last, there, each with its 95 % interval over texts.
    """

    step: int
    peak: float
    first: float
    last: float
    rise: tuple[float, float, float]
    fall: tuple[float, float, float]


def rise_and_fall(
    run: ClassifierRun, u: Scores, kind: str, text: LabelledText, device: str = "auto", percent: Percent = PERCENT
) -> RiseAndFall:
    """Whether A(u, v(step)) rises over the logged steps of a run and then falls.

    The largest of many values lies above the last one by its choice alone. So the step of the peak is chosen on
    the texts with even numbers, and the values are compared on those with odd ones.

    Args:
        run, u, kind, text, device: as of :func:`classifier_time_course`.
        percent: of a text's words, the top.
    """
    settings = MetricSettings(percent=percent, resamples=0)
    hits, rows = [], np.zeros(len(text))
    for step in run.checkpoints:
        counts = MAIN.count(u, run.load(step, device).score(text.bitext, kind), settings)
        hits.append(counts.hits)
        rows = counts.rows
    table, even = np.stack(hits), np.arange(len(text)) % 2 == 0
    place = int(np.argmax(table[:, even].sum(1)))
    held, count = table[:, ~even], rows[~even]

    def gap(other: int) -> tuple[float, float, float]:
        difference = held[place] - held[other]
        low, high = bootstrap_ratio(difference, count)
        return float(difference.sum() / count.sum()), low, high

    peak, first, last = (float(held[k].sum() / count.sum()) for k in (place, 0, -1))
    return RiseAndFall(list(run.checkpoints)[place], peak, first, last, gap(0), gap(-1))


def same_attention_course(
    one: ClassifierRun,
    other: ClassifierRun,
    text: LabelledText,
    settings: MetricSettings | None = None,
    device: str = "auto",
) -> pd.DataFrame:
    """A(alpha(step), alpha_2(step)) of two runs at every step that both logged (A.9).

    Returns:
        columns step, agreement, chance, low, high, rows, ties.
    """
    import pandas as pd

    rows = []
    for step in one.checkpoints:
        if step not in other.checkpoints:
            continue
        u, v = (run.load(step, device).score(text.bitext, "alpha") for run in (one, other))
        rows.append({"step": step, **MAIN.measure(u, v, settings)})
    return pd.DataFrame(rows)
