"""``optimal-attention``: the best attention against beta for p = softmax(W (c + s)) (Snell et al. 2021, A.1).

With states h, s and the output layer as trained, the attention of each row is optimised to give the right word the
highest probability. If lexical knowledge alone decided, this attention would be where beta is largest. It need not
be, as :func:`counterexample` shows.

**The best attention** is a concave problem on the simplex. If logits are linear in the context, they are
z = base + sum_l alpha_l Z_l, Z_l being what state l adds to the logits. Then f(alpha) = log softmax(z)[y] is
concave in alpha, with

    gradient g_l = Z_l[y] - p . Z_l,    Hessian -H,  H_kl = sum_v p_v Z_kv Z_lv - (p . Z_k)(p . Z_l).

As f is concave, max_l g_l - alpha . g bounds by how much any attention could still improve on alpha: the duality
gap, a certificate that does not depend on the solver. The solver is Newton's method: its quadratic models are
maximised over the simplex by accelerated projected gradients, all rows at once; steps are halved until f rises.

**The counterexample.** Three output words, three states, s = 0, y the first word, with numbers 0 < c < a and b:

    Z_1 = (a, b, -b),    Z_2 = (a, -b, b),    Z_3 = (c, 0, 0).

At alpha = (1/2, 1/2, 0) the logits are (a, 0, 0), so p = e^a / (e^a + 2), and the gradient of log p(y) is
(1 - p) (a, a, c): none exceeds its mean under alpha, (1 - p) a, so the duality gap is 0 and this alpha is optimal.
But beta_1 = beta_2 = e^a / (e^a + 2 cosh b) and beta_3 = e^c / (e^c + 2): **if cosh b > e^(a - c), beta is largest
at the one word that the optimal attention ignores.** Each of the two others is wrong about a different word, and
together they are right.

**What the printed number may be.** We do not know how the authors searched, nor whether their beta had the
decoder's state. So both betas are reported, N([h_l, s_t]) and N(h_l) without s_t, and two ways to the best
attention: the exact maximum, and a number of steps of gradient ascent on the logits of the attention, from the
trained attention and from uniform attention, which need not come near it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from entmax import sparsemax
from torch import Tensor

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Claim, Figure, Result, claim
from alignkit.lab.experiments.networks import NetworkPlan, encode_plan, take_pairs, train_network
from alignkit.metrics.agreement import Agreement, agreement
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.devices import Batcher, BatchSizes, device_of, evaluation_mode, scoring_batches
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.training.run_directory import load_network, open_run
from alignkit.scores import Scores, flat_offsets
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Bitext
from alignkit.types import Progress

PUBLISHED = 0.53  #: A(alpha_opt, beta) of the paper, on Multi30k
PLAIN = "beta without s"  #: N(h_l), which does not see the decoder's state


@dataclass(frozen=True)
class OptimalAttentionSettings(NetworkPlan):
    """The network, from ``run`` or trained by the plan, and the pairs to score.

    Attributes (others are those of :class:`NetworkPlan`):
        output: must be ``sum``.
        run: a run directory of ``alignkit train`` whose network adds context and state; if empty, one is trained.
        scored: pairs of the held-out text that are scored; 0 for all.
        tolerance: duality gap at which the search stops, nats.
        counterexample: its a, b and c.
        ascent_steps: of gradient ascent on the logits of the attention, rising.
        ascent_rate: of each of its steps.
    """

    least = NetworkPlan.least | {"scored": 0}
    trained = ("preset", "pieces", "batch", "epochs")
    size = (*trained, "scored")
    output: str = "sum"
    run: str = ""
    scored: int = 0
    tolerance: float = 1e-4
    alike = ("counterexample",)
    counterexample: tuple[float, ...] = (2.0, 4.0, 1.0)
    ascent_steps: tuple[int, ...] = (10, 100)
    ascent_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.ascent_steps) != sorted(set(self.ascent_steps)):
            raise AlignkitError("ascent_steps must increase")
        if len(self.counterexample) != 3 or not self.counterexample[2] < self.counterexample[0]:
            raise AlignkitError("counterexample must be three numbers a, b and c, with c below a")


QUICK_OPTIMAL_ATTENTION = OptimalAttentionSettings(epochs=8, scored=60)


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
        new = sparsemax(ahead + step * slope, 1)  # the nearest point of the simplex
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
            new, shares = _value(problems, trial)
            short = new < value + 1e-4 * size.squeeze(1) * rise
            if not bool(short.any()):
                break
            size = torch.where(short.unsqueeze(1), size / 2, size)
        else:  # rows that no step improves do not move
            alpha = torch.where(short.unsqueeze(1), alpha, trial)
            value, shares = _value(problems, alpha)
            continue
        alpha, value = trial, new
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
    a, path = alpha.log(), []
    for step in range(1, steps[-1] + 1):
        alpha = torch.softmax(a, 1)
        _, shares = _value(problems, alpha)
        g = torch.cat([each.Z[:, each.y].t() - p @ each.Z.t() for each, p in zip(problems, shares, strict=True)])
        a = a + rate * alpha * (g - (alpha * g).sum(1, keepdim=True))
        if step in steps:
            path.append(torch.softmax(a, 1))
    return path


def counterexample(a: float = 2.0, b: float = 4.0, c: float = 1.0) -> Problem:
    """The counterexample of the module; its best attention is (1/2, 1/2, 0)."""
    Z = torch.tensor([[a, b, -b], [a, -b, b], [c, 0, 0]], dtype=torch.float64)
    return Problem(Z, torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, dtype=torch.int64))


def search_attention(
    aligner: NeuralAligner, bitext: Bitext, settings: OptimalAttentionSettings, progress: Progress = no_progress
) -> tuple[dict[str, Scores], pd.DataFrame]:
    """Finds the best attention of all rows of a bitext.

    Returns:
        scores: ``alpha_opt``; :data:`PLAIN`, N(h_l)[y_t], the probability of the right word from h_l alone; and
            ``from alpha, 10 steps`` and the like, attention after steps of gradient ascent on its logits;
        per row its ``pair``, and at the best attention ``value`` (log p(y_t)) and duality ``gap``, nats.

    Raises:
        AlignkitError: the network's logits are not linear in its context.
    """
    network = aligner.network
    if not isinstance(network, EncoderDecoder) or (network.settings.output, network.settings.heads) != ("sum", 1):
        problem = "the best attention is a convex problem only for a network with output = sum and one head"
        raise AlignkitError(problem)
    own = aligner.score(bitext, "alpha")
    offsets = flat_offsets(bitext.shapes)
    values: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(offsets[-1], np.float32))
    rows, done = [], 0
    batcher = Batcher(bitext, device_of(network))
    weight, bias = network.output.weight.double(), network.output.bias.double()
    with evaluation_mode(network):
        for pairs in scoring_batches(bitext, BatchSizes(32, 1 << 14)):
            batch = batcher(pairs)
            encoding = network.encode(batch.source, batch.source_lengths)
            s, _ = network.states(batch.previous, encoding.start)
            Z = network.context(encoding.h).double() @ weight.t()
            problems = [
                Problem(Z[i], s[i, :height].double() @ weight.t() + bias, batch.target[:height, i])
                for i, height in enumerate(batch.target_lengths.tolist())
            ]
            alpha, value, gap = best_attention(problems, settings.tolerance)
            owners = np.repeat(pairs, batch.target_lengths)
            rows.append(pd.DataFrame({"pair": owners, "value": value.cpu(), "gap": gap.cpu()}))
            plain = [torch.softmax(each.Z + bias, 1)[:, each.y].t() for each in problems]
            attentions = {"alpha_opt": alpha, PLAIN: torch.cat(plain)}
            trained = torch.from_numpy(np.concatenate([own[m] for m in pairs]).astype(np.float64))
            for start, weights in (("alpha", trained), ("uniform", torch.full_like(trained, 1 / alpha.shape[1]))):
                weights = weights.clamp(min=1e-12).to(alpha.device)  # those of exactly 0 would never move
                weights = weights / weights.sum(1, keepdim=True)
                path = ascend_logits(problems, weights, settings.ascent_rate, settings.ascent_steps)
                for steps, each in zip(settings.ascent_steps, path, strict=True):
                    attentions[f"from {start}, {steps} steps"] = each
            for name, weights in attentions.items():
                for m, part in zip(pairs, weights.split(batch.target_lengths.tolist()), strict=True):
                    values[name][offsets[m] : offsets[m + 1]] = part.flatten().cpu().numpy()
            done += len(pairs)
            progress(done, len(bitext), "best attention")
    scores = {name: Scores(each, offsets, bitext.shapes) for name, each in values.items()}
    return scores, pd.concat(rows, ignore_index=True)


def run_optimal_attention(settings: OptimalAttentionSettings, progress: Progress = no_progress) -> Result:
    """Finds the best attention for the held-out text, and compares it with beta and with the trained attention."""
    if settings.run:
        aligner, valid = load_network(settings.run), open_run(settings.run).valid
    else:
        encoded = encode_plan(settings)
        aligner, valid = train_network(settings.settings(), encoded, progress), encoded.valid
    bitext = take_pairs(valid, settings.scored)
    scores, rows = search_attention(aligner, bitext, settings, progress)
    paths = [name for name in scores if name.startswith("from")]
    scores |= {kind: aligner.score(bitext, kind) for kind in ("alpha", "beta")}
    pairs = [(u, v) for u in ("alpha_opt", "alpha", *paths) for v in ("beta", PLAIN)]
    pairs += [("beta", "alpha_opt"), ("alpha_opt", "alpha")]
    agreements = {(u, v): agreement(scores[u], scores[v]) for u, v in pairs}
    table = pd.DataFrame([{"u": u, "v": v, **vars(a)} for (u, v), a in agreements.items()])
    logs = aligner.log_probabilities(bitext)
    remarks = (
        f"{len(bitext)} pairs, {len(rows)} target tokens; published A(alpha_opt, beta): {PUBLISHED}.",
        f"The largest duality gap is {rows.gap.max():.2g} nats. Mean log p(y): {rows.value.mean():.3f} with the "
        f"best attention, {logs.sum() / len(rows):.3f} with the network's own.",
        f"{PLAIN}: the probability of y_t from h_l alone, without the decoder's state s_t.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        names = [f"A({u},\n{v})" for u, v in zip(table.u, table.v, strict=True)]
        spread = np.stack([table.agreement - table.low, table.high - table.agreement])
        axes.barh(names, table.agreement, xerr=spread, capsize=3, color="tab:blue", label="measured")
        axes.plot(table.chance, names, "k|", ms=14, label="chance")
        axes.axvline(PUBLISHED, color="tab:red", ls="--", lw=1, label="published A(alpha_opt, beta)")
        axes.set(xlabel="top-5 % agreement", xlim=(0, 1.05))
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize=7)
        axes.legend(loc="upper center", ncol=3)

    claims = tuple(optimal_attention_claims(settings.counterexample, agreements))
    return Result(table, claims, {"tokens": rows.round(6)}, draw, remarks)


def optimal_attention_claims(
    numbers: tuple[float, ...], agreements: Mapping[tuple[str, str], Agreement]
) -> Iterator[Claim]:
    """The claims, from the numbers of the counterexample and from the agreements of the table."""
    problem = counterexample(*numbers)
    alpha, value, gap = best_attention([problem], 1e-9)
    beta = torch.softmax(problem.Z, 1)[:, 0]
    text = "There are sentences for which the best attention ignores the word with the largest beta (A.1)"
    weight = float(alpha[0, int(beta.argmax())])
    statistic = "the best attention to the word with the largest beta, three words"
    yield claim(text, statistic, weight, (0.0, weight), below=1e-3)
    text = "... and gives the right word a higher probability than that word alone"
    gain, most = (float(each.exp() - beta.max()) for each in (value, value + gap))
    yield claim(text, "p(y) of the best attention minus the largest beta", gain, (gain, most), above=0.0)
    best, own = agreements["alpha_opt", "beta"], agreements["alpha", "beta"]
    measured = best.agreement, (best.low, best.high)
    text = "beta is high where the best attention is, far above chance (A.1)"
    statistic = f"A(alpha_opt, beta), chance {best.chance:.3f}"
    yield claim(text, statistic, *measured, above=best.chance + 0.1)
    text = "... but the two are not the same; judged as: for more than one token in twenty"
    yield claim(text, "A(alpha_opt, beta)", *measured, below=0.95)
    published = f"Published: A(alpha_opt, beta) = {PUBLISHED} on Multi30k; judged as: within 0.1"
    near = {"above": PUBLISHED - 0.1, "below": PUBLISHED + 0.1}
    for (u, v), each in agreements.items():
        if v in ("beta", PLAIN) and u != "alpha":
            text = f"{published}; {'exact maximum' if u == 'alpha_opt' else u}, {v}"
            yield claim(text, f"A({u}, {v})", each.agreement, (each.low, each.high), **near)
    text = "The network's own attention agrees with beta less than the best attention does"
    statistic = "A(alpha, beta) minus A(alpha_opt, beta), from the outer ends of their intervals"
    interval = own.low - best.high, own.high - best.low
    yield claim(text, statistic, own.agreement - best.agreement, interval, below=0.0)
