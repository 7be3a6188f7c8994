"""Kernels of the models whose parameters are a table of word pairs.

A sentence is a bag: each distinct word once, with how often it comes. Two words that repeat in a long line cost
what their distinct words cost, and an IBM model sees no more than that. Tuples of arrays that recur:
    bags = (words int32 (E,), counts float32 (E,), offsets int64 (M + 1,)): the distinct words of each sentence;
    index = (starts int64 (V_src + 1,), sentences int32 (E_src,), counts float32 (E_src,)): for each source word
        the sentences that have it and how often, in text order (an inverted index of the source bags);
    rows = (offsets int64 (V_src + 1,), columns int32 (K,), values float32 (K,)): for each source word the
        target words it meets and their numbers (CSR, columns rising);
    target = bags of the target side; an "entry" is a place in ``words``.

A sum always runs over source words in order of their id and over sentences in text order, whoever computes it:
so the result has the same bits however blocks are dealt to threads.
"""

from __future__ import annotations

import math

import numpy as np

from alignkit.kernels.jit import kernel

# No parameter falls below this: it changes nothing that float32 can see, keeps denominators positive, and keeps
# arithmetic out of denormal numbers, which are many times slower.
TINY = np.float32(1e-30)


@kernel
def count_distinct(low, high, tokens, offsets, stamp, sizes):
    """sizes[m] = number of distinct tokens of sentence m, low <= m < high; stamp int32 (V,) starts as -1."""
    for m in range(low, high):
        size = 0
        for k in range(offsets[m], offsets[m + 1]):
            if stamp[tokens[k]] != m:
                stamp[tokens[k]] = m
                size += 1
        sizes[m] = size


@kernel
def fill_bags(low, high, tokens, offsets, bags, entries, work):
    """The bags of sentences low <= m < high, in order of first appearance.

    Args:
        tokens, offsets: the corpus.
        bags: words and counts are filled; its offsets are given.
        entries: int32 (N,), filled with the entry of each token, counted from the start of its sentence's bag.
        work: (stamp int32 (V,), starts as -1; place int32 (V,)).
    """
    words, counts, bag_offsets = bags
    stamp, place = work
    for m in range(low, high):
        start = bag_offsets[m]
        size = 0
        for k in range(offsets[m], offsets[m + 1]):
            word = tokens[k]
            if stamp[word] != m:
                stamp[word] = m
                place[word] = size
                words[start + size] = word
                counts[start + size] = 0.0
                size += 1
            counts[start + place[word]] += 1.0
            entries[k] = place[word]


@kernel
def invert(bags, places, sentences, counts):
    """Counting sort of the entries of ``bags`` by word.

    Args:
        places: int64 (V,), where the next sentence of each word goes; starts as a copy of the index's starts.
        sentences int32 (E,), counts float32 (E,): filled.
    """
    words, word_counts, offsets = bags
    for m in range(len(offsets) - 1):
        for k in range(offsets[m], offsets[m + 1]):
            place = places[words[k]]
            sentences[place] = m
            counts[place] = word_counts[k]
            places[words[k]] = place + 1


@kernel
def first_not_below(sorted_values, low, high, bound):
    """The first place in sorted_values[low:high] with a value >= bound."""
    while low < high:
        middle = (low + high) // 2
        if sorted_values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def row_work(starts, sentences, lengths, work):
    """work int64 (V_src,): how many target entries each source word meets; lengths int64 (M,) of the bags."""
    for i in range(len(starts) - 1):
        total = 0
        for j in range(starts[i], starts[i + 1]):
            total += lengths[sentences[j]]
        work[i] = total


@kernel
def row_sizes(low, high, index, target, stamp, sizes):
    """sizes[i] = how many distinct target words source word i meets, for low <= i < high.

    ``stamp`` int32 (V_tgt,) starts as -1.
    """
    starts, sentences, _ = index
    words, _, offsets = target
    for i in range(low, high):
        count = 0
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            for k in range(offsets[m], offsets[m + 1]):
                if stamp[words[k]] != i:
                    stamp[words[k]] = i
                    count += 1
        sizes[i] = count


@kernel
def fill_rows(low, high, index, target, stamp, row_offsets, columns):
    """The distinct target words of each source word, rising, for low <= i < high; ``stamp`` starts as -1."""
    starts, sentences, _ = index
    words, _, offsets = target
    for i in range(low, high):
        place = row_offsets[i]
        size = row_offsets[i + 1] - place
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            for k in range(offsets[m], offsets[m + 1]):
                o = words[k]
                if stamp[o] != i:
                    stamp[o] = i
                    columns[place] = o
                    place += 1
        if size * 16 > len(stamp):  # a long row: reading it off the stamps is quicker than sorting it
            place = row_offsets[i]
            for o in range(len(stamp)):
                if stamp[o] == i:
                    columns[place] = o
                    place += 1
        else:
            columns[row_offsets[i] : row_offsets[i + 1]].sort()


@kernel
def add_denominators(low, high, index, rows, target, z, dense):
    """z[k] += sum over source words i of n_i * value[i, words_k], for the entries k of sentences low <= m < high.

    Every pair of the text must be in ``rows``. ``dense`` float32 (V_tgt,) is work space.
    """
    starts, sentences, counts = index
    row_offsets, columns, values = rows
    words, _, offsets = target
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(row_offsets[i], row_offsets[i + 1]):
            dense[columns[k]] = values[k]
        for j in range(a, b):
            m = sentences[j]
            n = counts[j]
            for k in range(offsets[m], offsets[m + 1]):
                z[k] += n * dense[words[k]]


@kernel
def weigh(low, high, target, places, z, likelihood):
    """likelihood[m] = sum over entries of n log(z / places_m), then z becomes n / z, for low <= m < high.

    n is how often the word comes. places float64 (M,): how many source positions, NULL included, share the
    choice. A word that nothing can explain (an empty source without NULL) counts for nothing.
    """
    _, word_counts, offsets = target
    for m in range(low, high):
        total = 0.0
        for k in range(offsets[m], offsets[m + 1]):
            if z[k] > 0:
                total += word_counts[k] * math.log(z[k] / places[m])
                z[k] = word_counts[k] / z[k]
        likelihood[m] = total


@kernel
def add_weights(low, high, index, rows, target, weights, sums):
    """values[i, o] *= sum over the sentences of i of n_i * weights[k], k the entry of o there.

    For rows low <= i < high; not normalised. ``sums`` float64 (V_tgt,) starts as zeros and is left so.
    """
    starts, sentences, counts = index
    row_offsets, columns, values = rows
    words, _, offsets = target
    for i in range(low, high):
        for j in range(starts[i], starts[i + 1]):
            m = sentences[j]
            n = counts[j]
            for k in range(offsets[m], offsets[m + 1]):
                sums[words[k]] += n * weights[k]
        for k in range(row_offsets[i], row_offsets[i + 1]):
            values[k] *= sums[columns[k]]
            sums[columns[k]] = 0.0


@kernel
def normalise_table(low, high, row_offsets, values):
    """Divides the rows low <= i < high by their sums; no value falls below ``TINY``."""
    for i in range(low, high):
        total = 0.0
        for k in range(row_offsets[i], row_offsets[i + 1]):
            total += values[k]
        for k in range(row_offsets[i], row_offsets[i + 1]):
            values[k] = max(np.float32(values[k] / total), TINY)


@kernel
def fill_scores(low, high, index, rows, target, lengths, out, dense):
    """out[m][t, l] = value[x_l, y_t], 0 for pairs the table lacks, for sentences low <= m < high.

    Args:
        index: as above, but of all source tokens, with their positions int32 where the counts would be.
        target: (tokens int32 (N_tgt,), offsets int64 (M + 1,)), token by token.
        rows: (starts int64, ends int64, columns, values), a row for each word of the index; an unknown word's
            row is empty.
        lengths: int64 (M,), source lengths.
        out: (values float32, offsets int64 (M + 1,)), the matrices one after another.
        dense: float32 (V_tgt + 1,), zeros, left so; an unknown target word has id V_tgt.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    tokens, offsets = target
    scores, score_offsets = out
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = values[k]
        for j in range(a, b):
            m = sentences[j]
            place = score_offsets[m] + positions[j]
            for k in range(offsets[m], offsets[m + 1]):
                scores[place] = dense[tokens[k]]
                place += lengths[m]
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0.0


@kernel
def normalise_scores(low, high, target, lengths, null_values, has_null, out):
    """Divides each row by its sum plus null_values[y_t]; a row without any evidence becomes uniform.

    For sentences low <= m < high. null_values float32 (V_tgt + 1,), zeros without NULL; has_null 0 or 1, NULL's
    share in a row without evidence. ``target`` and ``out`` as in :func:`fill_scores`.
    """
    tokens, offsets = target
    scores, score_offsets = out
    for m in range(low, high):
        place = score_offsets[m]
        for k in range(offsets[m], offsets[m + 1]):
            total = float(null_values[tokens[k]])
            for j in range(place, place + lengths[m]):
                total += scores[j]
            for j in range(place, place + lengths[m]):
                scores[j] = scores[j] / total if total > 0.0 else 1.0 / (lengths[m] + has_null)
            place += lengths[m]


@kernel
def best_sources(low, high, index, rows, target, best, dense):
    """For each target entry of sentences low <= m < high the source position of the largest value.

    Args:
        index: as above, with the first position int32 of each word in its sentence where the counts would be.
        rows, dense: as in :func:`fill_scores`.
        best: (values float32 (E_tgt,), places int32 (E_tgt,)): the values start as what must be exceeded or
            equalled (NULL's, or 0), the places as -1; a tie goes to the leftmost source word, and a source word
            wins a tie with the start, unless that is 0.
    """
    starts, sentences, positions = index
    row_starts, row_ends, columns, values = rows
    words, _, offsets = target
    best_values, best_places = best
    for i in range(len(starts) - 1):
        a = first_not_below(sentences, starts[i], starts[i + 1], low)
        b = first_not_below(sentences, a, starts[i + 1], high)
        if a == b:
            continue
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = values[k]
        for j in range(a, b):
            m = sentences[j]
            position = positions[j]
            for k in range(offsets[m], offsets[m + 1]):
                value = dense[words[k]]
                if value > best_values[k] or (
                    value == best_values[k] and value > 0.0 and (best_places[k] < 0 or position < best_places[k])
                ):
                    best_values[k] = value
                    best_places[k] = position
        for k in range(row_starts[i], row_ends[i]):
            dense[columns[k]] = 0.0


@kernel
def links_of_places(places, target_offsets, source_lengths, link_offsets, pairs, counts):
    """Links (s, t), sorted, from the best source position of each target token (-1: none).

    link_offsets int64 (M + 1,) are given; ``counts`` int64 (longest source + 1,) starts as zeros.
    """
    for m in range(len(target_offsets) - 1):
        width = source_lengths[m]
        for k in range(target_offsets[m], target_offsets[m + 1]):
            if places[k] >= 0:
                counts[places[k] + 1] += 1
        for s in range(width):
            counts[s + 1] += counts[s]
        for k in range(target_offsets[m], target_offsets[m + 1]):
            s = places[k]
            if s >= 0:
                place = link_offsets[m] + counts[s]
                counts[s] += 1
                pairs[place, 0] = s
                pairs[place, 1] = k - target_offsets[m]
        for s in range(width + 1):
            counts[s] = 0
