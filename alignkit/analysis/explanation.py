"""Does attention explain a classifier's decisions? The tests of that debate, as one table with intervals.

Jain and Wallace (2019), Serrano and Smith (2019), Wiegreffe and Pinter (2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.analysis.attention_tests import (
    Decision,
    adversarial_attention,
    attention_distance,
    erased_until_flip,
    permutation_change,
    sigmoid,
    uniform_change,
)
from alignkit.errors import AlignkitError
from alignkit.metrics.agreement import agreement
from alignkit.metrics.intervals import mean_interval
from alignkit.metrics.kendall import kendall
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.scoring.classifier import classifier_scores
from alignkit.neural.training.classifier_run import ClassifierRun
from alignkit.scores.scores import Scores
from alignkit.settings import with_options
from alignkit.text.labelled import LabelledText
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ExplanationSettings:
    """Settings of the explanation tests.

    Attributes:
        epsilon: the largest change of the probability that adversarial attention may cause.
        permutations: random permutations of the attention of each text.
        limit: test only the first texts, this many; None for all.
        seed: of permutations, random orders and the bootstrap.
    """

    epsilon: float = 0.01
    permutations: int = 100
    limit: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise AlignkitError(f"epsilon must lie between 0 and 1, not {self.epsilon}")
        if self.permutations < 1 or (self.limit is not None and self.limit < 1):
            raise AlignkitError("the numbers of permutations and of texts must be at least 1")


def explain_classifier(
    classifier: ClassifierAligner,
    text: LabelledText,
    other: ClassifierAligner | None = None,
    settings: ExplanationSettings | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Test a classifier's attention as an explanation of its decisions.

    Args:
        classifier: the classifier.
        text: with its vocabulary and labels.
        other: one of another seed: how far its attention lies from this one's is a yardstick for adversaries.
        settings: defaults if not given.
        **options: single settings.

    Returns:
        rows ``test``, ``value``, its 95 % interval ``low`` and ``high`` over texts, ``texts``, and ``meaning``.

    Raises:
        AlignkitError: no text has words, or a setting is impossible.
    """
    import pandas as pd

    settings = with_options(settings or ExplanationSettings(), options)
    with_words = np.flatnonzero(text.corpus.lengths > 0)[: settings.limit]
    if not len(with_words):
        raise AlignkitError("no text has words to explain")
    text = LabelledText.from_bitext(text.bitext.take(with_words))
    scores = {kind: classifier_scores(classifier.network, text, kind) for kind in ("alpha", "delta", "loo")}
    decided = decisions(classifier, text)
    rows = _correlations(scores, settings)
    rows += _interventions(decided, settings)
    rows += _erasures(decided, scores, settings)
    rows += _adversaries(decided, None if other is None else decisions(other, text), settings)
    return pd.DataFrame(rows, columns=["test", "value", "low", "high", "texts", "meaning"])


def explain_run(
    run: PathLike, other: PathLike | None = None, settings: ExplanationSettings | None = None, **options: Any
) -> pd.DataFrame:
    """:func:`explain_classifier` of the best classifier of a run, on the run's validation text.

    Args:
        run: the directory of a classifier's run.
        other: that of another seed on the same text.
        settings, **options: as of :func:`explain_classifier`.

    Raises:
        AlignkitError: there is no such run, or the other one has another text.
    """
    own = ClassifierRun(Path(run))
    classifier, text = own.load(), own.valid
    second = None
    if other is not None:
        second = ClassifierRun(Path(other)).load()
        if second.tokenizer.vocabulary != classifier.tokenizer.vocabulary:
            raise AlignkitError(
                f"{other}: this classifier has other words; give a run of another seed on the same text"
            )
    return explain_classifier(classifier, text, second, settings, **options)


def decisions(classifier: ClassifierAligner, text: LabelledText) -> list[Decision]:
    """What each decision of a classifier rests on; all texts have words."""
    alpha = classifier_scores(classifier.network, text, "alpha")
    towards = classifier_scores(classifier.network, text, "relevance")
    bias = float(classifier.network.output.bias.detach())
    signs = 2.0 * text.labels - 1
    return [
        Decision(a[0].astype(np.float64), sign * r[0].astype(np.float64), bias)
        for a, r, sign in zip(alpha, towards, signs, strict=True)
    ]


def _row(test: str, values: Any, meaning: str) -> dict[str, Any]:
    """A row with the mean of the values that are defined."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    low, high = mean_interval(known)
    value = float(known.mean()) if len(known) else float("nan")
    return {"test": test, "value": value, "low": low, "high": high, "texts": len(known), "meaning": meaning}


def _correlations(scores: dict[str, Scores], settings: ExplanationSettings) -> list[dict[str, Any]]:
    rows = []
    for kind, name in (("delta", "gradient"), ("loo", "leave-one-out")):
        size = Scores(np.abs(scores[kind].values), scores[kind].offsets, scores[kind].shapes)
        tau = kendall(scores["alpha"], size, seed=settings.seed)
        meaning = f"Kendall's tau-b of the words' order by attention and by the size of the {name}"
        found = {"value": tau.tau, "low": tau.low, "high": tau.high, "texts": tau.rows, "meaning": meaning}
        rows.append({"test": f"tau, {name}", **found})
        top = agreement(scores["alpha"], size, seed=settings.seed)
        meaning = f"the first word by attention is among the top 5 % by {name}; by chance {top.chance:.3f}"
        found = {"value": top.agreement, "low": top.low, "high": top.high, "texts": top.rows, "meaning": meaning}
        rows.append({"test": f"top 5 %, {name}", **found})
    return rows


def _interventions(decided: list[Decision], settings: ExplanationSettings) -> list[dict[str, Any]]:
    rng = np.random.default_rng(settings.seed)
    changes = [uniform_change(one) for one in decided]
    mixed = [permutation_change(one, rng, settings.permutations) for one in decided]
    return [
        _row("uniform, change", [change for change, _ in changes], "change of p with attention of 1/L"),
        _row("uniform, flips", [flips for _, flips in changes], "share of decisions that then change"),
        _row("permuted, change", mixed, "median change of p over random permutations of the attention"),
    ]


def _erasures(
    decided: list[Decision], scores: dict[str, Scores], settings: ExplanationSettings
) -> list[dict[str, Any]]:
    rng = np.random.default_rng([settings.seed, 1])
    orders: dict[str, Callable[[int], np.ndarray]] = {
        "attention": lambda m: np.argsort(-decided[m].alpha, kind="stable"),
        "gradient": lambda m: np.argsort(-np.abs(scores["delta"][m][0]), kind="stable"),
        "attention x gradient": lambda m: np.argsort(
            -decided[m].alpha * np.abs(scores["delta"][m][0]), kind="stable"
        ),
        "random": lambda m: rng.permutation(len(decided[m].alpha)),
    }
    shares = {
        name: [erased_until_flip(one, of(m)) for m, one in enumerate(decided)] for name, of in orders.items()
    }
    never = np.isnan(np.array(list(shares.values()))).any(axis=0)
    rows = []
    for name, found in shares.items():
        meaning = f"share of words erased by {name} until the decision flips, where all orders flip it"
        rows.append(_row(f"erased, {name}", np.where(never, np.nan, found), meaning))
        rows.append(_row(f"flips, {name}", ~np.isnan(found), "share of decisions that flip at all"))
    return rows


def _adversaries(
    decided: list[Decision], others: list[Decision] | None, settings: ExplanationSettings
) -> list[dict[str, Any]]:
    usable = [m for m, one in enumerate(decided) if abs(one.alpha.sum() - 1) < 1e-4]
    if not usable:
        return []
    most = float(np.log(2))
    found = [adversarial_attention(decided[m], settings.epsilon)[0] / most for m in usable]
    meaning = f"largest JSD, of log 2, of an attention that changes p by at most {settings.epsilon:g}"
    rows = [_row("adversary, JSD", found, meaning)]
    if others is not None:
        apart = [attention_distance(decided[m].alpha, others[m].alpha) / most for m in usable]
        rows.append(_row("seeds, JSD", apart, "JSD, of log 2, of the attention of another seed"))
        outputs = [abs(float(sigmoid(decided[m].logit) - sigmoid(others[m].logit))) for m in usable]
        rows.append(_row("seeds, change", outputs, "change of p with another seed"))
    return rows
