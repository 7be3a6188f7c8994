"""The rows of benchmarks/papers.py about translation, from labs of runs and from how far the runs have come."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from papers_rows import Cell, Row, seeds_apart

from alignkit.lab.translation import Lab

#: A(alpha of A's best step, alpha of B) at these steps
CURVE = {0: 0.063, 50: 0.063, 100: 0.165, 500: 0.267, 1000: 0.453, 1500: 0.565, 2000: 0.631, 4000: 0.702}
CURVE |= {8000: 0.753, 16000: 0.764, 36000: 0.775}
SALIENCY = (0.065, 0.27)  #: A(beta_uf, delta) rises from and to this while the uniform run learns
QUANTITIES = {
    "A(alpha, beta_uf)": ("lstm.alpha", "uniform.beta", 0.310),
    "A(beta_px, beta_uf)": ("proxy.beta", "uniform.beta", 0.344),
    "A(delta, beta_uf)": ("lstm.delta", "uniform.beta", 0.271),
}


@dataclass(frozen=True)
class Kept:
    """What an earlier call measured: the tables of a :class:`alignkit.lab.translation.Lab`."""

    table: pd.DataFrame
    seeds: pd.DataFrame | None


Measured = Lab | Kept
Labs = dict[str, list[Measured]]
Course = list[dict[str, Any]]  #: rows of :func:`random_batches`


def value_of(found: Measured, u: str, v: str, column: str = "agreement") -> float:
    """A value of a lab's table; NaN if it has no such row."""
    rows = found.table[(found.table.u == u) & (found.table.v == v)]
    return float(pd.to_numeric(rows[column]).iloc[0]) if len(rows) else float("nan")  # perhaps None


def over_seeds(labs: list[Measured], u: str, v: str, column: str = "agreement") -> Cell:
    """A value over the seeds of labs; the interval is over sentences if they have all networks in common.

    With several uniform runs, an agreement is the mean over these, where each has the mean over the runs with
    attention that it was measured with.
    """
    values = [value_of(each, u, v, column) for each in labs]
    if len(set(values)) == 1 and column == "agreement":
        low, high = (value_of(labs[0], u, v, end) for end in ("low", "high"))
        return Cell(values[0], low, high, "sentences")
    by_run = pd.Series(values).groupby([each.table.uniform.iloc[0] for each in labs]).mean() if values else ()
    if len(by_run) > 1 and column == "agreement":
        return replace(Cell.of_seeds([*by_run]), over=f"{len(by_run)} uniform runs, {len(values)} pairs of runs")
    return Cell.of_seeds(values)


def tokenised_values(results: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(u, v) -> the row of the committed lab on the tokenised text."""
    place = results / "lab-multi30k.json"
    if not place.exists():
        return {}
    facts = json.loads(place.read_text())
    found = {(row["u"], row["v"]): row for row in facts["lab"]}
    return found | {("xi*", "accuracy"): {"value": facts["xi_star"].get("accuracy")}}


def are_finished(states: dict[str, dict[str, Any]], kinds: tuple[str, ...] = ("general-", "uniform-")) -> bool:
    """Whether there are runs of these kinds, and all are at their end."""
    whole = [state["finished"] for name, state in states.items() if name.startswith(kinds)]
    return bool(whole) and all(whole)


def translation_rows(labs: Labs, states: dict[str, dict[str, Any]], results: Path, random: Course) -> list[Row]:
    """The rows of Multi30k; ``random`` as of :func:`random_batches`."""
    authors, ours, plain = (labs[name] for name in ("authors", "ours", "plain"))
    finished = are_finished(states)
    old = tokenised_values(results)
    uniform_runs = sum(name.startswith("uniform-") for name in states)

    def tokenised(u: str, v: str, column: str) -> float:
        value = old.get((u, v), {}).get(column)
        return np.nan if value is None else float(value)

    rows = []
    for name, (u, v, value) in QUANTITIES.items():
        mine = (v, u) if name == "A(beta_px, beta_uf)" else (u, v)
        causes = ["undecided: all our seeds share one uniform run"] if uniform_runs == 1 else []
        if name == "A(beta_px, beta_uf)" and plain:
            gap = value_of(authors[0], u, v) - value_of(plain[0], u, v)
            turned = value_of(ours[0], u, v) - value_of(ours[0], v, u)
            causes.append(f"the proxy's bias moves it by {gap:+.3f}, the direction by {turned:+.3f}")
        rule = f"A({u}, {v}), largest over the uniform run's steps; ours: A({mine[0]}, {mine[1]})"
        theirs = over_seeds(authors, u, v)
        before = tokenised(*mine, "agreement")
        cause = "; ".join(causes)
        rows.append(Row(name, value, theirs, over_seeds(ours, *mine), rule, False, cause, not finished, before))
        for column, figure, percent in (("xi_accuracy", 0.434, False), ("xi_bleu", 11.4, True)):
            how = "BLEU" if percent else "accuracy"
            rule = f"{how} of the second seed where A(alpha, alpha(step)) first exceeds it"
            cells = [over_seeds(part, *pair, column) for part, pair in ((authors, (u, v)), (ours, mine))]
            cells = [of_second_runs(cell, authors) for cell in cells]
            before = tokenised(*mine, column)
            xi = contextual(random, theirs.value, column.removeprefix("xi_"))
            cause = "" if xi != xi else f"batches of any lengths give {xi:.{1 if percent else 3}f} (1 seed)"
            rows.append(Row(f"xi of it by {how}", figure, *cells, rule, percent, cause, not finished, before))
    pairs = (authors, ("uniform.beta", "lstm.alpha")), (ours, ("lstm.alpha", "uniform.beta"))
    chance = [over_seeds(part, *pair, "chance") for part, pair in pairs]
    before = tokenised("lstm.alpha", "uniform.beta", "chance")
    rule = "expected value if alpha is shuffled"
    rows.append(Row("its chance level", 0.071, *chance, rule, tokenised=before))
    general = [state for name, state in states.items() if name.startswith("general")]
    for name, key, figure, percent in (
        ("xi* (accuracy)", "best_accuracy", 0.663, False),
        ("BLEU", "best_bleu", 37.89, True),
    ):
        best = Cell.of_seeds([state.get(key, np.nan) for state in general])
        rule = "the best of the logged steps, beam 5" if percent else "the best of the measured steps"
        before = np.nan if percent else tokenised("xi*", "accuracy", "value")
        rows.append(Row(name, figure, best, Cell(), rule, percent, "", not finished, before))
    return rows


def sum_row(states: dict[str, dict[str, Any]]) -> Row:
    """BLEU of the variant whose output layer adds context and state."""
    sums, usual = (
        [state.get("best_bleu", np.nan) for name, state in states.items() if name.startswith(kind)]
        for kind in ("sum-", "general-")
    )
    figure, cell, apart = 38.2, Cell.of_seeds(sums), seeds_apart(usual)
    cause = ""
    if abs(cell.value - figure) <= apart:
        cause = f"too wide to tell: one seed, and two of the usual network are up to {apart:.1f} apart"
    rule = "p = softmax(W(c + s)), the best of the logged steps"
    return Row(
        "BLEU of the sum variant", figure, cell, Cell(), rule, True, cause, not are_finished(states, ("sum-",))
    )


def of_second_runs(cell: Cell, labs: list[Measured]) -> Cell:
    """The cell, which says so if its labs share second runs, which makes intervals too narrow."""
    courses = [each.seeds.set_index("step") for each in labs if each.seeds is not None]
    if len(courses) < 2:
        return cell
    shared = sorted(set.intersection(*(set(course.index) for course in courses)))
    number = len({tuple(course.loc[shared, "accuracy"]) for course in courses})
    return replace(cell, over=f"{cell.over}, {number} second runs") if number < len(courses) else cell


def contextual(course: Course, level: float, key: str) -> float:
    """The accuracy or BLEU of the first step whose agreement exceeds the level; NaN if none does."""
    return next((row[key] for row in course if row["agreement"] > level and row[key] is not None), np.nan)


def curve_rows(labs: list[Measured], finished: bool, random: Course) -> list[Row]:
    """A(alpha of A, alpha of B) through training; ``random`` as of :func:`random_batches`."""
    of_random = {row["step"]: row["agreement"] for row in random}
    tables = [
        dict(zip(each.seeds.step, each.seeds.agreement, strict=True)) for each in labs if each.seeds is not None
    ]
    found = []
    for step, figure in CURVE.items():
        cell = Cell.of_seeds([table.get(step, np.nan) for table in tables])
        cell = of_second_runs(
            cell, [each for each in labs if each.seeds is not None and step in set(each.seeds.step)]
        )
        name = f"A(alpha of A, alpha of B) at step {step}"
        other = of_random.get(step, np.nan)
        is_nearer = abs(other - figure) < abs(cell.value - figure)
        cause = f"batches of any lengths give {other:.3f} (1 seed)" if is_nearer else ""
        found.append(Row(name, figure, cell, Cell(), "alpha of A's best step", False, cause, not finished))
    return found


def saliency_rows(courses: dict[str, Course], labs: list[Measured], finished: bool) -> list[Row]:
    """A(beta_uf, delta) before the uniform run learns, and the largest of its steps, over seeds with attention."""
    u, v = "uniform.beta", "lstm.delta"
    start = Cell.of_seeds([{row["step"]: row["agreement"] for row in course}[0] for course in courses.values()])
    chance = over_seeds(labs, u, v, "chance").value
    cause = f"a network that has not learned is at chance, {chance:.3f}"
    name, rule = "A(beta_uf, delta)", "delta of A's best step"
    return [
        Row(f"{name} at step 0", SALIENCY[0], start, Cell(), rule, measured=cause),
        Row(
            f"{name}, later",
            SALIENCY[1],
            over_seeds(labs, u, v),
            Cell(),
            f"{rule}; largest",
            unfinished=not finished,
        ),
    ]
