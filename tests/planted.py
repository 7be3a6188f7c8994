"""Texts whose right answer is known, and random texts with everything that goes wrong."""

from __future__ import annotations

import random

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


def random_matrices(seed, pairs=30, longest=45, levels=0):
    """Random (T, L) matrices as nested lists; with ``levels`` the values are few, so that ties are many."""
    draw = random.Random(seed)
    shapes = [(draw.randint(0, 6), draw.randint(0, longest)) for _ in range(pairs)]
    return shapes, lambda: [
        [[float(draw.randrange(levels)) if levels else draw.random() for _ in range(columns)] for _ in range(rows)]
        for rows, columns in shapes
    ]
