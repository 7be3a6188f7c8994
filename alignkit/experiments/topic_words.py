"""``topic-words``: scores and norms of topic words in training (Lu, Mao and Nayak, ICLR 2021).

The paper is "On the Dynamics of Training Attention Models". The model and its flow are those of
:mod:`alignkit.experiments.topic_model`. A sentence with topic word t has m more words, drawn from a dictionary so
large that each is rare. Assume of those words that (i) their scores stay at 0 and (ii) their part of the context,
sum of a_w v_w, averages to 0. Then the topic word's attention in its sentences is a = e^s / (e^s + m), s being its
score, and v_t - c = (1 - a) v_t, so that with G, the mean over all sentences of g in those with t and of 0 in the
others,

    v_t' = a G,    s' = |q|^2 a (1 - a) v_t . G = |q|^2 (1 - a) v_t . v_t' = |q|^2 (1 - a) (|v_t|^2 / 2)'.

As 1 / (1 - a) = 1 + e^s / m, **with any classifier,**

    s + e^s / m - |q|^2 |v_t|^2 / 2 is constant,                                                     (1)

e^s / m = a / (1 - a) being the odds of attention. Score and norm rise together (mutual promotion). They fall
together where v_t . G < 0: then v_t first shrinks, and attention with it, until v_t has turned (suppression).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from alignkit.experiments.protocol import Claim, Result, claim, part_of
from alignkit.experiments.statistics import averaged
from alignkit.experiments.topic_model import (
    CLASSIFIERS,
    Model,
    TopicWordsSettings,
    draw_sentences,
    follow,
    initial_model,
    predicted_scores,
)
from alignkit.experiments.topic_real import real_claims, real_words
from alignkit.metrics.intervals import wilson
from alignkit.types import Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EARLY, EARLY_SEEDS = 5, 20  #: steps and seeds for the measurement of suppression
#: (name, classifier, factors on the changes of embeddings and scores) of each model
TRAJECTORIES = (
    *((name, name, (1.0, 1.0)) for name in CLASSIFIERS),
    ("scores frozen", "fixed", (1.0, 0.0)),
    ("embeddings frozen", "fixed", (0.0, 1.0)),
)
QUICK = TopicWordsSettings(
    sentences=200, dictionary=2000, steps=700, growth=1.005, seeds=3, real_sentences=500, real_steps=200
)


def run_topic_words(settings: TopicWordsSettings, progress: Progress = no_progress) -> Result:
    """Follows the three classifiers, two ablations, and the model on the real text."""
    import pandas as pd

    synthetic = len(TRAJECTORIES) * settings.steps
    total = synthetic + settings.real_steps
    raw = pd.concat(
        [
            trajectory(settings, *what, part_of(progress, number * settings.steps, total))
            for number, what in enumerate(TRAJECTORIES)
        ],
        ignore_index=True,
    )
    early = trajectory(replace(settings, seeds=EARLY_SEEDS, steps=EARLY), "early", "fixed", (1.0, 1.0))
    words = real_words(settings, part_of(progress, synthetic, total))
    remarks = (
        "error: largest difference between a topic word's score and equation (1), over its largest score. No "
        "claim is made about attention with trained classifiers, which can lower the loss by growing.",
        f"Real text: {words.word.nunique()} words in at least {settings.minimum} sentences.",
    )
    claims = (*_claims(raw), _suppression(early), *_promotion(raw), *real_claims(words))
    rows = {"courses": raw[raw.step.isin(_kept(settings.steps, 40))].round(5), "words": words.round(5)}
    return Result(_table(raw), claims, rows, lambda figure: _draw(figure, raw, words), remarks)


def _kept(steps: int, most: int) -> np.ndarray:
    return np.unique(np.round(np.linspace(0, steps, most)).astype(np.int64))


def trajectory(
    settings: TopicWordsSettings,
    name: str,
    classifier: str,
    moves: tuple[float, float],
    progress: Progress = no_progress,
) -> pd.DataFrame:
    """Score, norm and attention of every topic word of every seed, at up to 150 steps.

    Args:
        settings: of the task and the models.
        name: of the trajectory.
        classifier: one of :data:`CLASSIFIERS`.
        moves: factors on the changes of embeddings and scores; 0 freezes them.
        progress: of the steps.
    """
    import pandas as pd

    seeds, topical = range(settings.seeds), settings.topics * settings.per_topic
    text = draw_sentences(
        settings.topics, settings.per_topic, settings.others, settings.dictionary, settings.sentences, seeds
    )
    model = initial_model(text.types, settings.topics, settings.width, settings.scale, classifier, seeds)
    kept = set(_kept(settings.steps, 150).tolist())
    times = np.concatenate([[0], np.cumsum(settings.rate * settings.growth ** np.arange(settings.steps))])
    found: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []

    def look(step: int, now: Model, losses: torch.Tensor) -> None:
        progress(step, settings.steps, name)
        if step in kept:
            half = (now.v[:, :topical] ** 2).sum(2) / 2
            found.append((step, now.s[:, :topical].double().numpy(), half.double().numpy(), losses.numpy()))

    follow(model, text, settings.rate, settings.steps, look, settings.query, moves, settings.growth)
    steps = np.array([step for step, *_ in found])
    score, norm, losses = (np.stack([row[i] for row in found]) for i in (1, 2, 3))
    shape = score.shape
    k, seed, word = (part.ravel() for part in np.indices(shape))
    pull = _first_pull(model, settings) if classifier == "fixed" else np.full(shape[1:], np.nan)
    return pd.DataFrame(
        {
            "course": name,
            "seed": seed,
            "word": word,
            "step": steps[k],
            "time": times[steps[k]],
            "score": score.ravel(),
            "half norm": norm.ravel(),
            "predicted": predicted_scores(norm, settings.others, settings.query).ravel(),
            "attention": (1 / (1 + settings.others * np.exp(-score))).ravel(),
            "first pull": np.broadcast_to(pull, shape).ravel(),
            "loss": losses[k, seed],
        }
    )


def _first_pull(model: Model, settings: TopicWordsSettings) -> np.ndarray:
    """v_t . G at the start up to a factor, (S, Jk).

    If all topics are equally likely then, G has the direction of U_y - mean row of U.
    """
    rows = model.weights[0]
    along = (rows - rows.mean(1, keepdim=True)).repeat_interleave(settings.per_topic, 1)
    result: np.ndarray = (model.v[:, : along.shape[1]] * along).sum(2).double().numpy()
    return result


def _errors(part: pd.DataFrame) -> pd.Series:
    """Per seed, the largest |score - predicted| of any topic word, over the largest |score|."""
    gap = (part.score - part.predicted).abs().groupby(part.seed).max()
    errors: pd.Series = gap / part.score.abs().groupby(part.seed).max()
    return errors


def _table(raw: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name, part in raw.groupby("course", sort=False):
        last = part[part.step == part.step.max()]
        row = {"course": name, "last loss": last.loss.mean(), "last score": last.score.mean()}
        row |= {"last half norm": last["half norm"].mean(), "last attention": last.attention.mean()}
        row["error"] = _errors(part).mean() if name in CLASSIFIERS else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def _claims(raw: pd.DataFrame) -> tuple[Claim, ...]:
    groups = dict(list(raw.groupby("course")))
    fixed = groups["fixed"]
    claims = [
        claim(
            f"Score and embedding norm of a topic word obey equation (1), classifier {name}",
            "largest |score - predicted| over largest score, mean over seeds",
            *averaged(_errors(groups[name])),
            below=0.1,
        )
        for name in CLASSIFIERS
    ]
    last = fixed[fixed.step == fixed.step.max()]
    ones = last.groupby("seed").attention.min()
    ends = {
        name: groups[name][groups[name].step == last.step.max()].groupby("seed").attention.mean()
        for name in CLASSIFIERS
    }
    claims.append(
        claim(
            "With a fixed linear classifier, attention to topic words converges to 1",
            "attention at the end, least of a seed's topic words, mean over seeds",
            *averaged(ones),
            above=0.9,
        )
    )
    claims += [
        claim(
            f"A classifier of low capacity gives attention a stronger signal: {one} above {other}",
            f"attention to topic words at the end, {one} minus {other}, mean over seeds",
            *averaged(ends[one] - ends[other]),
            above=0.0,
        )
        for one, other in pairwise(CLASSIFIERS)
    ]
    return tuple(claims)


def _suppression(course: pd.DataFrame) -> Claim:
    """The claim that just the words whose embedding points away from their topic lose score and norm at first."""
    ends = course[course.step.isin((0, EARLY))].set_index(["seed", "word", "step"])
    change = ends[["score", "half norm"]].groupby(["seed", "word"]).agg(lambda x: x.iloc[-1] - x.iloc[0])
    falls = (change["score"] < 0) & (change["half norm"] < 0)
    away = ends["first pull"].groupby(["seed", "word"]).first() < 0
    right = int((falls == away).sum())
    return claim(
        "Early mutual suppression: score and norm both fall at first exactly if the embedding points away from "
        "its topic's weights",
        f"share of topic words for which this is so in the first {EARLY} steps ({int(away.sum())} of {len(away)} "
        "point away)",
        right / len(away),
        wilson(right, len(away)),
        above=0.75,
    )


def _promotion(raw: pd.DataFrame) -> tuple[Claim, Claim]:
    """The claims that score and norm each grow more if the other may grow too."""
    groups = dict(list(raw.groupby("course")))
    fixed = groups["fixed"]
    last = fixed.step.max()

    def at_end(name: str, column: str) -> pd.Series:
        part = groups[name]
        values: pd.Series = part[part.step == last].groupby("seed")[column].mean()
        return values

    return (
        claim(
            "Mutual promotion: scores grow more while embeddings grow than with embeddings frozen",
            "ratio of mean final scores (frozen over free), mean over seeds",
            *averaged(at_end("embeddings frozen", "score") / at_end("fixed", "score")),
            below=1.0,
        ),
        claim(
            "Mutual promotion: the loss falls further while scores grow than with scores frozen",
            "ratio of final losses (free over frozen), mean over seeds",
            *averaged(at_end("fixed", "loss") / at_end("scores frozen", "loss")),
            below=1.0,
        ),
    )


def _draw(figure: Figure, raw: pd.DataFrame, words: pd.DataFrame) -> None:
    left, middle, right = figure.subplots(1, 3)
    for number, name in enumerate(CLASSIFIERS):
        part = raw[raw.course == name]
        for (_, word), course in part[part.seed == 0].groupby(["seed", "word"]):
            label = name if word == 0 else None
            left.plot(course["half norm"], course.score, color=f"C{number}", lw=3, alpha=0.5, label=label)
            left.plot(course["half norm"], course.predicted, "k--", lw=0.8)
        mean = part.groupby("time").attention.mean()
        middle.plot(mean.index + 1, mean, label=name)
    left.set_xlabel("|v|² / 2 of a topic word")
    left.set_ylabel("score (dashed: equation 1)")
    left.legend()
    middle.set_xscale("log")
    middle.set_ylim(0, 1)
    middle.set_xlabel("time + 1")
    middle.set_ylabel("attention to the topic word")
    right.scatter(words.predicted, words.score, c=words.topicality, s=6)
    ends = [words.score.min(), words.score.max()]
    right.plot(ends, ends, "k--", lw=0.8)
    right.set_xlabel("score by equation 1")
    right.set_ylabel("score of a real word (bright: topical)")
