"""``toy-classifier``: two tokens (blog post "Approximating How Single Head Attention Learns").

A sentence has a neutral token of relevance (logit) beta0 and one of relevance beta1 that indicates the right
class; p is the attention to the latter. In the source, the loss is p (beta0 - beta1), p is any number, and
gradient flow is linear,

    beta0' = -p,    beta1' = p,    p' = beta1 - beta0,

and is solved by hyperbolic functions. With d = beta1 - beta0, which has d' = 2 p,

    p(t) = p(0) cosh(w t) + d(0) / w sinh(w t),    d(t) = d(0) cosh(w t) + w p(0) sinh(w t),    w = sqrt 2,

while beta0 + beta1 stays what it was, and so does p^2 - d^2 / 2. Where d(0) > -w p(0), attention stays positive
and rises in the end; where d(0) < -w p(0), it falls for ever, below 0, and it is the product of two wrong signs
that lowers the loss.

**Extension** (ours): probabilities. There are two equally frequent classes y = +1 and -1, attention is
p = sigma(a), so that with u_y = p beta1 + y (1 - p) beta0 the loss is the mean over y of -log sigma(u_y). With
r_y = sigma(-u_y), R = (r_+ + r_-)/2 and D = (r_+ - r_-)/2, gradient flow on (beta0, beta1, a) is

    beta0' = (1 - p) D,    beta1' = p R,
    a' = p (1 - p) (beta1 R - beta0 D) = (1 - p) beta1 beta1' - p beta0 beta0'.

If beta0 = 0, both classes have the same r, so D = 0 and beta0 stays 0; then a' / (1 - p) = beta1 beta1', and as
1 / (1 - p) = 1 + e^a,

    a + e^a - beta1^2 / 2 is constant:                                                               (1)

attention is a function of relevance alone, and rises if |beta1| does. In one variable, beta1' = p(beta1)
sigma(-p(beta1) beta1) then gives the time as an integral over beta1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit, wrightomega

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, ExperimentSettings, Figure, Result, claim
from alignkit.support.stages import no_progress
from alignkit.types import Progress

RATE = np.sqrt(2.0)  #: w, of the exponential growth of the source's flow in the end
KEPT = 150  #: most points of a trajectory in the raw rows, denser at its start
RISING, FALLING, SOLVED = "0:0:0.5", "10:-10:0.5", "0:20:0.5"


@dataclass(frozen=True)
class ToyClassifierSettings(ExperimentSettings):
    """The starts, and the integration.

    Attributes:
        source_starts: of the source's flow, each beta0:beta1:p; those that the claims are about are always added.
        source_time: of the source's flow, which grows exponentially.
        starts: of the extension; the three that the claims are about are always added.
        time: of the extension.
        step: of the Runge-Kutta method; all results of the extension are also computed with half this step.
    """

    size = ("source_time", "time", "step")
    source_starts: tuple[str, ...] = (RISING, FALLING, "-1:3:0.5", "-10:30:0.5", SOLVED, "0.3:0:0.5")
    source_time: float = 3.0
    starts: tuple[str, ...] = (RISING, FALLING, SOLVED, "0:0:0.1", "0:-3:0.5", "3:0:0.5", "0:1:0.9")
    time: float = 400.0
    step: float = 0.02


QUICK_TOY_CLASSIFIER = ToyClassifierSettings(time=100.0, step=0.05)


def linear_flow(state: np.ndarray) -> np.ndarray:
    """d/dt of (beta0, beta1, p), arrays (3, K)."""
    beta0, beta1, p = state
    return np.stack([-p, p, beta1 - beta0])


def linear_loss(state: np.ndarray) -> np.ndarray:
    """p (beta0 - beta1), (K,)."""
    beta0, beta1, p = state
    return p * (beta0 - beta1)


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


def flow(state: np.ndarray) -> np.ndarray:
    """d/dt of (beta0, beta1, a), arrays (3, K)."""
    beta0, beta1, a = state
    p, q = expit(a), expit(-a)
    plus, minus = expit(-(p * beta1 + q * beta0)), expit(-(p * beta1 - q * beta0))
    R, D = (plus + minus) / 2, (plus - minus) / 2
    return np.stack([q * D, p * R, p * q * (beta1 * R - beta0 * D)])


def loss(state: np.ndarray) -> np.ndarray:
    """Mean over the classes of -log sigma(u_y), nats, (K,)."""
    beta0, beta1, a = state
    p, q = expit(a), expit(-a)
    both = [np.logaddexp(0, -(p * beta1 + sign * q * beta0)) for sign in (1, -1)]
    return np.mean(both, axis=0)


def invariant(state: np.ndarray) -> np.ndarray:
    """a + e^a - beta1^2 / 2, constant by equation (1) if beta0 = 0."""
    return state[2] + np.exp(state[2]) - state[1] ** 2 / 2


def attention_logit(beta1: np.ndarray, constant: float) -> np.ndarray:
    """The a for which a + e^a - beta1^2 / 2 is that constant."""
    return np.log(wrightomega(constant + beta1**2 / 2))


def integrate(
    start: np.ndarray, time: float, steps: int, field: Callable[[np.ndarray], np.ndarray] = flow
) -> np.ndarray:
    """A flow from states (3, K) by the classical Runge-Kutta method; (steps + 1, 3, K).

    Args:
        start: (beta0, beta1, a) of K trajectories.
        time: of the flow.
        steps: of the method.
        field: d/dt of the state.
    """
    h = time / steps
    trajectory = np.empty((steps + 1, *start.shape))
    trajectory[0] = state = start
    for n in range(steps):
        k1 = field(state)
        k2 = field(state + h / 2 * k1)
        k3 = field(state + h / 2 * k2)
        k4 = field(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        trajectory[n + 1] = state
    return trajectory


def read_start(text: str) -> np.ndarray:
    """(beta0, beta1, p) from beta0:beta1:p; raises AlignkitError if the text is not of this form."""
    try:
        beta0, beta1, p = (float(part) for part in text.split(":"))
        if not 0 < p < 1:
            raise ValueError
    except ValueError as error:
        raise AlignkitError(f"a start is beta0:beta1:p with 0 < p < 1, not {text!r}") from error
    return np.array([beta0, beta1, p])


def _row(flow: str, course: pd.DataFrame, slope: float, turns: float, drift: float) -> dict[str, object]:
    """The row of the table about one trajectory."""
    first, last = course.iloc[0], course.iloc[-1]
    row = {"flow": flow, "start": first.start, "dp/dt at 0": slope, "turns": turns, "least p": course.p.min()}
    row |= {f"last {name}": last[name] for name in ("p", "beta0", "beta1")}
    return row | {"first loss": first.loss, "last loss": last.loss, "drift": drift}


def source_flow(settings: ToyClassifierSettings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The source's flow: its courses, and a table with a row per start."""
    time, courses, rows = np.linspace(0, settings.source_time, KEPT), [], []
    every = max(1, round(settings.source_time / settings.step / (KEPT - 1)))
    for name in dict.fromkeys([*settings.source_starts, RISING, FALLING]):
        start = read_start(name)
        solved = solve_linear(start, time)
        beta0, beta1, p = solved.T
        columns = {"beta0": beta0, "beta1": beta1, "p": p, "loss": linear_loss(solved.T)}
        courses.append(pd.DataFrame({"start": name, "time": time, **columns}))
        numeric = integrate(start[:, None], settings.source_time, (KEPT - 1) * every, linear_flow)[::every, :, 0]
        drift = np.abs(numeric - solved).max() / np.abs(solved).max()
        turn = turning_time(start)
        slope = linear_flow(start)[2]
        rows.append(_row("source", courses[-1], slope, turn if np.isfinite(turn) else np.nan, drift))
    return pd.concat(courses, ignore_index=True), pd.DataFrame(rows)


def run_toy_classifier(settings: ToyClassifierSettings, progress: Progress = no_progress) -> Result:
    """Solves the source's flow and integrates the extension's from every start, and checks both."""
    solved, source_rows = source_flow(settings)
    names = list(dict.fromkeys([*settings.starts, RISING, FALLING, SOLVED]))
    start = np.array([read_start(name) for name in names]).T
    start[2] = np.log(start[2] / (1 - start[2]))
    steps = max(1, round(settings.time / settings.step))
    coarse = integrate(start, settings.time, steps)
    progress(1, 3, "Runge-Kutta")
    fine = integrate(start, settings.time, 2 * steps)[::2]
    progress(3, 3, "Runge-Kutta")
    kept = np.unique(np.round(np.append(0, np.geomspace(1, steps, KEPT - 1))).astype(np.int64))
    time = np.arange(steps + 1) * settings.time / steps
    courses, rows = [], []
    for k, name in enumerate(names):
        beta0, beta1, a = state = fine[:, :, k].T
        columns = {"beta0": beta0, "beta1": beta1, "a": a, "p": expit(a), "loss": loss(state)}
        course = pd.DataFrame({"start": name, "time": time, **columns})
        courses.append(course.iloc[kept])
        p, constant = course.p[0], invariant(state)
        drift = np.abs(constant - constant[0]).max() if beta0[0] == 0 else np.nan
        least = int(a.argmin())
        turns = time[least] if least < steps else np.nan
        rows.append(_row("extension", course, flow(fine[0, :, k])[2] * p * (1 - p), turns, drift))
    raw = pd.concat(courses, ignore_index=True)
    remarks = (
        "flow source: loss p (beta0 - beta1), p unbounded, in closed form; extension: two classes, p = sigma(a).",
        "turns: the time at which p, falling at first, begins to rise; 0 if it rises at once, - if it never does. "
        "drift: for the source, the largest deviation of Runge-Kutta from the closed form, relative; for the "
        "extension, the change of a + e^a - beta1^2/2 along a trajectory, which is 0 in theory if beta0 = 0.",
    )

    def draw(figure: Figure) -> None:
        source, left, right = figure.subplots(1, 3)
        for name, part in solved.groupby("start", sort=False):
            source.plot(part.time, part.p, label=str(name).replace(":", ", "))
        source.set(title="the source's flow", xlabel="time", ylabel="p, attention to the indicative token")
        source.set_yscale("symlog", linthresh=1)
        source.legend(title="beta0, beta1, p", fontsize=8)
        for number, (name, part) in enumerate(raw.groupby("start", sort=False)):
            left.plot(part.time, part.p, label=str(name).replace(":", ", "))
            if part.beta0.iloc[0] == 0:
                right.plot(part.beta1, part.a, color=f"C{number}", lw=3, alpha=0.5)
                beta1 = np.linspace(part.beta1.min(), part.beta1.max(), 100)
                first = part[["beta0", "beta1", "a"]].to_numpy()[0]
                right.plot(beta1, attention_logit(beta1, float(invariant(first))), "k--", lw=1)
        left.set(title="extension: probabilities", xlabel="time", ylabel="p, attention to the indicative token")
        left.set_xscale("symlog", linthresh=1)
        left.legend(title="beta0, beta1, p", fontsize=8)
        right.set(xlabel="beta1", ylabel="a = logit of p (dashed: closed form)")

    table = pd.concat([source_rows, pd.DataFrame(rows)], ignore_index=True)
    claims = tuple(toy_classifier_claims(solved, source_rows, names, coarse, fine))
    return Result(table, claims, {"courses": raw.round(8), "source": solved.round(8)}, draw, remarks)


def toy_classifier_claims(
    solved: pd.DataFrame, rows: pd.DataFrame, names: list[str], coarse: np.ndarray, fine: np.ndarray
) -> Iterator[Claim]:
    """The claims about both flows.

    Args:
        solved, rows: of :func:`source_flow`; what is claimed of it is exact.
        names: the starts of the extension.
        coarse, fine: its trajectories with two step sizes, whose difference is the width of an interval.
    """

    def pair(statistic: Callable[[np.ndarray], float]) -> tuple[float, tuple[float, float]]:
        one, other = (float(statistic(trajectory)) for trajectory in (coarse, fine))
        return other, (other - abs(one - other), other + abs(one - other))

    def p(trajectory: np.ndarray, name: str) -> np.ndarray:
        return expit(trajectory[:, 2, names.index(name)])

    text, statistic = "From (0, 0, 0.5), p rises throughout", "smallest change of p from one time to the next"
    change = float(solved[solved.start == RISING].p.diff().min())
    yield claim(f"{text}, in the source's flow", statistic, change, above=0.0)
    text = "From (10, -10, 0.5), p first falls, in the source's flow"
    yield claim(text, "dp/dt at time 0", float(linear_flow(read_start(FALLING))[2]), below=0.0)
    text = "The closed form is the flow: against numerical integration"
    yield claim(text, "largest relative deviation over all trajectories", float(rows.drift.max()), below=1e-6)
    text = "Extension: from (0, 0, 0.5), p rises throughout: the token becomes relevant, then attended"
    least = pair(lambda trajectory: np.diff(p(trajectory, RISING)).min())
    yield claim(text, "smallest change of p from one step to the next", *least, above=0.0)
    text = "Extension: from (10, -10, 0.5), p first falls: attention follows relevance, even wrong relevance"
    lowest = pair(lambda trajectory: p(trajectory, FALLING).min() - 0.5)
    yield claim(text, "smallest p of the trajectory, minus 0.5", *lowest, below=-0.1)
    text = "Extension: the loss can be low with uniform attention, so that hardly any gradient is left"
    known = float(loss(fine[0])[names.index(SOLVED)])
    yield claim(text, "loss at (0, 20, 0.5), nats", known, below=1e-3)
    text = "... and the flow from there leaves attention nearly uniform"
    yield claim(text, "last p minus 0.5", *pair(lambda each: p(each, SOLVED)[-1] - 0.5), below=0.05)
    text = "Extension: if beta0 = 0, a + e^a - beta1^2/2 is constant: closed form against numerical integration"
    zero = [k for k, name in enumerate(names) if fine[0, 0, k] == 0]
    drift = pair(lambda trajectory: max(np.abs(np.ptp(invariant(trajectory[:, :, k].T))) for k in zero))
    yield claim(text, "largest drift over all these trajectories", *drift, below=1e-6)
