"""The paper's row for classification: the agreement of a classifier's attention, word scores and saliency.

One call trains everything that the row needs into one folder; after an interruption it continues from there:

    standard/   the paper's classifier            second/     the same from another seed
    uniform/    attention fixed to 1/L            frozen/     only attention is trained (appendix A.6)
    proxy.pt    the bag-of-words proxy            logistic regression and counts are fitted anew each time
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.analysis.accuracy import accuracies, word_weights
from alignkit.analysis.classifier_courses import (
    RiseAndFall,
    classifier_time_course,
    rise_and_fall,
    same_attention_course,
    strongest_step,
)
from alignkit.analysis.logistic import Logistic, fit_logistic, word_scores
from alignkit.analysis.proxy import PROXY_CACHE, fit_or_load_proxy
from alignkit.analysis.settings import ClassifySettings
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.metrics.contextual import contextualised
from alignkit.metrics.intervals import against_chance
from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.metrics.registry import MAIN, SCORE_METRICS
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.networks.mechanisms import UNIFORM
from alignkit.neural.proxy import ProxyAligner
from alignkit.neural.training.classifier_run import ClassifierRun, train_classifier
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines, LabelledText
from alignkit.types import PathLike, Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd

#: (name, u, v, the question that it answers) of the quantities of the row; those without scores are left out
QUANTITIES = (
    ("A(alpha, beta_uf)", "alpha", "beta_uf", "do word meanings learned without attention predict attention?"),
    ("A(beta_uf, beta_px)", "beta_uf", "beta_px", "does the bag-of-words proxy give the same word meanings?"),
    ("A(beta_px, beta_log)", "beta_px", "beta_log", "does logistic regression know what the proxy knows?"),
    ("A(beta_uf, beta_log)", "beta_uf", "beta_log", "does logistic regression give the same word meanings?"),
    ("A(delta, beta_uf)", "delta", "beta_uf", "do word meanings predict which words the prediction depends on?"),
    ("A(alpha, beta)", "alpha", "beta", "does attention go to words whose states speak for the label?"),
    (
        "A(alpha, alpha_fr)",
        "alpha",
        "alpha_fr",
        "does attention learned over frozen random states predict attention?",
    ),
    ("A(alpha_fr, beta_uf)", "alpha_fr", "beta_uf", "do word meanings predict the attention over frozen states?"),
    ("A(alpha, alpha_2)", "alpha", "alpha_2", "is the same attention learned from another seed?"),
    ("A(beta_uf, beta_count)", "beta_uf", "beta_count", "does plain counting give the same word meanings? (ours)"),
    ("A(alpha, beta_count)", "alpha", "beta_count", "does plain counting predict attention? (ours)"),
    ("A(alpha, beta_ibm1)", "alpha", "beta_ibm1", "does IBM Model 1 by EM predict attention? (ours)"),
    ("A(alpha, loo)", "alpha", "loo", "does attention go to words whose absence would matter?"),
)
UNIFORM_SCORE = "beta_uf"


@dataclass(frozen=True)
class Classification:
    """The result of :func:`classify`.

    Attributes:
        row: one line per quantity: quantity, u, v; agreement, chance, low, high, rows, ties; of every other metric
            its value and interval (tau, tau_low, tau_high); xi, the second run's accuracy when its alpha first
            agrees with alpha better than v does with u, NaN if it never does; against_chance, ``above``, ``at`` or
            ``below``, where the interval of the agreement lies; question, which the value answers for these texts.
        accuracy: one line per model: model, step (best), accuracy with low and high, loss; on the validation text.
        time_courses: of :func:`classifier_time_course`, for alpha with ``second``'s alpha, with ``uniform``'s beta
            and with ``frozen``'s alpha; ``proxy``, ``saliency`` and, if there is the regression, ``logistic``: for
            beta_px, delta and beta_log with ``uniform``'s beta; and ``seeds``, of :func:`same_attention_course`,
            both runs at the same step (A.9).
        scores: by the names in ``row``, all of the same texts: for further metrics.
        text: the texts that were scored.
        uniform_step: the logged step whose beta_uf agrees best with alpha (A.7), which all quantities use.
        frozen_step: the logged step whose alpha_fr agrees best with alpha (A.6), likewise.
        rise_and_fall: of A(alpha, beta_uf) over the steps of ``uniform`` (A.7).
        logistic: the regression, or None where scikit-learn is not installed.
        penalties: one line per C that was tried, on which A(beta_uf, beta_log) depends much: strength, loss,
            accuracy, agreement, chance, low, high, rows, ties; None without the regression.
    """

    row: pd.DataFrame
    accuracy: pd.DataFrame
    time_courses: Mapping[str, pd.DataFrame]
    scores: Mapping[str, Scores]
    text: LabelledText
    uniform_step: int
    frozen_step: int
    rise_and_fall: RiseAndFall
    logistic: Logistic | None
    penalties: pd.DataFrame | None

    @property
    def best_accuracy(self) -> float:
        """xi*: the standard classifier's accuracy at its best step."""
        return float(self.accuracy.set_index("model").accuracy["standard"])


def classify(
    folder: PathLike,
    text: LabelledLines,
    valid: LabelledLines,
    labels: tuple[str, str],
    settings: ClassifySettings | None = None,
    *,
    vectors: PathLike | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> Classification:
    """Train what is not yet trained in ``folder``, score the validation text with everything, and compare.

    Args:
        folder: made if it does not exist.
        text, valid, labels, vectors: as in :func:`alignkit.neural.training.classifier_run.train_classifier`.
        settings: the paper's if not given.
        progress: called with (steps done, steps of all runs, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the folder holds runs with other settings or text; impossible settings or text.
    """
    settings = settings or ClassifySettings()
    if settings.runs.network.attention == UNIFORM or settings.runs.training.trained != "all":
        raise AlignkitError("the standard classifier learns its attention and everything else")
    place = Path(folder)
    told = progress or no_progress
    best = {}
    for number, (name, run) in enumerate(settings.variants.items()):
        part = _part_of(told, name, number, len(settings.variants))
        best[name] = train_classifier(
            place / name, text, valid, labels, run, vectors=vectors, progress=part, device=device
        )
    runs = {name: ClassifierRun(place / name) for name in best}
    train, held = runs["standard"].train, runs["standard"].valid
    proxy = fit_or_load_proxy(place / PROXY_CACHE, train.bitext, held.bitext, settings.proxy, progress, device)
    logistic = _logistic(train, held)
    scored = train if settings.scored == "train" else held
    scores = _network_scores(best, scored, settings) | _classical_scores(proxy, logistic, train, scored, settings)
    courses = _courses(runs, scores, scored, settings, device)
    last = settings.runs.training.steps
    steps = {name: strongest_step(courses[name], last) for name in ("uniform", "frozen")}
    scores[UNIFORM_SCORE] = runs["uniform"].load(steps["uniform"], device).score(scored.bitext, "beta")
    scores["alpha_fr"] = runs["frozen"].load(steps["frozen"], device).score(scored.bitext, "alpha")
    return Classification(
        _row(scores, courses["second"], settings),
        accuracies(best, proxy, logistic, held, settings.seed),
        courses,
        scores,
        scored,
        steps["uniform"],
        steps["frozen"],
        rise_and_fall(runs["uniform"], scores["alpha"], "beta", scored, device, settings.percent),
        logistic,
        _penalties(logistic, scores[UNIFORM_SCORE], scored, settings) if logistic is not None else None,
    )


def _courses(
    runs: Mapping[str, ClassifierRun],
    scores: Mapping[str, Scores],
    text: LabelledText,
    settings: ClassifySettings,
    device: str,
) -> dict[str, pd.DataFrame]:
    """The time courses of :class:`Classification`."""
    wanted = {"second": ("second", "alpha", "alpha"), "uniform": ("uniform", "alpha", "beta")}
    wanted |= {"proxy": ("uniform", "beta_px", "beta"), "saliency": ("uniform", "delta", "beta")}
    wanted["frozen"] = ("frozen", "alpha", "alpha")
    if "beta_log" in scores:
        wanted["logistic"] = ("uniform", "beta_log", "beta")
    found = {
        name: classifier_time_course(runs[run], scores[u], kind, text, settings, device)
        for name, (run, u, kind) in wanted.items()
    }
    return found | {"seeds": same_attention_course(runs["standard"], runs["second"], text, settings, device)}


def _part_of(progress: Progress, name: str, number: int, parts: int) -> Progress:
    """The progress of one of several equally long parts."""
    return lambda done, total, message: progress(number * total + done, total * parts, f"{name}: {message}")


def _penalties(
    logistic: Logistic, beta_uf: Scores, text: LabelledText, settings: ClassifySettings
) -> pd.DataFrame:
    """A(beta_uf, beta_log) for every penalty of the sweep (A.10)."""
    import pandas as pd

    rows = []
    for (strength, loss, accuracy), weights in zip(logistic.sweep, logistic.tried, strict=True):
        found = MAIN.measure(beta_uf, word_scores(weights, text), settings)
        rows.append({"strength": strength, "loss": loss, "accuracy": accuracy, **found})
    return pd.DataFrame(rows)


def _logistic(train: LabelledText, valid: LabelledText) -> Logistic | None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return None
    return fit_logistic(train, valid)


def _classical_scores(
    proxy: ProxyAligner,
    logistic: Logistic | None,
    train: LabelledText,
    scored: LabelledText,
    settings: ClassifySettings,
) -> dict[str, Scores]:
    """Scores that depend on a word and its label alone."""
    scores = {"beta_px": word_scores(word_weights(proxy), scored)}
    if logistic is not None:
        scores["beta_log"] = logistic.score(scored)
    for name, iterations in (("beta_count", 1), ("beta_ibm1", settings.iterations)):
        model = fit_ibm1(train.bitext, iterations=iterations, null=False, threads=settings.threads)
        scores[name] = model.score(scored.bitext, "beta")
    return scores


def _network_scores(
    best: Mapping[str, ClassifierAligner], text: LabelledText, settings: ClassifySettings
) -> dict[str, Scores]:
    wanted = [
        *(("alpha", "standard", "alpha"), ("beta", "standard", "beta"), ("delta", "standard", "delta")),
        ("alpha_2", "second", "alpha"),
    ]
    if settings.loo:
        wanted.append(("loo", "standard", "loo"))
    return {name: best[run].score(text.bitext, kind) for name, run, kind in wanted}


def _row(scores: Mapping[str, Scores], second: pd.DataFrame, settings: ClassifySettings) -> pd.DataFrame:
    """The row by all metrics, with xi."""
    row = row_table(scores, MAIN, settings)
    question = row.pop("question")
    for metric in SCORE_METRICS[1:]:
        other = row_table(scores, metric, settings)
        columns = {metric.name: metric.name, f"{metric.name}_low": "low", f"{metric.name}_high": "high"}
        row = row.assign(**{name: other[column] for name, column in columns.items()})
    performance, agreements = second["accuracy"].tolist(), second[MAIN.name].tolist()
    found = [contextualised(performance, agreements, level) for level in row[MAIN.name]]
    lies = [against_chance(each.low, each.high, each.chance) for each in row.itertuples()]
    return row.assign(xi=[np.nan if xi is None else xi for xi in found], against_chance=lies, question=question)


def row_table(
    scores: Mapping[str, Scores], metric: Metric = MAIN, settings: MetricSettings | None = None
) -> pd.DataFrame:
    """One line per quantity of ``QUANTITIES`` whose scores are there.

    Args:
        scores: by the names of ``QUANTITIES``, of the same texts.
        metric: one that compares scores with scores.
        settings: of the metric.

    Returns:
        columns quantity, u, v, those of :meth:`alignkit.metrics.protocol.Metric.measure`, question.
    """
    import pandas as pd

    rows = []
    for quantity, u, v, question in QUANTITIES:
        if u in scores and v in scores:
            found = metric.measure(scores[u], scores[v], settings)
            rows.append({"quantity": quantity, "u": u, "v": v, **found, "question": question})
    return pd.DataFrame(rows)
