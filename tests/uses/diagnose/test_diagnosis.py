"""Diagnoses of alignments that were made worse in a known way."""

from __future__ import annotations

import random

import numpy as np
import pytest
from planted import bitext_of, permuted_copy

from alignkit.errors import AlignkitError, InputError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.uses.diagnose.diagnosis import calibration_error, diagnose_links, f1_of_links

TYPES = 60


@pytest.fixture(scope="module")
def translated():
    """(bitext, links): a permuted copy, whose links are known."""
    pairs, links = permuted_copy(3, pairs=300, types=TYPES, longest=9)
    return bitext_of(pairs), links


def made_worse(bitext, links, moved=0.0, dropped=0.0, seed=0):
    """The links, a share of which lead to other words, and a share of which are gone."""
    draw = random.Random(seed)
    found = []
    for m, pair in enumerate(links):
        length = len(bitext.target[m])
        own = []
        for s, t in pair:
            if draw.random() < dropped:
                continue
            own.append((s, draw.randrange(length) if draw.random() < moved else t))
        found.append(own)
    return Links.from_lists(found)


def true_aer(links, found):
    gold = Links.from_lists(links)
    return evaluate(GoldLinks(gold, gold), found)


@pytest.mark.parametrize("moved", [0.0, 0.1, 0.3])
def test_wrong_links_are_counted(translated, moved):
    bitext, links = translated
    found = made_worse(bitext, links, moved=moved)
    true, expected = true_aer(links, found), diagnose_links(bitext, None, found, threads=1).expected
    assert expected.precision == pytest.approx(true.precision, abs=0.02)
    assert expected.recall == pytest.approx(true.recall, abs=0.02)
    assert expected.aer == pytest.approx(true.aer, abs=0.02)
    assert expected.aer_with_possible == pytest.approx(true.aer, abs=0.03)


def test_missing_links_are_counted(translated):
    bitext, links = translated
    found = made_worse(bitext, links, dropped=0.4)
    true, expected = true_aer(links, found), diagnose_links(bitext, None, found, threads=1).expected
    assert expected.precision == pytest.approx(1, abs=0.02)
    assert expected.recall == pytest.approx(true.recall, abs=0.02)


def test_a_little_text_is_judged_with_doubt(translated, caplog):
    bitext, links = translated
    diagnose_links(bitext, None, Links.from_lists(links), threads=1)
    assert not caplog.messages
    little = diagnose_links(bitext.block(0, 12), None, Links.from_lists(links[:12]), threads=1)
    assert "too rare for a good estimate: they occur 1." in caplog.text
    facts, aer = little.facts, little.expected.aer
    assert facts["aer_low"] <= aer < facts["aer_high"] - 0.1
    assert facts["aer_with_possible_low"] <= little.expected.aer_with_possible < facts["aer_with_possible_high"]


def test_where_it_is_bad(translated):
    """The first hundred pairs are made worse, and only they have errors and findings."""
    bitext, links = translated
    bad = made_worse(bitext, links[:100], moved=0.5)
    found = diagnose_links(
        bitext, None, [*bad.to_strings(), *Links.from_lists(links[100:]).to_strings()], threads=1
    )
    assert len(found.pairs) == 300
    errors = found.pairs["aer"].to_numpy()
    assert errors[:100].mean() > 0.2
    assert np.nanmean(errors[100:]) < 0.03
    findings = found.findings.set_index("check")
    assert findings["lines"]["links that are more likely wrong than right"]
    assert max(findings["lines"]["links that are more likely wrong than right"]) <= 100
    total = found.expected
    for _, part in found.classes.groupby("by"):
        assert part["links"].sum() == total.links
        assert part["gold"].sum() == pytest.approx(total.gold, rel=0.01)
        assert part["share_of_errors"].sum() == pytest.approx(1)


def test_pairs_that_are_no_translations(translated):
    bitext, _ = translated
    draw = np.random.default_rng(1)
    lengths = bitext.shapes.min(axis=1)
    wrong = draw.choice(np.flatnonzero(lengths >= 5), 12, replace=False)
    order = np.arange(300)
    order[wrong] = np.roll(wrong, 1)
    text = [(bitext.source.words(m), bitext.target.words(order[m])) for m in range(300)]
    empty = Links.from_lists([[]] * 300)
    found = diagnose_links([s for s, _ in text], [t for _, t in text], empty, threads=1)
    column = found.pairs["pairs_that_may_be_no_translations"].to_numpy()
    assert set(np.flatnonzero(column)) <= set(wrong.tolist())
    assert column.sum() >= 10


def test_links_of_the_first_lines_only(translated):
    bitext, links = translated
    whole, first = (diagnose_links(bitext, None, Links.from_lists(links[:n]), threads=1) for n in (300, 50))
    assert len(first.pairs) == 50
    for name in ("aer", "precision", "recall", "links"):
        np.testing.assert_array_equal(first.pairs[name], whole.pairs[name][:50])


def test_any_number_of_threads(translated):
    bitext, links = translated
    found = [diagnose_links(bitext, None, made_worse(bitext, links, moved=0.2), threads=n) for n in (1, 2)]
    assert found[0].expected == found[1].expected
    assert found[0].pairs.equals(found[1].pairs)
    assert found[0].classes.equals(found[1].classes)


def test_probabilities_of_the_links(translated):
    """Printed probabilities are compared with expected ones; their bands are classes."""
    bitext, links = translated
    lines = [" ".join(f"{s}-{t}:0.6" for s, t in pair) for pair in links]
    found = diagnose_links(bitext, None, lines, threads=1)
    assert found.facts["mean_probability"] == pytest.approx(0.6)
    assert found.facts["calibration_error"] == pytest.approx(found.expected.precision - 0.6, abs=1e-6)
    bands = found.classes[found.classes["by"] == "probability"]
    assert bands["class"].tolist()[0] == "0.6\N{EN DASH}0.7"
    assert "calibration_error" not in diagnose_links(bitext, None, Links.from_lists(links), threads=1).facts


def test_facts():
    """Of words longer than first letters, so that there are several views."""
    pairs, links = permuted_copy(3, pairs=300, types=TYPES, longest=9)
    bitext = bitext_of([tuple([word * 3 for word in side] for side in pair) for pair in pairs])
    facts = diagnose_links(bitext, None, Links.from_lists(links), threads=1).facts
    assert facts["links_per_token"] == facts["agreement_with_views"] == pytest.approx(1, abs=0.01)
    assert facts["unlinked_source_words"] == facts["unlinked_target_words"] == 0
    assert facts["agreement_of_views"] > 0.98
    assert facts["agreement_of_directions"] > 0.95


def test_calibration_error_by_hand():
    predicted = np.array([0.05, 0.05, 0.95, 0.95, np.nan])
    right = np.array([0.0, 1.0, 1.0, 1.0, 0.0])
    assert calibration_error(predicted, right) == pytest.approx((0.9 + 0.1) / 4)
    assert np.isnan(calibration_error(np.array([np.nan]), np.array([1.0])))


def test_f1_of_links():
    a, b = Links.from_lists([[(0, 0), (1, 1)]]), Links.from_lists([[(0, 0), (1, 0), (2, 2)]])
    assert f1_of_links(a, b) == f1_of_links(b, a) == pytest.approx(2 / 5)
    assert np.isnan(f1_of_links(Links.from_lists([[]]), Links.from_lists([[]])))


def test_what_cannot_be_diagnosed(translated):
    bitext, links = translated
    with pytest.raises(AlignkitError, match="has links for 301 pairs, the text has 300"):
        diagnose_links(bitext, None, ["0-0"] * 301)
    with pytest.raises(InputError, match="links, line 1: link 0-99 points outside"):
        diagnose_links(bitext, None, ["0-99"])
    with pytest.raises(AlignkitError, match="nothing to diagnose"):
        diagnose_links([""], ["a"], [""])
    with pytest.raises(AlignkitError, match="has links for 301 pairs"):
        diagnose_links(bitext, None, Links.from_lists([*links, []]))
