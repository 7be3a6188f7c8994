"""The report of a classifier's explanation tests."""

from __future__ import annotations

import math

import pandas as pd
from report.conftest import make_report

from alignkit.explain.page import explanation_panel, frontier, frontier_picture, interval_picture, panel_html
from alignkit.report.page import build_page

ROWS = [
    ("order", "tau, gradient", 0.25, 0.2, 0.3, 12, "a <b> meaning"),
    ("seeds", "seeds, JSD", 0.1, 0.05, 0.15, 12, "m"),
    ("seeds", "seeds, change", 0.2, 0.1, 0.3, 12, "m"),
    ("trained-adversary", "lambda 0, TVD", 0.02, 0.01, 0.03, 12, "m"),
    ("trained-adversary", "lambda 0, JSD", 0.05, 0.01, 0.09, 12, "m"),
    ("trained-adversary", "lambda 1, TVD", 0.4, 0.3, 0.5, 12, "m"),
    ("trained-adversary", "lambda 1, JSD", 0.9, 0.8, 1.0, 12, "m"),
    ("rationales", "entmax, pieces", 2.5, math.nan, math.nan, 1, "m"),
]
TABLE = pd.DataFrame(ROWS, columns=["group", "test", "value", "low", "high", "n", "meaning"])


def test_the_page_of_a_classifier_begins_with_the_tests():
    page = build_page(
        make_report(kind="Explanation report", labelled=True, panels=(explanation_panel(TABLE),))
    ).decode()
    assert page.index('id="explanation"') < page.index('id="agreement"')
    assert "Explanation report" in page
    assert "a &lt;b&gt; meaning" in page
    assert "sentence pairs" not in page[page.index('class="lead"') : page.index("<nav")]
    assert 'id="explanation"' not in build_page(make_report()).decode()


def test_every_row_and_test_is_in_the_panel():
    html = panel_html(TABLE)
    for _, test, value, *_ in ROWS:
        assert f'<th scope="row">{test}</th><td>{value:.3f}</td>' in html
    assert html.count("<h3>") == TABLE.group.nunique()
    assert "Wiegreffe and Pinter 2019" in html


def test_pictures_are_to_scale():
    one, *_, none = TABLE.itertuples(index=False)
    picture = interval_picture(one)
    assert 'cx="40.0"' in picture  # a quarter of 160
    assert 'x1="32.0" x2="48.0"' in picture
    assert interval_picture(none) == ""
    assert frontier(TABLE) == [
        ("lambda 0", 0.02, 0.05),
        ("lambda 1", 0.4, 0.9),
        ("other seeds", 0.2, 0.1),
    ]
    html = frontier_picture(TABLE)
    assert f'cx="{44 + 260 * 0.2 / 0.44:.1f}" cy="{260 * 0.9:.1f}" r="5" class="other"' in html
    assert frontier_picture(TABLE[TABLE.group == "order"]) == ""
