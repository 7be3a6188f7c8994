"""``topic-words``: scores and norms of topic words in training (Lu, Mao and Nayak, ICLR 2021).

The paper is "On the Dynamics of Training Attention Models". A sentence x of n words has the context c = sum over
its words of a_w v_w, with embeddings v_w and attention a = softmax over the sentence of the scores s_w = q . k_w:
keys k_w are trained, the query q is fixed. A classifier turns c into logits of the topics; the loss is the mean
cross-entropy over all sentences. As q is fixed, gradient flow on the key, k_w' = -q dLoss/ds_w, moves the score by
s_w' = -|q|^2 dLoss/ds_w: only scores need to be stored. With g = -dloss/dc of a sentence,

    v_w' = mean over sentences of a_w g,    s_w' = |q|^2 mean over sentences of a_w (v_w - c) . g.

A sentence with topic word t has m more words, drawn from a dictionary so
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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from scipy.special import wrightomega
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding_bag

from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, averaged, claim, share_claim
from alignkit.lab.experiments.classifiers import labelled_lines
from alignkit.neural.devices import DeviceCorpus
from alignkit.support.stages import no_progress, progress_of_parts
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import learn_words
from alignkit.types import Progress

CLASSIFIERS = ("fixed", "linear", "two-layer")
EARLY, EARLY_SEEDS = 5, 20  #: steps and seeds for the measurement of suppression
#: (name, classifier, factors on the changes of embeddings and scores) of each model
TRAJECTORIES = (
    *((name, name, (1.0, 1.0)) for name in CLASSIFIERS),
    ("scores frozen", "fixed", (1.0, 0.0)),
    ("embeddings frozen", "fixed", (0.0, 1.0)),
)


@dataclass(frozen=True)
class TopicWordsSettings(ExperimentSettings):
    """Settings of the experiment: of the synthetic task, the model and the real text.

    Attributes:
        topics, per_topic: J, and topic words of each.
        others: m, non-topic words in a sentence.
        dictionary: number of non-topic words.
        sentences: N of the training text.
        width: of the embeddings.
        scale: norm of an embedding at initialisation.
        query: |q|^2.
        rate: length of the first step of gradient descent, in the time of the flow.
        growth: factor by which each step is longer than the last.
        steps: number of steps.
        seeds: of texts and models.
        labelled: a file of lines LABEL TAB TEXT, the real text; the sample if empty.
        real_sentences, real_steps: sentences of the real text, and steps on it.
        longest: its sentences are truncated to this length.
        minimum: words in fewer of its sentences are ignored.
    """

    least = dict.fromkeys(("real_sentences", "longest"), 0)
    size = ("seeds", "topics", "dictionary", "sentences", "width", "steps")
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


QUICK_TOPIC_WORDS = TopicWordsSettings(
    sentences=200, dictionary=2000, steps=700, growth=1.005, seeds=3, real_sentences=500, real_steps=200
)


@dataclass(frozen=True, eq=False)
class Sentences:
    """N sentences for each of S seeds.

    Attributes:
        words: int64 (S, N, L); padding may be anything.
        mask: bool (S, N, L), False at padding.
        labels: int64 (S, N), topics.
        types: V, number of different words.
        topics: J.
    """

    words: Tensor
    mask: Tensor
    labels: Tensor
    types: int
    topics: int


@dataclass(frozen=True, eq=False)
class Model:
    """S models.

    Attributes:
        v: (S, V, d), embeddings.
        s: (S, V), scores.
        weights: of the classifier: (S, J, d), or (S, H, d) and (S, J, H) of the two layers.
        trained: True if the classifier is trained.
    """

    v: Tensor
    s: Tensor
    weights: tuple[Tensor, ...]
    trained: bool


def draw_sentences(settings: TopicWordsSettings, seeds: range) -> Sentences:
    """Draws the synthetic task: a sentence has a topic word, which decides its label, and ``others`` other words.

    Args:
        settings: J topics, whose words have ids 0 to J * per_topic - 1, word w belonging to topic w // per_topic;
            the others are drawn with replacement. The numbers of occurrences of two topic words differ by at most
            one.
        seeds: one text is drawn from each.
    """
    topical, drawn = settings.topics * settings.per_topic, []
    types, shape = topical + settings.dictionary, (settings.sentences, settings.others)
    for seed in seeds:
        rng = np.random.default_rng([seed, 12])
        topic_words = rng.permutation(np.arange(settings.sentences) % topical)[:, None]
        drawn.append(np.hstack([topic_words, rng.integers(topical, types, shape)]))
    words = torch.from_numpy(np.stack(drawn))
    mask = torch.ones_like(words, dtype=torch.bool)
    return Sentences(words, mask, words[:, :, 0] // settings.per_topic, types, settings.topics)


def initial_model(
    types: int, topics: int, width: int, scale: float, classifier: str, seeds: range, hidden: int = 32
) -> Model:
    """Models with embeddings drawn from N(0, scale^2 / d), scores of 0, and classifiers with rows of norm 1 or so.

    Args:
        types, topics, width: V, J, d.
        scale: root mean square norm of an embedding.
        classifier: one of :data:`CLASSIFIERS`.
        seeds: one model is drawn from each.
        hidden: H, of the two-layer classifier.
    """
    shapes = [(topics, width)] if classifier != "two-layer" else [(hidden, width), (topics, hidden)]
    drawn: list[list[Tensor]] = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        v = torch.randn(types, width, generator=generator) * scale * width**-0.5
        parts = [torch.randn(*shape, generator=generator) * shape[1] ** -0.5 for shape in shapes]
        drawn.append([v, *parts])
    v, *weights = (torch.stack(part) for part in zip(*drawn, strict=True))
    return Model(v, torch.zeros(len(seeds), types), tuple(weights), classifier != "fixed")


def derivatives(model: Model, text: Sentences, query: float = 1.0) -> tuple[Model, Tensor]:
    """The time derivatives of all parts of the models under gradient flow, and the losses (S,).

    Args:
        model, text: S models, and their texts.
        query: |q|^2.
    """
    trained = list(model.weights) if model.trained else []
    leaves = [part.detach().requires_grad_() for part in (model.v, model.s, *trained)]
    v, s, *trained = leaves
    first, *second = trained or model.weights
    # The places of the words in the types of all seeds one after another.
    places = text.words + text.types * torch.arange(len(text.words)).view(-1, 1, 1)
    scores = s.gather(1, text.words.flatten(1)).view(text.words.shape).masked_fill(~text.mask, float("-inf"))
    weights = torch.softmax(scores, 2).flatten(0, 1)
    c = embedding_bag(places.flatten(0, 1), v.flatten(0, 1), mode="sum", per_sample_weights=weights)
    logits = c.view(*text.labels.shape, -1) @ first.transpose(1, 2)
    for weight in second:
        logits = torch.relu(logits) @ weight.transpose(1, 2)
    losses = cross_entropy(logits.permute(0, 2, 1), text.labels, reduction="none").mean(1)
    dv, ds, *steps = torch.autograd.grad(-losses.sum(), leaves)
    still = tuple(map(torch.zeros_like, model.weights))
    return Model(dv, ds * query, tuple(steps) or still, model.trained), losses.detach()


def gradient_flow(
    model: Model,
    text: Sentences,
    rate: float,
    steps: int,
    query: float = 1.0,
    moves: tuple[Tensor | float, Tensor | float] = (1.0, 1.0),
    growth: float = 1.0,
) -> Iterator[tuple[Model, Tensor]]:
    """Gradient descent with full batches and a small rate: Euler's method on the flow.

    Args:
        model, text, query: as :func:`derivatives`.
        rate: length of the first step, in the time of the flow.
        steps: number of steps.
        moves: factors on the changes of embeddings (broadcast to (S, V, d)) and scores ((S, V)); 0 freezes.
        growth: the factor by which each step is longer than the last, since gradients vanish as the loss does.

    Yields:
        models and losses (S,), before every step and after the last.
    """
    for _ in range(steps + 1):
        change, losses = derivatives(model, text, query)
        yield model, losses
        weights = tuple(w + rate * d for w, d in zip(model.weights, change.weights, strict=True))
        v, s = model.v + rate * moves[0] * change.v, model.s + rate * moves[1] * change.s
        model = replace(model, v=v, s=s, weights=weights)
        rate *= growth


def predicted_scores(norms: np.ndarray, others: float | np.ndarray, query: float) -> np.ndarray:
    """s by equation (1), along a trajectory that starts with s = 0.

    Args:
        norms: (K, ...), |v|^2 / 2 at K times.
        others: m.
        query: |q|^2.
    """
    goal = query * (norms - norms[0]) + 1 / others - np.log(others)
    # x + e^x = goal for x = s - log m, so e^x is Wright's omega of it.
    return np.log(others * wrightomega(goal))


def kept_steps(steps: int, most: int) -> np.ndarray:
    """At most so many of the steps, evenly spread."""
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
    seeds, topical = range(settings.seeds), settings.topics * settings.per_topic
    text = draw_sentences(settings, seeds)
    model = initial_model(text.types, settings.topics, settings.width, settings.scale, classifier, seeds)
    steps, measured = kept_steps(settings.steps, 150), []
    flow = gradient_flow(model, text, settings.rate, settings.steps, settings.query, moves, settings.growth)
    for step, (now, losses) in enumerate(flow):
        progress(step, settings.steps, "")
        if step in steps:
            half = (now.v[:, :topical] ** 2).sum(2) / 2
            measured.append((now.s[:, :topical].double().numpy(), half.double().numpy(), losses.numpy()))
    score, norm, loss = map(np.stack, zip(*measured, strict=True))  # (K, S, Jk), of losses (K, S)
    times = np.concatenate([[0], np.cumsum(settings.rate * settings.growth ** np.arange(settings.steps))])
    # v_t . G at the start up to a factor, (S, Jk): with topics equally likely, G has the direction of a row of U
    # minus the mean row.
    pull = np.full(score.shape[1:], np.nan)
    if classifier == "fixed":
        U = model.weights[0]
        G = (U - U.mean(1, keepdim=True)).repeat_interleave(settings.per_topic, 1)
        pull = (model.v[:, :topical] * G).sum(2).double().numpy()
    k, seed, word = (part.ravel() for part in np.indices(score.shape))
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
            "first pull": np.broadcast_to(pull, score.shape).ravel(),
            "loss": loss[k, seed],
        }
    )


def as_sentences(text: LabelledText, seeds: int) -> Sentences:
    """The sentences, the same for every seed."""
    words, lengths = DeviceCorpus(text.corpus, torch.device("cpu")).gather(np.arange(len(text)))
    mask = torch.arange(len(words)) < torch.from_numpy(lengths).unsqueeze(1)
    labels = torch.from_numpy(text.labels.astype(np.int64))
    words, mask, labels = (each.expand(seeds, *each.shape) for each in (words.t(), mask, labels))
    return Sentences(words, mask, labels, len(text.corpus.vocabulary), len(text.names))


def topicality(text: LabelledText) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The topicality of each word, and the sentences it occurs in.

    Returns:
        KL(p(label | word) || p(label)) in nats (V,), p(label | word) being estimated from the sentences with the
        word and one pseudo-sentence, divided among the labels as all sentences are;
        number of sentences with the word (V,);
        mean number of other tokens in them (V,).
    """
    types = len(text.corpus.vocabulary)
    sentence = np.repeat(np.arange(len(text)), text.corpus.lengths)
    occurrences = np.unique(np.stack([sentence, text.corpus.tokens]), axis=1)
    prior = np.bincount(text.labels, minlength=len(text.names)) / len(text)
    counts = np.zeros((types, len(text.names)))
    np.add.at(counts, (occurrences[1], text.labels[occurrences[0]]), 1)
    number = counts.sum(1)
    share = (counts + prior) / (number + 1)[:, None]
    topical = (share * np.log(share / prior)).sum(1)
    others = np.bincount(occurrences[1], text.corpus.lengths[occurrences[0]] - 1, types) / np.maximum(number, 1)
    return topical, number, others


def real_words(settings: TopicWordsSettings, progress: Progress) -> pd.DataFrame:
    """Per seed and frequent word: final score, the score predicted by equation (1), topicality."""
    lines = labelled_lines(settings.labelled, settings.real_sentences, settings.longest)
    text = lines.encode(learn_words(lines.texts), lines.names)
    sentences = as_sentences(text, settings.seeds)
    sizes = sentences.types, sentences.topics, settings.width
    model = last = initial_model(*sizes, settings.scale, "linear", range(settings.seeds))
    flow = gradient_flow(model, sentences, settings.rate, settings.real_steps, settings.query)
    for step, (last, _) in enumerate(flow):  # noqa: B007
        progress(step, settings.real_steps, "")
    topical, number, others = topicality(text)
    words = np.flatnonzero((number >= settings.minimum) & (others > 0))
    halves = np.stack([((m.v**2).sum(2) / 2).double().numpy()[:, words] for m in (model, last)])
    predicted = predicted_scores(halves, others[words], settings.query)[1]
    seed, place = (part.ravel() for part in np.indices(predicted.shape))
    return pd.DataFrame(
        {
            "seed": seed,
            "word": [text.corpus.vocabulary[int(i)] for i in words[place]],
            "sentences": number[words][place].astype(np.int64),
            "topicality": topical[words][place],
            "score": last.s[:, words].double().numpy().ravel(),
            "growth of half norm": (halves[1] - halves[0]).ravel(),
            "predicted": predicted.ravel(),
        }
    )


def run_topic_words(settings: TopicWordsSettings, progress: Progress = no_progress) -> Result:
    """Follows the three classifiers, two ablations, and the model on the real text."""
    part = progress_of_parts(progress, len(TRAJECTORIES) + 1)
    courses = [trajectory(settings, *what, part(what[0])) for what in TRAJECTORIES]
    raw = pd.concat(courses, ignore_index=True)
    early = trajectory(replace(settings, seeds=EARLY_SEEDS, steps=EARLY), "early", "fixed", (1.0, 1.0))
    words = real_words(settings, part("real text"))
    table = []
    for name, course in raw.groupby("course", sort=False):
        last = course[course.step == course.step.max()]
        row = {"course": name, "last loss": last.loss.mean(), "last score": last.score.mean()}
        row |= {"last half norm": last["half norm"].mean(), "last attention": last.attention.mean()}
        table.append(row | {"error": equation_errors(course).mean() if name in CLASSIFIERS else np.nan})
    remarks = (
        "error: largest difference between a topic word's score and equation (1), over its largest score. No "
        "claim is made about attention with trained classifiers, which can lower the loss by growing.",
        f"Real text: {words.word.nunique()} words in at least {settings.minimum} sentences.",
    )
    claims = (*topic_words_claims(raw, early), *real_claims(words))
    rows = {"courses": raw[raw.step.isin(kept_steps(settings.steps, 40))].round(5), "words": words.round(5)}

    def draw(figure: Figure) -> None:
        left, middle, right = figure.subplots(1, 3)
        for number, name in enumerate(CLASSIFIERS):
            own = raw[raw.course == name]
            for (_, word), course in own[own.seed == 0].groupby(["seed", "word"]):
                label = name if word == 0 else None
                left.plot(course["half norm"], course.score, color=f"C{number}", lw=3, alpha=0.5, label=label)
                left.plot(course["half norm"], course.predicted, "k--", lw=0.8)
            mean = own.groupby("time").attention.mean()
            middle.plot(mean.index + 1, mean, label=name)
        left.set(xlabel="|v|² / 2 of a topic word", ylabel="score (dashed: equation 1)")
        left.legend()
        middle.set(xscale="log", ylim=(0, 1), xlabel="time + 1", ylabel="attention to the topic word")
        right.scatter(words.predicted, words.score, c=words.topicality, s=6)
        ends = [words.score.min(), words.score.max()]
        right.plot(ends, ends, "k--", lw=0.8)
        right.set(xlabel="score by equation 1", ylabel="score of a real word (bright: topical)")

    return Result(pd.DataFrame(table), claims, rows, draw, remarks)


def equation_errors(part: pd.DataFrame) -> pd.Series:
    """Per seed, the largest |score - predicted| of any topic word, over the largest |score|."""
    gap = (part.score - part.predicted).abs().groupby(part.seed).max()
    return gap / part.score.abs().groupby(part.seed).max()


def topic_words_claims(raw: pd.DataFrame, early: pd.DataFrame) -> Iterator[Claim]:
    """The claims about the topic words of the synthetic task, from all courses and from the first steps of one."""
    last = raw[raw.step == raw.step.max()]
    end = {name: last[last.course == name].groupby("seed") for name, *_ in TRAJECTORIES}
    for name in CLASSIFIERS:
        text = f"Score and embedding norm of a topic word obey equation (1), classifier {name}"
        statistic = "largest |score - predicted| over largest score, mean over seeds"
        yield claim(text, statistic, *averaged(equation_errors(raw[raw.course == name])), below=0.1)
    text = "With a fixed linear classifier, attention to topic words converges to 1"
    statistic = "attention at the end, least of a seed's topic words, mean over seeds"
    yield claim(text, statistic, *averaged(end["fixed"].attention.min()), above=0.9)
    for one, other in pairwise(CLASSIFIERS):
        text = f"A classifier of low capacity gives attention a stronger signal: {one} above {other}"
        statistic = f"attention to topic words at the end, {one} minus {other}, mean over seeds"
        gain = end[one].attention.mean() - end[other].attention.mean()
        yield claim(text, statistic, *averaged(gain), above=0.0)
    # Just the words whose embedding points away from their topic should lose score and norm at first.
    start, then = (early[early.step == step].set_index(["seed", "word"]) for step in (0, EARLY))
    falls = (then["score"] < start["score"]) & (then["half norm"] < start["half norm"])
    away = start["first pull"] < 0
    where = "exactly if the embedding points away from its topic's weights"
    text = f"Early mutual suppression: score and norm both fall at first {where}"
    counts = f"{int(away.sum())} of {len(away)} point away"
    statistic = f"share of topic words for which this is so in the first {EARLY} steps ({counts})"
    yield share_claim(text, statistic, int((falls == away).sum()), len(away), above=0.75)
    text = "Mutual promotion: scores grow more while embeddings grow than with embeddings frozen"
    statistic = "ratio of mean final scores (frozen over free), mean over seeds"
    ratio = end["embeddings frozen"].score.mean() / end["fixed"].score.mean()
    yield claim(text, statistic, *averaged(ratio), below=1.0)
    text = "Mutual promotion: the loss falls further while scores grow than with scores frozen"
    statistic = "ratio of final losses (free over frozen), mean over seeds"
    ratio = end["fixed"].loss.mean() / end["scores frozen"].loss.mean()
    yield claim(text, statistic, *averaged(ratio), below=1.0)


def real_claims(words: pd.DataFrame) -> Iterator[Claim]:
    """The claims about the real text."""
    agree, slopes, gaps, ranks = [], [], [], []
    for _, part in words.groupby("seed"):
        agree.append(part.score.corr(part.predicted))
        slopes.append(np.polyfit(part.predicted, part.score, 1)[0])
        ranks.append(part.score.rank().corr(part.topicality.rank()))
        gap, (low, high) = (part.score - part.predicted).abs(), part.topicality.quantile([0.25, 0.75])
        gaps.append(float(gap[part.topicality >= high].mean() / gap[part.topicality <= low].mean()))
    text = "On a real text, the score of a word still follows the growth of its norm"
    statistic = "correlation of score and equation (1) over words, mean over seeds"
    yield claim(text, statistic, *averaged(agree), above=0.5)
    statistic = "slope of score on equation (1), mean over seeds"
    yield claim("... in the amount of equation (1)", statistic, *averaged(slopes), above=0.8, below=1.2)
    text = "... which words that say much about the label obey better than those that say little"
    statistic = "mean |score - equation (1)|, most topical quarter over least topical quarter, mean over seeds"
    yield claim(text, statistic, *averaged(gaps), below=1.0)
    text = "... and words that say more about the label get higher scores"
    statistic = "Spearman correlation of score and topicality, mean over seeds"
    yield claim(text, statistic, *averaged(ranks), above=0.0)
