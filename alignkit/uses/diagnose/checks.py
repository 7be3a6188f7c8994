"""Checks of an alignment that need no gold links: each counts what is suspicious in every sentence pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.classical.lexicon import LinkedWords
from alignkit.metrics.aer import link_keys, linked_words
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import punctuation_types
from alignkit.uses.diagnose.evidence import CALIBRATION, Evidence

#: A word with at least this number of links has many.
MANY_LINKS = 5
#: A pair is suspicious where it differs from what is usual by more than this number of standard deviations.
DEVIATIONS = 4.0
#: Fewer words than this on either side say nothing about the pair.
FEWEST_WORDS = 4
# The standard deviation of a normal distribution, in median absolute deviations.
_FROM_MEDIAN = 1.4826
# The least standard deviation of the share of linked information, for texts that are nearly alike in it.
_LEAST_DEVIATION = 0.02


@dataclass(frozen=True, eq=False)
class Check:
    """What one check found.

    Attributes:
        name: what is suspicious, in words.
        counts: int64 (M,), how often it is so in each sentence pair.
        of: among how many in all: links, words or pairs.
    """

    name: str
    counts: np.ndarray
    of: int

    def lines(self, most: int) -> list[int]:
        """The line numbers, from 1, of the pairs where it is so most often; at most this many."""
        order = np.argsort(-self.counts, kind="stable")[:most]
        return [int(m) + 1 for m in order if self.counts[m] > 0]


@dataclass(frozen=True, eq=False)
class LinkedText(LinkedWords):
    """An alignment and its text, M pairs of words.

    Attributes:
        evidence: of all links that there could be.
    """

    evidence: Evidence

    @property
    def sides(self) -> tuple[Corpus, Corpus]:
        """Source and target."""
        return self.bitext.source, self.bitext.target

    @cached_property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """bool (N_src,) and (N_tgt,): whether each token is a word; the others are punctuation."""
        source, target = (~punctuation_types(side.vocabulary)[side.tokens] for side in self.sides)
        return source, target

    @cached_property
    def keys(self) -> np.ndarray:
        """The keys of the links, see :func:`alignkit.metrics.aer.link_keys`."""
        return link_keys(self.links)

    @cached_property
    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        """int64 (N_src,) and (N_tgt,): the number of links of each token."""
        sides = zip(self.sides, self.places, strict=True)
        source, target = (np.bincount(places, minlength=len(side.tokens)) for side, places in sides)
        return source, target

    def per_pair(self, sentences: np.ndarray) -> np.ndarray:
        """int64 (M,): how often each pair is among these sentence numbers."""
        return np.bincount(sentences, minlength=len(self.bitext))

    def tokens_per_pair(self, chosen: Sequence[np.ndarray]) -> np.ndarray:
        """int64 (M,): how many tokens of each pair are chosen, given bool (N_src,) and (N_tgt,)."""
        sides = zip(self.sides, chosen, strict=True)
        pairs = [np.repeat(np.arange(len(side)), side.lengths)[mask] for side, mask in sides]
        return self.per_pair(np.concatenate(pairs))


def run_checks(text: LinkedText) -> list[Check]:
    """All checks, of links first and then of whole pairs."""
    bitext, evidence, keys = text.bitext, text.evidence, text.keys
    count, places = len(bitext), evidence.places(text.links)
    right = CALIBRATION.right(evidence.probabilities.values[places])
    unanimous = np.flatnonzero(evidence.unanimous)
    missing = unanimous[~np.isin(unanimous, places)]
    source_words, target_words = (mask[ends] for mask, ends in zip(text.words, text.places, strict=True))

    # Equal numbers without a link between them; and equal words of which neither has any link.
    unlinked_numbers, unlinked_words, number_count, word_count = np.zeros(count, int), np.zeros(count, int), 0, 0
    linked = set(keys.tolist())
    for m, s, t, is_number in equal_tokens(bitext):
        if is_number:
            number_count += 1
            unlinked_numbers[m] += (m, s, t) not in linked
        else:
            word_count += 1
            x, y = bitext.source.offsets[m] + s, bitext.target.offsets[m] + t
            unlinked_words[m] += text.degrees[0][x] == 0 and text.degrees[1][y] == 0

    many = text.tokens_per_pair([each >= MANY_LINKS for each in text.degrees])
    linked_count = sum(int((each > 0).sum()) for each in text.degrees)
    filled = (bitext.shapes > 0).all(axis=1)
    without = filled & (np.diff(text.links.offsets) == 0)
    deviation = length_deviations(bitext)
    unlikely = np.abs(np.nan_to_num(deviation)) > DEVIATIONS

    # Pairs whose words the views link far less than those of other pairs.
    share = linked_information(text)
    usable = ~np.isnan(share) & (bitext.shapes >= FEWEST_WORDS).all(axis=1)
    low = np.zeros(count, bool)
    if usable.any():
        middle = float(np.median(share[usable]))
        spread = _FROM_MEDIAN * float(np.median(np.abs(share[usable] - middle)))
        low = usable & (np.nan_to_num(share) < middle - DEVIATIONS * max(spread, _LEAST_DEVIATION))
    rows = [
        ("links that are more likely wrong than right", text.per_pair(keys["m"][right < 0.5]), len(keys)),
        ("missing links that all views find", text.per_pair(evidence.sentences(missing)), len(unanimous)),
        ("links of punctuation with words", text.per_pair(keys["m"][source_words != target_words]), len(keys)),
        ("equal numbers that are not linked", unlinked_numbers, number_count),
        ("equal words that are both without links", unlinked_words, word_count),
        (f"words with {MANY_LINKS} links or more", many, linked_count),
        ("pairs without a link", without, int(filled.sum())),
        ("pairs whose lengths do not match", unlikely, int((~np.isnan(deviation)).sum())),
        ("pairs that may be no translations", low, int(usable.sum())),
    ]
    return [Check(name, counts.astype(np.int64), of) for name, counts, of in rows]


def equal_tokens(bitext: Bitext) -> Iterator[tuple[int, int, int, bool]]:
    """(pair, source position, target position, whether it has a digit) of tokens that are equal but for case, if
    each is alone of its kind in its sentence; punctuation is left out."""
    types: dict[str, int] = {}
    forms, kinds = [], []
    for side in (bitext.source, bitext.target):
        folded = [word.casefold() for word in side.vocabulary]
        form = np.array([types.setdefault(word, len(types)) for word in folded], np.int64)
        form[punctuation_types(side.vocabulary)] = -1
        forms.append(form[side.tokens])
        kinds.append(np.array([any(letter.isdigit() for letter in word) for word in folded], bool))
    for m in range(len(bitext)):
        places = []
        for side, form in zip((bitext.source, bitext.target), forms, strict=True):
            own = form[side.offsets[m] : side.offsets[m + 1]]
            found, first, counts = np.unique(own, return_index=True, return_counts=True)
            alone = (counts == 1) & (found >= 0)
            places.append(dict(zip(found[alone].tolist(), first[alone].tolist(), strict=True)))
        for form_id in places[0].keys() & places[1].keys():
            s, t = places[0][form_id], places[1][form_id]
            yield m, s, t, bool(kinds[0][bitext.source[m][s]])


def length_deviations(bitext: Bitext) -> np.ndarray:
    """float64 (M,): by how many standard deviations the target is too long for its source; NaN if blank.

    After Gale and Church (1993): the variance of the length is in proportion to the length. It is estimated from
    the median, which wrong pairs hardly move.
    """
    T, L = bitext.shapes.T.astype(np.float64)
    filled = (T > 0) & (L > 0)
    found = np.full(len(T), np.nan)
    if filled.any():
        T, L = T[filled], L[filled]
        ratio = T.sum() / L.sum()
        difference = (T - ratio * L) / np.sqrt((T + ratio * L) / 2)
        found[filled] = difference / max(_FROM_MEDIAN * float(np.median(np.abs(difference))), 0.25)
    return found


def linked_information(text: LinkedText) -> np.ndarray:
    """float64 (M,): the share of the information of each pair's words that the views link; NaN without words.

    A word's information is -log of its share of all tokens, so that rare words count for more: what is no
    translation has them without a link.
    """
    count = len(text.bitext)
    linked, whole = np.zeros(count), np.zeros(count)
    for side, chances, are_words in zip(text.sides, text.evidence.unlinked, text.words, strict=True):
        counts = np.bincount(side.tokens, minlength=len(side.vocabulary))
        information = -np.log(counts[side.tokens] / max(len(side.tokens), 1)) * are_words
        pairs = np.repeat(np.arange(len(side)), side.lengths)
        linked += np.bincount(pairs, information * (1 - chances), len(side))
        whole += np.bincount(pairs, information, len(side))
    return np.divide(linked, whole, out=np.full(count, np.nan), where=whole > 0)


def likeness_of_linked_words(bitext: Bitext, keys: np.ndarray) -> np.ndarray:
    """int64 (K,): 0 for links of two numbers, 1 of other equal words, 2 of others; keys as of ``link_keys``."""
    sides = bitext.source, bitext.target
    words = [np.array([word.casefold() for word in side.vocabulary], object) for side in sides]
    digits = [np.array([any(letter.isdigit() for letter in word) for word in each], bool) for each in words]
    source, target = linked_words(bitext, keys)
    equal, numbers = words[0][source] == words[1][target], digits[0][source] & digits[1][target]
    return np.where(numbers, 0, np.where(equal, 1, 2)).astype(np.int64)
