"""The registry of explanation tests.

A test is a function of a :class:`alignkit.analysis.explanation.subject.Subject` that returns rows, and a line of
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from alignkit.analysis.explanation.settings import UNTRAINED, ExplanationSettings
from alignkit.errors import AlignkitError


def _none(settings: ExplanationSettings, layers: int) -> int:
    return 0


class ExplanationTest(NamedTuple):
    """An explanation test.

    Attributes:
        rows: ``module:function`` that makes its rows of a subject, imported when it is needed.
        summary: what it asks.
        source: the paper that it comes from.
        networks: (settings, layers of the classifier's encoder) -> how many networks it trains.
    """

    rows: str
    summary: str
    source: str
    networks: Callable[[ExplanationSettings, int], int] = _none


_PLACE = "alignkit.analysis.explanation"
EXPLANATION_TESTS: dict[str, ExplanationTest] = {
    "order": ExplanationTest(
        f"{_PLACE}.order:order_rows",
        "does attention order words as gradients and leave-one-out do?",
        "Jain and Wallace 2019",
    ),
    "uniform": ExplanationTest(
        f"{_PLACE}.interventions:uniform_rows",
        "what does uniform or permuted attention change?",
        "Jain and Wallace 2019",
    ),
    "erasure": ExplanationTest(
        f"{_PLACE}.erasure:erasure_rows",
        "how many words are erased, by attention and other orders, until a decision flips?",
        "Serrano and Smith 2019",
    ),
    "adversary": ExplanationTest(
        f"{_PLACE}.interventions:adversary_rows",
        "how far from it is an attention with the same output?",
        "Jain and Wallace 2019",
    ),
    "seeds": ExplanationTest(
        f"{_PLACE}.interventions:seeds_rows",
        "how far is the attention of another seed?",
        "Wiegreffe and Pinter 2019",
    ),
    "trained-adversary": ExplanationTest(
        f"{_PLACE}.trained_adversary:trained_adversary_rows",
        "can a network be trained to the same outputs with other attention?",
        "Wiegreffe and Pinter 2019",
        lambda settings, layers: len(settings.adversary_weights),
    ),
    "guides": ExplanationTest(
        f"{_PLACE}.guides:guide_rows",
        "is attention needed, and does it help a network without recurrence?",
        "Wiegreffe and Pinter 2019",
        lambda settings, layers: 6,
    ),
    "inattention": ExplanationTest(
        f"{_PLACE}.inattention:inattention_rows",
        "can a network use words without attending to them?",
        "Pruthi et al. 2020",
        lambda settings, layers: 2 * len(settings.avoid_weights),
    ),
    "rationales": ExplanationTest(
        f"{_PLACE}.rationales:rationale_rows",
        "which few words suffice, chosen by networks made for that?",
        "Lei et al. 2016; Bastings et al. 2019; DeYoung et al. 2020",
        lambda settings, layers: 3,
    ),
    "gates": ExplanationTest(
        f"{_PLACE}.gating:gate_rows",
        "which words can be ignored, from which layer on?",
        "De Cao et al. 2020",
        lambda settings, layers: layers + 1,
    ),
}
assert set(UNTRAINED) == {name for name, test in EXPLANATION_TESTS.items() if test.networks is _none}


def find_explanation_test(name: str) -> ExplanationTest:
    """The test of that name; raises AlignkitError if there is none."""
    if name not in EXPLANATION_TESTS:
        raise AlignkitError(f"there is no explanation test {name!r}; there are {', '.join(EXPLANATION_TESTS)}")
    return EXPLANATION_TESTS[name]
