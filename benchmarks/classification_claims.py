"""The paper's claims about classification, judged by the intervals of benchmarks/classification.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from alignkit.analysis.classification import Classification
from alignkit.analysis.classification_seeds import rise_and_fall_over_seeds, table_over_seeds
from alignkit.metrics.intervals import mean_interval

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
