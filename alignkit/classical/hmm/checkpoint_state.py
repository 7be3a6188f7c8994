"""The state of hidden Markov aligners between two iterations of their estimation."""

from __future__ import annotations

from typing import Any

import numpy as np

from alignkit.classical.checkpoints import purpose_of
from alignkit.kernels.hmm_emissions import DirectionArrays

_ARRAYS = ("totals", "null", "null_links", "fertility", "transition", "initial")
_NUMBERS = ("null_total", "exclude")


class RestorableHMM:
    """An estimation as checkpoints take it (:class:`alignkit.classical.checkpoints.Restorable`).

    Args:
        model: a :class:`alignkit.classical.hmm.estimation.HMMEstimation`, as it was made.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def purpose(self) -> str:
        """See :class:`alignkit.classical.checkpoints.Restorable`."""
        model, given = self.model, self.model.pairs.pseudo_counts
        prior = None if given is None else given.tobytes()
        levels = None if model.ratios is None else model.ratios.levels.tobytes()
        start = None if model.start is None else model.start.fingerprint
        return purpose_of(model, model.bitext, model.settings, model.shares, start, prior, levels)

    def state(self) -> dict[str, np.ndarray]:
        """The expected links, what is counted of word pairs, and both directions' parameters."""
        model = self.model
        found = {"elements": model.links.elements, "evidence": model.pairs.owned_evidence}
        if model.ratios is not None:
            found["ratios"] = model.ratios.ratios
        for side, direction in enumerate(model.directions):
            found |= {f"{side}.{name}": getattr(direction, name) for name in _ARRAYS}
            found |= {f"{side}.{name}": np.array([getattr(direction, name)]) for name in _NUMBERS}
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Set what :meth:`state` has given."""
        model = self.model
        model.links.elements[:] = state["elements"]
        model.pairs.restore(state["evidence"])
        if model.ratios is not None:
            model.ratios.ratios[:] = state["ratios"]
        forward, reverse = (_restored(each, state, f"{side}.") for side, each in enumerate(model.directions))
        model.directions = forward, reverse


def _restored(direction: DirectionArrays, state: dict[str, np.ndarray], prefix: str) -> DirectionArrays:
    values: dict[str, Any] = {name: state[prefix + name] for name in _ARRAYS}
    return direction._replace(**values | {name: float(state[prefix + name][0]) for name in _NUMBERS})
