"""Row by row and band by band: the parts add up to the agreement, and planted answers come out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from alignkit.lab.report.build import (
    ENDS,
    Report,
    against_gold,
    breakdown_table,
    frequency_bands,
    length_bands,
    mass_table,
)
from alignkit.lab.report.page import build_page
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.agreement import agreement_rows
from alignkit.metrics.intervals import bootstrap_ratio
from alignkit.metrics.registry import compare
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from tests.lab.report.conftest import find, make_report, no_tables, planted_set


def test_bands_add_up_to_the_table(report):
    table = pd.DataFrame(breakdown_table(report))
    for (_by, u, v), part in table.groupby(["by", "u", "v"]):
        row = report.tables["agreement"].set_index(["u", "v"]).loc[(u, v)]
        assert part["rows"].sum() == row["rows"]
        for name in ("agreement", "chance"):
            assert np.average(part[name], weights=part["rows"]) == pytest.approx(row[name])
        part = part.dropna()  # one sentence has no interval
        assert ((part["low"] <= part["agreement"] + 1e-12) & (part["agreement"] <= part["high"] + 1e-12)).all()


def planted_report():
    """Frequent source words (3 times) agree always, rare ones (once) never."""
    source = [["often", "seldom"], ["often", "often", "seldom2", "x", "x", "x", "x"]]
    bitext = Bitext.from_sentences(source, [["a", "b"], ["c", "d"]])
    u = [np.array([[1.0, 0], [0, 1]]), np.eye(7)[[0, 2]]]
    v = [np.array([[1.0, 0], [1, 0]]), np.eye(7)[[0, 1]]]
    sets = [Scores.from_matrices(each) for each in (u, v)]

    counts = np.array([{"often": 30, "seldom": 3, "seldom2": 1, "x": 0}[t] for t in bitext.source.vocabulary])
    named = (planted_set("lstm.alpha", sets[0]), planted_set("ibm1.beta", sets[1]))
    tables = {"agreement": compare({each.name: each.scores for each in named})}
    return Report("t", bitext, named, tables, counts, specials=False, marked=False)


def test_planted_bands():
    table = pd.DataFrame(breakdown_table(planted_report()))
    part = table[(table["u"] == "lstm.alpha")].set_index(["by", "band"])
    frequent, rare = part.loc[("frequency", "11\N{EN DASH}30")], part.loc[("frequency", "1\N{EN DASH}3")]
    assert (frequent.agreement, frequent["rows"]) == (1, 2)
    assert (rare.agreement, rare["rows"]) == (0, 2)
    assert list(part.loc["length"].index) == ["1\N{EN DASH}5", "6\N{EN DASH}10"]
    assert part.loc["length", "agreement"].tolist() == [0.5, 0.5]


def test_ends_of_sentences_have_a_band_of_their_own():
    """The favourites are <s>, a word that the text has four times, and </s>; six subwords are two words."""
    bitext = Bitext.from_sentences(
        [["<s>", "\u2581a", *"bcdef", "\u2581b", "</s>"]], [["\u2581x", "\u2581y", "</s>"]]
    )
    scores = Scores.from_matrices([np.eye(9)[[0, 1, 8]]])
    counts = np.array([{"\u2581a": 4}.get(token, 100) for token in bitext.source.vocabulary])
    report = Report("t", bitext, (planted_set("lstm.alpha", scores),), no_tables(), counts)
    rows = agreement_rows(scores, scores)
    for found, wanted in (
        (frequency_bands(report, rows), [ENDS, "4\N{EN DASH}10", ENDS]),
        (length_bands(report, rows), ["1\N{EN DASH}5"] * 3),
    ):
        assert [found[1][k] for k in found[0]] == wanted


def test_intervals_are_those_of_whole_sentences():
    report = make_report(60)
    row = pd.DataFrame(breakdown_table(report)).iloc[0]
    rows = agreement_rows(find(report, row.u).scores, find(report, row.v).scores)
    band, names = frequency_bands(report, rows)
    mine = band == names.index(row.band)
    hits, count = (np.bincount(rows.sentence, mine * weight, 60) for weight in (rows.hits, 1))
    assert (row.low, row.high) == bootstrap_ratio(hits, count)


def test_one_sentence_of_a_band_has_no_interval():
    """Whether all its words agree, or none or some."""
    table = pd.DataFrame(breakdown_table(planted_report()))
    part = table[table["by"] == "length"]
    assert sorted(part["agreement"]) == [0.5] * 4
    assert part[["low", "high"]].isna().all(axis=None)


def test_mass_on_planted_attention():
    """A network that puts 0.7 on the end, 0.1 on the start and the comma, the rest on the word."""
    bitext = Bitext.from_sentences([["<s>", "▁w", "▁,", "</s>"]] * 2, [["▁y", "</s>"]] * 2)
    scores = Scores.from_matrices([np.array([[0.1, 0.1, 0.1, 0.7]] * 2)] * 2)
    sets = (planted_set("lstm.alpha", scores), planted_set("lstm.beta", scores))

    table = compare({each.name: each.scores for each in sets})
    report = Report("t", bitext, sets, table, np.ones(4, np.int64))
    found = pd.DataFrame(mass_table(report))
    assert set(found["set"]) == {"lstm.alpha"}
    mass = found.set_index("class")
    assert mass["mass"].to_dict() == pytest.approx(
        {"sentence start": 0.1, "sentence end": 0.7, "punctuation": 0.1, "words": 0.1}
    )
    assert mass["even"].tolist() == pytest.approx([0.25] * 4)


def test_mass_that_is_nowhere(report):
    """A posterior with NULL: what its rows lack to 1 has a bar of its own."""
    scores = Scores(report.sets[0].scores.values * np.float32(0.75), *vars_of(report.sets[0].scores))
    changed = Report(
        "t", report.bitext, (planted_set("hmm.alpha", scores),), no_tables(), report.counts, specials=False
    )
    found = pd.DataFrame(mass_table(changed)).set_index("class")["mass"]
    assert found["no source word"] == pytest.approx(0.25, abs=1e-4)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinite_scores_have_no_shares(report, infinite):
    values = report.sets[0].scores.values.copy()
    values[0] = infinite
    sets = (planted_set("x.alpha", Scores(values, *vars_of(report.sets[0].scores))),)
    changed = Report("t", report.bitext, sets, no_tables(), report.counts, specials=False)
    assert not mass_table(changed)
    assert build_page(changed)


def vars_of(scores):
    return scores.offsets, scores.shapes


def test_links_that_people_made_are_counted_between_words():
    """Pieces of planted attention: word 0 is linked rightly, word 1 is not; a pair without gold is left out."""
    bitext = Bitext.from_sentences(
        [["<s>", "▁a", "b", "▁c", "</s>"], ["<s>", "▁c", "</s>"]], [["▁d", "▁e", "f", "</s>"], ["▁d", "</s>"]]
    )
    found = np.array([[0, 0.4, 0.6, 0, 0], [0, 0.9, 0, 0.1, 0], [0, 0.5, 0, 0.5, 0], [0, 0, 0, 0, 1.0]])
    scores = Scores.from_matrices([found, np.full((2, 3), 1 / 3)])
    people = Links.from_lists([[(0, 0), (1, 1)]])
    sets = (planted_set("lstm.alpha", scores),)
    report = Report("t", bitext, sets, no_tables(), np.ones(5), gold=GoldLinks(people, people))
    ((each, counts, classes),) = against_gold(report)
    assert each.name == "lstm.alpha"
    assert "probability" in set(classes["by"])
    larger = replace(report, sets=(planted_set("x.alpha", Scores(2 * scores.values, *vars_of(scores))),))
    assert "probability" not in set(next(against_gold(larger))[2]["by"])
    row = counts.total()
    assert (row.precision, row.recall, row.aer, row.links) == (0.5, 0.5, 0.5, 2)
    assert not list(against_gold(make_report(gold=None)))


def test_gold_between_words_is_shown_between_pieces():
    bitext = Bitext.from_sentences([["<s>", "▁a", "b", "▁c", "</s>"]], [["▁d", "e", "</s>"]])
    scores = Scores.from_matrices([np.zeros((3, 5))])
    report = Report("t", bitext, (planted_set("lstm.alpha", scores),), no_tables(), np.ones(5))
    links = Links.from_lists([[(0, 0), (1, 0)]])
    assert report.token_links(links) == [[(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]]
