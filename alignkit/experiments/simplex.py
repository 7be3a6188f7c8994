"""The attention that predicts a word best: a concave problem on the simplex (Snell et al. 2021, A.1).

If logits are linear in the context, they are z = base + sum_l alpha_l Z_l, Z_l being what state l adds to the
logits. Then f(alpha) = log softmax(z)[y] is concave in alpha, with

    gradient g_l = Z_l[y] - p . Z_l,    Hessian -H,  H_kl = sum_v p_v Z_kv Z_lv - (p . Z_k)(p . Z_l).

As f is concave, max_l g_l - alpha . g bounds by how much any attention could still improve on alpha: the duality
gap, a certificate that does not depend on the solver. The solver is Newton's method: its quadratic models are
maximised over the simplex by accelerated projected gradients, all rows at once; steps are halved until f rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Problem:
    """The problems of one sentence pair, one for each of its T rows.

    Attributes:
        Z: (L, V), what each state adds to the logits.
        base: (T, V), the rest of the logits.
        y: int64 (T,), the right words.
    """

    Z: Tensor
    base: Tensor
    y: Tensor


def project(x: Tensor) -> Tensor:
    """The points of the simplex that are nearest to the rows of x (R, L)."""
    falling = x.sort(1, descending=True)[0]
    places = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
    excess = (falling.cumsum(1) - 1) / places
    last = (falling > excess).sum(1, keepdim=True) - 1
    return (x - excess.gather(1, last)).clamp_(min=0)


def maximise_quadratic(alpha: Tensor, g: Tensor, H: Tensor, iterations: int = 150) -> Tensor:
    """The points alpha + d (R, L) of the simplex that maximise g . d - d' H d / 2, row by row.

    Args:
        alpha, g: (R, L).
        H: (R, L, L), positive semidefinite.
        iterations: of accelerated projected gradients.
    """
    # The largest absolute row sum is at least the largest eigenvalue.
    step = 1 / (H.abs().sum(2).max(1)[0] + 1e-9).unsqueeze(1)
    x = ahead = alpha
    speed = 1.0
    for _ in range(iterations):
        slope = g - torch.bmm(H, (ahead - alpha).unsqueeze(2)).squeeze(2)
        new = project(ahead + step * slope)
        next_speed = (1 + (1 + 4 * speed * speed) ** 0.5) / 2
        ahead = new + (speed - 1) / next_speed * (new - x)
        x, speed = new, next_speed
    return x


def _value(problems: list[Problem], alpha: Tensor) -> tuple[Tensor, list[Tensor]]:
    """f (R,) at alpha (R, L), and p (T, V) of each problem."""
    values, shares = [], []
    for problem, part in zip(problems, alpha.split([len(p.y) for p in problems]), strict=True):
        logs = torch.log_softmax(torch.addmm(problem.base, part, problem.Z), 1)
        values.append(logs.gather(1, problem.y.unsqueeze(1)).squeeze(1))
        shares.append(logs.exp_())
    return torch.cat(values), shares


def _derivatives(problems: list[Problem], shares: list[Tensor]) -> tuple[Tensor, Tensor]:
    """g (R, L) and H (R, L, L)."""
    first, second = [], []
    for problem, p in zip(problems, shares, strict=True):
        Z, length = problem.Z, len(problem.Z)
        upper = torch.triu_indices(length, length)
        mean = p @ Z.t()
        first.append(Z[:, problem.y].t() - mean)
        half = p @ (Z[upper[0]] * Z[upper[1]]).t()
        H = half.new_empty(len(p), length, length)
        H[:, upper[0], upper[1]] = half
        H[:, upper[1], upper[0]] = half
        second.append(H - mean.unsqueeze(2) * mean.unsqueeze(1))
    return torch.cat(first), torch.cat(second)


def best_attention(
    problems: list[Problem], tolerance: float = 1e-4, iterations: int = 40
) -> tuple[Tensor, Tensor, Tensor]:
    """The best attention of every row of problems with the same L, starting from uniform attention.

    Args:
        problems: with R rows in all.
        tolerance: the search stops when no duality gap is larger, nats.
        iterations: most iterations of Newton's method.

    Returns:
        alpha (R, L); f there (R,), nats; duality gaps (R,), nats.
    """
    # What all states add to a word's logit belongs to the base, so that H loses no digits to it.
    means = [p.Z.mean(0, keepdim=True) for p in problems]
    problems = [Problem(p.Z - mean, p.base + mean, p.y) for p, mean in zip(problems, means, strict=True)]
    rows, length = sum(len(p.y) for p in problems), len(problems[0].Z)
    alpha = problems[0].base.new_full((rows, length), 1 / length)
    value, shares = _value(problems, alpha)
    for step in range(iterations + 1):
        g, H = _derivatives(problems, shares)
        gap = g.max(1)[0] - (alpha * g).sum(1)
        if step == iterations or bool((gap <= tolerance).all()):
            break
        direction = maximise_quadratic(alpha, g, H) - alpha
        direction[gap <= tolerance] = 0
        size = torch.ones_like(value).unsqueeze(1)
        rise = (g * direction).sum(1)
        for _ in range(20):
            trial = alpha + size * direction
            found, shares = _value(problems, trial)
            short = found < value + 1e-4 * size.squeeze(1) * rise
            if not bool(short.any()):
                break
            size = torch.where(short.unsqueeze(1), size / 2, size)
        else:  # rows that no step improves do not move
            alpha = torch.where(short.unsqueeze(1), alpha, trial)
            value, shares = _value(problems, alpha)
            continue
        alpha, value = trial, found
    return alpha, value, gap


def ascend_logits(problems: list[Problem], alpha: Tensor, rate: float, steps: tuple[int, ...]) -> list[Tensor]:
    """Attention after plain gradient ascent on its logits, which climbs f but need not come near its maximum.

    With alpha = softmax(a), df/da_l = alpha_l (g_l - alpha . g): where a weight is small, it hardly moves, so that
    the path depends on where it starts.

    Args:
        problems: with R rows in all, of the same L.
        alpha: (R, L), the start, above 0.
        rate: of each step.
        steps: at which the attention is returned, rising.

    Returns:
        alpha (R, L) after each of these numbers of steps.
    """
    a, found = alpha.log(), []
    for step in range(1, steps[-1] + 1):
        alpha = torch.softmax(a, 1)
        parts = alpha.split([len(problem.y) for problem in problems])
        slopes = []
        for problem, part in zip(problems, parts, strict=True):
            p = torch.softmax(torch.addmm(problem.base, part, problem.Z), 1)
            slopes.append(problem.Z[:, problem.y].t() - p @ problem.Z.t())
        g = torch.cat(slopes)
        a = a + rate * alpha * (g - (alpha * g).sum(1, keepdim=True))
        if step in steps:
            found.append(torch.softmax(a, 1))
    return found
