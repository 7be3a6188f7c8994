"""The registry of explanation tests, and their settings. Imports no torch.

A test is a function of a :class:`alignkit.lab.explain.subject.Subject` that returns rows, and a line of this
module. ``NAME_rows`` is in :mod:`alignkit.lab.explain.trained` if it trains networks, else in
:mod:`alignkit.lab.explain.interventions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from alignkit.errors import AlignkitError, check_known


class ExplanationTest(NamedTuple):
    """An explanation test.

    Attributes:
        summary: what it asks.
        source: the paper that it comes from.
        trains: whether it trains networks.
    """

    summary: str
    source: str
    trains: bool = False


_JAIN, _WIEGREFFE, _SERRANO = "Jain and Wallace 2019", "Wiegreffe and Pinter 2019", "Serrano and Smith 2019"
_LISTED = (
    ("order", "does attention order words as gradients and leave-one-out do?", _JAIN),
    ("uniform", "what does uniform or permuted attention change?", _JAIN),
    ("erasure", "how many words are erased, by attention and other orders, until a decision flips?", _SERRANO),
    ("adversary", "how far from it is an attention with the same output?", _JAIN),
    ("seeds", "how far is the attention of another seed?", _WIEGREFFE),
    ("trained-adversary", "can a network be trained to the same outputs with other attention?", _WIEGREFFE, True),
    ("guides", "is attention needed, and does it help a network without recurrence?", _WIEGREFFE, True),
    ("inattention", "can a network use words without attending to them?", "Pruthi et al. 2020", True),
)
EXPLANATION_TESTS = {name: ExplanationTest(*facts) for name, *facts in _LISTED}
#: the tests that train no network, which are run if none are named
UNTRAINED = tuple(name for name, test in EXPLANATION_TESTS.items() if not test.trains)


@dataclass(frozen=True)
class ExplanationSettings:
    """Settings of the explanation tests.

    Attributes:
        tests: names in :data:`alignkit.lab.explain.registry.EXPLANATION_TESTS`, in the table's order.
        epsilon: the largest change of the probability that adversarial attention may cause.
        permutations: random permutations of the attention of each text.
        limit: test only the first texts, this many; None for all.
        seed: of permutations, random orders, the bootstrap and the networks that tests train.
        steps: training steps of each network that a test trains; None for as many as the classifier's run has.
        adversary_weights: lambda of the trained adversaries, rising; 0 makes a plain copy.
        avoid: words that networks are trained not to attend to; those that tell most about the label if empty.
        avoided: how many words that are.
        avoid_weights: lambda of these networks, rising.
    """

    tests: tuple[str, ...] = UNTRAINED
    epsilon: float = 0.01
    permutations: int = 100
    limit: int | None = None
    seed: int = 0
    steps: int | None = None
    adversary_weights: tuple[float, ...] = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03)
    avoid: tuple[str, ...] = ()
    avoided: int = 100
    avoid_weights: tuple[float, ...] = (0.0, 0.1, 1.0)

    def __post_init__(self) -> None:
        for name in self.tests:
            check_known(name, EXPLANATION_TESTS, "explanation test")
        if not 0 < self.epsilon < 1:
            raise AlignkitError(f"epsilon must lie between 0 and 1, not {self.epsilon}")
        if self.permutations < 1 or (self.limit is not None and self.limit < 1):
            raise AlignkitError("the numbers of permutations and of texts must be at least 1")
        if (self.steps is not None and self.steps < 1) or self.avoided < 1:
            raise AlignkitError("the numbers of training steps and of words to avoid must be at least 1")
        if not all(0 <= weight < 1000 for weight in (*self.adversary_weights, *self.avoid_weights)):
            raise AlignkitError("weights of losses must lie between 0 and 1000")
