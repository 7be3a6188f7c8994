"""The gradient flow of the two-token classifier as its source has it: a linear loss and unbounded attention.

The loss is L = p (beta0 - beta1), so that gradient flow is linear,

    beta0' = -p,    beta1' = p,    p' = beta1 - beta0,

and is solved by hyperbolic functions. With d = beta1 - beta0, which has d' = 2 p,

    p(t) = p(0) cosh(w t) + d(0) / w sinh(w t),    d(t) = d(0) cosh(w t) + w p(0) sinh(w t),    w = sqrt 2,

while beta0 + beta1 stays what it was, and so does p^2 - d^2 / 2. Where d(0) > -w p(0), attention stays positive
and rises in the end; where d(0) < -w p(0), it falls for ever, below 0, and it is the product of two wrong signs
that lowers the loss.
"""

from __future__ import annotations

import numpy as np

RATE = np.sqrt(2.0)  #: w, of the exponential growth in the end


def linear_flow(state: np.ndarray) -> np.ndarray:
    """d/dt of (beta0, beta1, p), arrays (3, K)."""
    beta0, beta1, p = state
    return np.stack([-p, p, beta1 - beta0])


def linear_loss(state: np.ndarray) -> np.ndarray:
    """p (beta0 - beta1), (K,)."""
    beta0, beta1, p = state
    result: np.ndarray = p * (beta0 - beta1)
    return result


def solve_linear(start: np.ndarray, time: np.ndarray) -> np.ndarray:
    """(beta0, beta1, p) at these times (N,) from a start (3,), in closed form: (N, 3)."""
    beta0, beta1, p = start
    difference, mean = beta1 - beta0, (beta0 + beta1) / 2
    grown, growing = np.cosh(RATE * time), np.sinh(RATE * time)
    now = difference * grown + RATE * p * growing
    return np.stack([mean - now / 2, mean + now / 2, p * grown + difference / RATE * growing], axis=1)


def turning_time(start: np.ndarray) -> float:
    """When p, falling at first, begins to rise: 0 if it never falls, infinite if it never rises."""
    beta0, beta1, p = start
    difference = beta1 - beta0
    if difference >= 0:
        return 0.0
    share = -difference / (RATE * p) if p > 0 else np.inf
    return float(np.arctanh(share) / RATE) if share < 1 else np.inf
