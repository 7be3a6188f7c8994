"""The text of a report with the scores on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.report.inputs import ReportInputs
from alignkit.report.model import ScoreSet, score_set
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ScoredText:
    """A text with its scores, before those of other systems are added.

    Attributes:
        bitext: M pairs, as they are scored.
        training: the text that was learned from, with the same tokens.
        sets: the scores of the M pairs.
        facts: what to say of text and aligners.
        time_course: makes the table of the runs' time courses, or None; the argument takes from scores of
            ``bitext`` what the report shows of them.
        specials: whether the pairs have BOS and EOS.
        steps, uniform_steps: as of :class:`alignkit.report.model.Report`.
    """

    bitext: Bitext
    training: Bitext
    sets: list[ScoreSet]
    facts: dict[str, Any]
    time_course: Callable[[Callable[[Scores], Scores]], pd.DataFrame | None] = lambda crop: None
    specials: bool = False
    steps: Mapping[str, int] = field(default_factory=dict)
    uniform_steps: Mapping[str, int] = field(default_factory=dict)


def ibm1_sets(inputs: ReportInputs, training: Bitext, bitext: Bitext) -> list[ScoreSet]:
    """Scores of IBM 1, fitted on ``training``, of ``bitext``."""
    model = fit_ibm1(training, iterations=inputs.iterations, null=inputs.null, threads=inputs.threads)
    # Without NULL a posterior is the dictionary's row divided by its sum: in the same order.
    kinds = ("beta", "alpha") if inputs.null else ("beta",)
    return [score_set(f"ibm1.{kind}", model.score(bitext, kind)) for kind in kinds]


def text_facts(inputs: ReportInputs, training: Bitext, bitext: Bitext) -> dict[str, Any]:
    """Settings of the text and of IBM 1, for the page."""
    top = {"top of a row": f"{inputs.percent} %", "seed of the intervals": inputs.seed}
    return {
        "text": {"pairs learned from": f"{len(training):,}", "pairs scored": f"{len(bitext):,}", **top},
        "IBM Model 1": {"iterations": inputs.iterations, "NULL": inputs.null},
    }
