"""The dynamics of topic words on a real labelled text, where words are more or less topical."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from alignkit.experiments.corpora import labelled_lines
from alignkit.experiments.protocol import Claim, claim
from alignkit.experiments.statistics import averaged
from alignkit.experiments.topic_model import Sentences, TopicWordsSettings, follow, initial_model, predicted_scores
from alignkit.neural.batching import DeviceCorpus
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import learn_words
from alignkit.types import Progress

if TYPE_CHECKING:
    import pandas as pd


def as_sentences(text: LabelledText, seeds: int) -> Sentences:
    """The sentences, the same for every seed."""
    words, lengths = DeviceCorpus(text.corpus, torch.device("cpu")).gather(np.arange(len(text)))
    mask = torch.arange(len(words)) < torch.from_numpy(lengths).unsqueeze(1)
    return Sentences(
        words.t().expand(seeds, -1, -1),
        mask.expand(seeds, -1, -1),
        torch.from_numpy(text.labels.astype(np.int64)).expand(seeds, -1),
        len(text.corpus.vocabulary),
        len(text.names),
    )


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
    """Per seed and frequent word: final score, the score predicted by equation (1) of topic_words, topicality."""
    import pandas as pd

    lines = labelled_lines(settings.labelled, settings.real_sentences, settings.longest)
    text = lines.encode(learn_words(lines.texts), lines.names)
    sentences = as_sentences(text, settings.seeds)
    seeds = range(settings.seeds)
    model = initial_model(sentences.types, sentences.topics, settings.width, settings.scale, "linear", seeds)

    def told(step: int, *_: object) -> None:
        progress(step, settings.real_steps, "real text")

    last = follow(model, sentences, settings.rate, settings.real_steps, told, settings.query)
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


def _gap_ratio(part: pd.DataFrame) -> float:
    """Mean distance from equation (1) of the most topical quarter of words over that of the least topical."""
    gap = (part.score - part.predicted).abs()
    low, high = part.topicality.quantile([0.25, 0.75])
    return float(gap[part.topicality >= high].mean() / gap[part.topicality <= low].mean())


def real_claims(words: pd.DataFrame) -> tuple[Claim, ...]:
    """The claims about the real text."""
    groups = [part for _, part in words.groupby("seed")]
    agree = [part.score.corr(part.predicted) for part in groups]
    slopes = [np.polyfit(part.predicted, part.score, 1)[0] for part in groups]
    ranks = [part.score.rank().corr(part.topicality.rank()) for part in groups]
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
            "... which words that say much about the label obey better than those that say little",
            "mean |score - equation (1)|, most topical quarter over least topical quarter, mean over seeds",
            *averaged([_gap_ratio(part) for part in groups]),
            below=1.0,
        ),
        claim(
            "... and words that say more about the label get higher scores",
            "Spearman correlation of score and topicality, mean over seeds",
            *averaged(ranks),
            above=0.0,
        ),
    )
