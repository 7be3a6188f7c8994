"""The paper's claims about classification over texts and seeds, judged by the intervals of classification.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from alignkit.errors import AlignkitError
from alignkit.lab.classification import Classification
from alignkit.metrics.intervals import mean_interval
from alignkit.metrics.registry import MAIN

MAIN_CLAIM = "attention agrees with word meanings learned without it, above chance"
SEEDS_CLAIM = "two seeds learn the same attention; the paper says that on SMS they do not (A.9)"
PROXY = "beta_uf, beta_px"


def above(claim: str, name: str, row: Any, bound: float, bound_name: str) -> dict[str, object]:
    """A claim that a quantity, with its interval, exceeds a bound."""
    verdict = "holds" if row.low > bound else "does not hold" if row.high < bound else "undecided"
    return {"claim": claim, name: row.agreement, bound_name: bound, "verdict": verdict}


def gap(claim: str, name: str, value: float, low: float, high: float) -> dict[str, object]:
    """A claim that a difference, with its interval, is above 0."""
    verdict = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
    return {"claim": claim, name: value, "low": low, "high": high, "verdict": verdict}


def claims(found: Classification) -> list[dict[str, object]]:
    """The claims of one seed, with the verdicts of the intervals over texts."""
    row = found.row.set_index("quantity")
    main, frozen = row.loc["A(alpha, beta_uf)"], row.loc["A(alpha, alpha_fr)"]
    verdict = "holds" if main.low > frozen.high else "does not hold" if main.high < frozen.low else "undecided"
    frozen_text = (
        "attention learned over a frozen random beta, where it agrees most with attention, agrees less than "
    )
    said: list[dict[str, object]] = [
        above(MAIN_CLAIM, "A(alpha, beta_uf)", main, main.chance, "chance"),
        {
            "claim": f"{frozen_text}beta_uf does (A.6)",
            "A(alpha, beta_uf)": main.agreement,
            "A(alpha, alpha_fr)": frozen.agreement,
            "verdict": verdict,
        },
    ]
    peak = found.rise_and_fall
    said += [
        gap(f"A(alpha, beta_uf) rises in training (A.7), to step {peak.step}", "peak - first", *peak.rise),
        gap("... and falls again until the last step (A.7)", "peak - last", *peak.fall),
    ]
    if "A(beta_px, beta_log)" in row.index:
        direct, log, proxy = (row.loc[f"A({name})"] for name in ("beta_px, beta_log", "beta_uf, beta_log", PROXY))
        close = log.low <= proxy.high and proxy.low <= log.high
        said += [
            above(
                "the proxy agrees with logistic regression more than with beta_uf (A.10, directly)",
                "A(beta_px, beta_log)",
                direct,
                proxy.high,
                "upper end of A(beta_uf, beta_px)",
            ),
            {
                "claim": "logistic regression agrees with beta_uf about as the proxy does (A.10, indirectly)",
                "A(beta_uf, beta_log)": log.agreement,
                "A(beta_uf, beta_px)": proxy.agreement,
                "verdict": "the intervals overlap" if close else "the intervals do not overlap",
            },
        ]
    same = row.loc["A(alpha, alpha_2)"]
    said.append(above(SEEDS_CLAIM, "A(alpha, alpha_2)", same, same.chance, "chance"))
    accuracy = found.accuracy.set_index("model")
    if (accuracy.low[["standard", "uniform"]] <= accuracy.accuracy["majority"]).any():
        for one in said:
            one["verdict"] = "undecided, for a network is not better than the majority label"
    return said


def claims_over_seeds(found: list[Classification]) -> list[dict[str, object]]:
    """The claims with the verdicts of Student's intervals over seeds."""
    table = table_over_seeds(found).set_index("quantity")

    def difference(one: str, other: str) -> tuple[float, float, float]:
        rows = [each.row.set_index("quantity").agreement for each in found]
        values = np.array([row[one] - row[other] for row in rows])
        return float(values.mean()), *mean_interval(values, -1, 1)

    main, same = table.loc["A(alpha, beta_uf)"], table.loc["A(alpha, alpha_2)"]
    said = [
        above(MAIN_CLAIM, "A(alpha, beta_uf)", main, main.chance, "chance"),
        gap(
            "attention over a frozen beta, where it agrees most, agrees less than beta_uf does (A.6)",
            "A(alpha, beta_uf) - A(alpha, alpha_fr)",
            *difference("A(alpha, beta_uf)", "A(alpha, alpha_fr)"),
        ),
    ]
    peaks = rise_and_fall_over_seeds([each.time_courses["uniform"] for each in found])
    for name, text in (
        ("rise", "A(alpha, beta_uf) rises in training (A.7)"),
        ("fall", "... and falls again (A.7)"),
    ):
        other = "first" if name == "rise" else "last"
        values = peaks[name].to_numpy()
        said.append(
            gap(text, f"peak (chosen by other seeds) - {other}", values.mean(), *mean_interval(values, -1, 1))
        )
    if "A(beta_px, beta_log)" in table.index:
        names = ("A(beta_px, beta_log)", "A(beta_uf, beta_px)")
        text = "the proxy agrees with logistic regression more than with beta_uf (A.10, directly)"
        said.append(gap(text, " - ".join(names), *difference(*names)))
    said.append(above(SEEDS_CLAIM, "A(alpha, alpha_2)", same, same.chance, "chance"))
    return said


def table_over_seeds(found: Sequence[Classification]) -> pd.DataFrame:
    """Each quantity's mean over seeds.

    Args:
        found: of the same texts, each from its own seed, in one order.

    Returns:
        columns quantity, seeds, agreement (mean), low and high (95 % interval over seeds, Student's; NaN for one
        seed), chance and tau (means), xi (mean of the seeds that reach it), reached (their number).
    """
    tables = [each.row.set_index("quantity") for each in found]
    rows = []
    for quantity in tables[0].index:
        values = np.array([table.loc[quantity, MAIN.name] for table in tables], np.float64)
        low, high = mean_interval(values, 0, 1)
        xi = np.array([table.loc[quantity, "xi"] for table in tables], np.float64)
        reached = int((~np.isnan(xi)).sum())
        more = {
            name: float(np.mean([table.loc[quantity, name] for table in tables])) for name in ("chance", "tau")
        }
        share = float(np.nanmean(xi)) if reached else np.nan
        head = {"quantity": quantity, "seeds": len(tables), MAIN.name: float(values.mean())}
        rows.append({**head, "low": low, "high": high, **more, "xi": share, "reached": reached})
    return pd.DataFrame(rows)


def course_over_seeds(courses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The mean agreement at every logged step, with its 95 % interval over seeds: step, agreement, low, high.

    Raises:
        AlignkitError: the courses have different steps.
    """
    values = _matrix(courses)
    spread = [mean_interval(column, 0, 1) for column in values.T]
    low, high = np.array(spread).T
    return pd.DataFrame({"step": courses[0]["step"], MAIN.name: values.mean(0), "low": low, "high": high})


def rise_and_fall_over_seeds(courses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Peak minus first and peak minus last of the course of each seed, at the step where the others peak (A.7).

    The other seeds choose the step, since the largest of many values lies above the last one by its choice alone.

    Args:
        courses: columns step and agreement, of at least two seeds.

    Returns:
        a row per seed: step, rise, fall.

    Raises:
        AlignkitError: there is only one course, or they have different steps.
    """
    values = _matrix(courses)
    if len(values) < 2:
        raise AlignkitError("the peak of a course is chosen by other seeds: give the courses of at least two")
    steps, rows = courses[0]["step"].to_numpy(), []
    for seed, own in enumerate(values):
        place = int(np.argmax(np.delete(values, seed, 0).mean(0)))
        rows.append({"step": int(steps[place]), "rise": own[place] - own[0], "fall": own[place] - own[-1]})
    return pd.DataFrame(rows)


def _matrix(courses: Sequence[pd.DataFrame]) -> np.ndarray:
    """float64 (seeds, steps): the agreements."""
    if len({tuple(course["step"]) for course in courses}) != 1:
        raise AlignkitError("the courses of the seeds have different logged steps")
    return np.stack([course[MAIN.name].to_numpy(np.float64) for course in courses])
