"""The paper's row for classification: what attention, words and saliency of a classifier have in common.

One call trains all that the row needs into one folder, and goes on where it was stopped:

    standard/   the paper's classifier            second/     the same from another seed
    uniform/    attention fixed to 1/L            frozen/     only attention is trained (appendix A.6)
    proxy.pt    the bag-of-words proxy            logistic regression and counts are fitted anew each time
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from alignkit.analysis.accuracy import accuracies, word_weights
from alignkit.analysis.compare import PROXY_CACHE, fit_or_load_proxy
from alignkit.analysis.logistic import Logistic, fit_logistic, word_scores
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.metrics.agreement import PERCENT, Agreement, agreement
from alignkit.metrics.contextual import contextualised
from alignkit.metrics.kendall import RankCorrelation, rank_correlation
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.classifier_settings import CLASSIFIER_PROXY, ClassifierRunSettings
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.classifier_run import ClassifierRun, train_classifier
from alignkit.scores.scores import Scores
from alignkit.text.labelled import LabelledLines, LabelledText

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, str], None]

#: (name, u, v, what it says) of the quantities of the row; those without scores are left out
QUANTITIES = (
    (
        "A(alpha, beta_uf)",
        "alpha",
        "beta_uf",
        "what the words mean, learned without attention, foretells attention",
    ),
    ("A(beta_uf, beta_px)", "beta_uf", "beta_px", "the bag-of-words proxy gives the same word meanings"),
    ("A(beta_uf, beta_log)", "beta_uf", "beta_log", "so does logistic regression"),
    ("A(delta, beta_uf)", "delta", "beta_uf", "word meanings foretell which words the prediction depends on"),
    ("A(alpha, beta)", "alpha", "beta", "attention goes to words whose states speak for the label"),
    ("A(alpha, alpha_fr)", "alpha", "alpha_fr", "attention learned over frozen random states foretells attention"),
    ("A(alpha_fr, beta_uf)", "alpha_fr", "beta_uf", "word meanings foretell that attention over frozen states"),
    ("A(alpha, alpha_2)", "alpha", "alpha_2", "the same attention is learned from another seed"),
    ("A(beta_uf, beta_count)", "beta_uf", "beta_count", "plain counting gives the same word meanings (ours)"),
    ("A(alpha, beta_count)", "alpha", "beta_count", "plain counting foretells attention (ours)"),
    ("A(alpha, beta_ibm1)", "alpha", "beta_ibm1", "IBM Model 1 by EM foretells attention (ours)"),
    ("A(alpha, loo)", "alpha", "loo", "attention goes to words whose absence would matter"),
)
UNIFORM_SCORE = "beta_uf"


@dataclass(frozen=True)
class ClassifySettings:
    """What is trained, and how it is compared.

    Attributes:
        runs: of the standard classifier; the others differ in seed, attention or what is trained.
        proxy: of the bag-of-words proxy.
        scored: on which text the scores are compared.
        loo: also leave-one-out, whose time grows with the square of the length.
        iterations: of IBM 1's EM.
        percent: the top of a row, in per cent.
        seed: of the bootstrap.
        threads: of the classical part; no result depends on it.
    """

    runs: ClassifierRunSettings = field(default_factory=ClassifierRunSettings)
    proxy: ProxySettings = CLASSIFIER_PROXY
    scored: Literal["valid", "train"] = "valid"
    loo: bool = False
    iterations: int = IBM1Settings.iterations
    percent: float | str | Fraction = PERCENT
    seed: int = 0
    threads: int | None = field(default=None, compare=False)

    @property
    def variants(self) -> dict[str, ClassifierRunSettings]:
        """Name of the run -> its settings.

        Every run has a seed of its own: two that start from the same weights and see the same batches agree more
        than what they learn accounts for (on SST-2 A(alpha, beta_uf) was 30 % with a shared seed, 21 % without).
        """
        seed = self.runs.training.seed
        return {
            "standard": self.runs,
            "second": self.runs.change(training={"seed": seed + 1}),
            "uniform": self.runs.change(network={"attention": "uniform"}, training={"seed": seed + 2}),
            "frozen": self.runs.change(training={"trained": "attention", "seed": seed + 3}),
        }


@dataclass(frozen=True)
class Classification:
    """What :func:`classify` found.

    Attributes:
        row: one line per quantity: quantity, u, v; agreement, chance, low, high, rows, ties; tau, tau_low,
            tau_high (Kendall's tau-b); xi, the second run's accuracy when its alpha first agrees with alpha better
            than v does with u, NaN if it never does; meaning.
        accuracy: one line per model: model, step (best), accuracy with low and high, loss; on the validation text.
        courses: of :func:`time_course`, for alpha with ``second``'s alpha and with ``uniform``'s beta.
        scores: by the names in ``row``, all of the same texts: for further measures.
        text: the texts that were scored.
        uniform_step: the logged step whose beta_uf agrees best with alpha (A.7), which all quantities use.
        logistic: the regression, or None where scikit-learn is not installed.
        penalties: one line per C that was tried, on which A(beta_uf, beta_log) depends much: strength, loss,
            accuracy, agreement, chance, low, high, rows, ties; None without the regression.
    """

    row: pd.DataFrame
    accuracy: pd.DataFrame
    courses: Mapping[str, pd.DataFrame]
    scores: Mapping[str, Scores]
    text: LabelledText
    uniform_step: int
    logistic: Logistic | None
    penalties: pd.DataFrame | None

    @property
    def best_accuracy(self) -> float:
        """xi*: the standard classifier's accuracy at its best step."""
        return float(self.accuracy.set_index("model").accuracy["standard"])


def classify(
    folder: str | os.PathLike[str],
    text: LabelledLines,
    valid: LabelledLines,
    labels: tuple[str, str],
    settings: ClassifySettings | None = None,
    *,
    vectors: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    device: str = "auto",
) -> Classification:
    """Trains what is not yet trained in ``folder``, scores the validation text with everything, compares.

    Args:
        folder: made if it does not exist.
        text, valid, labels, vectors: as in :func:`alignkit.neural.training.classification.train_classifier`.
        settings: the paper's if not given.
        progress: called with (steps done, steps of all runs, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the folder holds runs with other settings or text; impossible settings or text.
    """
    settings = settings or ClassifySettings()
    if settings.runs.network.attention != "learned" or settings.runs.training.trained != "all":
        raise AlignkitError("the standard classifier learns its attention and everything else")
    place = Path(folder)
    variants = settings.variants
    steps = settings.runs.training.steps
    best: dict[str, ClassifierAligner] = {}
    for number, (name, run_settings) in enumerate(variants.items()):

        def told(done: int, total: int, message: str, name: str = name, before: int = number * steps) -> None:
            if progress is not None:
                progress(before + done, steps * len(variants), f"{name}: {message}")

        best[name] = train_classifier(
            place / name, text, valid, labels, run_settings, vectors=vectors, progress=told, device=device
        )
    run = ClassifierRun(place / "standard")
    train, held = run.train, run.valid
    proxy = fit_or_load_proxy(place / PROXY_CACHE, train.bitext, held.bitext, settings.proxy, progress, device)
    logistic = _logistic(train, held)
    scored = train if settings.scored == "train" else held
    scores = _network_scores(best, scored, settings)
    course = time_course(ClassifierRun(place / "uniform"), scores["alpha"], "beta", scored, settings, device)
    step = int(course["step"][course["agreement"].idxmax()]) if course["agreement"].notna().any() else steps
    uniform = ClassifierRun(place / "uniform").load(step, device)
    scores[UNIFORM_SCORE] = uniform.score(scored.bitext, "beta")
    scores["beta_px"] = word_scores(word_weights(proxy), scored)
    if logistic is not None:
        scores["beta_log"] = logistic.score(scored)
    for name, iterations in (("beta_count", 1), ("beta_ibm1", settings.iterations)):
        model = fit_ibm1(train.bitext, iterations=iterations, null=False, threads=settings.threads)
        scores[name] = model.score(scored.bitext, "beta")
    second = time_course(ClassifierRun(place / "second"), scores["alpha"], "alpha", scored, settings, device)
    return Classification(
        _row(scores, second, settings),
        accuracies(best, proxy, logistic, held, settings.seed),
        {"second": second, "uniform": course},
        scores,
        scored,
        step,
        logistic,
        _penalties(logistic, scores[UNIFORM_SCORE], scored, settings) if logistic is not None else None,
    )


def _penalties(
    logistic: Logistic, beta_uf: Scores, text: LabelledText, settings: ClassifySettings
) -> pd.DataFrame:
    """A(beta_uf, beta_log) for every penalty of the sweep (A.10)."""
    import pandas as pd

    rows = []
    for (strength, loss, accuracy), weights in zip(logistic.sweep, logistic.tried, strict=True):
        beta = word_scores(weights, text)
        found = agreement(beta_uf, beta, settings.percent, seed=settings.seed, threads=settings.threads)
        measured = {"strength": strength, "loss": loss, "accuracy": accuracy}
        rows.append({**measured, **dataclasses.asdict(found)})
    return pd.DataFrame(rows)


def _logistic(train: LabelledText, valid: LabelledText) -> Logistic | None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return None
    return fit_logistic(train, valid)


def _network_scores(
    best: Mapping[str, ClassifierAligner], text: LabelledText, settings: ClassifySettings
) -> dict[str, Scores]:
    wanted = [
        *(("alpha", "standard", "alpha"), ("beta", "standard", "beta"), ("delta", "standard", "delta")),
        *(("alpha_2", "second", "alpha"), ("alpha_fr", "frozen", "alpha")),
    ]
    if settings.loo:
        wanted.append(("loo", "standard", "loo"))
    return {name: best[run].score(text.bitext, kind) for name, run, kind in wanted}


def _row(scores: Mapping[str, Scores], second: pd.DataFrame, settings: ClassifySettings) -> pd.DataFrame:
    """The row with all its measures."""

    def tau(u: Scores, v: Scores) -> RankCorrelation:
        return rank_correlation(u, v, seed=settings.seed, threads=settings.threads)

    row, ranks = row_table(scores, settings), row_table(scores, settings, tau)
    performance, agreements = second["accuracy"].tolist(), second["agreement"].tolist()
    found = [contextualised(performance, agreements, level) for level in row["agreement"]]
    columns = {
        "tau": ranks["tau"],
        "tau_low": ranks["low"],
        "tau_high": ranks["high"],
        "xi": [np.nan if xi is None else xi for xi in found],
        "meaning": row.pop("meaning"),
    }
    return row.assign(**columns)


def row_table(
    scores: Mapping[str, Scores],
    settings: ClassifySettings,
    measure: Callable[[Scores, Scores], Any] | None = None,
) -> pd.DataFrame:
    """One line per quantity of ``QUANTITIES`` whose scores are there.

    Args:
        scores: by the names of ``QUANTITIES``, of the same texts.
        settings: percentage, bootstrap and threads.
        measure: (u, v) -> a dataclass whose fields become columns; top-5 % agreement if not given.

    Returns:
        columns quantity, u, v, the measure's, meaning.
    """
    import pandas as pd

    def agree(u: Scores, v: Scores) -> Agreement:
        return agreement(u, v, settings.percent, seed=settings.seed, threads=settings.threads)

    measure = measure or agree
    rows = []
    for quantity, u, v, meaning in QUANTITIES:
        if u in scores and v in scores:
            found = dataclasses.asdict(measure(scores[u], scores[v]))
            rows.append({"quantity": quantity, "u": u, "v": v, **found, "meaning": meaning})
    return pd.DataFrame(rows)


def time_course(
    run: ClassifierRun,
    u: Scores,
    kind: str,
    text: LabelledText,
    settings: ClassifySettings | None = None,
    device: str = "auto",
) -> pd.DataFrame:
    """A(u, v(step)) and performance at every logged step of a run, v(step) being its scores of ``kind`` then.

    What contextualised agreement is made of: xi is the performance at the first step whose agreement exceeds a
    given one.

    Args:
        run: whose checkpoints are scored.
        u: scores of ``text``.
        kind: of the run's scores.
        text: what is scored.
        settings: percentage, bootstrap and threads.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        columns step, accuracy, loss (on the validation text), agreement, chance, low, high, rows, ties.

    Raises:
        AlignkitError: the run kept no checkpoints.
    """
    import pandas as pd

    settings = settings or ClassifySettings()
    if not run.checkpoints:
        raise AlignkitError(f"{run.path} has no checkpoints of its logged steps")
    rows = []
    for step in run.checkpoints:
        model = run.load(step, device)
        found = agreement(
            u, model.score(text.bitext, kind), settings.percent, seed=settings.seed, threads=settings.threads
        )
        measured = {"accuracy": model.metrics["valid.accuracy"], "loss": model.metrics["valid.loss"]}
        rows.append({"step": step, **measured, **dataclasses.asdict(found)})
    return pd.DataFrame(rows)
