"""The agreement of a classifier's attention with word scores and saliency: the paper's row.

One call, :func:`classify`, trains everything that the row needs into one folder; after an interruption it
continues from there:

    standard/   the paper's classifier            second/     the same from another seed
    uniform/    attention fixed to 1/L            frozen/     only attention is trained (appendix A.6)
    proxy.pt    the bag-of-words proxy            logistic regression and counts are fitted anew each time

Its time courses are the subject of appendices A.6, A.7 and A.9 of Snell et al. (2021): where a score of a run
agrees most with another, whether A(alpha, beta_uf) rises and falls again, and whether two seeds ever learn the
same attention.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.lab.time_course import Part, TimeCourseSettings, measure_steps, row_name
from alignkit.metrics.agreement import contextualised
from alignkit.metrics.intervals import against_chance, bootstrap_mean, bootstrap_ratio, ratio
from alignkit.metrics.protocol import PERCENT, Metric, MetricSettings, Percent
from alignkit.metrics.registry import MAIN, SCORE_METRICS
from alignkit.neural.aligners import ClassifierAligner, ProxyAligner
from alignkit.neural.proxy import proxy_of
from alignkit.neural.scoring.classifier import judge_logits
from alignkit.neural.settings import CLASSIFIER_PROXY, UNIFORM, ClassifierRunSettings, ProxySettings
from alignkit.neural.training.classification import train_classifier
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit.scores import Scores, flat_offsets
from alignkit.support.packages import is_here, need
from alignkit.support.stages import named_progress, no_progress
from alignkit.text.labelled import LabelledLines, LabelledText
from alignkit.types import PathLike, Progress

#: (u, v, the question that it answers) of the quantities A(u, v) of the row; those without scores are left out
QUANTITIES = (
    ("alpha", "beta_uf", "do word meanings learned without attention predict attention?"),
    ("beta_uf", "beta_px", "does the bag-of-words proxy give the same word meanings?"),
    ("beta_px", "beta_log", "does logistic regression know what the proxy knows?"),
    ("beta_uf", "beta_log", "does logistic regression give the same word meanings?"),
    ("delta", "beta_uf", "do word meanings predict which words the prediction depends on?"),
    ("alpha", "beta", "does attention go to words whose states speak for the label?"),
    ("alpha", "alpha_fr", "does attention learned over frozen random states predict attention?"),
    ("alpha_fr", "beta_uf", "do word meanings predict the attention over frozen states?"),
    ("alpha", "alpha_2", "is the same attention learned from another seed?"),
    ("beta_uf", "beta_count", "does plain counting give the same word meanings? (ours)"),
    ("alpha", "beta_count", "does plain counting predict attention? (ours)"),
    ("alpha", "beta_ibm1", "does IBM Model 1 by EM predict attention? (ours)"),
    ("alpha", "loo", "does attention go to words whose absence would matter?"),
)


@dataclass(frozen=True)
class ClassifySettings(MetricSettings):
    """Settings of the classification.

    Attributes:
        runs: of the standard classifier; the others differ in seed, attention or what is trained.
        proxy: of the bag-of-words proxy.
        scored: on which text the scores are compared.
        loo: also leave-one-out, whose time grows with the square of the length.
        iterations: of IBM 1's EM.
    """

    runs: ClassifierRunSettings = field(default_factory=ClassifierRunSettings)
    proxy: ProxySettings = CLASSIFIER_PROXY
    scored: Part = "valid"
    loo: bool = False
    iterations: int = IBM1Settings.iterations

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
    """The result of :func:`classify`.

    Attributes:
        row: one line per quantity: quantity, u, v; agreement, chance, low, high, rows, ties; of every other metric
            its value and interval (tau, tau_low, tau_high); xi, the second run's accuracy when its alpha first
            agrees with alpha better than v does with u, NaN if it never does; against_chance, ``above``, ``at`` or
            ``below``, where the interval of the agreement lies; question, which the value answers for these texts.
        accuracy: one line per model: model, step (best), accuracy with low and high, loss; on the validation text.
        time_courses: of :func:`classifier_time_courses`: ``second``, ``uniform`` and ``frozen``, alpha with that
            run's alpha or beta; ``proxy``, ``saliency`` and, if there is the regression, ``logistic``: beta_px,
            delta and beta_log with ``uniform``'s beta; and ``seeds``, of :func:`same_attention_course` (A.9).
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
        text, valid, labels, vectors: as in :func:`alignkit.neural.training.classification.train_classifier`.
        settings: the paper's if not given.
        progress: called with (steps done, steps of all runs, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the folder holds runs with other settings or text; impossible settings or text.
    """
    settings = settings or ClassifySettings()
    if settings.runs.network.attention == UNIFORM or settings.runs.training.trained != "all":
        raise AlignkitError("the standard classifier learns its attention and everything else")

    # The classifiers, trained as far as they are not yet; the proxy and the regression.
    best, variants, place = {}, settings.variants, Path(folder)
    for number, (name, own) in enumerate(variants.items()):
        part = named_progress(progress or no_progress, name, number, len(variants))
        more: dict[str, Any] = {"vectors": vectors, "progress": part, "device": device}
        best[name] = train_classifier(place / name, text, valid, labels, own, **more)
    runs = {name: ClassifierRun(place / name) for name in best}
    train, held = runs["standard"].train, runs["standard"].valid
    proxy = proxy_of(place, train.bitext, held.bitext, settings.proxy, progress, device)
    logistic = fit_logistic(train, held) if is_here("sklearn") else None

    # The scores that do not depend on a step, by the names of ``QUANTITIES``.
    scored = train if settings.scored == "train" else held
    kinds = ("alpha", "beta", "delta", *(["loo"] if settings.loo else []))
    scores = {kind: best["standard"].score(scored.bitext, kind) for kind in kinds}
    scores["alpha_2"] = best["second"].score(scored.bitext, "alpha")
    scores["beta_px"] = word_scores(word_weights(proxy), scored)
    if logistic is not None:
        scores["beta_log"] = word_scores(logistic.weights, scored)
    for name, iterations in (("beta_count", 1), ("beta_ibm1", settings.iterations)):
        model = fit_ibm1(train.bitext, iterations=iterations, null=False, threads=settings.threads)
        scores[name] = model.score(scored.bitext, "beta")

    # The time courses, and the steps at which the scores of two runs agree best with alpha.
    rest, alpha = (scored, settings, device), {"alpha": scores["alpha"]}
    against = {"uniform": "alpha", "proxy": "beta_px", "saliency": "delta", "logistic": "beta_log"}
    fixed = {name: scores[u] for name, u in against.items() if u in scores}
    uniform = classifier_time_courses(runs["uniform"], fixed, "beta", *rest)
    learned = (classifier_time_courses(runs[name], alpha, "alpha", *rest) for name in ("second", "frozen"))
    second, frozen = (each["alpha"] for each in learned)
    courses = {"second": second, **{name: uniform[name] for name in ("uniform", "proxy", "saliency")}}
    courses |= {"frozen": frozen, **{name: uniform[name] for name in uniform if name == "logistic"}}
    courses["seeds"] = same_attention_course(runs["standard"], runs["second"], *rest)
    strongest = {"uniform": settings.runs.training.steps, "frozen": settings.runs.training.steps}
    for name in strongest:
        agreements = courses[name][MAIN.name]
        if agreements.notna().any():
            strongest[name] = int(courses[name]["step"][agreements.idxmax()])
    beta_uf = runs["uniform"].load(strongest["uniform"], device).score(scored.bitext, "beta")
    alpha_fr = runs["frozen"].load(strongest["frozen"], device).score(scored.bitext, "alpha")
    scores |= {"beta_uf": beta_uf, "alpha_fr": alpha_fr}

    penalties = None
    if logistic is not None:
        measured = [MAIN.measure(beta_uf, word_scores(weights, scored), settings) for weights in logistic.tried]
        penalties = logistic.sweep.join(pd.DataFrame(measured))
    row, accuracy = _row(scores, second, settings), accuracies(best, proxy, logistic, held, settings.seed)
    fall = rise_and_fall(runs["uniform"], scores["alpha"], "beta", scored, device, settings.percent)
    steps = strongest["uniform"], strongest["frozen"]
    return Classification(row, accuracy, courses, scores, scored, *steps, fall, logistic, penalties)


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
    rows = []
    for u, v, question in QUANTITIES:
        if u in scores and v in scores:
            found = metric.measure(scores[u], scores[v], settings)
            rows.append({"quantity": row_name(MAIN.symbol, u, v), "u": u, "v": v, **found, "question": question})
    return pd.DataFrame(rows)


def classifier_time_courses(
    run: ClassifierRun,
    fixed: Mapping[str, Scores],
    kind: str,
    text: LabelledText,
    settings: MetricSettings | None = None,
    device: str = "auto",
) -> dict[str, pd.DataFrame]:
    """A(u, v(step)) and performance at every logged step of a run, v(step) being its scores of ``kind`` then.

    Contextualised agreement is read from this: xi is the performance at the first step whose agreement exceeds a
    given one.

    Args:
        run: whose checkpoints are scored.
        fixed: name -> u, scores of ``text``.
        kind: of the run's scores.
        text: what is scored.
        settings: of the metric.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        by name, columns step, accuracy, loss (on the validation text), agreement, chance, low, high, rows, ties.

    Raises:
        AlignkitError: the run kept no checkpoints.
    """
    if not run.checkpoints:
        raise AlignkitError(f"{run.path} has no checkpoints of its logged steps")
    options = (settings or MetricSettings()).metric_options()
    plan = TimeCourseSettings(**options, kinds=(kind,), metrics=(MAIN,), order="fixed")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in fixed}
    for network, values in measure_steps(run, text.bitext, fixed, plan, device=device):
        measured = network.metrics
        head = {"step": network.step, "accuracy": measured["valid.accuracy"], "loss": measured["valid.loss"]}
        for (_, u, _), each in values.items():
            rows[u].append({**head, **each})
    return {name: pd.DataFrame(found) for name, found in rows.items()}


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
    """The rise and fall of A(u, v(step)) over the logged steps of a run.

    The largest of many values lies above the last one by its choice alone. So the step of the peak is chosen on
    the texts with even numbers, and the values are compared on those with odd ones.

    Args:
        run, kind, text, device: as in :func:`classifier_time_courses`.
        u: scores of ``text``.
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
        return float(ratio(difference.sum(), count.sum())), low, high

    peak, first, last = (float(ratio(held[k].sum(), count.sum())) for k in (place, 0, -1))
    return RiseAndFall(list(run.checkpoints)[place], peak, first, last, gap(0), gap(-1))


def same_attention_course(
    one: ClassifierRun, other: ClassifierRun, text: LabelledText, settings: MetricSettings, device: str
) -> pd.DataFrame:
    """A(alpha(step), alpha_2(step)) of two runs at every step that both logged (A.9).

    Returns:
        columns step, agreement, chance, low, high, rows, ties.
    """
    rows = []
    for step in one.checkpoints:
        if step not in other.checkpoints:
            continue
        u, v = (run.load(step, device).score(text.bitext, "alpha") for run in (one, other))
        rows.append({"step": step, **MAIN.measure(u, v, settings)})
    return pd.DataFrame(rows)


#: inverse strengths C of the penalty that are tried: |w|^2 / 2 + C · sum of the losses
STRENGTHS = tuple(10.0**power for power in range(-3, 6))


@dataclass(frozen=True, eq=False)
class Logistic:
    """p(y = 1 | x) = sigmoid(mean over l of w[x_l] + b).

    Attributes:
        weights: float64 (V,), w.
        bias: b.
        strength: the C that was chosen.
        sweep: columns strength, loss and accuracy on the validation text, of all that were tried.
        tried: float64 (C values, V), the weights of all that were tried.
    """

    weights: np.ndarray = field(repr=False)
    bias: float
    strength: float
    sweep: pd.DataFrame = field(repr=False)
    tried: np.ndarray = field(repr=False)

    def logits(self, text: LabelledText) -> np.ndarray:
        """float64 (M,): log p(y = 1) - log p(y = 0); NaN for a text without words."""
        return mean_of_words(self.weights, text) + self.bias


def mean_of_words(weights: np.ndarray, text: LabelledText) -> np.ndarray:
    """float64 (M,): the mean over each text's words of ``weights`` (V,); NaN for a text without words."""
    lengths = text.corpus.lengths
    sums = np.bincount(np.repeat(np.arange(len(text)), lengths), weights[text.corpus.tokens], len(text))
    return np.where(lengths > 0, sums / np.maximum(lengths, 1), np.nan)


def word_scores(weights: np.ndarray, text: LabelledText) -> Scores:
    """(1, L) matrices of (2y - 1) w[x_l], which depend on a word and the label only.

    They order words as beta = sigmoid((2y - 1) w[x_l]) does, which itself would round to 1 for many words of a
    model of means, whose weights are large: on SMS spam that tied the top of every third text.
    """
    signs = np.repeat(2.0 * text.labels - 1, text.corpus.lengths)
    values = signs * weights[text.corpus.tokens]
    shapes = text.bitext.shapes
    return Scores(values.astype(np.float32), flat_offsets(shapes), shapes)


def fit_logistic(text: LabelledText, valid: LabelledText, strengths: Sequence[float] = STRENGTHS) -> Logistic:
    """Fit one regression per strength by L-BFGS and keep the one with the highest validation accuracy.

    Of those with the same accuracy, the one with the lowest validation loss is kept.

    Args:
        text: training text.
        valid: held-out text with the same vocabulary.
        strengths: values of C.

    Raises:
        AlignkitError: scikit-learn is not installed; another vocabulary; all texts have the same label.
    """
    need("sklearn")
    from sklearn.linear_model import LogisticRegression

    if text.corpus.vocabulary != valid.corpus.vocabulary:
        raise AlignkitError("training and validation text must share their vocabulary")
    used = np.flatnonzero(text.corpus.lengths)
    if len(np.unique(text.labels[used])) != 2:
        raise AlignkitError("logistic regression needs texts of both labels")
    corpus, y = text.corpus.take(used), text.labels[used]
    # The share of each word in each text, (M', V).
    values = 1.0 / np.repeat(corpus.lengths, corpus.lengths)
    x = csr_matrix((values, corpus.tokens, corpus.offsets), (len(used), len(corpus.vocabulary)))
    x.sum_duplicates()
    sweep, tried, biases = [], [], []
    for strength in strengths:
        model: Any = LogisticRegression(C=strength, max_iter=5000, tol=1e-6)
        with warnings.catch_warnings(action="ignore"):  # a weak penalty may not converge; its loss decides
            model.fit(x, y)
        tried.append(model.coef_[0].astype(np.float64))
        biases.append(float(model.intercept_[0]))
        loss, accuracy = judge_logits(mean_of_words(tried[-1], valid) + biases[-1], valid.labels)
        sweep.append({"strength": strength, "loss": loss, "accuracy": accuracy})
    best = min(range(len(sweep)), key=lambda k: (-sweep[k]["accuracy"], sweep[k]["loss"]))
    return Logistic(tried[best], biases[best], strengths[best], pd.DataFrame(sweep), np.stack(tried))


def word_weights(proxy: ProxyAligner) -> np.ndarray:
    """float64 (V,): log p(y = 1) - log p(y = 0) of a text of that word alone."""
    return (proxy.embedding @ (proxy.output[1] - proxy.output[0])).double().cpu().numpy()


def accuracies(
    best: Mapping[str, ClassifierAligner],
    proxy: ProxyAligner,
    logistic: Logistic | None,
    valid: LabelledText,
    seed: int,
) -> pd.DataFrame:
    """Accuracy of every model on the validation text, by which its step or strength was chosen.

    Args:
        best: classifiers by name.
        proxy: trained on the text with its labels as target; judged without the bias that it may have had.
        logistic: None if there is none.
        valid: the text.
        seed: of the bootstrap over texts.

    Returns:
        columns model, step (NaN where there is none), accuracy, low, high, loss, texts; the last line is the more
        frequent label. Texts without words are not judged.
    """
    logits = {name: model.logits(valid.bitext) for name, model in best.items()}
    logits["proxy"] = mean_of_words(word_weights(proxy), valid)
    if logistic is not None:
        logits["logistic"] = logistic.logits(valid)
    rows = []
    for name, values in logits.items():
        known = ~np.isnan(values)
        right = (values[known] > 0) == (valid.labels[known] == 1)
        low, high = bootstrap_mean(right, seed, 1000)
        loss, accuracy = judge_logits(values, valid.labels)
        shown = {"accuracy": accuracy, "low": low, "high": high, "loss": loss, "texts": int(known.sum())}
        # A float, so that what has no step has NaN.
        rows.append({"model": name, "step": float(best[name].step) if name in best else np.nan, **shown})
    worded = valid.labels[valid.corpus.lengths > 0]
    share = float(worded.mean()) if len(worded) else np.nan
    rows.append({"model": "majority", "step": np.nan, "accuracy": max(share, 1 - share), "texts": len(worded)})
    return pd.DataFrame(rows)
