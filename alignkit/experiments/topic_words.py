"""``topic-words``: how they are found (Lu, Mao and Nayak, "On the Dynamics of Training Attention Models", 2021).

The model and its flow are those of :mod:`alignkit.experiments.topic_model`. A sentence of topic word t has m
more words, drawn from a dictionary so large that each is hardly ever seen. Assume of those words that (i) their
scores stay at 0 and (ii) their part of the context, sum of a_w v_w, is nothing on average. Then the topic word's
attention is a = e^s / (e^s + m), s being its score, in all its sentences, and v_t - c = (1 - a) v_t, so that with
G, the mean of g over all sentences with t (0 for the others),

    v_t' = a G,    s' = |q|^2 a (1 - a) v_t . G = |q|^2 (1 - a) v_t . v_t' = |q|^2 (1 - a) (|v_t|^2 / 2)'.

As 1 / (1 - a) = 1 + e^s / m, **whatever the classifier does,**

    s + e^s / m - |q|^2 |v_t|^2 / 2 does not change,                                                 (1)

e^s / m = a / (1 - a) being the odds of attention. Score and norm rise together (mutual promotion). They fall
together where v_t . G < 0: then v_t first shrinks, and attention with it, until v_t has turned (suppression).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from alignkit.experiments.protocol import Claim, Progress, Result, check_positive, claim, no_progress
from alignkit.experiments.statistics import averaged
from alignkit.experiments.topic_model import CLASSIFIERS, Model, draw_sentences, follow, predicted_scores, start
from alignkit.experiments.topic_real import real_claims, real_words
from alignkit.metrics.intervals import wilson

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EARLY, EARLY_SEEDS = 5, 20  #: steps and seeds of the look at suppression


@dataclass(frozen=True)
class Settings:
    """The synthetic task, the model, and the real text.

    Attributes:
        topics, per_topic: J, and topic words of each.
        others: m, non-topic words in a sentence.
        dictionary: how many of them there are.
        sentences: N of the training text.
        width: of the embeddings.
        scale: norm of a fresh embedding.
        query: |q|^2.
        rate: time of the first step of gradient descent.
        growth: each step is so much longer than the last.
        steps: how many.
        seeds: of texts and models.
        labelled: lines LABEL TAB TEXT; the sample if empty.
        real_sentences, real_steps, longest, minimum: of the real text; a word must occur ``minimum`` times.
    """

    topics: int = 2
    per_topic: int = 2
    others: int = 20
    dictionary: int = 5000
    sentences: int = 800
    width: int = 15
    scale: float = 1.0
    query: float = 1.0
    rate: float = 1.0
    growth: float = 1.003
    steps: int = 1500
    seeds: int = 16
    labelled: str = ""
    real_sentences: int = 1500
    real_steps: int = 600
    longest: int = 40
    minimum: int = 10


QUICK = Settings(
    sentences=200, dictionary=2000, steps=700, growth=1.005, seeds=3, real_sentences=500, real_steps=200
)


def run(settings: Settings | None = None, progress: Progress = no_progress) -> Result:
    """Follows the three classifiers, two ablations, and the model on the real text."""
    import pandas as pd

    settings = settings or Settings()
    check_positive(
        settings, "topics", "per_topic", "others", "dictionary", "sentences", "width", "query", "rate", "growth"
    )
    check_positive(settings, "steps", "seeds", "real_steps", "minimum")
    total = 5 * settings.steps + settings.real_steps
    done = [0]

    def tick(what: str) -> None:
        done[0] += 1
        progress(min(done[0], total), total, what)

    courses = pd.concat([_course(settings, name, name, (1.0, 1.0), tick) for name in CLASSIFIERS])
    frozen = [
        _course(settings, "fixed", name, moves, tick)
        for name, moves in (("scores frozen", (1.0, 0.0)), ("embeddings frozen", (0.0, 1.0)))
    ]
    many = replace(settings, seeds=EARLY_SEEDS, steps=EARLY)
    early = _course(many, "fixed", "early", (1.0, 1.0), lambda what: None)
    words = real_words(settings, tick)
    raw = pd.concat([courses, *frozen], ignore_index=True)
    table = _table(raw)
    remarks = (
        "error: largest difference between a topic word's score and equation (1), over its largest score. "
        "Nothing is said of the trained classifiers' attention: they can lower the loss by growing themselves.",
        f"Real text: {words.word.nunique()} words with at least {settings.minimum} sentences.",
    )
    claims = (*_claims(raw), _suppression(early), *_promotion(raw), *real_claims(words))
    kept = raw[raw.step.isin(_kept(settings.steps, 40))].round(5)
    drawn = lambda figure: _draw(figure, raw, words)  # noqa: E731
    return Result(table, claims, {"courses": kept, "words": words.round(5)}, drawn, remarks)


def _kept(steps: int, most: int) -> np.ndarray:
    return np.unique(np.round(np.linspace(0, steps, most)).astype(np.int64))


def _course(
    settings: Settings, classifier: str, name: str, moves: tuple[float, float], tick: object
) -> pd.DataFrame:
    """Score, norm and attention of every topic word of every seed, at up to 150 times."""
    import pandas as pd

    seeds, telling = range(settings.seeds), settings.topics * settings.per_topic
    text = draw_sentences(
        settings.topics, settings.per_topic, settings.others, settings.dictionary, settings.sentences, seeds
    )
    model = start(text.types, settings.topics, settings.width, settings.scale, classifier, seeds)
    kept = set(_kept(settings.steps, 150).tolist())
    times = np.concatenate([[0], np.cumsum(settings.rate * settings.growth ** np.arange(settings.steps))])
    found: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []

    def look(step: int, now: Model, losses: torch.Tensor) -> None:
        tick(name)  # type: ignore[operator]
        if step in kept:
            half = (now.v[:, :telling] ** 2).sum(2) / 2
            found.append((step, now.s[:, :telling].double().numpy(), half.double().numpy(), losses.numpy()))

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


def _first_pull(model: Model, settings: Settings) -> np.ndarray:
    """v_t . G at the start if all topics are equally likely then: G is along U_y - mean row of U; (S, Jk)."""
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
    claims.append(
        claim(
            "With a fixed linear classifier, attention to topic words converges to 1",
            "attention at the end, least of a seed's topic words, mean over seeds",
            *averaged(ones),
            above=0.9,
        )
    )
    return tuple(claims)


def _suppression(course: pd.DataFrame) -> Claim:
    """Words whose embedding points away from their topic first lose score and norm; the others do not."""
    ends = course[course.step.isin((0, EARLY))].set_index(["seed", "word", "step"])
    change = ends[["score", "half norm"]].groupby(["seed", "word"]).agg(lambda x: x.iloc[-1] - x.iloc[0])
    falls = (change["score"] < 0) & (change["half norm"] < 0)
    away = ends["first pull"].groupby(["seed", "word"]).first() < 0
    right = int((falls == away).sum())
    return claim(
        "Early mutual suppression: score and norm both fall at first exactly where the embedding points away from "
        "its topic's weights",
        f"share of topic words that do so in {EARLY} steps ({int(away.sum())} of {len(away)} point away)",
        right / len(away),
        wilson(right, len(away)),
        above=0.75,
    )


def _promotion(raw: pd.DataFrame) -> tuple[Claim, Claim]:
    """Each of score and norm grows more if the other may grow too."""
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
