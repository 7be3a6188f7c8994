"""The summary at the top of the page, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from alignkit.report.html import share
from alignkit.report.model import Report, names_of


def headline(report: Report, data: Mapping[str, Any]) -> str:
    """The summary as paragraphs of HTML."""
    u, v = report.main_pair
    labels = names_of(report.sets)
    texts = report.labelled
    pairs = f"{len(report.bitext):,} {'texts' if texts else 'sentence pairs'}"
    row = report.table[(report.table["u"] == u) & (report.table["v"] == v)]
    if row.empty or math.isnan(row.iloc[0].agreement):
        return f'<p class="lead">{escape(labels[u])} on {pairs}.</p>'
    found = row.iloc[0]
    lines = [f'<p class="lead">{_verdict(u, v, labels, found, texts)}</p>']
    learned = _learned(data)
    if learned:
        lines.append(f'<p class="lead">{learned}</p>')
    units = "texts" if texts else "target words"
    lines.append(
        f'<p class="fine">From {int(found.rows):,} {units} of {pairs}. 95 % interval: {share(found.low)} to '
        f"{share(found.high)} (bootstrap over sentences).{_what_words_are(report)}</p>"
    )
    return "\n".join(lines)


def _what_words_are(report: Report) -> str:
    if not report.marked:
        return ""
    among = "; the marks of sentence start and end count among them" if report.specials else ""
    return f" Words here are the tokens of the network, which may be parts of words{among}."


def _verdict(u: str, v: str, labels: Mapping[str, str], found: Any, texts: bool) -> str:
    """The agreement of the main pair as a sentence."""
    verdict = "more often than the"
    if found.low <= found.chance:
        verdict = "no more often than the" if found.high >= found.chance else "less often than the"
    elif found.agreement > 2 * found.chance:
        verdict = "far more often than the"
    both = f"<em>{escape(labels[u])}</em> is also at the top of <em>{escape(labels[v])}</em>"
    what = f"the favourite {'word' if texts else 'source word'} of {both}"
    units = "texts" if texts else "target words"
    if (labels[u], v) == ("Attention", "ibm1.beta"):
        what = (
            "attention looks most at the very source word that comes first in a dictionary counted out of the "
            "text (IBM Model 1)"
        )
    return (
        f"For <strong>{share(found.agreement)}</strong> of the {units}, {what}: {verdict} "
        f"{share(found.chance)} of chance."
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
    if series["forced"]:
        text += (
            f" It could not begin earlier: attention was fixed to uniform in the first {series['forced']:,} steps."
        )
    return text
