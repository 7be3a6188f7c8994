"""Sentence pairs to align by hand: which ones, and a page on which a person corrects their links."""

from __future__ import annotations

import json
from hashlib import sha256

import numpy as np

from alignkit.errors import AlignkitError, counted
from alignkit.lab.report.page import asset, render_page
from alignkit.links.links import Links
from alignkit.text.bitext import Bitext

#: Words of each side of pairs that a person can look through.
LENGTHS = 4, 40


def pairs_to_annotate(bitext: Bitext, count: int, seed: int = 0) -> np.ndarray:
    """int64 (at most ``count``,), rising: different pairs of 4 to 40 words a side; others if there are too few.

    They are drawn at random: pairs that were chosen for their doubtful links improved the trees no more for the
    same work (`benchmarks/gold_choices.py`), and cross-validation, which decides whether these are used, needs
    pairs like the rest.

    Args:
        bitext: M pairs.
        count: how many are wanted.
        seed: of the draw.

    Raises:
        AlignkitError: all pairs have a blank side.
    """
    shapes, order = bitext.shapes, np.random.default_rng(seed).permutation(len(bitext))
    fits = (shapes.min(axis=1) >= LENGTHS[0]) & (shapes.max(axis=1) <= LENGTHS[1])
    found: dict[tuple[str, ...], int] = {}
    for m in np.concatenate([order[fits[order]], order[~fits[order]]]).tolist():
        if len(found) < count and shapes[m].all():
            found.setdefault((*bitext.source.words(m), "\n", *bitext.target.words(m)), m)
    if not found:
        raise AlignkitError("every sentence pair has a blank side; there is nothing to align by hand")
    return np.sort(np.array(list(found.values()), np.int64))


def annotation_page(bitext: Bitext, links: Links, pairs: np.ndarray) -> bytes:
    """One self-contained HTML page with a grid for each pair, which saves what was corrected as gold links.

    Args:
        bitext: M pairs.
        links: of the pairs: a draft.
        pairs: int (K,), those to show.
    """
    shown = [
        {
            "line": m + 1,
            "source": bitext.source.words(m),
            "target": bitext.target.words(m),
            "links": links[m].tolist(),
        }
        for m in pairs.tolist()
    ]
    data = {"pairs": shown, "key": sha256(json.dumps(shown).encode()).hexdigest()[:16]}
    values = {"title": f"{counted(len(shown), 'sentence pair')} to align by hand", "data": data}
    return render_page("annotate.html", asset("annotate.css"), asset("annotate.js"), values)
