"""The dynamics of topic words on a real classification text, where words are not cleanly topical."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from alignkit.experiments.protocol import Claim, claim
from alignkit.experiments.statistics import averaged
from alignkit.experiments.texts import Labelled, read_labelled
from alignkit.experiments.topic_model import Sentences, follow, predicted_scores, start

if TYPE_CHECKING:
    import pandas as pd


def padded(text: Labelled, seeds: int) -> Sentences:
    """The sentences, the same for every seed."""
    lengths = text.text.lengths
    words = np.zeros((len(lengths), int(lengths.max())), np.int64)
    mask = np.arange(words.shape[1]) < lengths[:, None]
    words[mask] = text.text.tokens
    shape = (seeds, *words.shape)
    return Sentences(
        torch.from_numpy(words).expand(shape),
        torch.from_numpy(mask).expand(shape),
        torch.from_numpy(text.labels).expand(seeds, -1),
        len(text.text.vocabulary),
        len(text.names),
    )


def topicality(text: Labelled) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How much a word tells of the label, and the sentences it stands in.

    Returns:
        KL(p(label | word) || p(label)) in nats (V,), from counts of sentences with one more for each label, shared
        as all sentences are; number of sentences with the word (V,); mean number of other tokens in them (V,).
    """
    types = len(text.text.vocabulary)
    sentence = np.repeat(np.arange(len(text.text)), text.text.lengths)
    both = np.unique(np.stack([sentence, text.text.tokens]), axis=1)
    prior = np.bincount(text.labels, minlength=len(text.names)) / len(text.labels)
    counts = np.zeros((types, len(text.names)))
    np.add.at(counts, (both[1], text.labels[both[0]]), 1)
    number = counts.sum(1)
    share = (counts + prior) / (number + 1)[:, None]
    tells = (share * np.log(share / prior)).sum(1)
    around = np.bincount(both[1], text.text.lengths[both[0]] - 1, types) / np.maximum(number, 1)
    return tells, number, around


def real_words(settings: Any, tick: Callable[[str], None]) -> pd.DataFrame:
    """Per seed and frequent word: last score, the score that equation (1) of topic_words predicts, topicality."""
    import pandas as pd

    text = read_labelled(settings.labelled, settings.real_sentences, 1, settings.longest)
    sentences = padded(text, settings.seeds)
    seeds = range(settings.seeds)
    model = start(sentences.types, sentences.topics, settings.width, settings.scale, "linear", seeds)
    last = follow(
        model, sentences, settings.rate, settings.real_steps, lambda *_: tick("real text"), settings.query
    )
    tells, number, around = topicality(text)
    words = np.flatnonzero((number >= settings.minimum) & (around > 0))
    halves = np.stack([((m.v**2).sum(2) / 2).double().numpy()[:, words] for m in (model, last)])
    predicted = predicted_scores(halves, around[words], settings.query)[1]
    seed, place = (part.ravel() for part in np.indices(predicted.shape))
    return pd.DataFrame(
        {
            "seed": seed,
            "word": [text.text.vocabulary[int(i)] for i in words[place]],
            "sentences": number[words][place].astype(np.int64),
            "topicality": tells[words][place],
            "score": last.s[:, words].double().numpy().ravel(),
            "growth of half norm": (halves[1] - halves[0]).ravel(),
            "predicted": predicted.ravel(),
        }
    )


def _gap_ratio(part: pd.DataFrame) -> float:
    """How far the most topical quarter of words lies from equation (1), over the same of the least topical."""
    gap = (part.score - part.predicted).abs()
    low, high = part.topicality.quantile([0.25, 0.75])
    return float(gap[part.topicality >= high].mean() / gap[part.topicality <= low].mean())


def real_claims(words: pd.DataFrame) -> tuple[Claim, ...]:
    """What is left of the dynamics on the real text."""
    groups = [part for _, part in words.groupby("seed")]
    agree = [part.score.corr(part.predicted) for part in groups]
    slopes = [np.polyfit(part.predicted, part.score, 1)[0] for part in groups]
    tell = [part.score.rank().corr(part.topicality.rank()) for part in groups]
    return (
        claim(
            "On a real text, the score of a word still follows the growth of its norm",
            "correlation of score and equation (1) over words, mean over seeds",
            *averaged(agree),
            above=0.5,
        ),
        claim(
            "... in the amount of equation (1)",
            "slope of score on equation (1), mean over seeds",
            *averaged(slopes),
            above=0.8,
            below=1.2,
        ),
        claim(
            "... which the words that tell most of the label obey better than those that tell least",
            "mean |score - equation (1)|, most topical quarter over least topical quarter, mean over seeds",
            *averaged([_gap_ratio(part) for part in groups]),
            below=1.0,
        ),
        claim(
            "... and words that tell the label get the higher scores",
            "Spearman correlation of score and topicality, mean over seeds",
            *averaged(tell),
            above=0.0,
        ),
    )
