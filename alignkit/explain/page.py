"""The page of a classifier's explanation tests: a panel of tables and pictures, and its texts as heat maps."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.explain.registry import EXPLANATION_TESTS
from alignkit.explain.subject import Subject
from alignkit.metrics.registry import compare_by_all
from alignkit.report.model import Panel, Report, score_set
from alignkit.report.panels import DASH, look
from alignkit.report.panels import table as table_html

if TYPE_CHECKING:
    import pandas as pd


WIDTH, HEIGHT = 160, 14  #: of an interval's picture, in pixels
SIDE, MARGIN = 260, 44  #: of the picture of the adversaries


def explanation_panel(table: pd.DataFrame) -> Panel:
    """The panel of a table of tests."""
    return Panel(
        "explanation", "Does attention explain the decisions?", "The tests", lambda report, data: panel_html(table)
    )


def panel_html(found: pd.DataFrame) -> str:
    """The explanation tests: a table for each, with intervals."""
    parts = [
        look(
            "What tests of attention as an explanation say of these texts. A dot is the mean over texts, the line "
            "its 95 % interval, on a scale from 0 to 1; values beyond it have none. Look for intervals that do "
            "not overlap."
        )
    ]
    for name, rows in found.groupby("group", sort=False):
        test = EXPLANATION_TESTS[str(name)]
        parts.append(f"<h3>{escape(str(name))}: {escape(test.summary)}</h3>{_test_table(str(name), rows)}")
        if name == "trained-adversary":
            parts.append(frontier_picture(found))
        parts.append(f'<p class="fine">{escape(test.source)}</p>')
    return "".join(parts)


def _test_table(name: str, rows: pd.DataFrame) -> str:
    cells = [
        f'<tr><th scope="row">{escape(row.test)}</th><td>{_number(row.value)}</td>'
        f"<td>{_number(row.low)}{DASH}{_number(row.high)}</td><td>{interval_picture(row)}</td>"
        f"<td>{int(row.n):,}</td><td>{escape(row.meaning)}</td></tr>"
        for row in rows.itertuples(index=False)
    ]
    return table_html(name, ("Test", "Value", "95 % interval", "", "Texts", "What it is"), cells)


def _number(value: float) -> str:
    return DASH if np.isnan(value) else f"{value:.3f}"


def interval_picture(row: Any) -> str:
    """A dot and a line on a scale from 0 to 1 as SVG; nothing for values beyond it."""
    if np.isnan(row.value) or not 0 <= row.value <= 1:
        return ""
    middle, place = HEIGHT / 2, WIDTH * row.value
    parts = [f'<line x1="0" x2="{WIDTH}" y1="{middle}" y2="{middle}" class="scale"/>']
    if not np.isnan(row.low):
        low, high = (WIDTH * min(max(end, 0.0), 1.0) for end in (row.low, row.high))
        parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" class="span"/>')
    parts.append(f'<circle cx="{place:.1f}" cy="{middle}" r="4" class="mean"/>')
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{row.value:.3f}">{"".join(parts)}</svg>'
    )


def frontier(found: pd.DataFrame) -> list[tuple[str, float, float]]:
    """(what it is, TVD, JSD) of the trained adversaries, and of other seeds, if those were tested.

    Args:
        found: of :func:`alignkit.explain.explain.explanation_table`.
    """
    values = {(row.group, row.test): row.value for row in found.itertuples(index=False)}
    names = [test.removesuffix(", TVD") for group, test in values if test.endswith(", TVD")]
    points = [
        (name, values["trained-adversary", f"{name}, TVD"], values["trained-adversary", f"{name}, JSD"])
        for name in names
    ]
    if ("seeds", "seeds, JSD") in values:
        points.append(("other seeds", values["seeds", "seeds, change"], values["seeds", "seeds, JSD"]))
    return [point for point in points if not np.isnan(point[1:]).any()]


def frontier_picture(found: pd.DataFrame) -> str:
    """The distance of attention against that of outputs, of trained adversaries and of other seeds, as SVG."""
    points = frontier(found)
    if not points:
        return ""
    widest = max(0.05, *(x for _, x, _ in points)) * 1.1
    size = SIDE + MARGIN
    parts = [
        f'<line x1="{MARGIN}" x2="{size}" y1="{SIDE}" y2="{SIDE}" class="axis"/>',
        f'<line x1="{MARGIN}" x2="{MARGIN}" y1="0" y2="{SIDE}" class="axis"/>',
        _label(MARGIN + SIDE / 2, SIDE + 34, "distance of outputs (TVD)", "middle"),
        _label(size, SIDE + 18, f"{widest:.2f}", "end"),
        _label(MARGIN - 6, 12, "1", "end"),
        _label(MARGIN - 6, SIDE, "0", "end"),
        _label(MARGIN + 6, 12, "distance of attention (JSD, of log 2)", "start"),
    ]
    for name, x, y in points:
        across, up = MARGIN + SIDE * x / widest, SIDE * (1 - y)
        kind = "other" if name == "other seeds" else "mean"
        parts.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="5" class="{kind}"/>')
        parts.append(_label(across + 8, up + 4, name, "start"))
    width = size + 120  # for the names of the last points
    return (
        f'<div class="figure"><svg width="{width}" height="{size}" viewBox="0 0 {width} {size}" role="img" '
        f'aria-label="Trained adversaries and other seeds">{"".join(parts)}</svg></div>'
        + look(
            "Up is other attention, right are other outputs. Adversaries above and left of the other seeds are "
            "further away in attention at no more distance in outputs than chance brings about."
        )
    )


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


KINDS = ("alpha", "beta", "delta", "loo")  #: of the classifier's scores that are shown


def explanation_report(subject: Subject, table: pd.DataFrame, title: str | None = None) -> Report:
    """The report of a subject and its explanation tests.

    Each text is shown as a sentence pair whose only target word is the label.

    Args:
        subject: the classifier and its texts.
        table: of :func:`alignkit.explain.explain.explanation_table`.
        title: of the page.
    """
    bitext = subject.text.bitext
    sets = [score_set(subject.classifier, kind, subject.scores(kind), name="classifier") for kind in KINDS]
    for number, other in enumerate(subject.others, 2):
        names = {"name": f"classifier{number}", "suffix": f"classifier {number}"}
        sets.append(score_set(other, "alpha", other.score(bitext, "alpha"), **names))
    learned = subject.training if subject.training is not None else subject.text
    counts = np.bincount(learned.corpus.tokens, minlength=len(bitext.source.vocabulary))
    classifier = subject.classifier
    measured = {name: f"{value:.4g}" for name, value in sorted(classifier.metrics.items())}
    return Report(
        title=title or f"Does attention explain {' or '.join(classifier.labels)}?",
        bitext=bitext,
        sets=tuple(sets),
        tables=compare_by_all({each.name: each.scores for each in sets}, seed=subject.settings.seed),
        counts=counts,
        specials=False,
        marked=False,
        facts={
            "classifier": {"step": f"{classifier.step:,}", **measured, **asdict(classifier.settings)},
            "tests": asdict(subject.settings),
        },
        seed=subject.settings.seed,
        kind="Explanation report",
        labelled=True,
        panels=(explanation_panel(table),),
    )
