"""The page as text: self-contained, escaped, small, and the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from alignkit.lab.report.build import Report, against_gold
from alignkit.lab.report.page import build_page, encode_matrices, flat, hex_bits, learned, page_data
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from tests.lab.report.conftest import HOSTILE, make_report, no_tables, planted_set


@pytest.fixture(scope="module")
def page(report):
    return build_page(report).decode()


def text_of(report, *limit):
    """The page, with one space where there is any white space."""
    return " ".join(re.split(r"[ \n]+", build_page(report, *limit).decode()))


class Elements(html.parser.HTMLParser):
    """Collects elements, and what scripts and styles hold."""

    def __init__(self, text):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.raw.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.raw[-1] += data


def test_nothing_comes_from_outside(page):
    elements = Elements(page)
    for tag, attributes in elements.tags:
        for name in ("src", "href", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    assert not re.search(r"@import|url\(", page)
    assert not re.search(r"https?://", page.replace("http://www.w3.org/2000/svg", ""))


def test_the_policy_lets_this_script_and_style_in_and_no_other(page):
    elements = Elements(page)
    policy = next(a["content"] for t, a in elements.tags if t == "meta" and "http-equiv" in a)
    style, _, script = elements.raw
    for name, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_hostile_words_stay_words(page):
    elements = Elements(page)
    assert sum(tag == "script" for tag, _ in elements.tags) == 2
    sentence = json.loads(elements.raw[1])["sentences"][3]
    assert (sentence["x"], sentence["y"]) == (HOSTILE, [*HOSTILE[::-1], "end"])
    assert {"</script>", "<!--", "&amp;", "\u2028"} < set(HOSTILE)
    assert not set(elements.raw[1]) & set("<>&\u2028")
    assert "<b>title" not in page
    assert "A &lt;b&gt;title" in page
    assert "run &lt;x&gt;" in page


def test_a_text_that_looks_like_a_template_stays_a_text():
    """In the title, in names, and in the facts."""
    plain = make_report(title="{{ title }}", facts={"{# x": {"{{ 1 }}": "{{ 2 }}"}})
    sets = tuple(replace(each, label="{{ 7 * 7 }}", note="{% raw %}") for each in plain.sets)
    text = build_page(replace(plain, sets=sets)).decode()
    for wanted in ("<h1>{{ title }}</h1>", "{{ 7 * 7 }}<code>", "<dd>{% raw %}</dd>", "<h3>{# x</h3>"):
        assert wanted in text
    assert "<dt>{{ 1 }}</dt><dd>{{ 2 }}</dd>" in text


def test_matrices_and_rows_come_back(report):
    data = page_data(report, 100)
    for m, sentence in enumerate(data["sentences"]):
        values = np.frombuffer(base64.b64decode(sentence["v"]), "<f2").astype(np.float64)
        wanted = np.concatenate([each.scores[m].ravel() for each in report.sets])
        assert np.allclose(values, wanted, rtol=1e-3, atol=1e-7)
    assert (
        encode_matrices([np.array([[1e9, -np.inf, np.inf]], np.float32)])
        == base64.b64encode(np.array([65504, -np.inf, np.inf], "<f2").tobytes()).decode()
    )


def test_rows_that_agree_are_those_of_the_table(report):
    data = page_data(report, 100)
    sets = len(report.sets)
    for i, u in enumerate(report.sets):
        for j, v in enumerate(report.sets):
            if i == j:
                continue
            hits = 0
            for sentence in data["sentences"]:
                width = -(-len(sentence["y"]) // 4)
                digits = sentence["h"][(i * sets + j) * width :][:width]
                hits += bin(int(digits or "0", 16)).count("1")
            row = report.tables["agreement"].set_index(["u", "v"]).loc[(u.name, v.name)]
            assert hits == round(row.agreement * row["rows"])


def test_hex_bits():
    assert hex_bits(np.array([1, 0, 0, 0, 1], bool)) == "88"
    assert hex_bits(np.zeros(0, bool)) == ""


def test_numbers_of_the_table_are_on_the_page(report, page):
    for row in report.tables["agreement"].itertuples():
        assert f"<b>{100 * row.agreement:.0f}\N{NO-BREAK SPACE}%</b>" in page
        assert f"{100 * row.low:.0f}\N{EN DASH}{100 * row.high:.0f}" in page


def test_the_headline_says_when_it_was_learned(report):
    page = text_of(report)
    assert "half way from chance to its last value by step <strong>500</strong> of 500" in page
    assert ", when the network got 60\N{NO-BREAK SPACE}% of the next words right.</p>" in page
    assert "The order alone does not show that one caused the other" in page
    assert "was learned from it" not in page


def test_steps_with_attention_fixed_to_uniform_are_marked():
    """They are said in words and in the data; nothing is said of a run that had none."""
    forced, free = make_report(uniform_steps={"r": 50}), make_report(uniform_steps={"other": 50})
    course = page_data(forced, 0)["course"]
    assert course["forced"] == 50
    assert [each["forced"] for each in course["series"]] == [50, 0, 0]  # attention's own
    text = text_of(forced)
    assert "Attention was fixed to uniform in the first <strong>50</strong> steps of <em>r</em>" in text
    assert "first <strong>50</strong> steps" in text_of(make_report(uniform_steps={"r": 50}, time_course=None))
    assert "the first 50, the training settings fixed attention to uniform" in text
    assert page_data(free, 0)["course"]["forced"] == 0
    assert "Attention was fixed" not in text_of(make_report())


@pytest.mark.parametrize(("percent", "limit"), [(5, 0), (50, 2), (60, 1), ("101/2", 1)])
def test_the_headline_says_where_the_top_is_several_words(percent, limit):
    text = text_of(make_report(percent=percent, unfinished=("<r>",)))
    assert ("at the very source word that comes first in" in text) == (not limit)
    top = {"101/2": 50.5}.get(percent, percent)
    assert (f"a source word that is among the top {top} % in" in text) == bool(limit)
    assert (f"of chance. In sentences of more than {limit} words, these are several." in text) == bool(limit)
    assert "Training of <em>&lt;r&gt;</em> is not finished" in text
    assert "is not finished" not in text_of(make_report())


def test_the_course_in_words(report):
    series = page_data(report, 0)["course"]["series"]
    assert [(each["label"], each["role"], len(each["points"])) for each in series] == [
        ("Attention agrees with IBM dictionary", "agreement", 3),
        ("next words predicted correctly", "performance", 3),
        ("translation quality (BLEU)", "performance", 1),
    ]
    assert series[-1]["points"] == [[500, 0.2]]
    assert page_data(report, 0)["course"]["chance"] == 0.1
    course = report.time_course
    for last, shown in ((0, False), (100, True)):  # a single point is no course
        some = replace(report, time_course=course[course["step"] <= last])
        assert (page_data(some, 0)["course"] is not None) == shown


def test_limit(report):
    data = page_data(report, 4)
    assert len(data["sentences"]) == 4
    assert "the first 4 of 12 pairs" in text_of(report, 4)
    assert "These are the first" not in text_of(report)
    assert page_data(report, 0)["sentences"] == []


@pytest.mark.parametrize(("marked", "style"), [(True, "SentencePiece"), (False, "words")])
def test_marks_of_subwords_are_told(marked, style):
    text = Bitext.from_sentences([["\u2581a", "b"]], [["c"]])
    sets = (planted_set("lstm.alpha", Scores.from_matrices([np.ones((1, 2))])),)
    data = page_data(Report("t", text, sets, no_tables(), np.ones(2), specials=False, marked=marked), 1)
    assert data["style"].lower() == style.lower()


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        ("ibm1.alpha lstm.beta lstm.alpha ibm1.beta", ("lstm.alpha", "ibm1.beta")),
        ("lstm.alpha lstm.beta ibm1.alpha", ("lstm.alpha", "ibm1.alpha")),
        ("hmm.alpha lstm.beta x.alpha", ("x.alpha", "hmm.alpha")),
        ("ibm1.alpha lstm.beta", ("ibm1.alpha", "lstm.beta")),
        ("lstm.alpha", ("lstm.alpha", "lstm.alpha")),
    ],
)
def test_the_pair_that_the_page_begins_with(report, names, pair):
    sets = tuple(planted_set(name, report.sets[0].scores) for name in names.split())
    assert replace(report, sets=sets).main_pair == pair


def test_it_is_learned_half_way_from_chance_to_the_last_value():
    points = [[0, 0.625], [10, 0.375], [20, 0.5], [30, 0.75]]  # at first of weights at random
    agreements = {"role": "agreement", "label": "x", "points": points}
    performance = {"role": "performance", "label": "next words predicted correctly", "points": [[20, 0.25]]}
    course = {"chance": 0.25, "series": [agreements, performance]}
    assert learned(course) == {"step": 20, "last": 30, "accuracy": 0.25}
    assert learned({**course, "series": [agreements]}) == {"step": 20, "last": 30, "accuracy": None}
    rising = [[0, 0.5], *points[2:]]
    assert learned({**course, "series": [{**agreements, "points": rising}]})["step"] == 0
    few = [{**agreements, "points": points[2:]}]
    for other in (None, {**course, "chance": 0.75}, {**course, "chance": None}, {**course, "series": few}):
        assert learned(other) is None


def test_settings_are_flat():
    assert flat({"d": 1.5, "a": {"b": None, "c": True}}) == [("d", "1.5"), ("a.b", "null"), ("a.c", "true")]


def test_one_set_of_scores_is_enough():
    text = build_page(make_report(sets=1, tables=no_tables())).decode()
    assert "only one aligner" in text


def test_errors_by_class_are_on_the_page(report, page):
    assert "Errors by class" in page
    ((_, _, classes),) = against_gold(report)
    one = next(row for row in classes.to_dict("records") if row["class"] == "one-to-one")
    assert f"<b>{100 * one['aer']:.0f}\N{NO-BREAK SPACE}%</b><small>{100 * one['precision']:.0f}" in page
    without = make_report(gold=None)
    assert "Errors by class" not in build_page(without).decode()
    assert (page_data(report, 0)["gold"], page_data(without, 0)["gold"]) == (True, False)
