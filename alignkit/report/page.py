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
from importlib.resources import files
from typing import Any

from alignkit.report.gold import gold_table
from alignkit.report.model import Report, names_of
from alignkit.report.page_data import payload
from alignkit.text.subword_marks import style_of
from alignkit.version import __version__

LIMIT = 500
DASH = "\N{EN DASH}"
SCRIPTS = ("base.js", "charts.js", "heat.js", "browser.js")
_PLACE = re.compile(r"@@([A-Z_]+)@@")


def build_page(report: Report, limit: int = LIMIT) -> bytes:
    """The page.

    Args:
        report: what to show; all its pairs count in the figures.
        limit: how many sentence pairs, the first ones, can be looked at one by one.
    """
    data = payload(report, limit)
    style, script = _asset("page.css"), script_text()
    parts = {
        "VERSION": __version__,
        "TITLE": escape(report.title),
        "STYLE": style,
        "STYLE_HASH": _hash(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "HEADLINE": headline(report, data),
        "NAVIGATION": _navigation(data),
        "MATRIX": matrix(report),
        "GOLD": against_people(report),
        "COURSE": _course(data),
        "MASS": _mass(data),
        "SENTENCES_NOTE": escape(_sentences_note(report, limit)),
        "SETTINGS": settings(report.facts),
        "DATA": embedded_json(data),
    }
    # One pass, so that a text which looks like a place stays a text.
    return _PLACE.sub(lambda match: parts[match[1]], _asset("page.html")).encode("utf-8", "surrogatepass")


def script_text() -> str:
    """The page's script: all files as one function."""
    return '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n"


def _asset(name: str) -> str:
    return (files("alignkit.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded_json(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(data, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def share(value: float | None, digits: int = 0) -> str:
    """A fraction as per cent, with a space that does not break."""
    if value is None or math.isnan(value):
        return DASH
    return f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def headline(report: Report, data: Mapping[str, Any]) -> str:
    """What the page says, in a few sentences, as paragraphs."""
    u, v = report.main_pair
    labels = names_of(report.sets)
    pairs = f"{len(report.bitext):,} sentence pairs"
    row = report.table[(report.table["u"] == u) & (report.table["v"] == v)]
    if row.empty or math.isnan(row.iloc[0].agreement):
        return f'<p class="lead">{escape(labels[u])} on {pairs}.</p>'
    found = row.iloc[0]
    lines = [f'<p class="lead">{_verdict(u, v, labels, found)}</p>']
    learned = _learned(data)
    if learned:
        lines.append(f'<p class="lead">{learned}</p>')
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


def _verdict(u: str, v: str, labels: Mapping[str, str], found: Any) -> str:
    """The agreement of the main pair as a sentence."""
    verdict = "more often than the"
    if found.low <= found.chance:
        verdict = "no more often than the" if found.high >= found.chance else "less often than the"
    elif found.agreement > 2 * found.chance:
        verdict = "far more often than the"
    both = f"<em>{escape(labels[u])}</em> is also at the top of <em>{escape(labels[v])}</em>"
    what = f"the favourite source word of {both}"
    if (labels[u], v) == ("Attention", "ibm1.beta"):
        what = (
            "attention looks most at the very source word that comes first in a dictionary counted out of the "
            "text (IBM Model 1)"
        )
    return (
        f"For <strong>{share(found.agreement)}</strong> of the target words, {what}: {verdict} "
        f"{share(found.chance)} of chance."
    )


def _learned(data: Mapping[str, Any]) -> str:
    """When the first agreement against training step was half way from chance to its end."""
    course = data["course"]
    series = next((s for s in course["series"] if s["role"] == "agreement"), None) if course else None
    if series is None or course["chance"] is None or len(series["points"]) < 3:
        return ""
    last = series["points"][-1]
    half = (course["chance"] + last[1]) / 2
    if last[1] <= course["chance"]:
        return ""
    step = next(point[0] for point in series["points"] if point[1] >= half)
    text = f"Half of that was learned by step <strong>{step:,}</strong> of {last[0]:,}"
    accuracy = next((s for s in course["series"] if s["label"].startswith("right next words")), None)
    then = dict(map(tuple, accuracy["points"])).get(step) if accuracy else None
    return text + (f", when the network got {share(then)} of the next words right." if then is not None else ".")


def _navigation(data: Mapping[str, Any]) -> str:
    places = [("agreement", "Who agrees"), ("course", "When it was learned"), ("sentences", "Sentences")]
    places += [("frequency", "Rare words"), ("length", "Long sentences")]
    places += [("mass", "Where the weight goes"), ("settings", "Settings")]
    shown = [p for p in places if p[0] not in ("course", "mass") or data[p[0]]]
    return "".join(f'<a href="#{place}">{text}</a>' for place, text in shown)


def matrix(report: Report) -> str:
    """The agreement table as HTML, and what its rows are."""
    names = names_of(report.sets)
    rows = {(row.u, row.v): row for row in report.table.itertuples(index=False)}
    notes = "".join(
        f"<div><dt>{escape(each.label)}<code>{escape(each.name)}</code></dt><dd>{escape(each.note)}</dd></div>"
        for each in report.sets
    )
    names_list = f'<dl class="names">{notes}</dl>'
    if not rows:
        return f'<p class="look">There is one aligner only, so nothing to agree with.</p>{names_list}'
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in names.values())
    body = []
    for u, label in names.items():
        cells = "".join(_cell(rows.get((u, v))) for v in names)
        body.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>')
    table = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Agreement table"><table class="matrix">'
        f'<thead><tr><th scope="col">favourite of ↓, looked up in →</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
    percent = f"{float(report.percent):g}"
    look = (
        "For each target word, take the source word that the aligner on the left ranks first, and see whether "
        f"the aligner above has it among its top {percent} % (in a sentence of up to {_single(report)} words: at "
        "the very top). The large number is the share of target words where it has; below it the 95 % interval "
        "and what a source word drawn at random would reach. Look for numbers whose interval lies well above "
        "chance."
    )
    return f'{table}<p class="look">{look}</p>{names_list}'


def against_people(report: Report) -> str:
    """Precision, recall and AER of the aligners that link, if there are gold links."""
    table = gold_table(report)
    if table.empty:
        return ""
    labels = names_of(report.sets)
    rows = "".join(
        f'<tr><th scope="row">{escape(labels[row.set])}</th><td>{share(row.precision, 1)}</td>'
        f"<td>{share(row.recall, 1)}</td><td>{share(row.aer, 1)}</td>"
        f"<td>{100 * row.aer_low:.0f}{DASH}{100 * row.aer_high:.0f}</td></tr>"
        for row in table.itertuples(index=False)
    )
    columns = ("Precision", "Recall", "Error rate", "95 % interval")
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    return (
        '<h3>Against links that people made</h3><div class="scroll" tabindex="0" role="region" '
        'aria-label="Against links that people made"><table><thead><tr><th scope="col">Aligner</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        '<p class="look">Each target word is linked to its favourite source word, subwords put together. '
        "Precision: how many of these links people made too; recall: how many of the sure links of people are "
        "found; the alignment error rate joins both, 0 is perfect. Look whether agreement with the dictionary "
        "goes with few errors.</p>"
    )


def _single(report: Report) -> int:
    """The longest sentence whose top holds one word only."""
    return max(1, math.floor(100 / float(report.percent) + 1e-9))


def _cell(row: Any) -> str:
    if row is None or math.isnan(row.agreement):
        return f'<td class="none">{DASH}</td>'
    shade = min(5, int(6 * row.agreement))
    ties = f' title="{share(row.ties)} of the rows agree only because of ties"' if row.ties >= 0.005 else ""
    interval = f"{100 * row.low:.0f}{DASH}{100 * row.high:.0f}"
    return (
        f'<td class="m{shade}"{ties}><b>{share(row.agreement)}</b><small>{interval}</small>'
        f"<small>chance {share(row.chance)}</small></td>"
    )


def _course(data: Mapping[str, Any]) -> str:
    if not data["course"]:
        return ""
    look = (
        "Solid lines: how far the network agrees with the dictionary after so many training steps; broken lines: "
        "how good it is at its task. Look which rises first: where the network&#39;s word knowledge leaves chance "
        "before attention does, attention was learned from it."
    )
    if not any(each["role"] == "agreement" for each in data["course"]["series"]):
        look = (
            "How good the network is at its task after so many training steps. To see as well when it came to "
            "agree with the dictionary, train with <code>--keep logged</code>: this run kept its best one only."
        )
    return (
        '<section id="course"><h2>When it was learned</h2><div class="figure" id="course-figure"></div>'
        f'<p class="look">{look}</p>'
        '<details><summary>The numbers</summary><div class="scroll" id="course-table"></div></details></section>'
    )


def _mass(data: Mapping[str, Any]) -> str:
    if not data["mass"]:
        return ""
    return (
        '<section id="mass"><h2>Where the weight goes</h2><div class="figure" id="mass-figure"></div>'
        '<p class="look">The share of each aligner&#39;s weight that goes to words, to punctuation and to the '
        "marks of the sentence&#39;s start and end. The upright stroke is what weights spread evenly would give. "
        "Look for bars far beyond their stroke: a sentence end that draws much weight is used as a place to rest, "
        "not as a translation.</p>"
        '<details><summary>The numbers</summary><div class="scroll" id="mass-table"></div></details></section>'
    )


def _sentences_note(report: Report, limit: int) -> str:
    total = len(report.bitext)
    parts = []
    if limit < total:
        parts.append(f"These are the first {limit:,} of {total:,} pairs; the figures count all.")
    if report.marked and style_of([report.bitext.source.vocabulary.tokens]) == "sentencepiece":
        parts.append("Rare words are cut into pieces; a hyphen in front says that a piece goes on with its word.")
    return " ".join(parts)


def settings(facts: Mapping[str, Any]) -> str:
    """Nested settings as definition lists."""
    parts = []
    loose = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    groups = {
        **({"general": loose} if loose else {}),
        **{k: v for k, v in facts.items() if isinstance(v, Mapping)},
    }
    for title, values in groups.items():
        rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in flat(values))
        parts.append(f"<div><h3>{escape(title)}</h3><dl>{rows}</dl></div>")
    return f'<div class="facts">{"".join(parts)}</div>'


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """(dotted name, text) of nested values."""
    found = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{prefix}{name}.")
        else:
            text = json.dumps(value) if isinstance(value, bool | None) else str(value)
            found.append((f"{prefix}{name}", text))
    return found
