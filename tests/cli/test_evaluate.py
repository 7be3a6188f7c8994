"""alignkit evaluate, through real files."""

from __future__ import annotations

import csv
import io
import json

import naive
import numpy as np
import pytest

from alignkit.scores import Scores


def test_by_hand(alignkit, write):
    # A = {0-0, 1-0}, S = {0-0, 1-1}, P = S + {1-0}: precision 2/2, recall 1/2, AER 1 - 3/4
    gold, links = write("gold", "0-0 1-1 1p0\n"), write("links", "0-0 1-0\n")
    result = json.loads(alignkit("evaluate", gold, links, "--json").out)
    measures = {"aer": 0.25, "precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    counts = {"links": 2, "sure": 2, "possible": 3, "sentences": 1}
    spread = {f"{name}_{end}": None for name in measures for end in ("low", "high")}  # one pair shows none
    assert result == measures | counts | spread
    assert alignkit("evaluate", gold, links).lines == [
        "AER 25.0 %  precision 100.0 %  recall 50.0 %  F1 66.7 %  links 2"
    ]


def test_nothing_is_null_in_json(alignkit, write):
    outcome = alignkit("evaluate", write("gold", "0-0\n"), write("links", "\n"), "--json")
    assert json.loads(outcome.out)["precision"] is None


def test_nothing_is_no_gold(alignkit, write, failure):
    failure(alignkit("evaluate", write("gold", "\n"), write("links", "0-0\n")), "gold: has no links")
    few = alignkit("evaluate", write("gold", "0-0\n\n"), write("links", "0-0\n"))
    failure(few, "links: has links for 1 pair, ", "gold for 2")


GOLD = ["0-0 1-1 2p2", "0-1 1-0", "", "0-0"] * 5
HYP = ["0-0 1-2 2-2", "0-1 1-0", "0-0", ""] * 5


def lines(items):
    return "".join(f"{item}\n" for item in items)


def test_intervals(alignkit, write):
    gold, links = write("gold", lines(GOLD)), write("links", lines(HYP))
    result = json.loads(alignkit("evaluate", gold, links, "--json").out)
    for name in ("aer", "precision", "recall", "f1"):
        assert result[f"{name}_low"] < result[name] < result[f"{name}_high"]
    line = alignkit("evaluate", gold, links).lines[0]
    assert line.startswith(
        f"AER {100 * result['aer']:.1f} % ({100 * result['aer_low']:.1f}-{100 * result['aer_high']:.1f})"
    )


def test_per_sentence(alignkit, write, tmp_path):
    gold, links = write("gold", lines(GOLD)), write("links", lines(HYP))
    assert alignkit("evaluate", gold, links, "--per-sentence", tmp_path / "x.csv").code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))
    assert [int(row["line"]) for row in rows] == list(range(1, 21))
    sets = [[{item.replace("p", "-") for item in line.split()} for line in part] for part in (GOLD, HYP)]
    for row, gold_line, possible, found in zip(rows, GOLD, *sets, strict=True):
        sure = {item for item in gold_line.split() if "p" not in item}
        counts = [len(found), len(sure), len(possible), len(found & sure), len(found & possible)]
        names = ("links", "sure", "possible", "links_in_sure", "links_in_possible")
        assert [int(row[name]) for name in names] == counts
        if found and sure:
            aer, precision, recall = naive.evaluate([sure], [possible], [found])
            assert [float(row[name]) for name in ("aer", "precision", "recall")] == pytest.approx(
                [aer, precision, recall], rel=1e-5
            )
        else:
            assert row["f1"] == ""


def naacl(items):
    """The lines of links in the shared tasks' format."""
    rows = []
    for m, line in enumerate(items, 1):
        for item in line.split():
            s, t = item.replace("p", "-").split("-")
            rows.append(f"{m:04d} {int(s) + 1} {int(t) + 1} {'P' if 'p' in item else 'S'}\n")
    return "".join(rows)


def test_naacl_gives_the_same(alignkit, write):
    pharaoh, shared = write("gold", lines(GOLD)), write("naacl", naacl(GOLD))
    links, shared_links = write("links", lines(HYP)), write("links.naacl", naacl(HYP))
    expected = alignkit("evaluate", pharaoh, links)
    assert expected.err == ""
    assert alignkit("evaluate", shared, links).out == expected.out
    assert alignkit("evaluate", shared, shared_links).out == expected.out
    assert alignkit("evaluate", pharaoh, shared_links, "--gold-format", "pharaoh").out == expected.out


def test_naacl_links_past_the_gold_are_left_and_those_of_a_long_text_are_not_gone_through(alignkit, write):
    gold, links = write("gold", "0-0\n1-1\n\n"), write("links", "1 1 1\n2 2 2\n5 1 1\n")
    expected = alignkit("evaluate", gold, links)
    assert expected.lines[0].startswith("AER 0.0 %")
    assert alignkit("evaluate", gold, write("one", "1 1 1\n2 2 2\n")).out == expected.out
    assert alignkit("evaluate", gold, write("far", "1 1 1\n2 2 2\n999999 999999999 1\n")).out == expected.out


def test_one_based_gold(alignkit, write, failure):
    gold, links = lines(GOLD), write("links", lines(HYP))
    shifted = gold.translate({ord("0") + i: str(i + 1) for i in range(9)})
    expected = alignkit("evaluate", write("gold", gold), links)
    outcome = alignkit("evaluate", write("one", shifted), links)
    assert outcome.out == expected.out
    assert outcome.err.startswith("warning: ")
    assert "counting from 1" in outcome.err
    assert outcome.err.count("\n") == 1
    told = alignkit("evaluate", write("one", shifted), links, "--gold-base", 1)
    assert (told.out, told.err) == (expected.out, "")
    assert alignkit("evaluate", write("one", shifted), links, "--gold-base", 0).out != expected.out
    source = write("s", "a b c\n" * 20)
    text = ["--text", source, source]
    assert alignkit("evaluate", write("one", shifted), links, *text).out == expected.out
    failure(
        alignkit("evaluate", write("one", shifted), links, "--gold-base", 0, *text), "one", "line 1", "1-based"
    )


@pytest.mark.parametrize("count", [1, 20])
def test_a_one_based_file_is_right_about_itself(alignkit, write, count):
    """Gold links and links of the same file have the same base, and one warning says which."""
    gold = write("gold", "1-1 2-2 3-3\n2-1 1-2\n" * count)
    outcome = alignkit("evaluate", gold, gold)
    assert outcome.lines[0].startswith("AER 0.0 %")
    assert outcome.err.count("\n") == 1
    if count > 1:
        assert "gold: index 0 never occurs: both are read as counting from 1" in outcome.err
        assert "--gold-base 0 --hyp-base 0" in outcome.err
        assert alignkit("evaluate", gold, gold, "--gold-base", 0, "--hyp-base", 0).err == ""
        assert alignkit("evaluate", gold, gold, "--hyp-base", 0).lines[0].startswith("AER 60.0 %")


def test_few_one_based_links_beside_gold_links_with_index_0(alignkit, write):
    """They are too few to be shifted, but that is said; not where the gold links lack index 0, too."""
    hyp, told = (
        write("hyp", "1-1 2-2\n1-1\n"),
        "hyp: index 0 never occurs; if the file counts from 1, give --hyp-base 1",
    )
    assert told in alignkit("evaluate", write("gold", "0-0 1-1\n0-0\n"), hyp).err
    assert told not in alignkit("evaluate", write("gold", "1-1 2-2\n1-1\n"), hyp, "--gold-base", 0).err


def test_one_based_links_beside_zero_based_gold(alignkit, write, failure):
    gold, hyp = lines(GOLD), lines(HYP)
    shifted = write("hyp", hyp.translate({ord("0") + i: str(i + 1) for i in range(9)}))
    gold, expected = write("gold", gold), alignkit("evaluate", write("gold", gold), write("right", hyp)).out
    outcome = alignkit("evaluate", gold, shifted)
    assert outcome.out == expected
    assert "hyp: index 0 occurs in none of 15 lines with links: read as counting from 1" in outcome.err
    assert "--hyp-base 0" in outcome.err
    told = alignkit("evaluate", gold, shifted, "--hyp-base", 1)
    assert (told.out, told.err) == (expected, "")
    failure(
        alignkit("evaluate", gold, gold, "--hyp-base", 1), "index 0 in links that count from 1; give --hyp-base 0"
    )


def test_text_checks_both_files(alignkit, write, failure):
    good, source, target = write("good", "0-0\n1-0\n"), write("s", "a\na b\n"), write("t", "A\nB\n")
    text = ["--text", source, target]
    assert alignkit("evaluate", good, good, *text).code == 0
    failure(alignkit("evaluate", good, write("bad", "0-0\n0-1\n"), *text), "bad, line 2", "exchanged")
    failure(alignkit("evaluate", write("bad", "0-0\n0-1\n"), good, *text), "bad, line 2")
    failure(alignkit("evaluate", good, good, "--text", write("one", "a\n"), write("uno", "A\n")), "good", "2", "1")


def test_a_longer_hypothesis_is_cut_a_shorter_one_refused(alignkit, write, failure):
    gold = write("gold", "0-0\n")
    outcome = alignkit("evaluate", gold, write("longer", "0-0\n5-5\nnonsense\n"))
    assert outcome.lines[0].startswith("AER 0.0 %")
    assert "longer has 3 pairs, " in outcome.err
    assert outcome.err.endswith("gold 1: the first 1 are compared\n")
    failure(alignkit("evaluate", write("two", "0-0\n0-0\n"), gold), "2", "1")


def test_a_file_of_scores_needs_the_name_of_a_head(alignkit, write, failure, tmp_path):
    scores, gold = tmp_path / "s.npz", write("gold", "0-0 1-1\n1-0\n")
    Scores.from_matrices([np.log([[0.6, 0.4], [0.2, 0.8]]), np.log([[0.3, 0.7]])]).save(scores)
    failure(
        alignkit("evaluate", gold, scores), "s.npz: is an archive, not links; of a file of scores name a head, as"
    )
    failure(alignkit("evaluate", gold, f"{scores}:1.0"), "s.npz: there is no head 1.0; there are")
    assert alignkit("evaluate", gold, f"{scores}:0.0").lines[0].startswith("AER 0.0 %")


def test_arguments_with_the_sample(alignkit, write, failure):
    links = write("links", "0-0\n" * 1040)
    failure(alignkit("evaluate", "--sample", links, links), "Give GOLD or --sample, not both")
    failure(alignkit("evaluate", "--sample"), "Missing argument")
    failure(alignkit("evaluate", links), "Missing argument HYP")
    failure(alignkit("evaluate", "--sample", write("other", "0-0 90-90\n" * 100)), "other, line 1")


def test_errors_by_class(alignkit, write):
    """Text that goes on after the gold is learned from, too; the links' probabilities are read."""
    gold = write("gold", "0-0 1-1 1-2\n0-0\n")
    links = write("links", "0-0:0.95 1-1:0.41 2-2:0.12\n1-0:0.3\n0-0:1\n")
    sides = write("s", "das Haus .\nja nein\nja nein\n"), write("t", "the small house\nyes no\nyes no\n")
    outcome = alignkit("evaluate", gold, links, "--by-class", "--text", *sides, "--json")
    rows = {(row["by"], row["class"]): row for row in json.loads(outcome.out)["classes"]}
    assert rows["frequency of the rarer word", "1"]["links"] == 3
    dash = "\N{EN DASH}"
    assert rows["frequency of the rarer word", f"2{dash}5"]["links"] == 1  # nein and yes, twice each
    assert rows["punctuation", "word and punctuation"]["wrong"] == 1
    assert rows["probability", f"0.4{dash}0.5"]["precision"] == 1
    assert rows["probability", f"0.1{dash}0.2"]["precision"] == 0
    assert rows["probability", "not proposed"]["missed"] == 2
    assert rows["gold links of the two words", "one-to-many"]["recall"] == 0.5
    text = alignkit("evaluate", gold, links, "--by-class", "--text", *sides).out.decode()
    assert text.split("\n")[0] == alignkit("evaluate", gold, links).lines[0]
    assert text.count(" missed ") == 5  # one table for each
    for line in ("one-to-many", "words on the longer side", "not proposed"):
        assert f"\n{line} " in text
    alone = alignkit("evaluate", gold, write("plain", "0-0 1-1\n1-0\n"), "--by-class").out.decode()
    assert alone.count(" missed ") == 1
    assert "gold links of the two words" in alone


@pytest.mark.parametrize("text", ["1e", "1.2.3", "7"])
def test_a_probability_that_is_none(alignkit, write, text):
    outcome = alignkit("evaluate", write("gold", "0-0\n"), write("links", f"0-0:{text}\n"))
    assert outcome.code == 2
    assert "line 1" in outcome.err
    assert "no probability from 0 to 1" in outcome.err
