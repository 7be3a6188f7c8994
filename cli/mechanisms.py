"""``alignkit mechanisms``."""

from __future__ import annotations

import json
from typing import Any

from alignkit.neural.networks.mechanisms import NORMALIZERS, SCORE_FUNCTIONS
from alignkit_cli.analysis_options import json_option
from alignkit_cli.command import alignkit_command
from alignkit_cli.options import quiet_option, write_output


@alignkit_command("mechanisms")
@json_option("Print JSON.")
@quiet_option
def command(as_json: bool, quiet: bool) -> None:
    """List the attention mechanisms: score functions and normalizers, any two of which go together.

    SCORE+NORMALIZER is the --attention of `alignkit train`, as in additive+sparsemax. SCORE alone has softmax;
    uniform has no scores, its weights are 1/L. A number, where one is named, follows a colon: general+entmax:1.3.
    """
    scores, normalizers = score_function_rows(), normalizer_rows()
    if as_json:
        write_output((json.dumps({"scores": scores, "normalizers": normalizers}, indent=1) + "\n").encode(), None)
        return
    lines = ["Score functions: a, of an encoder state h for a decoder state s", ""]
    lines += lines_of(scores)
    lines += ["", "Normalizers: the weights of the scores a of a row", ""]
    lines += lines_of(normalizers)
    write_output(("\n".join(lines) + "\n").encode(), None)


def score_function_rows() -> list[dict[str, Any]]:
    """The score functions, for printing."""
    return [
        {"name": name, "equation": entry.equation, "source": entry.source}
        for name, entry in SCORE_FUNCTIONS.items()
    ]


def normalizer_rows() -> list[dict[str, Any]]:
    """The normalizers, for printing."""
    return [
        {
            "name": name,
            "equation": entry.equation,
            "source": entry.source,
            "number": entry.parameter,
            "rows_sum_to_one": entry.sums_to_one,
        }
        for name, entry in NORMALIZERS.items()
    ]


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    """Three lines a row at most: its name, its equation, and what else is to be known."""
    lines = []
    for row in rows:
        notes = [row["source"]]
        if row.get("number") is not None:
            notes.append(f"a number, {row['number']:g} if not given")
        if not row.get("rows_sum_to_one", True):
            notes.append("rows do not sum to 1")
        lines += [f"  {row['name']:<17} {row['equation']}", f"  {'':<17} ({'; '.join(notes)})"]
    return lines
