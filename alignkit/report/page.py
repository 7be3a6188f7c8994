"""A report as one self-contained HTML page: no network, the same bytes for the same report.

Text of the corpus reaches the page in two ways only: as JSON with ``<``, ``>`` and ``&`` escaped, which the script
shows by ``textContent``, or through :func:`html.escape`. A content security policy lets nothing run but the page's
own script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from typing import Any

from alignkit.report import panels
from alignkit.report.headline import headline
from alignkit.report.html import asset
from alignkit.report.model import Panel, Report
from alignkit.report.page_data import SHOWN_PAIRS, page_data
from alignkit.version import __version__

SCRIPTS = ("base.js", "charts.js", "heat.js", "browser.js")
_PLACE = re.compile(r"@@([A-Z_]+)@@")


PANELS = (
    Panel("agreement", "Who agrees with whom", "Who agrees", panels.agreement_panel),
    Panel("course", "When it was learned", "When it was learned", panels.time_course_panel),
    Panel("sentences", "The sentences", "Sentences", panels.sentences_panel),
    Panel("frequency", "Common and rare words", "Rare words", panels.frequency_panel),
    Panel("length", "Short and long sentences", "Long sentences", panels.length_panel),
    Panel("mass", "Where the weight goes", "Where the weight goes", panels.mass_panel),
    Panel("settings", "What made this page", "Settings", panels.settings_panel),
)


def build_page(report: Report, limit: int = SHOWN_PAIRS) -> bytes:
    """The page of a report.

    Args:
        report: all its pairs count in the figures.
        limit: the number of sentence pairs, the first ones, that can be looked at one by one.
    """
    data = page_data(report, limit)
    style, script = asset("page.css"), script_text()
    shown = [(panel, html) for panel in (*report.panels, *PANELS) if (html := panel.html(report, data))]
    sections = [
        f'<section id="{panel.place}"><h2>{escape(panel.title)}</h2>{html}</section>' for panel, html in shown
    ]
    parts = {
        "VERSION": __version__,
        "TITLE": escape(report.title),
        "KIND": report.kind,
        "STYLE": style,
        "STYLE_HASH": _hash(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "HEADLINE": headline(report, data),
        "NAVIGATION": "".join(f'<a href="#{panel.place}">{escape(panel.link)}</a>' for panel, _ in shown),
        "PANELS": "\n".join(sections),
        "DATA": embedded_json(data),
    }
    # One pass, so that a text which looks like a place stays a text.
    return _PLACE.sub(lambda match: parts[match[1]], asset("page.html")).encode("utf-8", "surrogatepass")


def script_text() -> str:
    """The page's script: all files as one function."""
    return '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in SCRIPTS) + "})();\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded_json(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
