"""A report as one self-contained HTML page: no network, the same bytes for the same report.

Text of the corpus reaches the page in two ways only: as JSON with ``<``, ``>`` and ``&`` escaped, which the script
shows by ``textContent``, or through :func:`html.escape`. A content security policy lets nothing run but the page's
own script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from alignkit.errors import counted
from alignkit.lab.report import panels
from alignkit.lab.report.model import Panel, Report, names_of
from alignkit.lab.report.page_data import SHOWN_PAIRS, page_data
from alignkit.lab.report.panels import asset, share
from alignkit.support.version import __version__

SCRIPTS = ("base.js", "charts.js", "heat.js", "browser.js")
_PLACE = re.compile(r"@@([A-Z_]+)@@")


PANELS = (
    Panel("agreement", "Who agrees with whom", "Who agrees", panels.agreement_panel),
    Panel("course", "When it was learned", "When it was learned", panels.time_course_panel),
    Panel("sentences", "The sentences", "Sentences", panels.sentences_panel),
    Panel("frequency", "Common and rare words", "Rare words", panels.frequency_panel),
    Panel("length", "Short and long sentences", "Long sentences", panels.length_panel),
    Panel("mass", "Where the weight goes", "Where the weight goes", panels.mass_panel),
    Panel("heads", "Which heads align", "Heads", panels.heads_panel),
    Panel("settings", "What made this page", "Settings", panels.settings_panel),
)


def build_page(report: Report, limit: int = SHOWN_PAIRS) -> bytes:
    """The page of a report.

    Args:
        report: all its pairs count in the figures.
        limit: the number of sentence pairs, the first ones, that can be looked at one by one.
    """
    data = page_data(report, limit)
    shown = [(panel, html) for panel in PANELS if (html := panel.html(report, data))]
    sections = [
        f'<section id="{panel.place}"><h2>{escape(panel.title)}</h2>{html}</section>' for panel, html in shown
    ]
    parts = {
        "TITLE": escape(report.title),
        "HEADLINE": headline(report, data),
        "NAVIGATION": "".join(f'<a href="#{panel.place}">{escape(panel.link)}</a>' for panel, _ in shown),
        "PANELS": "\n".join(sections),
        "DATA": embedded_json(data),
    }
    return filled_page("page.html", asset("page.css"), script_text(), parts)


def filled_page(body: str, style: str, script: str, parts: Mapping[str, str]) -> bytes:
    """A page around a body, an asset: nothing but this style and this script has an effect on it.

    Args:
        body: an asset with places ``@@NAME@@``; others, as TITLE and DATA, are in what is around it.
        style, script: CSS and JavaScript.
        parts: HTML for the other places.
    """
    hashes = {"STYLE_HASH": _hash(style), "SCRIPT_HASH": _hash(script)}
    known = {"VERSION": __version__, "STYLE": style, "SCRIPT": script, **hashes, **parts}
    # One pass, so that a text which looks like a place stays a text.
    template = asset("frame.html").replace("@@BODY@@", asset(body))
    return _PLACE.sub(lambda match: known[match[1]], template).encode("utf-8", "surrogatepass")


def script_text() -> str:
    """The page's script: all files as one function."""
    return '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in SCRIPTS) + "})();\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded_json(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def headline(report: Report, data: Mapping[str, Any]) -> str:
    """The summary as paragraphs of HTML."""
    u, v = report.main_pair
    labels = names_of(report.sets)
    pairs = counted(len(report.bitext), "sentence pair")
    row = report.table[(report.table["u"] == u) & (report.table["v"] == v)]
    if row.empty or math.isnan(row.iloc[0].agreement):
        return f'<p class="lead">{escape(labels[u])} on {pairs}.</p>'
    found = row.iloc[0]
    course = [
        _learned(data),
        *(
            f"Attention was fixed to uniform in the first <strong>{steps:,}</strong> steps of "
            f"<em>{escape(name)}</em>, by the settings of its training: it could not be learned earlier."
            for name, steps in report.uniform_steps.items()
        ),
        *(f"Training of <em>{escape(name)}</em> is not finished." for name in report.unfinished),
    ]
    lines = [f'<p class="lead">{text}</p>' for text in (_verdict(u, v, report, found), *course) if text]
    lines.append(
        f'<p class="fine">From {int(found.rows):,} target words of {pairs}. 95 % interval: {share(found.low)} to '
        f"{share(found.high)} (bootstrap over sentences).{_what_words_are(report)}</p>"
    )
    return "\n".join(lines)


def _what_words_are(report: Report) -> str:
    if not report.marked:
        return ""
    among = "; the marks of sentence start and end count among them" if report.specials else ""
    return f" Words here are the tokens of the network, which may be parts of words{among}."


def _verdict(u: str, v: str, report: Report, found: Any) -> str:
    """The agreement of the main pair as a sentence."""
    labels, limit = names_of(report.sets), panels.top_word_limit(report)
    top, very_first, several = "at the top", "the very source word that comes first", ""
    if report.bitext.source.lengths.max(initial=0) > limit:
        top = f"among the top {float(report.percent):g} %"
        very_first = f"a source word that is {top}"
        several = f" In sentences of more than {limit} words, these are several."
    verdict = "more often than the"
    if found.low <= found.chance:
        verdict = "no more often than the" if found.high >= found.chance else "less often than the"
    elif found.agreement > 2 * found.chance:
        verdict = "far more often than the"
    both = f"<em>{escape(labels[u])}</em> is also {top} of <em>{escape(labels[v])}</em>"
    what = f"the favourite source word of {both}"
    if (labels[u], v) == ("Attention", "ibm1.beta"):
        what = f"attention looks most at {very_first} in a dictionary counted out of the text (IBM Model 1)"
    return (
        f"For <strong>{share(found.agreement)}</strong> of the target words, {what}: {verdict} "
        f"{share(found.chance)} of chance.{several}"
    )


def _learned(data: Mapping[str, Any]) -> str:
    """The step at which the first agreement was half way from chance to its last value, as a sentence."""
    course = data["course"]
    series = next((s for s in course["series"] if s["role"] == "agreement"), None) if course else None
    if series is None or course["chance"] is None or len(series["points"]) < 3:
        return ""
    last = series["points"][-1]
    half = (course["chance"] + last[1]) / 2
    if last[1] <= course["chance"]:
        return ""
    step = next(point[0] for point in series["points"] if point[1] >= half)
    text = "That agreement was half way from chance to its last value by step "
    text += f"<strong>{step:,}</strong> of {last[0]:,}"
    accuracy = next((s for s in course["series"] if s["label"].startswith("next words predicted correctly")), None)
    then = dict(map(tuple, accuracy["points"])).get(step) if accuracy else None
    text += f", when the network got {share(then)} of the next words right." if then is not None else "."
    return text
