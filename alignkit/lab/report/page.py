"""A report as one self-contained HTML page: no network, the same bytes for the same report.

Text of the corpus reaches the page in two ways only: through templates that escape it, or as JSON without ``<``,
``>`` and ``&``, which the script shows by ``textContent``. A content security policy lets nothing run but the
page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from importlib.resources import files
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from alignkit.errors import counted
from alignkit.lab.report.build import Report, against_gold, breakdown_table, mass_table
from alignkit.lab.time_course import row_name
from alignkit.metrics.agreement import agreement_rows
from alignkit.metrics.protocol import MetricSettings, as_number
from alignkit.metrics.registry import MAIN, METRICS
from alignkit.support.packages import __version__
from alignkit.text.tokenization import style_of

SHOWN_PAIRS = 500  #: sentence pairs that can be looked at one by one
SCRIPTS = ("base.js", "charts.js", "heat.js", "browser.js")

#: (id, heading, name in the navigation) of the page's sections. The template of that id has the HTML; a section
#: that has nothing to show, in which it is blank, is left out.
PANELS = (
    ("agreement", "Who agrees with whom", "Who agrees"),
    ("course", "When it was learned", "When it was learned"),
    ("sentences", "The sentences", "Sentences"),
    ("frequency", "Common and rare words", "Rare words"),
    ("length", "Short and long sentences", "Long sentences"),
    ("mass", "Where the weight goes", "Where the weight goes"),
    ("heads", "Which heads align", "Heads"),
    ("settings", "What made this page", "Settings"),
)

#: names of a training log that are shown against training step -> (label, what 1 is in it)
PERFORMANCE = {
    "valid.accuracy": ("next words predicted correctly", 1.0),
    "valid.bleu": ("translation quality (BLEU)", 100.0),
    "valid.bleu_greedy": ("translation quality (BLEU, greedy)", 100.0),
}
#: what a run's own scores at each step are called
MOVING = {"alpha(step)": "Attention", "beta(step)": "Network's word knowledge"}


def build_page(report: Report, limit: int = SHOWN_PAIRS) -> bytes:
    """The page of a report.

    Args:
        report: all its pairs count in the figures.
        limit: the number of sentence pairs, the first ones, that can be looked at one by one.
    """
    data = page_data(report, limit)
    u, v = report.main_pair
    records = {name: table.to_dict("records") for name, table in report.tables.items()}
    tables = {name: {(row["u"], row["v"]): row for row in rows} for name, rows in records.items()}
    rates: list[tuple[Any, ...]] = []
    # partition -> class -> name of the scores -> measures
    error_classes: dict[str, dict[str, dict[str, Any]]] = {}
    for each, counts, classes in against_gold(report):
        rates.append((each, counts.total(), *counts.intervals(report.seed)["aer"]))
        for row in classes.to_dict("records"):
            error_classes.setdefault(row["by"], {}).setdefault(row["class"], {})[each.name] = row
    values = {
        "title": report.title,
        "report": report,
        "data": data,
        "labels": report.labels,
        "pairs": counted(len(report.bitext), "sentence pair"),
        "u": u,
        "v": v,
        "learned": learned(data["course"]),
        "percent": f"{as_number(report.percent):g}",
        # the longest row with one cell at its top
        "single_top": max(1, math.floor(100 / as_number(report.percent) + 1e-9)),
        "tables": tables,
        "main": MAIN,
        "other_metrics": [METRICS[name] for name in tables if name != MAIN.name and tables[name]],
        "rule": MetricSettings(percent=report.percent),
        "rates": rates,
        "error_classes": error_classes,
    }
    panels = [(*panel, _TEMPLATES.get_template(f"{panel[0]}.html").render(values).strip()) for panel in PANELS]
    values["panels"] = [panel for panel in panels if panel[-1]]
    script = '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in SCRIPTS) + "})();\n"
    return render_page("page.html", asset("page.css"), script, values)


def render_page(template: str, style: str, script: str, values: Mapping[str, Any]) -> bytes:
    """A page from a template that extends ``frame.html``.

    Args:
        template: a file of ``templates``.
        style, script: CSS and JavaScript: nothing else has an effect on the page.
        values: what the template shows; of the frame ``title``, and ``data``, JSON values for the script.
    """
    page = _TEMPLATES.get_template(template).render(values, style=style, script=script, version=__version__)
    return page.encode("utf-8", "surrogatepass")


def asset(name: str) -> str:
    """A file of ``alignkit/lab/report/assets`` as text."""
    return (files("alignkit.lab.report") / "assets" / name).read_text(encoding="utf-8")


def share(value: float, digits: int = 0) -> str:
    """A fraction as per cent, with a space that does not break; a dash for NaN."""
    return "\N{EN DASH}" if math.isnan(value) else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def shade(value: float) -> int:
    """One of six colours for a share."""
    return min(5, max(0, int(6 * value)))


def digest(text: str) -> str:
    """SHA-256 as content security policies write it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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


_TEMPLATES = Environment(
    loader=PackageLoader("alignkit.lab.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters.update(share=share, shade=shade, digest=digest, flat=flat)
_TEMPLATES.tests["nan"] = math.isnan
_TEMPLATES.policies["json.dumps_kwargs"] = {"allow_nan": False, "sort_keys": True, "separators": (",", ":")}


def learned(course: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """When the first agreement was half way from chance to its last value, and stayed so; None if it did not rise
    above chance. The agreement of weights that are not trained yet may be anything.

    Args:
        course: of :func:`time_course_lines`.

    Returns:
        ``step``, the ``last`` step, and the network's ``accuracy`` at that step, or None.
    """
    series = course["series"] if course else []
    points: list[list[Any]] = next((s["points"] for s in series if s["role"] == "agreement"), [])
    if course is None or course["chance"] is None or len(points) < 3 or points[-1][1] <= course["chance"]:
        return None
    half = (course["chance"] + points[-1][1]) / 2
    step = points[max((k + 1 for k, (_, value) in enumerate(points) if value < half), default=0)][0]
    label = PERFORMANCE["valid.accuracy"][0]
    accuracy = next((dict(s["points"]) for s in series if s["label"].startswith(label)), {})
    return {"step": step, "last": points[-1][0], "accuracy": accuracy.get(step)}


def page_data(report: Report, limit: int = SHOWN_PAIRS) -> dict[str, Any]:
    """The data of the page's script, as JSON values.

    Args:
        report: of M pairs.
        limit: the number of sentence pairs, the first ones, that can be looked at one by one.
    """
    names = [each.name for each in report.sets]
    # By frequency and length, for each pair "u,v" of indices: rows [band, rows, agreement, chance, low, high].
    bands: dict[str, dict[str, list[Any]]] = {"frequency": {}, "length": {}}
    for row in breakdown_table(report):
        key = f"{names.index(row['u'])},{names.index(row['v'])}"
        shares = [plain_number(row[name]) for name in ("agreement", "chance", "low", "high")]
        bands[row["by"]].setdefault(key, []).append([row["band"], row["rows"], *shares])
    # Of each alpha set: rows [class, mass, even].
    mass: dict[str, list[Any]] = {}
    for row in mass_table(report):
        shares = [plain_number(row["mass"]), plain_number(row["even"])]
        mass.setdefault(row["set"], []).append([row["class"], *shares])
    return {
        "sets": [{"name": s.name, "label": s.label, "note": s.note} for s in report.sets],
        "main": [names.index(name) for name in report.main_pair],
        "specials": report.specials,
        "style": style_of([report.bitext.source.vocabulary.tokens]) if report.marked else "words",
        "gold": report.gold is not None,
        "bands": bands,
        "mass": [{"label": report.labels[name], "rows": rows} for name, rows in mass.items()],
        "course": time_course_lines(report),
        "sentences": sentences(report, limit),
    }


def time_course_lines(report: Report) -> dict[str, Any] | None:
    """Series of (step, share) with labels in words, and the chance level; None if there is nothing to show.

    Shown are, of the main metric A, ``A(k(step), v)``, the agreement of a fixed v with the run's scores of kind k
    at that step; ``chance`` of the same; ``A(u, alpha(step))``, u being the attention of another run; and
    ``PERFORMANCE``. A series of the learned attention has ``forced``, the number of first steps in which it was
    fixed to uniform and learned nothing; elsewhere that is 0. ``forced`` of the whole is the largest.
    """
    table, labels = report.time_course, report.labels
    if table is None or table.empty:
        return None
    series: list[dict[str, Any]] = []
    chances = []
    several = table["run"].nunique() > 1
    for (run, name), rows in table.groupby(["run", "name"], sort=False):
        points = [[int(step), plain_number(value)] for step, value in rows[["step", "value"]].values]
        u, _, v = name.partition("(")[2].removesuffix(")").partition(", ")
        moving, unit, role = u in MOVING and v in labels, 1.0, "agreement"
        if name.startswith("chance("):
            chances += [points[-1][1]] if moving else []
            continue
        if name in PERFORMANCE:
            (label, unit), role = PERFORMANCE[name], "performance"
        elif name == row_name(MAIN.symbol, u, v) and moving:
            label = f"{MOVING[u]} agrees with {labels[v]}"
        elif name == row_name(MAIN.symbol, u, "alpha(step)") and u in labels and u.endswith(".alpha"):
            label = f"Attention agrees with that of another run, {labels[u]}"
        else:
            continue
        forced = report.uniform_steps.get(run, 0) if "alpha(step)" in (u, v) else 0
        points = sorted([step, value / unit] for step, value in points if value is not None)
        text = f"{label} ({run})" if several else label
        series.append({"label": text, "role": role, "points": points, "forced": forced})
    if not any(len(each["points"]) > 1 for each in series):
        return None
    series.sort(key=lambda each: each["role"])
    chance = chances[0] if len({round(x or 0, 6) for x in chances}) == 1 else None
    return {"series": series, "chance": chance, "forced": max(each["forced"] for each in series)}


def sentences(report: Report, limit: int) -> list[dict[str, Any]]:
    """The first ``limit`` pairs: tokens ``x`` and ``y``; ``v``, the matrices of all sets one after another as
    little-endian 16-bit floats in base64; ``h``, a hex string of which rows agree, ceil(T / 4) digits for each
    (u, v); and ``g``, gold links [s, t, 1 if sure]."""
    pairs, names = len(report.bitext), [each.name for each in report.sets]
    agreeing = {}  # (u, v) -> per sentence pair bool (T,), empty for one without columns or words
    for u, v in permutations(report.sets, 2):
        rows = agreement_rows(u.order, v.order, report.percent)
        bounds = np.searchsorted(rows.sentence, np.arange(pairs + 1))
        agreeing[u.name, v.name] = [rows.hits[low:high] for low, high in pairwise(bounds)]
    gold = None
    if report.gold is not None:
        gold = report.token_links(report.gold.possible), report.token_links(report.gold.sure)
    found = []
    for m in range(min(limit, pairs)):
        x, y = report.bitext.source.words(m), report.bitext.target.words(m)
        nothing = np.zeros(len(y), bool)
        known = [agreeing[pair][m] if pair in agreeing else nothing for pair in product(names, repeat=2)]
        hits = [each if len(each) else nothing for each in known]
        matrices = encode_matrices([each.scores[m] for each in report.sets])
        record: dict[str, Any] = {"x": x, "y": y, "v": matrices, "h": "".join(map(hex_bits, hits))}
        if gold is not None and m < len(gold[0]):
            sure = set(gold[1][m])
            record["g"] = [[s, t, int((s, t) in sure)] for s, t in gold[0][m]]
        found.append(record)
    return found


def encode_matrices(matrices: list[np.ndarray]) -> str:
    """Base64 of the matrices as little-endian 16-bit floats: three digits, and 0 below 6e-8."""
    largest = float(np.finfo(np.float16).max)
    clipped = [np.where(np.isinf(matrix), matrix, np.clip(matrix, -largest, largest)) for matrix in matrices]
    return base64.b64encode(b"".join(matrix.astype("<f2").tobytes() for matrix in clipped)).decode("ascii")


def hex_bits(bits: np.ndarray) -> str:
    """Bits as hexadecimal digits, the first bit the highest of the first digit; padded with 0."""
    return np.packbits(bits).tobytes().hex()[: -(-len(bits) // 4)]


def plain_number(value: float) -> float | None:
    """A float rounded to six digits; None for NaN."""
    return None if math.isnan(value) else float(f"{float(value):.6g}")
