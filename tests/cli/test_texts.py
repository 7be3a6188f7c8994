"""The texts that are printed of given results, by hand."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pandas as pd

from alignkit.lab.explain.registry import EXPLANATION_TESTS
from alignkit.lab.translation import LabSettings
from alignkit.uses.diagnose.evidence import ExpectedEvaluation
from alignkit_cli.evaluate import diagnosis_text
from alignkit_cli.explain import explanation_text
from alignkit_cli.lab import render_lab


def cells(line):
    return re.split("  +", line.strip())


def test_a_lab_shows_the_columns_in_which_something_is():
    """xi is a number, was not reached, or was not measured."""
    row = {"u": "a", "v": "b", "agreement": 0.512, "low": 0.5, "high": 0.6, "chance": 0.07, "rows": 900}
    row |= {"tau": 0.25, "tau_low": 0.2, "tau_high": 0.3, "xi_accuracy": 0.4567, "tau_xi_accuracy": math.nan}
    row |= {"xi_bleu": math.nan, "tau_xi_bleu": 12.34, "not_reached": ""}
    other = {**row, "v": "c", "rows": 901, "not_reached": "xi_accuracy tau_xi_bleu"}
    seeds = [{"step": 50, "agreement": 0.1, "accuracy": math.nan, "bleu": math.nan}]
    seeds += [{"step": 1000, "agreement": 0.25, "accuracy": 0.3333, "bleu": math.nan}]
    facts = {"scored_pairs": 1, "text": "validation", "training_pairs": 1200, "network": {"name": "lstm"}}
    found = SimpleNamespace(
        table=pd.DataFrame([row, other]),
        seeds=pd.DataFrame(seeds),
        stars={"accuracy": 0.51234, "bleu": 12.345},
        notes=("one", "another"),
        facts=facts,
    )
    head, table, below, title, steps = render_lab(found, LabSettings(percent=7), as_json=False).split("\n\n")[:5]
    assert head.startswith("1 pair of the validation text, 901 target tokens; trained on 1,200 pairs.\nA(u, v): ")
    assert "the top 7 % " in head
    assert [cells(line) for line in table.splitlines()] == [
        ["A(u, v)", "%", "95 %", "chance", "xi", "tau", "95 %", "tau xi BLEU"],
        ["A(a, b)", "51.2", "50.0-60.0", "7.0", "0.457", "0.250", "0.200..0.300", "12.3"],
        ["A(a, c)", "51.2", "50.0-60.0", "7.0", "not reached", "0.250", "0.200..0.300", "not reached"],
    ]
    assert below == "xi*: token accuracy 0.512, BLEU 12.3 (the best of the first run)."
    assert title == "The second run while it learned:"
    *rows, one, another = steps.splitlines()
    assert [cells(line) for line in rows] == [
        ["step", "A(lstm.alpha, alpha(step)) %", "accuracy"],
        ["50", "10.0", "-"],
        ["1000", "25.0", "0.333"],
    ]
    assert (one, another) == ("Note: one.", "Note: another.")


def test_explanations_stand_below_their_tests():
    one, other = list(EXPLANATION_TESTS)[:2]
    row = {"group": other, "test": "flips, attention", "value": 0.12345, "low": 0.1, "high": 0.2, "n": 50}
    more = {"group": one, "test": "tau", "value": math.nan, "low": math.nan, "high": math.nan, "n": 7}
    table = pd.DataFrame(
        [row | {"meaning": "it is"}, more | {"meaning": "it may"}, {**row, "n": 9, "meaning": "both"}]
    )
    lines = explanation_text(table, as_json=False).splitlines()
    assert [cells(line) for line in lines if line] == [
        ["test", "value", "95 % interval", "n"],
        [f"{other}: {EXPLANATION_TESTS[other].summary}"],
        ["flips, attention", "0.123", "0.100 to 0.200", "50"],
        ["flips, attention", "0.123", "0.100 to 0.200", "9"],
        [f"{one}: {EXPLANATION_TESTS[one].summary}"],
        ["tau", "-", "- to -", "7"],
        ["flips, attention", "it is"],
        ["tau", "it may"],
        ["flips, attention", "both"],
    ]


def test_a_diagnosis_names_the_worst_lines_and_the_checks():
    shares = (
        "unlinked_source_words unlinked_target_words unlinked_source_words_of_views unlinked_target_words_of_views"
    )
    shares += " source_tokens_with_several_links target_tokens_with_several_links agreement_with_views"
    shares += " agreement_of_views agreement_of_directions mean_probability calibration_error aer_low aer_high"
    shares += " aer_with_possible_low aer_with_possible_high"
    facts = {name: 0.01 * n for n, name in enumerate(shares.split(), 1)}
    facts |= {"pairs": 1200, "blank_pairs": 3, "links": 4500, "links_per_token": 0.987, "views": 5}
    pairs = pd.DataFrame({"line": range(1, 9), "aer": [0.1, math.nan, 0.3, 0, 0.5, 0.6, 0.1, 0.2]})
    pairs["source_tokens"], pairs["target_tokens"] = [10, 9, 2, 9, 4, 1, 10, 4], [10, 9, 1, 9, 4, 1, 10, 4]
    findings = pd.DataFrame(
        [{"check": "crossing", "count": 1234, "of": 5000, "share": 0.2468, "lines": [9, 8, 7, 6, 5, 4]}]
    )
    classes = pd.DataFrame(
        [{"by": "x", "class": "y", "aer": 0.1, "precision": 0.2, "recall": 0.3, "share_of_errors": 1.0}]
    ).assign(links=1, wrong=2, missed=3)
    found = SimpleNamespace(
        expected=ExpectedEvaluation(0.91, 0.92, 0.93, 0.94, 4500, 4400.5),
        facts=facts,
        classes=classes,
        findings=findings,
        pairs=pairs,
    )
    estimate, numbers, table, checks, worst = diagnosis_text(found, with_embeddings=False).split("\n\n")
    first, remark = estimate.split("\n")
    assert first == (
        "estimated AER 93.0 % (12.0 to 13.0 %; precision 91.0 %, recall 92.0 %) if all gold links are sure, "
        "94.0 % (14.0 to 15.0 %) if some are only possible"
    )
    assert remark.endswith("are judged too severely; --embeddings gives the views such evidence")
    assert numbers.splitlines() == [
        "pairs 1,200  blank 3  links 4,500  per token 0.99",
        "words without link: source 1.0 %, target 2.0 % (by the views 3.0 %, 4.0 %)",
        "tokens with several links: source 5.0 %, target 6.0 %",
        "agreement (F1): LINKS with the views 7.0 %, the 5 views 8.0 %, their directions 9.0 %",
        "probabilities of LINKS: mean 10.0 %, off by 11.0 points",
    ]
    assert cells(table.splitlines()[1]) == ["y", "10.0", "20.0", "30.0", "1", "2", "3", "100.0"]
    assert [cells(line) for line in checks.splitlines()] == [
        ["check", "found", "of", "%", "lines"],
        ["crossing", "1,234", "5,000", "24.7", "9, 8, 7, 6, 5"],
    ]
    assert worst == ("most errors expected in lines: 5 (50.0 %), 1 (10.0 %), 7 (10.0 %), 8 (20.0 %), 6 (60.0 %)")
    found.pairs["aer"], found.facts = 0.0, {name: facts[name] for name in facts if name != "calibration_error"}
    text = diagnosis_text(found, with_embeddings=True)
    assert text.endswith("\n\nno errors expected")
    assert "are judged too severely" not in text
    assert "probabilities of LINKS" not in text
