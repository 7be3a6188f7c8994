"""Diagnoses of alignments that were made worse in a known way."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from planted import bitext_of, permuted_copy

from alignkit.classical.hmm import views
from alignkit.errors import AlignkitError, InputError
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import WordFacts, evaluate
from alignkit.uses.diagnose.checks import (
    LinkedText,
    length_deviations,
    linked_information,
    run_checks,
)
from alignkit.uses.diagnose.diagnosis import diagnose_links, mean_log_count
from alignkit.uses.diagnose.evidence import CALIBRATION, Evidence, expected_link_counts, vote

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


@pytest.mark.parametrize(("moved", "dropped"), [(0.3, 0.0), (0.0, 0.4)])
def test_wrong_and_missing_links_are_counted(translated, moved, dropped):
    bitext, links = translated
    found = made_worse(bitext, links, moved, dropped)
    true, expected = true_aer(links, found), diagnose_links(bitext, None, found, threads=1).expected
    assert expected.precision == pytest.approx(true.precision, abs=0.02)
    assert expected.recall == pytest.approx(true.recall, abs=0.02)
    assert expected.aer == pytest.approx(true.aer, abs=0.02)


def test_a_little_text_is_judged_with_doubt(translated, caplog):
    bitext, links = translated
    diagnose_links(bitext.block(0, 120), None, Links.from_lists(links[:120]), threads=1)
    assert not caplog.messages
    little = diagnose_links(bitext.block(0, 12), None, Links.from_lists(links[:12]), threads=1)
    assert "too rare for a good estimate: they occur 1." in caplog.text
    facts, aer = little.facts, little.expected.aer
    assert facts["aer_low"] <= aer < facts["aer_high"] - 0.1
    assert facts["aer_with_possible_low"] <= little.expected.aer_with_possible < facts["aer_with_possible_high"]


@pytest.fixture(scope="module")
def judged():
    """(text, links of its first pairs with probabilities, diagnosis, votes): links are often wrong, and a pair is
    longer than those that are judged."""
    draw, letters = random.Random(5), str.maketrans("0123456789", "abcdefghij")
    pairs, links = permuted_copy(3, pairs=90, types=TYPES, longest=9)
    for m, (source, target) in enumerate(pairs):
        source[:] = (
            [3 * word.translate(letters) for word in source] + ["7"] * (m % 4 == 0) + ["Same"] * (m % 5 == 0)
        )
        target[:] = (
            [3 * word.translate(letters) for word in target]
            + ["7"] * (m % 4 == 0)
            + ["same"] * (m % 3 == 0)
            + ["."]
        )
    pairs[4] = [], ["."]
    pairs[9] = ["sbsbsb"] * 20, ["tbtbtb"] * 20
    known = []
    for m in range(60):
        size = len(pairs[m][0]), len(pairs[m][1])
        own = {(s, t) for s, t in links[m] if m not in (4, 9) and draw.random() < 0.8}
        own |= {(draw.randrange(size[0]), draw.randrange(size[1])) for _ in range(4) if size[0]}
        known.append({link: draw.choice([0.05, 0.35, 0.8, 1.0]) for link in sorted(own)})
    bitext = bitext_of(pairs)
    lines = [" ".join(f"{s}-{t}:{p}" for (s, t), p in own.items()) for own in known]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "LARGEST_PAIR", 399)
        return bitext, known, diagnose_links(bitext, None, lines, threads=1), vote(bitext, 60, threads=1)


def test_every_fact_is_what_loops_find(judged):
    bitext, known, found, votes = judged
    assert votes.pairs.tolist() == [m for m in range(60) if m != 9]
    counts = [Counter(side.vocabulary[k] for k in side.tokens) for side in (bitext.source, bitext.target)]
    tokens = [
        [(m, word) for m in votes.pairs for word in side.words(m)] for side in (bitext.source, bitext.target)
    ]
    links = sum(len(known[m]) for m in votes.pairs)
    wanted = {"pairs": 59, "blank_pairs": 1, "source_tokens": len(tokens[0]), "target_tokens": len(tokens[1])}
    wanted |= {"links": links, "links_per_token": 2 * links / sum(map(len, tokens)), "views": votes.views}
    shown = {(k, s, t) for k, matrix in enumerate(votes.probabilities) for t, s in np.argwhere(matrix >= 0.5)}
    proposed = {(k, s, t): p for k, m in enumerate(votes.pairs) for (s, t), p in known[m].items()}
    wanted["agreement_with_views"] = 2 * len(shown & {*proposed}) / (len(shown) + links)
    for axis, name in enumerate(("source", "target")):
        own = Counter((k, place[axis]) for k, *place in proposed)
        places = [(k, n) for k, m in enumerate(votes.pairs) for n in range(bitext.shapes[m, 1 - axis])]
        chances = [np.prod(1 - np.take(votes.support[k], n, axis=1 - axis)) for k, n in places]
        each = list(zip(tokens[axis], [own[place] for place in places], chances, strict=True))
        words = [(count == 0, chance) for (_, word), count, chance in each if word != "."]
        unlinked, of_views = np.mean(words, axis=0)
        marks = [count == 0 for (_, word), count, _ in each if word == "."]
        several = [count > 1 for _, count, _ in each if count]
        wanted |= {f"unlinked_{name}_words": unlinked, f"unlinked_{name}_words_of_views": of_views}
        wanted |= {f"unlinked_{name}_punctuation": np.mean(marks) if marks else math.nan}
        wanted |= {f"{name}_tokens_with_several_links": np.mean(several)}
    logs = [np.mean([math.log(count[word]) for _, word in own]) for count, own in zip(counts, tokens, strict=True)]
    numbers = CALIBRATION.of_text(np.mean(logs))
    assert numbers.trust < 1
    right = {place: numbers.right(votes.support[place[0]][place[2], place[1]]) for place in proposed}
    off = [abs(sum(right[x] - p for x, p in proposed.items() if p == band)) for band in (0.05, 0.35, 0.8, 1.0)]
    wanted |= {"mean_probability": np.mean([*proposed.values()]), "calibration_error": sum(off) / links}
    evidence = Evidence(votes.support, votes.unanimous)
    lists = Links.from_lists([[*known[m]] for m in votes.pairs])
    expected = expected_link_counts(lists, evidence, numbers).total()
    assert found.expected == expected
    for name, aer in (("aer", expected.aer), ("aer_with_possible", expected.aer_with_possible)):
        wanted[f"{name}_low"], wanted[f"{name}_high"] = numbers.interval(aer)
    wanted |= {f"agreement_of_{name}": getattr(votes, f"agreement_of_{name}") for name in ("views", "directions")}
    assert found.facts == pytest.approx(wanted, rel=1e-4, nan_ok=True)


def test_classes_and_pairs_are_what_loops_find(judged):
    bitext, known, found, votes = judged
    evidence = Evidence(votes.support, votes.unanimous)
    counts = WordFacts.of(votes.bitext, bitext)
    numbers = CALIBRATION.of_text(mean_log_count(counts))
    gold, wanted = evidence.likely_links(numbers), {}

    def kind(k, s, t):
        x, y = votes.bitext.source.words(k)[s], votes.bitext.target.words(k)[t]
        return "two numbers" if (x, y) == ("7", "7") else "equal words" if x.lower() == y.lower() else "others"

    for name in ("two numbers", "equal words", "others"):
        own = [(k, s, t) for k, m in enumerate(votes.pairs) for s, t in known[m] if kind(k, s, t) == name]
        correct = sum(float(numbers.right(votes.support[k][t, s])) for k, s, t in own)
        likely = sum(weight for key, weight in zip(*gold, strict=True) if kind(*key.tolist()) == name)
        wanted[name] = (len(own), likely, len(own) - correct, max(likely - correct, 0))
    assert list(found.classes.index) == [*range(len(found.classes))]
    rows = found.classes[found.classes["by"] == "numbers and equal words"]
    shown = rows.set_index("class")[["links", "gold", "wrong", "missed"]].T.to_dict("list")
    assert {name: tuple(row) for name, row in shown.items()} == {
        name: pytest.approx(row, rel=1e-4) for name, row in wanted.items()
    }
    bands = found.classes[found.classes["by"] == "probability"].set_index("class")["links"]
    listed = Counter(p for m in votes.pairs for p in known[m].values())
    assert bands["0.0\N{EN DASH}0.1"] == listed[0.05]
    assert bands["0.9\N{EN DASH}1.0"] == listed[1.0]
    for by, part in found.classes.groupby("by"):
        assert part["links"].sum() == found.expected.links, by
        assert part["share_of_errors"].sum() == pytest.approx(1), by

    pairs = found.pairs
    assert pairs["line"].tolist() == [m + 1 for m in votes.pairs]
    assert pairs["links"].tolist() == [len(known[m]) for m in votes.pairs]
    for axis, (side, name) in enumerate(((bitext.source, "source"), (bitext.target, "target"))):
        assert pairs[f"{name}_tokens"].tolist() == [len(side[m]) for m in votes.pairs], axis
    unlinked = [
        sum(word != "." and n not in {link[axis] for link in known[m]} for n, word in enumerate(side.words(m)))
        for axis, side in enumerate((bitext.source, bitext.target))
        for m in votes.pairs
    ]
    assert pairs["unlinked_words"].tolist() == np.reshape(unlinked, (2, -1)).sum(axis=0).tolist()
    lists = Links.from_lists([[*known[m]] for m in votes.pairs])
    text = LinkedText(votes.bitext, lists, evidence)
    measures = expected_link_counts(lists, evidence, numbers).measures()
    columns = {name: measures[name] for name in ("aer", "precision", "recall")}
    columns |= {
        "linked_information": linked_information(text),
        "length_deviation": length_deviations(votes.bitext),
    }
    for name, column in columns.items():
        np.testing.assert_array_equal(pairs[name], column)
    for check, row in zip(run_checks(text), found.findings.to_dict("records"), strict=True):
        assert pairs[check.name.replace(" ", "_")].tolist() == check.counts.tolist()
        total = int(check.counts.sum())
        lines = [int(votes.pairs[line - 1]) + 1 for line in check.lines(10)]
        assert row == {
            "check": check.name,
            "count": total,
            "of": check.of,
            "share": total / check.of,
            "lines": lines,
        }


def test_what_cannot_be_diagnosed(translated, tmp_path):
    bitext, links = translated
    (tmp_path / "links").write_text("0-0\n0-99\n")
    with pytest.raises(InputError, match=f"{tmp_path / 'links'}, line 2: link 0-99 points outside"):
        diagnose_links(bitext, None, tmp_path / "links")
    with pytest.raises(AlignkitError, match="has links for 301 pairs, the text has 300"):
        diagnose_links(bitext, None, ["0-0"] * 301)
    with pytest.raises(InputError, match="links, line 1: link 0-99 points outside"):
        diagnose_links(bitext, None, ["0-99"])
    with pytest.raises(AlignkitError, match="nothing to diagnose"):
        diagnose_links([""], ["a"], [""])
    with pytest.raises(AlignkitError, match="has links for 301 pairs"):
        diagnose_links(bitext, None, Links.from_lists([*links, []]))
