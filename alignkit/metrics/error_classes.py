"""Errors of an alignment by class: how well it does on rare words, one-to-many links, punctuation, long sentences.

A class is a property of a pair of positions (source, target) in a sentence pair, so every link, proposed or gold,
is in one class of each partition, and the counts of a partition's classes add up to those of the whole. Frequency,
punctuation and length need the text; probability needs the proposed links' probabilities, and a gold link that was
not proposed has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import AER, count_links_by, link_keys
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import punctuation_types

if TYPE_CHECKING:
    import pandas as pd

#: upper ends of the classes of how often the rarer of the two words occurs in the text
FREQUENCIES = (0, 1, 5, 20, 100, 1000)
#: upper ends of the classes of the number of words on the longer side
LENGTHS = (5, 10, 15, 20, 30, 50)
#: by the number of sure gold links of the source word and of the target word
FERTILITIES = ("one-to-one", "one-to-many", "many-to-one", "many-to-many", "word without sure link")
PUNCTUATION = ("two words", "word and punctuation", "two punctuation marks")
NOT_PROPOSED = "not proposed"
COLUMNS = ("by", "class", "aer", "precision", "recall", "links", "sure", "wrong", "missed", "share_of_errors")


def band_names(ends: tuple[int, ...], low: int = 0) -> list[str]:
    """Names of the bands from ``low`` on, up to and above these ends: 0, 1-3, 4-10, ..., more."""
    names = []
    for end in ends:
        names.append(f"{low:,}" if low == end else f"{low:,}\N{EN DASH}{end:,}")
        low = end + 1
    return [*names, f"{low:,}+"]


@dataclass(frozen=True)
class Partition:
    """Classes of which each link is in exactly one.

    Attributes:
        by: what tells them apart.
        classes: their names.
        find: structured keys (K,) of :func:`alignkit.metrics.aer.link_keys` -> int64 (K,), the class of each link.
        comparable: whether gold links are told apart as proposed ones are; otherwise there is no recall.
    """

    by: str
    classes: tuple[str, ...]
    find: Callable[[np.ndarray], np.ndarray]
    comparable: bool = True


@dataclass(frozen=True, eq=False)
class WordFacts:
    """The text of a partition: M sentence pairs at least, and how often each of its types occurs.

    Attributes:
        bitext: of words.
        counts: int64 (V_src,) and (V_tgt,), occurrences of each type in the text that was learned from.
    """

    bitext: Bitext
    counts: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, bitext: Bitext, training: Bitext | None = None) -> WordFacts:
        """Classes by the counts of ``training``, or of the bitext itself."""
        learned = training if training is not None else bitext
        sides = ((learned.source, bitext.source), (learned.target, bitext.target))
        source, target = (occurrences(known, wanted) for known, wanted in sides)
        return cls(bitext, (source, target))


def occurrences(training: Corpus, corpus: Corpus) -> np.ndarray:
    """int64 (V,): how often each type of ``corpus`` occurs in ``training``, whose vocabulary may be another."""
    counts = np.bincount(training.tokens, minlength=len(training.vocabulary))
    places = training.vocabulary.translate(corpus.vocabulary)
    known = counts[np.maximum(places, 0)] if len(counts) else 0
    return np.where(places >= 0, known, 0).astype(np.int64)


def error_table(
    gold: GoldLinks,
    links: Links,
    facts: WordFacts | None = None,
    probabilities: np.ndarray | None = None,
    *,
    empty: bool = False,
) -> pd.DataFrame:
    """Precision, recall and AER in each class that has links, and how many of all errors it has.

    Args:
        gold: of M sentence pairs.
        links: of the same.
        facts: their text; without it there are no classes of frequency, punctuation and length.
        probabilities: float (K,), one for each of the K links, NaN where it is not known.
        empty: also give the classes without links.

    Returns:
        columns ``COLUMNS``, a row per class: ``links`` and ``sure`` count proposed and sure gold links; ``wrong``
        are proposed links that are not even possible ones, ``missed`` sure links that were not proposed, and
        ``share_of_errors`` is their share of all wrong and missed ones. Shares are fractions, NaN where not
        defined.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    import pandas as pd

    partitions = [fertility_partition(gold.sure)]
    if facts is not None:
        frequency, *others = text_partitions(facts)
        partitions = [frequency, *partitions, *others]
    if probabilities is not None:
        partitions.append(probability_partition(links, probabilities))
    rows = []
    for partition in partitions:
        counts = count_links_by(gold, links, partition.find, len(partition.classes))
        errors = {"wrong": counts.found - counts.in_possible, "missed": counts.sure - counts.in_sure}
        shown = (counts.found > 0) | (counts.possible > 0) | empty
        rows += class_rows(partition, shown, AER.values(counts), links=counts.found, sure=counts.sure, **errors)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def class_rows(
    partition: Partition, shown: np.ndarray, measures: Mapping[str, np.ndarray], **counts: np.ndarray
) -> list[dict[str, object]]:
    """The rows of a table of classes.

    Args:
        partition: of K classes.
        shown: bool (K,), those that get a row.
        measures: (K,) each, ``aer``, ``precision``, ``recall``, and others, which are left out.
        counts: (K,) each, the columns of numbers, ``wrong`` and ``missed`` among them.
    """
    errors = counts["wrong"] + counts["missed"]
    shares = errors / max(errors.sum(), 1e-30)
    left_out = () if partition.comparable else ("aer", "recall")
    rows = []
    for k in np.flatnonzero(shown).tolist():
        row: dict[str, object] = {"by": partition.by, "class": partition.classes[k]}
        for name in ("aer", "precision", "recall"):
            row[name] = float("nan") if name in left_out else float(measures[name][k])
        row |= {name: values[k].item() for name, values in counts.items()}
        rows.append({**row, "share_of_errors": float(shares[k])})
    return rows


def linked_words(bitext: Bitext, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int32 (K,) each: the source and the target word of links, keys as of ``link_keys``."""
    source, target = bitext.source, bitext.target
    m = keys["m"]
    return source.tokens[source.offsets[m] + keys["s"]], target.tokens[target.offsets[m] + keys["t"]]


def text_partitions(facts: WordFacts) -> list[Partition]:
    """By the frequency of the rarer word, by punctuation, and by the length of the sentence pair."""
    bitext = facts.bitext
    marks = [punctuation_types(side.vocabulary) for side in (bitext.source, bitext.target)]
    longer = bitext.shapes.max(axis=1) if len(bitext) else np.zeros(0, np.int32)

    def frequency(keys: np.ndarray) -> np.ndarray:
        source, target = linked_words(bitext, keys)
        rarer = np.minimum(facts.counts[0][source], facts.counts[1][target])
        return np.searchsorted(np.array(FREQUENCIES), rarer)

    def punctuation(keys: np.ndarray) -> np.ndarray:
        source, target = linked_words(bitext, keys)
        return marks[0][source].astype(np.int64) + marks[1][target]

    def length(keys: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.array(LENGTHS), longer[keys["m"]])

    lengths = tuple(band_names(LENGTHS, 1))  # a side with a link is not empty
    return [
        Partition("frequency of the rarer word", tuple(band_names(FREQUENCIES)), frequency),
        Partition("punctuation", PUNCTUATION, punctuation),
        Partition("words on the longer side", lengths, length),
    ]


def fertility_partition(sure: Links) -> Partition:
    """By the number of sure gold links of the two words."""
    known = link_keys(sure)

    def degrees(keys: np.ndarray, name: str) -> np.ndarray:
        """The number of sure links of the word at this end of each link."""
        own = known["m"] << 32 | known[name]
        words, counts = np.unique(own, return_counts=True)
        wanted = keys["m"] << 32 | keys[name]
        if len(words) == 0:
            return np.zeros(len(wanted), np.int64)
        place = np.minimum(np.searchsorted(words, wanted), len(words) - 1)
        return np.where(words[place] == wanted, counts[place], 0)

    def find(keys: np.ndarray) -> np.ndarray:
        source, target = degrees(keys, "s"), degrees(keys, "t")
        kind = (source > 1) * 1 + (target > 1) * 2
        return np.where((source == 0) | (target == 0), 4, kind).astype(np.int64)

    return Partition("gold links of the two words", FERTILITIES, find)


def probability_partition(links: Links, probabilities: np.ndarray) -> Partition:
    """By the probability of the proposed links, float (K,), NaN where it is not known."""
    own = link_keys(links)
    order = np.argsort(own)
    names = [f"{low / 10:.1f}\N{EN DASH}{(low + 1) / 10:.1f}" for low in range(10)]

    def find(keys: np.ndarray) -> np.ndarray:
        if len(own) == 0:
            return np.full(len(keys), len(names), np.int64)
        place = order[np.minimum(np.searchsorted(own, keys, sorter=order), len(own) - 1)]
        known = (own[place] == keys) & ~np.isnan(probabilities[place])
        # 1 belongs to the last band, and 0.7 to the band that it begins, though ten times a float may be below 7
        band = np.clip(np.floor(np.nan_to_num(probabilities[place]) * 10 + 1e-6), 0, 9).astype(np.int64)
        return np.where(known, band, len(names))

    return Partition("probability", (*names, NOT_PROPOSED), find, comparable=False)
