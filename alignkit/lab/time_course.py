"""The time course of a run: performance, and the metrics of its scores against others, at every logged step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.metrics.registry import SCORE_METRICS
from alignkit.scores import Scores
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.neural.aligners import ClassifierAligner, NeuralAligner
    from alignkit.neural.training.run_directory import RunDirectory, TranslationRun

COLUMNS = ("run", "step", "name", "value")

#: The part of a run's text that is scored.
Part = Literal["valid", "train"]
Network: TypeAlias = "NeuralAligner | ClassifierAligner"
#: The scores of a network, pairs in its tokens, and a kind of scores.
Scorer: TypeAlias = "Callable[[Network, Bitext, str], Scores]"


def scores_of(network: Network, pairs: Bitext, kind: str) -> Scores:
    """The usual :data:`Scorer`: the network's own scores, computed."""
    return network.score(pairs, kind)


@dataclass(frozen=True)
class TimeCourseSettings(MetricSettings):
    """The measurements at every logged step.

    Attributes:
        kinds: the run's scores that are compared. By default beta of a network with uniform attention, alpha of
            any other.
        metrics: the first of them comes with its chance level and interval.
        order: metrics that are not symmetric are measured with the ``fixed`` scores as u, with those of the
            ``step`` as u, or with ``both`` in turn; then the run's scores are also compared with each other.
        bleu: translate the validation text at every checkpoint whose BLEU was not logged (0 to 100; beam as in the
            run's settings); takes long.
    """

    kinds: tuple[str, ...] | None = None
    metrics: tuple[Metric, ...] = SCORE_METRICS
    order: Literal["both", "fixed", "step"] = "both"
    bleu: bool = False


def at_step(kind: str) -> str:
    """The name of a network's scores at the step of a row, as ``alpha(step)``."""
    return f"{kind}(step)"


def row_name(symbol: str, u: str, v: str) -> str:
    """The name of a measured value, as ``A(lstm.alpha, alpha(step))``."""
    return f"{symbol}({u}, {v})"


def measure_steps(
    run: RunDirectory,
    pairs: Bitext,
    references: Mapping[str, Scores],
    settings: TimeCourseSettings,
    *,
    device: str = "auto",
    score: Scorer = scores_of,
) -> Iterator[tuple[Network, dict[tuple[Metric, str, str], dict[str, Any]]]]:
    """Score ``pairs`` with every checkpoint of a run in turn, and measure the scores against references.

    With ``both`` orders, the scores of a step are also measured against each other.

    Args:
        run: of a translation network or a classifier.
        pairs: M pairs in the run's tokens.
        references: name -> fixed scores of these pairs.
        settings: what is measured.
        device: as :func:`alignkit.neural.devices.pick_device`.
        score: gives the network's scores, or what the references have of them, where that is less.

    Yields:
        the network of a step; and (metric, u, v) -> what :meth:`alignkit.metrics.protocol.Metric.measure` gives, u
        and v being names, :func:`at_step` those of the network's scores.

    Raises:
        AlignkitError: a checkpoint is damaged, or ``references`` are not of these pairs.
    """
    without_interval = replace(settings, resamples=0)
    for step in run.checkpoints:
        network = run.load(step, device)
        kinds = settings.kinds or (("beta",) if network.name == "uniform" else ("alpha",))
        scores = {at_step(kind): score(network, pairs, kind) for kind in kinds}
        found, known = {}, dict(references)
        for name, own in scores.items():
            for other, fixed in known.items():
                both = {"fixed": (other, name, fixed, own), "step": (name, other, own, fixed)}
                orders = [both[order] for order in both if settings.order in ("both", order)]
                for metric in settings.metrics:
                    chosen = settings if metric is settings.metrics[0] else without_interval
                    for u, v, first, second in orders[:1] if metric.symmetric else orders:
                        found[metric, u, v] = metric.measure(first, second, chosen)
            if settings.order == "both":
                known[name] = own
        yield network, found


def time_course(
    run: TranslationRun,
    pairs: Bitext,
    references: Mapping[str, Scores],
    settings: TimeCourseSettings | None = None,
    *,
    label: str | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    score: Scorer = scores_of,
) -> pd.DataFrame:
    """Performance of a network at every logged step, and the metrics of its scores against fixed ones.

    Args:
        run: its log, and its checkpoints at the logged steps, are read.
        pairs, references, device, score: as in :func:`measure_steps`, for ``references`` as
            ``{"proxy.beta": ...}``.
        settings: defaults if not given.
        label: what the column ``run`` holds; the directory's name if not given.
        progress: called after each checkpoint with (done, total, message).

    Returns:
        a row per measured value with the columns ``run``, ``step``, ``name`` and ``value``. Names are those of the
        training log (``valid.accuracy``, ``valid.bleu``, ...), and for each checkpoint, kind k and reference r,
        with u and v being r and ``k(step)`` in both orders: ``A(u, v)``, the top-5 % agreement of v with u, with
        ``chance(u, v)``, ``low(u, v)`` and ``high(u, v)`` (95 % interval); and ``tau(r, k(step))``, the mean of
        Kendall's tau-b, which is symmetric. Two kinds of one network are compared likewise.

    Raises:
        AlignkitError: the run is damaged, or ``references`` are not of these pairs.
    """
    import pandas as pd

    from alignkit.neural.scoring.evaluation import bleu

    settings, label = settings or TimeCourseSettings(), label or run.path.name
    rows: list[tuple[int, str, float]] = [(row.step, row.name, row.value) for row in run.log.rows]
    logged = {row.step for row in run.log.rows if row.name == "valid.bleu"}
    total, more = len(run.checkpoints), ("chance", "low", "high") if settings.resamples else ("chance",)
    measured = measure_steps(run, pairs, references, settings, device=device, score=score)
    for done, (network, values) in enumerate(measured, 1):
        step = network.step
        if settings.bleu and step not in logged:
            translator: Any = network.network
            texts, beam = (network.tokenizer, run.valid, run.references), run.settings.training.beam
            rows.append((step, "valid.bleu", bleu(translator, *texts, beam)))
        for (metric, u, v), each in values.items():
            rows.append((step, row_name(metric.symbol, u, v), each[metric.name]))
            if metric is settings.metrics[0]:
                rows += [(step, row_name(name, u, v), each[name]) for name in more]
        (progress or no_progress)(done, total, f"{label}: step {step}")
    table = [(label, *row) for row in rows]
    return pd.DataFrame(table, columns=list(COLUMNS)).sort_values("step", kind="stable", ignore_index=True)


def series(table: pd.DataFrame, name: str, run: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Steps (int64, rising) and values of one name of a time course; empty if it has none.

    Args:
        table: of :func:`time_course`, or several of them one after another.
        name: as in its column ``name``.
        run: only the rows of that run.
    """
    some = table[(table["name"] == name) & ((table["run"] == run) if run is not None else True)]
    some = some.sort_values("step", kind="stable")
    return some["step"].to_numpy(np.int64), some["value"].to_numpy(np.float64)
