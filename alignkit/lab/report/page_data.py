"""The numbers in a page: plain values, and matrices as base64 of 16-bit floats."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.lab.report.breakdown import breakdown_table, mass_table
from alignkit.lab.report.model import Report, names_of
from alignkit.lab.time_course import row_name
from alignkit.metrics.agreement import AgreementRows, agreement_rows
from alignkit.metrics.registry import MAIN
from alignkit.text.subword_marks import style_of

if TYPE_CHECKING:
    import pandas as pd

#: names of a training log that are shown against training step -> (label, what 1 is in it)
PERFORMANCE = {
    "valid.accuracy": ("next words predicted correctly", 1.0),
    "valid.bleu": ("translation quality (BLEU)", 100.0),
    "valid.bleu_greedy": ("translation quality (BLEU, greedy)", 100.0),
}
#: what a run's own scores at each step are called
MOVING = {"alpha(step)": "Attention", "beta(step)": "Network's word knowledge"}
SHOWN_PAIRS = 500  #: sentence pairs that can be looked at one by one
_LARGEST = float(np.finfo(np.float16).max)


def page_data(report: Report, limit: int = SHOWN_PAIRS) -> dict[str, Any]:
    """The data of the page's script, as JSON values.

    Args:
        report: of M pairs.
        limit: the number of sentence pairs, the first ones, that can be looked at one by one.
    """
    names = [each.name for each in report.sets]
    main = report.main_pair
    return {
        "sets": [{"name": s.name, "label": s.label, "note": s.note} for s in report.sets],
        "main": [names.index(name) for name in main],
        "specials": report.specials,
        "style": style_of([report.bitext.source.vocabulary.tokens]) if report.marked else "words",
        "gold": report.gold is not None,
        "bands": bands(breakdown_table(report), names),
        "mass": mass(mass_table(report), report),
        "course": time_course_lines(report.time_course, names_of(report.sets), report.uniform_steps),
        "sentences": sentences(report, limit),
    }


def bands(table: pd.DataFrame, names: list[str]) -> dict[str, dict[str, list[Any]]]:
    """By ``frequency`` and ``length``, for each pair ``u,v`` (indices), rows [band, rows, agreement, chance, low,
    high]."""
    found: dict[str, dict[str, list[Any]]] = {"frequency": {}, "length": {}}
    for by, u, v, band, rows, *shares in table.itertuples(index=False):
        key = f"{names.index(u)},{names.index(v)}"
        found[by].setdefault(key, []).append([band, int(rows), *(plain_number(x) for x in shares)])
    return found


def mass(table: pd.DataFrame, report: Report) -> list[dict[str, Any]]:
    """Per alpha set its label and rows [class, mass, even]."""
    found = []
    for each in report.sets:
        part = table[table["set"] == each.name]
        if len(part):
            rows = [
                [kind, plain_number(m), plain_number(e)] for kind, m, e in part[["class", "mass", "even"]].values
            ]
            found.append({"label": each.label, "rows": rows})
    return found


def time_course_lines(
    table: pd.DataFrame | None, labels: Mapping[str, str], uniform_steps: Mapping[str, int] | None = None
) -> dict[str, Any] | None:
    """Series of (step, share) with labels in words, and the chance level; None if there is nothing to show.

    A series of the learned attention has ``forced``, the number of first steps in which it was fixed to uniform
    and learned nothing; elsewhere that is 0. ``forced`` of the whole is the largest.

    Args:
        table: columns run, step, name, value. Shown are, of the main metric A, ``A(k(step), v)``, the agreement of
            a fixed v with the run's scores of kind k at that step; ``chance`` of the same; ``A(u, alpha(step))``,
            u being the attention of another run; and ``PERFORMANCE``.
        labels: name of a fixed set of scores -> label.
        uniform_steps: as of :class:`alignkit.lab.report.model.Report`.
    """
    if table is None or table.empty:
        return None
    series: list[dict[str, Any]] = []
    chances = []
    several = table["run"].nunique() > 1
    for (run, name), rows in table.groupby(["run", "name"], sort=False):
        points = [[int(step), plain_number(value)] for step, value in rows[["step", "value"]].values]
        if name.startswith("chance("):
            u, v = _arguments(name)
            if u in MOVING and v in labels:
                chances.append(points[-1][1])
            continue
        known = _series(name, labels)
        if known is None:
            continue
        label, unit, role = known
        points = sorted([step, value / unit] for step, value in points if value is not None)
        forced = (uniform_steps or {}).get(run, 0) if "alpha(step)" in _arguments(name) else 0
        text = f"{label} ({run})" if several else label
        series.append({"label": text, "role": role, "points": points, "forced": forced})
    if not any(len(each["points"]) > 1 for each in series):
        return None
    series.sort(key=lambda each: each["role"])
    chance = chances[0] if len({round(x or 0, 6) for x in chances}) == 1 else None
    return {"series": series, "chance": chance, "forced": max((each["forced"] for each in series), default=0)}


def _series(name: str, labels: Mapping[str, str]) -> tuple[str, float, str] | None:
    """The label of a series, what 1 is in its values, and its role; None to leave it out."""
    if name in PERFORMANCE:
        return *PERFORMANCE[name], "performance"
    u, v = _arguments(name)
    if name != row_name(MAIN.symbol, u, v):
        return None
    if v == "alpha(step)" and u in labels and u.endswith(".alpha"):
        return f"Attention agrees with that of another seed, {labels[u]}", 1.0, "agreement"
    if u in MOVING and v in labels:
        return f"{MOVING[u]} agrees with {labels[v]}", 1.0, "agreement"
    return None


def _arguments(name: str) -> tuple[str, str]:
    """u and v of a name as ``A(u, v)``."""
    u, _, v = name.partition("(")[2].removesuffix(")").partition(", ")
    return u, v


def sentences(report: Report, limit: int) -> list[dict[str, Any]]:
    """The first ``limit`` pairs: tokens ``x`` and ``y``; ``v``, the matrices of all sets one after another as
    little-endian 16-bit floats in base64; ``h``, a hex string of which rows agree, ceil(T / 4) digits for each
    (u, v); and ``g``, gold links [s, t, 1 if sure]."""
    count = min(limit, len(report.bitext))
    scores, pairs = [each.scores for each in report.sets], list(product(range(len(report.sets)), repeat=2))
    agreeing = {
        (i, j): hits_by_sentence(agreement_rows(scores[i], scores[j], report.percent), len(report.bitext))
        for i, j in pairs
        if i != j
    }
    gold = None
    if report.gold is not None:
        gold = report.token_links(report.gold.possible), report.token_links(report.gold.sure)
    found = []
    for m in range(count):
        x, y = report.bitext.source.words(m), report.bitext.target.words(m)
        nothing = np.zeros(len(y), bool)
        rows = (agreeing[pair][m] if pair in agreeing and x else nothing for pair in pairs)
        matrices = encode_matrices([each.scores[m] for each in report.sets])
        record: dict[str, Any] = {"x": x, "y": y, "v": matrices, "h": "".join(map(hex_bits, rows))}
        if gold is not None and m < len(gold[0]):
            sure = set(gold[1][m])
            record["g"] = [[s, t, int((s, t) in sure)] for s, t in gold[0][m]]
        found.append(record)
    return found


def hits_by_sentence(rows: AgreementRows, pairs: int) -> list[np.ndarray]:
    """bool (T,) for each sentence pair; empty for one without columns."""
    bounds = np.searchsorted(rows.sentence, np.arange(pairs + 1))
    return [rows.hits[low:high] for low, high in pairwise(bounds)]


def encode_matrices(matrices: list[np.ndarray]) -> str:
    """Base64 of the matrices as little-endian 16-bit floats: three digits, and 0 below 6e-8."""
    parts = []
    for matrix in matrices:
        finite = np.clip(matrix, -_LARGEST, _LARGEST)
        parts.append(np.where(np.isinf(matrix), matrix, finite).astype("<f2").tobytes())
    return base64.b64encode(b"".join(parts)).decode("ascii")


def hex_bits(bits: np.ndarray) -> str:
    """Bits as hexadecimal digits, the first bit the highest of the first digit; padded with 0."""
    return np.packbits(bits).tobytes().hex()[: -(-len(bits) // 4)]


def plain_number(value: Any) -> float | None:
    """A float rounded to six digits; None for NaN."""
    number = float(value)
    return None if math.isnan(number) else float(f"{number:.6g}")
