"""Settings of the explanation tests."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.errors import AlignkitError

#: the tests that train no networks, which are run if none are named
UNTRAINED = ("order", "uniform", "erasure", "adversary", "seeds")
TRANSLATION_TESTS = ("order", "uniform", "seeds")  #: the tests that translation networks have


@dataclass(frozen=True)
class ExplanationSettings:
    """Settings of the explanation tests.

    Attributes:
        tests: names in :data:`alignkit.analysis.explanation.registry.EXPLANATION_TESTS`, in the table's order.
        epsilon: the largest change of the probability that adversarial attention may cause.
        permutations: random permutations of the attention of each text.
        limit: test only the first texts, this many; None for all.
        seed: of permutations, random orders, the bootstrap and the networks that tests train.
        steps: training steps of each network that a test trains; None for as many as the classifier's run has.
        adversary_weights: lambda of the trained adversaries, rising; 0 makes a plain copy.
        avoid: words that networks are trained not to attend to; those that tell most about the label if empty.
        avoided: how many words that are.
        avoid_weights: lambda of these networks, rising.
        share: the share of words that rationales may select without a penalty.
        short: the weight of the penalty for selecting more.
        contiguous: the weight of the penalty for selecting scattered words.
        margin: the divergence of the output, nats, that gates may cause on average.
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
    share: float = 0.2
    short: float = 1.0
    contiguous: float = 0.05
    margin: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise AlignkitError(f"epsilon must lie between 0 and 1, not {self.epsilon}")
        if self.permutations < 1 or (self.limit is not None and self.limit < 1):
            raise AlignkitError("the numbers of permutations and of texts must be at least 1")
        if (self.steps is not None and self.steps < 1) or self.avoided < 1:
            raise AlignkitError("the numbers of training steps and of words to avoid must be at least 1")
        if not 0 < self.share < 1:
            raise AlignkitError(f"the share of words that rationales select must lie in (0, 1), not {self.share}")
        weights = (*self.adversary_weights, *self.avoid_weights, self.short, self.contiguous)
        if not all(0 <= weight < 1000 for weight in weights):
            raise AlignkitError("weights of losses and penalties must lie between 0 and 1000")
        if not self.margin > 0:
            raise AlignkitError(f"the margin of the output's divergence must be above 0, not {self.margin}")
