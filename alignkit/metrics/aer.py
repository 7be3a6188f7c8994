"""Precision, recall and alignment error rate against gold links (Och and Ney 2003), in all and by class of links.

A class is a property of a pair of positions (source, target) in a sentence pair, so every link, proposed or gold,
is in one class of each partition, and the counts of a partition's classes add up to those of the whole. Frequency,
punctuation and length need the text; probability needs the proposed links' probabilities, and a gold link that was
not proposed has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, counted
from alignkit.links.links import GoldLinks, Links, LinksLike, as_gold, as_links
from alignkit.metrics.intervals import ratio
from alignkit.metrics.protocol import Metric, MetricSettings
from alignkit.support.arrays import brief_repr
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


@dataclass(frozen=True)
class Evaluation:
    """The measures of one alignment, as fractions; NaN where the divisor is 0.

    Attributes:
        links, sure, possible: the numbers of links of the hypothesis and of gold links, the sure ones among the
            possible ones.
        counts: of each sentence pair.
    """

    aer: float
    precision: float
    recall: float
    f1: float
    links: int
    sure: int
    possible: int
    counts: LinkCounts = field(repr=False, compare=False)

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Measure -> (low, high), as of :meth:`LinkCounts.intervals`; computed when first asked for."""
        return self.counts.intervals()


@dataclass(frozen=True, eq=False)
class LinkCounts:
    """Sufficient statistics of all measures, per sentence pair (or per class of links).

    Attributes:
        found, sure, possible: (M,), the numbers of links: of the hypothesis, sure ones, possible ones (the sure
            ones among them).
        in_sure, in_possible: (M,), the numbers of links of the hypothesis that are sure, or possible.
    """

    found: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    in_sure: np.ndarray
    in_possible: np.ndarray

    __repr__ = brief_repr

    def __len__(self) -> int:
        return len(self.found)

    def total(self) -> Evaluation:
        """The measures over all sentence pairs together."""
        gold = {"sure": int(self.sure.sum()), "possible": int(self.possible.sum())}
        return Evaluation(**AER.total(self), **gold, counts=self)

    def each(self) -> list[Evaluation]:
        """The measures of every sentence pair by itself."""
        values = [*AER.values(self).values(), self.sure, self.possible]
        own = [LinkCounts(*(part[m : m + 1] for part in vars(self).values())) for m in range(len(self))]
        return [Evaluation(*row) for row in zip(*(column.tolist() for column in values), own, strict=True)]

    def intervals(self, seed: int = 0) -> dict[str, tuple[float, float]]:
        """Measure -> (low, high): 95 % bootstrap percentile interval over sentence pairs.

        (NaN, NaN) with fewer than two pairs, or if the divisor of every resample is 0.
        """
        return AER.intervals(self, MetricSettings(seed=seed))


class ComparedLinks(NamedTuple):
    """All links A, S and P of M sentence pairs, K different ones, in order.

    Attributes:
        keys: (K,), of :func:`link_keys`.
        found, sure, possible: bool (K,), which of them are proposed, sure, possible.
    """

    keys: np.ndarray
    found: np.ndarray
    sure: np.ndarray
    possible: np.ndarray

    @classmethod
    def of(cls, gold: GoldLinks, links: Links) -> ComparedLinks:
        """Those of an alignment and gold links; raises AlignkitError if the numbers of sentence pairs differ."""
        if len(gold) != len(links):
            raise AlignkitError(f"gold has {counted(len(gold), 'pair')}, the alignment has {len(links):,}")
        parts = [link_keys(each) for each in (links, gold.sure, gold.possible)]
        keys, places = np.unique(np.concatenate(parts), return_inverse=True)
        own = np.split(places, np.cumsum([len(part) for part in parts[:-1]]))
        found, sure, possible = (np.isin(np.arange(len(keys)), each) for each in own)
        return cls(keys, found, sure, sure | possible)

    def counts(self, groups: np.ndarray, count: int) -> LinkCounts:
        """The counts of so many groups of links, given the group of each, int (K,)."""
        found, sure, possible = self.found, self.sure, self.possible
        chosen = (found, sure, possible, found & sure, found & possible)
        return LinkCounts(*(np.bincount(groups[each], minlength=count).astype(np.int64) for each in chosen))


def count_links(gold: GoldLinks, links: Links) -> LinkCounts:
    """Count links A against sure links S and possible links P, per sentence pair.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    compared = ComparedLinks.of(gold, links)
    return compared.counts(compared.keys["m"], len(gold))


def evaluate(gold: GoldLinks | LinksLike, links: LinksLike) -> Evaluation:
    """Score links A against sure links S and possible links P (S is a subset of P).

    Either may be lists (see :func:`alignkit.links.links.as_links`), of gold links sure ones.

    precision = |A & P| / |A|, recall = |A & S| / |S|, AER = 1 - (|A & S| + |A & P|) / (|A| + |S|); F1 is the
    harmonic mean of precision and recall, 0 where both are.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    return count_links(as_gold(gold), as_links(links)).total()


def link_keys(links: Links) -> np.ndarray:
    """One structured key (m, s, t) per link, so that sets of links compare as sets."""
    keys = np.empty(len(links.pairs), [("m", np.int64), ("s", np.int32), ("t", np.int32)])
    keys["m"] = links.sentences
    keys["s"], keys["t"] = links.pairs.T
    return keys


def _values(sums: LinkCounts) -> dict[str, Any]:
    precision, recall = ratio(sums.in_possible, sums.found), ratio(sums.in_sure, sums.sure)
    both = precision + recall
    return {
        "aer": 1 - ratio(sums.in_sure + sums.in_possible, sums.found + sums.sure),
        "precision": precision,
        "recall": recall,
        "f1": np.where(both == 0, 0.0, ratio(2 * precision * recall, both)),
        "links": sums.found,
    }


AER = Metric(
    name="aer",
    symbol="AER",
    title="alignment error rate against gold links, in per cent",
    chance="",
    reference="gold",
    symmetric=False,
    share=True,
    count=lambda gold, links, settings: count_links(gold, links),
    values=_values,
    whole=("links",),
)


def band_names(ends: tuple[int, ...], low: int = 0) -> list[str]:
    """Names of the bands from ``low`` on, up to and above these ends: 0, 1-3, 4-10, ..., more."""
    names = []
    for end in ends:
        names.append(f"{low:,}" if low == end else f"{low:,}\N{EN DASH}{end:,}")
        low = end + 1
    return [*names, f"{low:,}+"]


class Partition(NamedTuple):
    """Classes of K links, of which each is in exactly one.

    Attributes:
        by: what tells them apart.
        classes: their names.
        of_links: int64 (K,), the class of each link.
        comparable: whether gold links are told apart as proposed ones are; otherwise there is no recall.
    """

    by: str
    classes: tuple[str, ...]
    of_links: np.ndarray
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
        a row per class with the columns by, class, aer, precision, recall, links, sure, wrong, missed and
        share_of_errors: ``links`` and ``sure`` count proposed and sure gold links; ``wrong`` are proposed links
        that are not even possible ones, ``missed`` sure links that were not proposed, and ``share_of_errors`` is
        their share of all wrong and missed ones. Shares are fractions, NaN where not defined.

    Raises:
        AlignkitError: the numbers of sentence pairs differ.
    """
    import pandas as pd

    compared = ComparedLinks.of(gold, links)
    keys = compared.keys
    degrees = []  # of the two words of each link, in sure links
    for side in ("s", "t"):
        _, words = np.unique(keys["m"] << 32 | keys[side], return_inverse=True)
        degrees.append(np.bincount(words[compared.sure], minlength=len(keys))[words])
    source, target = degrees
    kinds = np.where((source == 0) | (target == 0), 4, (source > 1) * 1 + (target > 1) * 2)
    partitions = [Partition("gold links of the two words", FERTILITIES, kinds)]
    if facts is not None:
        frequency, *others = text_partitions(facts, keys)
        partitions = [frequency, *partitions, *others]
    if probabilities is not None:
        own = np.full(len(keys), np.nan)
        own[compared.found] = probabilities
        partitions.append(probability_partition(own))
    tables = []
    for each in partitions:
        counts = compared.counts(each.of_links, len(each.classes))
        errors = {"wrong": counts.found - counts.in_possible, "missed": counts.sure - counts.in_sure}
        shown = (counts.found > 0) | (counts.possible > 0) | empty
        tables.append(class_rows(each, shown, _values(counts), links=counts.found, sure=counts.sure, **errors))
    return pd.concat(tables, ignore_index=True)


def class_rows(
    partition: Partition, shown: np.ndarray, measures: Mapping[str, np.ndarray], **counts: np.ndarray
) -> pd.DataFrame:
    """A table of classes, as of :func:`error_table`.

    Args:
        partition: of K classes.
        shown: bool (K,), those that get a row.
        measures: (K,) each, ``aer``, ``precision``, ``recall``, and others, which are left out.
        counts: (K,) each, the columns of numbers, ``wrong`` and ``missed`` among them.
    """
    import pandas as pd

    rates: dict[str, Any] = {name: measures[name] for name in ("aer", "precision", "recall")}
    if not partition.comparable:
        rates |= dict.fromkeys(("aer", "recall"), np.nan)
    errors = counts["wrong"] + counts["missed"]
    columns = {"by": partition.by, "class": list(partition.classes), **rates, **counts}
    return pd.DataFrame({**columns, "share_of_errors": errors / max(errors.sum(), 1e-30)})[shown]


def linked_words(bitext: Bitext, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int32 (K,) each: the source and the target word of links, keys as of ``link_keys``."""
    source, target = bitext.source, bitext.target
    m = keys["m"]
    return source.tokens[source.offsets[m] + keys["s"]], target.tokens[target.offsets[m] + keys["t"]]


def text_partitions(facts: WordFacts, keys: np.ndarray) -> list[Partition]:
    """By the frequency of the rarer word, by punctuation, and by the length of the sentence pair; keys as of
    ``link_keys``."""
    bitext = facts.bitext
    source, target = linked_words(bitext, keys)
    rarer = np.minimum(facts.counts[0][source], facts.counts[1][target])
    marks = [punctuation_types(side.vocabulary) for side in (bitext.source, bitext.target)]
    longer = bitext.shapes.max(axis=1, initial=0)[keys["m"]]
    lengths = tuple(band_names(LENGTHS, 1))  # a side with a link is not empty
    return [
        Partition(
            "frequency of the rarer word", tuple(band_names(FREQUENCIES)), np.searchsorted(FREQUENCIES, rarer)
        ),
        Partition("punctuation", PUNCTUATION, marks[0][source].astype(np.int64) + marks[1][target]),
        Partition("words on the longer side", lengths, np.searchsorted(LENGTHS, longer)),
    ]


def probability_partition(probabilities: np.ndarray) -> Partition:
    """Links by their probability, float (K,), NaN where it is not known or the link is not proposed."""
    names = [f"{low / 10:.1f}\N{EN DASH}{(low + 1) / 10:.1f}" for low in range(10)]
    # 1 belongs to the last band, and 0.7 to the band that it begins, though ten times a float may be below 7
    band = np.clip(np.floor(np.nan_to_num(probabilities) * 10 + 1e-6), 0, 9).astype(np.int64)
    of_links = np.where(np.isnan(probabilities), len(names), band)
    return Partition("probability", (*names, NOT_PROPOSED), of_links, comparable=False)
