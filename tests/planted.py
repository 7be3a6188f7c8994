"""Texts whose right answer is known, and random texts with everything that goes wrong."""

from __future__ import annotations

import hashlib
import random

import numpy as np

from alignkit.kernels.expected_links import unpack_links
from alignkit.kernels.inference import fill_emissions, pair_space
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


def random_pairs(seed, pairs=60, source_types=12, target_types=15, longest=9):
    """Random sentence pairs with repeated words, hapaxes, empty sides and one-token sentences."""
    draw = random.Random(seed)

    def sentence(letter, types):
        length = draw.choice([0, 1, *range(2, longest + 1)])
        return [f"{letter}{int(types * draw.random() ** 2)}" for _ in range(length)]

    text = [(sentence("s", source_types), sentence("t", target_types)) for _ in range(pairs)]
    text += [([], []), ([], ["t0"]), (["s0"], []), (["s0"], ["t0"]), (["s1"] * 4, ["t1"] * 3)]
    text += [(["hapax-s", "s2"], ["t2", "hapax-t", "t2"])]
    draw.shuffle(text)
    return text


def bitext_of(pairs):
    """The bitext of these (source tokens, target tokens)."""
    return Bitext.from_sentences([x for x, _ in pairs], [y for _, y in pairs])


def permuted_copy(seed, pairs=400, types=40, longest=7):
    """(pairs, links): every target sentence is the source's words, translated one by one and shuffled.

    The lexicon is the identity (s17 is t17), so the links are known exactly.
    """
    draw = random.Random(seed)
    text, links = [], []
    for _ in range(pairs):
        words = draw.sample(range(types), draw.randint(1, longest))
        order = draw.sample(range(len(words)), len(words))
        text.append(([f"s{w}" for w in words], [f"t{words[s]}" for s in order]))
        links.append(sorted((s, t) for t, s in enumerate(order)))
    return text, links


def unpacked_links(elements):
    """float32: the expected links of elements uint32 (:mod:`alignkit.kernels.expected_links`)."""
    links = np.empty(len(elements), np.float32)
    unpack_links(elements, links.view(np.uint32))
    return links


def expected_links(estimation):
    """(T, L) for each pair: the expected links of an HMMEstimation between two iterations."""
    return Scores(unpacked_links(estimation.links.elements), estimation.links.offsets, estimation.bitext.shapes)


def random_scores(seed, pairs=30, longest=45, levels=0):
    """Two Scores of the same random shapes; with ``levels`` the values are few, so that ties are many."""
    draw = random.Random(seed)
    shapes = [(draw.randint(0, 6), draw.randint(0, longest)) for _ in range(pairs)]

    def matrix(rows, columns):
        values = [float(draw.randrange(levels)) if levels else draw.random() for _ in range(rows * columns)]
        return np.array(values, np.float32).reshape(rows, columns)

    return [Scores.from_matrices(matrix(*shape) for shape in shapes) for _ in range(2)]


def hmm_of_one_pair(emission, null, transition, initial, p0, fertility=None, final=None, **options):
    """(HMM, bitext of one pair): L different source words, T different target words, and any parameters.

    Args:
        emission: (T, L), p(y_t | x_l); null: (T,), p(y_t | NULL), none below 1e-9.
        transition, initial: weights of jumps -100..100 and of first positions 0..100.
        fertility: (L, F), factors for one more link; none by default.
        final: weights of last positions 0..100 from the end; all 1 by default.
    """
    from alignkit.classical.cooccurrence import PairTable
    from alignkit.classical.hmm.hmm import HMM
    from alignkit.classical.hmm.model import HMMParameters

    T, L = emission.shape
    values = emission.T.astype(np.float32).ravel()
    columns = np.tile(np.arange(T, dtype=np.int32), L)
    table = PairTable(np.arange(L + 1, dtype=np.int64) * T, columns, values, T)
    fertility = np.ones((L, 1), np.float32) if fertility is None else fertility.astype(np.float32)
    final = np.ones(len(initial)) if final is None else final
    arrays = [array.astype(np.float32) for array in (null, fertility, transition, initial, final)]
    unseen = (np.zeros(size, np.float32) for size in (L, L + 1))
    parameters = HMMParameters(values, *unseen, *arrays, p0)
    bitext = bitext_of([([f"x{j}" for j in range(L)], [f"y{t}" for t in range(T)])])
    return HMM(bitext.source.vocabulary, bitext.target.vocabulary, table, parameters, **options), bitext


def inflected_pairs(seed, pairs, stems=60):
    """(pairs, links): words are a stem and one of nine endings, translated by both, in order but for a swap."""
    draw = random.Random(seed)
    text, links = [], []
    for _ in range(pairs):
        words = [(draw.randrange(stems), draw.randrange(9)) for _ in range(draw.randint(3, 9))]
        order = list(range(len(words)))
        k = draw.randrange(len(words) - 1)
        order[k : k + 2] = order[k + 1], order[k]
        source = [f"{chr(97 + stem % 26)}{stem:02d}q{end}" for stem, end in words]
        text.append((source, [f"{chr(97 + words[s][0] * 7 % 26)}{words[s][0]:02d}z{words[s][1]}" for s in order]))
        links.append(sorted((s, t) for t, s in enumerate(order)))
    return text, links


def phrase_pairs(seed, pairs=150):
    """Each target word is a phrase of two source words, which are in three phrases each, in another order.

    Returns:
        (pairs; the planted links of each, (s, t)).
    """
    draw = random.Random(seed)
    phrases = [(f"s{n}", f"s{(n + step) % 16}") for n in range(16) for step in (1, 5, 6)][::2]
    text, planted = [], []
    for _ in range(pairs):
        chosen, order = [draw.choice(phrases) for _ in range(6)], draw.sample(range(6), 6)
        source = [word for phrase in chosen for word in phrase]
        text.append((source, [scrambled(" ".join(chosen[k])) for k in order]))
        planted.append([(s, order.index(s // 2)) for s in range(12)])
    return text, planted


def error_rate(links, planted):
    gold = Links.from_lists(planted)
    return evaluate(GoldLinks(gold, gold), links).aer


def scrambled(word):
    return hashlib.sha256(word.encode()).hexdigest()[:8].translate(str.maketrans("0123456789", "ghijklmnop"))


def emissions_of(inference, bitext, *, without_own=False):
    """float32 (P, 2): p(y|x) and p(x|y) of every element of the (T, L) matrices of M pairs, as
    :meth:`alignkit.classical.hmm.inference.Inference.links` has them."""
    text, model, letters = inference._text(bitext)
    sizes = bitext.shapes.prod(axis=1)
    space = pair_space(int(bitext.shapes.max()), len(model[1].classes), letters)
    found = [np.empty((size, 3), np.float32) for size in sizes]
    for m, own in enumerate(found):
        x = text.x[text.x_offsets[m] : text.x_offsets[m + 1]]
        y = text.y[text.y_offsets[m] : text.y_offsets[m + 1]]
        fill_emissions(x, y, model, inference._new_pairs(without_own), space, np.empty(len(own), np.bool_), own)
    return np.concatenate(found)[:, 1:]
