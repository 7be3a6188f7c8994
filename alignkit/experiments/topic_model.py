"""The attention model of Lu, Mao and Nayak (ICLR 2021), several seeds at once, and its gradient flow.

A sentence x of n words has the context c = sum over its words of a_w v_w, with embeddings v_w and attention
a = softmax over the sentence of the scores s_w = q . k_w: keys k_w are trained, the query q is fixed. A
classifier turns c into logits of the topics; the loss is the mean cross-entropy over all sentences.

As q is fixed, gradient flow on the key, k_w' = -q dLoss/ds_w, moves the score by s_w' = -|q|^2 dLoss/ds_w: only
scores need to be stored. With g = -dloss/dc of a sentence,

    v_w' = mean over sentences of a_w g,    s_w' = |q|^2 mean over sentences of a_w (v_w - c) . g.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import wrightomega
from torch import Tensor

from alignkit.experiments.protocol import check_positive

CLASSIFIERS = ("fixed", "linear", "two-layer")


@dataclass(frozen=True)
class TopicWordsSettings:
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

    def __post_init__(self) -> None:
        check_positive(self, "topics", "per_topic", "others", "dictionary", "sentences", "width", "query", "rate")
        check_positive(self, "growth", "steps", "seeds", "real_steps", "minimum")


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


def draw_sentences(
    topics: int, per_topic: int, others: int, dictionary: int, sentences: int, seeds: range
) -> Sentences:
    """Draws the synthetic task: a sentence has a topic word, which decides its label, and ``others`` other words.

    Args:
        topics: J; topic words have ids 0 to J * per_topic - 1, word w belonging to topic w // per_topic.
        per_topic: topic words of a topic.
        others: m, non-topic words in a sentence, drawn with replacement.
        dictionary: number of non-topic words.
        sentences: N; the numbers of occurrences of two topic words differ by at most one.
        seeds: one text is drawn from each.
    """
    topical = topics * per_topic
    words = np.empty((len(seeds), sentences, others + 1), np.int64)
    for place, seed in enumerate(seeds):
        rng = np.random.default_rng([seed, 12])
        words[place, :, 0] = rng.permutation(np.arange(sentences) % topical)
        words[place, :, 1:] = rng.integers(topical, topical + dictionary, (sentences, others))
    tensor = torch.from_numpy(words)
    labels = tensor[:, :, 0] // per_topic
    return Sentences(tensor, torch.ones_like(tensor, dtype=torch.bool), labels, topical + dictionary, topics)


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


def logits(weights: tuple[Tensor, ...], c: Tensor) -> Tensor:
    """(S, N, J) from contexts (S, N, d)."""
    out = c @ weights[0].transpose(1, 2)
    if len(weights) == 2:
        out = torch.relu(out) @ weights[1].transpose(1, 2)
    return out


def apply_attention(model: Model, text: Sentences) -> tuple[Tensor, Tensor, Tensor]:
    """Attention (S, N, L), 0 at padding; embeddings (S, N, L, d); contexts (S, N, d)."""
    seeds, types, width = model.v.shape
    flat = (text.words + types * torch.arange(seeds).view(-1, 1, 1)).flatten()
    x = model.v.reshape(-1, width)[flat].view(*text.words.shape, width)
    scores = model.s.reshape(-1)[flat].view(text.words.shape)
    a = torch.softmax(scores.masked_fill(~text.mask, float("-inf")), 2)
    return a, x, torch.matmul(a.unsqueeze(2), x).squeeze(2)


def derivatives(model: Model, text: Sentences, query: float = 1.0) -> tuple[Model, Tensor]:
    """The time derivatives of all parts of the models under gradient flow, and the losses (S,).

    Args:
        model, text: S models, and their texts.
        query: |q|^2.
    """
    a, x, c = apply_attention(model, text)
    with torch.enable_grad():
        leaf = c.detach().requires_grad_()
        weights = tuple(w.detach().requires_grad_(model.trained) for w in model.weights)
        logs = torch.log_softmax(logits(weights, leaf), 2)
        losses = -logs.gather(2, text.labels.unsqueeze(2)).squeeze(2).mean(1)
        inputs = (leaf, *weights) if model.trained else (leaf,)
        gradients = torch.autograd.grad(losses.sum(), inputs)
    g = -gradients[0]  # includes the 1/N of the mean
    seeds, types, width = model.v.shape
    flat = (text.words + types * torch.arange(seeds).view(-1, 1, 1)).flatten()
    dv = torch.zeros(seeds * types, width, dtype=x.dtype)
    dv.index_add_(0, flat, (a.unsqueeze(3) * g.unsqueeze(2)).view(-1, width))
    along = torch.matmul(x, g.unsqueeze(3)).squeeze(3)
    pull = a * (along - (c * g).sum(2, keepdim=True))
    ds = torch.zeros(seeds * types, dtype=x.dtype).index_add_(0, flat, pull.flatten()) * query
    steps = tuple(-d for d in gradients[1:]) if model.trained else tuple(map(torch.zeros_like, model.weights))
    return Model(dv.view(model.v.shape), ds.view(model.s.shape), steps, model.trained), losses.detach()


def follow(
    model: Model,
    text: Sentences,
    rate: float,
    steps: int,
    look: Callable[[int, Model, Tensor], None],
    query: float = 1.0,
    moves: tuple[Tensor | float, Tensor | float] = (1.0, 1.0),
    growth: float = 1.0,
) -> Model:
    """Gradient descent with full batches and a small rate: Euler's method on the flow.

    Args:
        model, text, query: as :func:`derivatives`.
        rate: length of the first step, in the time of the flow.
        steps: number of steps.
        look: called before every step, and after the last, with (step, models, losses).
        moves: factors on the changes of embeddings (broadcast to (S, V, d)) and scores ((S, V)); 0 freezes.
        growth: the factor by which each step is longer than the last, since gradients vanish as the loss does.
    """
    with torch.no_grad():
        for step in range(steps + 1):
            change, losses = derivatives(model, text, query)
            look(step, model, losses)
            if step < steps:
                weights = tuple(w + rate * d for w, d in zip(model.weights, change.weights, strict=True))
                v, s = model.v + rate * moves[0] * change.v, model.s + rate * moves[1] * change.s
                model = replace(model, v=v, s=s, weights=weights)
                rate *= growth
    return model


def predicted_scores(norms: np.ndarray, others: float | np.ndarray, query: float) -> np.ndarray:
    """s by equation (1) of :mod:`alignkit.experiments.topic_words`, along a trajectory that starts with s = 0.

    Args:
        norms: (K, ...), |v|^2 / 2 at K times.
        others: m.
        query: |q|^2.
    """
    goal = query * (norms - norms[0]) + 1 / others - np.log(others)
    # x + e^x = goal for x = s - log m, so e^x is Wright's omega of it.
    scores: np.ndarray = np.log(others * wrightomega(goal))
    return scores
