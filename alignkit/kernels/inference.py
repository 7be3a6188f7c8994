"""Links of a text by fitted hidden Markov models: the emissions of each sentence pair, and its E-steps.

Words of the text have the numbers that they have in the model, V in all, and new words the numbers V, V + 1, ...;
arrays by word that the model brings have one more element, for all new ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from alignkit.kernels.compile import allocating_kernel, kernel
from alignkit.kernels.expected_links import PairPlaces
from alignkit.kernels.hmm_e_step import (
    DirectionArrays,
    EStepOptions,
    Likeness,
    LinkArrays,
    OpinionPool,
    TextArrays,
    block_space,
    expect_block,
    longest_pair,
)
from alignkit.kernels.hmm_rows import ONE, TINY, ZERO
from alignkit.kernels.inverted_index import first_not_below
from alignkit.kernels.spelling import (
    ALIKE,
    IMBALANCE,
    LEAST_RATIO,
    LONGEST,
    LONGEST_WORD,
    RARE,
    SHORTEST_WORD,
    SPAN,
    UNSURE,
    Edits,
    Letters,
    log_ratio,
    similarity,
)
from alignkit.kernels.translation_table import UNSEEN

#: A sentence pair with this number of elements (t, l) or more is taken to be one of the model's text if all its
#: word pairs met there: in a pair of another text some did not, unless it is short.
LEAST_ELEMENTS = 20


class KnownPairs(NamedTuple):
    """What a model knows of each pair of words that met in its text, by source word, K in all."""

    offsets: np.ndarray  # int64 (V_src + 1,), where each row starts
    columns: np.ndarray  # int32 (K,), target words, rising in each row
    forward: np.ndarray  # float32 (K,), p(y|x)
    reverse: np.ndarray  # float32 (K,), p(x|y)
    counts: np.ndarray  # float32 (K,), expected links


class Words(NamedTuple):
    """The words of one side: the model's V, and those of the text that it does not know."""

    floor: np.ndarray  # float32 (V + 1,), p(y|x) of any other y where these are the states
    alike: np.ndarray  # float32 (V + 1,), the same if y is spelled like x
    totals: np.ndarray  # float64 (V + 1,), expected links
    class_totals: np.ndarray  # float64 (C + 1,), the sum of these in each class; the last is 0
    classes: np.ndarray  # int32 (A, V), the classes of each word of the model
    new_classes: np.ndarray  # int32 (A, N), of each new word, C if the model has none such
    letters: Letters  # of the words of the model
    new_letters: Letters  # of the new words


class ClassTable(NamedTuple):
    """Expected links between classes of words, by source class."""

    offsets: np.ndarray  # int64 (C_src + 1,)
    columns: np.ndarray  # int32
    counts: np.ndarray  # float32


class NewPairs(NamedTuple):
    """What becomes of pairs of words that the model does not know."""

    has_counts: bool  # they get pseudo-counts; else p(y|x) by their spelling alone, or the floor
    is_spelled: bool  # words are compared by their spelling
    is_learned: bool  # and by the letters that correspond
    dirichlet: float  # the pseudo-count of each pair
    spelling: float  # that of pairs that are spelled alike
    back_off: float  # for each kind of classes, the most pseudo-counts that a row gets from them
    few: float  # added to what the other words of a class sum to
    own: float  # the share of a pair's own links that is taken out of the counts that judge it
    letters: int  # of the alphabet that edits are of, with one for all others


class Spellings(NamedTuple):
    """The letters that correspond."""

    edits: Edits  # their probabilities
    chances: np.ndarray  # float64 (2, A), of a letter in a word of either side


class Space(NamedTuple):
    """Work space for a sentence pair."""

    masks: np.ndarray  # uint64, one for each letter, zeros
    table: np.ndarray  # float64 (W, W), of two words' letters
    words: np.ndarray  # int32 (2, LONGEST_WORD), letters within the alphabet of edits
    factors: np.ndarray  # float32 (2, A, N), of the tokens of both sides, for each kind of classes
    shares: np.ndarray  # float32 (2, A, N)


@kernel
def letter_bounds(word, words):
    """(True for a new word, where its letters start, where they end)."""
    known = len(words.floor) - 1
    if word < known:
        return False, words.letters.offsets[word], words.letters.offsets[word + 1]
    return True, words.new_letters.offsets[word - known], words.new_letters.offsets[word - known + 1]


@kernel
def class_of(word, kind, words):
    """The class of a word among those of a kind."""
    known = len(words.floor) - 1
    return words.classes[kind, word] if word < known else words.new_classes[kind, word - known]


@kernel
def fill_factors(tokens, words, new, factors, shares):
    """Of each token: the back-off / what the rest of its class sums to, and its share in its class."""
    known = len(words.floor) - 1
    for kind in range(len(words.classes)):
        for j in range(len(tokens)):
            own = words.totals[min(tokens[j], known)]
            in_class = words.class_totals[class_of(tokens[j], kind, words)]
            frequency = max(own, 1.0)
            unseen = 1.0 if tokens[j] >= known else 0.0
            shares[kind, j] = frequency / max(in_class + unseen, frequency)
            factors[kind, j] = new.back_off / (max(in_class - own, 0.0) + new.few)


@kernel
def learned_likeness(x, y, seen_x, seen_y, new, spellings, space):
    """How sure it is that two words are a transliteration, from 0 to 1."""
    fewer, more = min(seen_x, seen_y), max(seen_x, seen_y)
    longer = max(len(x), len(y))
    if fewer > RARE or more > IMBALANCE * fewer:
        return ZERO
    if min(len(x), len(y)) < SHORTEST_WORD or longer > LONGEST_WORD:
        return ZERO
    last = np.int32(new.letters - 1)
    first, second = space.words[0, : len(x)], space.words[1, : len(y)]
    for k in range(len(x)):
        first[k] = min(x[k], last)
    for k in range(len(y)):
        second[k] = min(y[k], last)
    ratio = log_ratio(first, second, spellings.chances, spellings.edits, space.table)
    least = max(LEAST_RATIO, float(longer))
    chance = 1.0 / (1.0 + math.exp(min(least - ratio, 50.0)))
    return np.float32(chance) if chance > UNSURE else ZERO


@kernel
def set_masks(letters, masks, are_set):
    """Marks the positions of a word's letters, or takes the marks away."""
    for j in range(min(len(letters), LONGEST)):
        masks[letters[j]] = masks[letters[j]] | np.uint64(1) << np.uint64(j) if are_set else np.uint64(0)


@kernel
def look_up(x, y, table, source, target, emissions):
    """emissions[:, 1] = p(y|x), [:, 2] = p(x|y), [:, 0] = the expected links of each element of a sentence pair, 0
    of pairs that the model does not know; returns the number of these."""
    L, unknown, known = len(x), 0, len(source.floor) - 1
    for j in range(L):
        start, end = (table.offsets[x[j]], table.offsets[x[j] + 1]) if x[j] < known else (np.int64(0), np.int64(0))
        place = j
        for t in range(len(y)):
            k = first_not_below(table.columns, start, end, y[t])
            found = k < end and table.columns[k] == y[t]
            emissions[place, 0] = table.counts[k] if found else ZERO
            emissions[place, 1] = table.forward[k] if found else ZERO
            emissions[place, 2] = table.reverse[k] if found else ZERO
            unknown += emissions[place, 2] == ZERO
            place += L
    return unknown


@kernel
def raise_to_floor(x, y, source, target, emissions):
    """No emission is less than the floor of its state, nor than ``UNSEEN``."""
    L, least = len(x), np.float32(UNSEEN)
    for t in range(len(y)):
        of_target = max(target.floor[min(y[t], len(target.floor) - 1)], least)
        for j in range(L):
            place = t * L + j
            of_source = max(source.floor[min(x[j], len(source.floor) - 1)], least)
            emissions[place, 1] = max(emissions[place, 1], of_source)
            emissions[place, 2] = max(emissions[place, 2], of_target)


@kernel
def spell(x, y, source, target, new, spellings, space, emissions):
    """emissions[:, 0] = how alike the words of each element that the model does not know are, 0 of the others."""
    L = len(x)
    for j in range(L):
        is_new, start, end = letter_bounds(x[j], source)
        letters = source.new_letters.ids if is_new else source.letters.ids
        word = letters[start:end]
        set_masks(word, space.masks, True)
        seen = source.totals[min(x[j], len(source.floor) - 1)] + 1.0 if new.is_learned else 0.0
        for t in range(len(y)):
            place = t * L + j
            alike = ZERO
            if emissions[place, 2] == ZERO:
                is_new, start, end = letter_bounds(y[t], target)
                letters = target.new_letters.ids if is_new else target.letters.ids
                other = letters[start:end]
                same = similarity(min(len(word), LONGEST), other[:LONGEST], space.masks)
                alike = max((same - ALIKE) / SPAN, ZERO)
                if new.is_learned:
                    seen_other = target.totals[min(y[t], len(target.floor) - 1)] + 1.0
                    alike = max(alike, learned_likeness(word, other, seen, seen_other, new, spellings, space))
            emissions[place, 0] = alike
        set_masks(word, space.masks, False)


@kernel
def emissions_by_spelling(x, y, source, target, emissions):
    """Pairs of words get a share of what identical ones have, as much as they are alike (``emissions[:, 0]``)."""
    L = len(x)
    for t in range(len(y)):
        for j in range(L):
            alike = emissions[t * L + j, 0]
            if alike > ZERO:
                emissions[t * L + j, 1] = alike * source.alike[min(x[j], len(source.floor) - 1)]
                emissions[t * L + j, 2] = alike * target.alike[min(y[t], len(target.floor) - 1)]


@kernel
def emissions_by_counts(x, y, source, target, classes, new, space, are_new, emissions):
    """p(y|x) and p(x|y) of pairs that the model does not know, by pseudo-counts as in a fit: that of all pairs,
    of their spelling (``emissions[:, 0]``), and of the other pairs of the same classes."""
    L, factors, shares = len(x), space.factors, space.shares
    fill_factors(x, source, new, factors[0], shares[0])
    fill_factors(y, target, new, factors[1], shares[1])
    for j in range(L):
        of_source = np.float32(source.totals[min(x[j], len(source.floor) - 1)] + 1.0)
        for t in range(len(y)):
            place = t * L + j
            if not are_new[place]:
                continue
            forward = np.float32(new.dirichlet)
            if new.is_spelled:
                forward += np.float32(new.spelling) * emissions[place, 0]
            reverse = forward
            for kind in range(len(source.classes)):
                a, b = class_of(x[j], kind, source), class_of(y[t], kind, target)
                if a == len(source.class_totals) - 1 or b == len(target.class_totals) - 1:
                    continue
                end = classes.offsets[a + 1]
                k = first_not_below(classes.columns, classes.offsets[a], end, b)
                if k < end and classes.columns[k] == b:
                    count = classes.counts[k]
                    forward += count * (factors[0, kind, j] * shares[1, kind, t])
                    reverse += count * (shares[0, kind, j] * factors[1, kind, t])
            of_target = np.float32(target.totals[min(y[t], len(target.floor) - 1)] + 1.0)
            emissions[place, 1] = min(forward / of_source, ONE)
            emissions[place, 2] = min(reverse / of_target, ONE)


@kernel
def without_own(probability, floor, count, new):
    """p(y|x) without what the pair's own link contributed to it: (count - own + pseudo-count) / (total - own)."""
    own = new.own * min(float(count), 1.0)
    total = new.dirichlet / max(float(floor), float(TINY))  # the floor is the pseudo-count / total
    return np.float32(max(probability * total - own, float(TINY)) / max(total - own, float(TINY)))


@kernel
def fill_emissions(x, y, model, new, space, are_new, emissions):
    """The emissions of one sentence pair.

    Args:
        x, y: int32 (L,) and (T,), the numbers of its words.
        model: (:class:`KnownPairs`, :class:`Words` of both sides, :class:`ClassTable`, :class:`Spellings`).
        new: :class:`NewPairs`.
        space: :class:`Space`; are_new: bool (T * L,), work space.
        emissions: float32 (T * L, 3), of which columns 1 and 2 become p(y|x) and p(x|y).
    """
    table, source, target, classes, spellings = model
    L, size = len(x), len(x) * len(y)
    unknown = look_up(x, y, table, source, target, emissions)
    if not new.has_counts:
        if new.is_spelled and unknown > 0:
            spell(x, y, source, target, new, spellings, space, emissions)
            emissions_by_spelling(x, y, source, target, emissions)
        raise_to_floor(x, y, source, target, emissions)
    elif unknown > 0:
        for place in range(size):
            are_new[place] = emissions[place, 2] == ZERO
        if new.is_spelled:
            spell(x, y, source, target, new, spellings, space, emissions)
        raise_to_floor(x, y, source, target, emissions)
        emissions_by_counts(x, y, source, target, classes, new, space, are_new, emissions)
    else:
        raise_to_floor(x, y, source, target, emissions)
        if new.own > 0.0 and size >= LEAST_ELEMENTS:
            for t in range(len(y)):
                for j in range(L):
                    row = emissions[t * L + j]
                    row[1] = without_own(row[1], source.floor[x[j]], row[0], new)
                    row[2] = without_own(row[2], target.floor[y[t]], row[0], new)
    for place in range(size):
        emissions[place, 0] = ZERO  # for the E-step, all is pseudo-counts


@allocating_kernel
def pair_space(most, kinds, letters):
    """:class:`Space` for sentences of at most ``most`` tokens, with so many kinds of classes, and letters."""
    return Space(
        np.zeros(letters, np.uint64),
        np.empty((LONGEST_WORD + 1, LONGEST_WORD + 1)),
        np.empty((2, LONGEST_WORD), np.int32),
        np.empty((2, kinds, most), np.float32),
        np.empty((2, kinds, most), np.float32),
    )


@allocating_kernel  # it returns arrays, whose references its caller counts
def with_own(direction, null_links, fertility):
    """:class:`.hmm_e_step.DirectionArrays` with a place for NULL's links of its own, for one thread, and these
    factors of fertility."""
    return DirectionArrays(
        direction.totals,
        direction.null,
        direction.null_total,
        null_links,
        fertility,
        direction.transition,
        direction.initial,
        direction.final,
        direction.null_probability,
        direction.leave_one_out,
    )


@allocating_kernel
def find_links(low, high, text, offsets, model, new, letters, directions, rounds, pool, links, likelihood):
    """The links of pairs low <= m < high.

    Args:
        text: :class:`.hmm_e_step.TextArrays`; offsets: int64 (M + 1,), where each (T, L) matrix starts.
        model, new: as of :func:`fill_emissions`; letters: how many there are.
        directions: the parameters of both (:class:`.hmm_e_step.DirectionArrays`); rounds: of E-steps, of which the
            first is without fertility; pool: :class:`.hmm_e_step.OpinionPool` of the last.
        links: float32 (P,), filled.
        likelihood: float64 (M,), filled.
    """
    x, x_offsets, y, y_offsets, copies = text
    most, size = longest_pair(low, high, text)
    pairs, are_new = pair_space(most, len(model[1].classes), letters), np.empty(size, np.bool_)
    emissions, bounds = np.empty((size, 3), np.float32), np.zeros((3, 2), np.int64)
    space, known = block_space(directions, most, size), np.empty((2, most), np.int32)
    null_links, plain = np.zeros((2, most), np.float32), np.ones((1, 1), np.float32)
    places = PairPlaces(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 0), np.int64))
    likeness = Likeness(np.empty(0, np.uint8), np.empty(0, np.float32))
    for m in range(low, high):
        own_x, own_y = x[x_offsets[m] : x_offsets[m + 1]], y[y_offsets[m] : y_offsets[m + 1]]
        L, T = len(own_x), len(own_y)
        likelihood[m] = 0.0
        if L == 0 or T == 0:
            continue  # the other side may be longer than all that there is space for
        fill_emissions(own_x, own_y, model, new, pairs, are_new, emissions)
        for j in range(L):
            known[0, j] = min(own_x[j], len(model[1].floor) - 1)
        for t in range(T):
            known[1, t] = min(own_y[t], len(model[2].floor) - 1)
        bounds[0, 1], bounds[1, 1], bounds[2, 1] = L, T, L * T
        own = TextArrays(known[0, :L], bounds[0], known[1, :T], bounds[1], copies[m : m + 1])
        elements = links[offsets[m] : offsets[m + 1]].view(np.uint32)
        elements[:] = 0
        arrays = LinkArrays(bounds[2], places, emissions, elements, likeness)
        for n in range(rounds):
            is_last = n == rounds - 1
            options = EStepOptions(is_last, 0.0, 1)
            forward = with_own(directions[0], null_links[0], directions[0].fertility if n > 0 else plain)
            reverse = with_own(directions[1], null_links[1], directions[1].fertility if n > 0 else plain)
            chosen = pool if is_last or pool.forward == 0 or pool.reverse == 0 else OpinionPool(0.5, 0.5, False)
            expect_block(0, 1, own, arrays, (forward, reverse), chosen, options, space, likelihood[m : m + 1])
