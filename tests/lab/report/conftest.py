"""Reports of planted scores, made without any network."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from alignkit.lab.report.build import Report, ScoreSet
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.registry import SCORE_METRICS, compare
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext

HOSTILE = ["<script>alert(1)</script>", "</script>", "<!--", "@@DATA@@", "&amp;", '"><img', "\u2028", "{{x}}"]


def make_report(pairs=12, longest=9, seed=5, sets=3, **changes):
    """Random scores on random words, with hostile words in pair 3 and a blank side in pair 5."""
    draw = np.random.default_rng(seed)
    text = []
    for side in ("s", "t"):
        sizes = draw.integers(1, longest + 1, pairs)
        text.append([[f"{side}{i}" for i in draw.integers(0, 30, size)] for size in sizes])
    if pairs > 5:
        text[0][3], text[1][3] = list(HOSTILE), [*HOSTILE[::-1], "end"]
        text[0][5] = []
    bitext = Bitext.from_sentences(*text)
    names = ["lstm.alpha", "ibm1.beta", "lstm.beta", "proxy.beta", "uniform.beta"][:sets]
    scores = {name: random_scores(draw, bitext, name.endswith("alpha")) for name in names}
    links = [[(0, 0)] if t and s else [] for t, s in bitext.shapes.tolist()]
    sure = Links.from_lists(links)
    values: dict[str, object] = {
        "title": "A <b>title</b>",
        "bitext": bitext,
        "sets": tuple(planted_set(name, each) for name, each in scores.items()),
        "tables": {metric.name: compare(scores, metric) for metric in SCORE_METRICS},
        "counts": draw.integers(0, 2000, len(bitext.source.vocabulary)),
        "time_course": time_course_frame(),
        "gold": GoldLinks(sure, sure),
        "specials": False,
        "marked": False,
        "facts": {"run <x>": {"seed": 0, "deep": {"none": None, "yes": True}}, "text": {"loose": 1}},
    }
    return Report(**{**values, **changes})


def planted_set(name, scores):
    """A score set with the label that the aligner of that name gives."""
    labels = {
        "lstm.alpha": "Attention",
        "lstm.beta": "Network's word knowledge",
        "ibm1.beta": "IBM dictionary",
        "proxy.beta": "Bag-of-words model",
        "uniform.beta": "Word knowledge without attention",
    }
    return ScoreSet(name, labels.get(name, name), f"The scores {name}.", scores, scores)


def find(report, name):
    """The score set of that name."""
    return next(each for each in report.sets if each.name == name)


def no_tables():
    """The tables of a report with one set of scores."""
    return {name: table[:0] for name, table in make_report().tables.items()}


def random_scores(draw, bitext, normal):
    matrices = [draw.random(tuple(shape)).astype(np.float32) for shape in bitext.shapes.tolist()]
    return Scores.from_matrices([m / m.sum(1, keepdims=True) if normal and m.size else m for m in matrices])


def time_course_frame():
    rows = [("r", step, "A(alpha(step), ibm1.beta)", value) for step, value in ((0, 0.1), (50, 0.2), (500, 0.5))]
    rows += [("r", step, "valid.accuracy", value) for step, value in ((0, 0.0), (50, 0.3), (500, 0.6))]
    rows += [("r", step, "tau(ibm1.beta, alpha(step))", value) for step, value in ((0, -0.01), (500, 0.3))]
    rows += [
        ("r", 500, "valid.bleu", 20.0),
        ("r", 500, "valid.loss", 2.0),
        ("r", 0, "chance(alpha(step), ibm1.beta)", 0.1),
    ]
    # Of fixed scores looked up in moving ones: another question, not shown.
    rows += [("r", 0, "A(ibm1.beta, alpha(step))", 0.9), ("r", 0, "chance(ibm1.beta, alpha(step))", 0.3)]
    return pd.DataFrame(rows, columns=["run", "step", "name", "value"])


@pytest.fixture(scope="session")
def report():
    return make_report()
