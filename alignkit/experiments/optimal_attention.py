"""``optimal-attention``: the best attention against beta for p = softmax(W (c + s)) (Snell et al. 2021, A.1).

With states h, s and the output layer as trained, the attention of each row is optimised to give the right word the
highest probability (:mod:`alignkit.experiments.simplex`). If lexical knowledge alone decided, this attention would
be where beta is largest. It need not be, as :func:`counterexample` shows.

Three output words, three states, s = 0, y the first word, with numbers 0 < c < a and b:

    Z_1 = (a, b, -b),    Z_2 = (a, -b, b),    Z_3 = (c, 0, 0).

At alpha = (1/2, 1/2, 0) the logits are (a, 0, 0), so p = e^a / (e^a + 2), and the gradient of log p(y) is
(1 - p) (a, a, c): none exceeds its mean under alpha, (1 - p) a, so the duality gap is 0 and this alpha is optimal.
But beta_1 = beta_2 = e^a / (e^a + 2 cosh b) and beta_3 = e^c / (e^c + 2): **if cosh b > e^(a - c), beta is largest
at the one word that the optimal attention ignores.** Each of the two others is wrong about a different word, and
together they are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from alignkit.analysis.networks import load_network, open_run
from alignkit.errors import AlignkitError
from alignkit.experiments.networks import (
    NetworkPlan,
    encode_plan,
    take_pairs,
    train_network,
)
from alignkit.experiments.protocol import Claim, Result, check_positive, claim
from alignkit.experiments.simplex import Problem, best_attention
from alignkit.metrics.agreement import Agreement, agreement
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.batch_sizes import BatchSizes
from alignkit.neural.batching import Batch, Batcher, scoring_batches
from alignkit.neural.devices import device_of
from alignkit.neural.networks.encoder_decoder import EncoderDecoder
from alignkit.neural.scoring.modes import evaluation_mode
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.types import Progress, no_progress

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PUBLISHED = 0.53  #: A(alpha_opt, beta) of the paper, on Multi30k


@dataclass(frozen=True)
class OptimalAttentionSettings(NetworkPlan):
    """The network, from ``run`` or trained by the plan, and the pairs to score.

    Attributes (others are those of :class:`NetworkPlan`):
        output: must be ``sum``.
        run: a run directory of ``alignkit train`` whose network adds context and state; if empty, one is trained.
        scored: pairs of the held-out text that are scored; 0 for all.
        tolerance: duality gap at which the search stops, nats.
        counterexample: its a, b and c.
    """

    output: str = "sum"
    run: str = ""
    scored: int = 0
    tolerance: float = 1e-4
    counterexample: tuple[float, ...] = (2.0, 4.0, 1.0)

    def __post_init__(self) -> None:
        check_positive(self, "tolerance")


QUICK = OptimalAttentionSettings(epochs=8, scored=60)


def counterexample(a: float = 2.0, b: float = 4.0, c: float = 1.0) -> Problem:
    """The counterexample of the module; its best attention is (1/2, 1/2, 0)."""
    Z = torch.tensor([[a, b, -b], [a, -b, b], [c, 0, 0]], dtype=torch.float64)
    return Problem(Z, torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, dtype=torch.int64))


def probabilities(problem: Problem, alpha: torch.Tensor) -> torch.Tensor:
    """p(y_t) under attention alpha (T, L)."""
    shares = torch.softmax(problem.base + alpha @ problem.Z, 1)
    return shares.gather(1, problem.y.unsqueeze(1)).squeeze(1)


def optimal_scores(
    aligner: NeuralAligner, bitext: Bitext, tolerance: float, progress: Progress = no_progress
) -> tuple[Scores, pd.DataFrame]:
    """alpha_opt of all rows of a bitext, and per row ``value`` (log p(y_t) there) and duality ``gap``, nats.

    Raises:
        AlignkitError: the network's logits are not linear in its context.
    """
    import pandas as pd

    network = aligner.network
    if not isinstance(network, EncoderDecoder) or network.settings.output != "sum":
        raise AlignkitError("the best attention is a convex problem only for a network with output = sum")
    offsets = flat_offsets(bitext.shapes)
    values = np.zeros(offsets[-1], np.float32)
    batcher = Batcher(bitext, device_of(network))
    rows, done = [], 0
    with evaluation_mode(network):
        for pairs in scoring_batches(bitext, BatchSizes(32, 1 << 14)):
            batch = batcher(pairs)
            heights = batch.target_lengths.tolist()
            found = best_attention(_problems(network, batch), tolerance)
            parts = zip(pairs.tolist(), *(x.split(heights) for x in found), strict=True)
            for m, alpha, value, gap in parts:
                values[offsets[m] : offsets[m + 1]] = alpha.flatten().cpu().numpy()
                rows.append(pd.DataFrame({"pair": m, "value": value.cpu(), "gap": gap.cpu()}))
            done += len(pairs)
            progress(done, len(bitext), "best attention")
    return Scores(values, offsets, bitext.shapes), pd.concat(rows, ignore_index=True)


def _problems(network: EncoderDecoder, batch: Batch) -> list[Problem]:
    """The best-attention problem of every pair of a batch, in float64."""
    weight, bias = network.output.weight.double(), network.output.bias.double()
    encoding = network.encode(batch.source, batch.source_lengths)
    s, _ = network.states(batch.previous, encoding.start)
    Z = network.context(encoding.h).double() @ weight.t()
    return [
        Problem(Z[i], s[i, :height].double() @ weight.t() + bias, batch.target[:height, i])
        for i, height in enumerate(batch.target_lengths.tolist())
    ]


def run_optimal_attention(settings: OptimalAttentionSettings, progress: Progress = no_progress) -> Result:
    """Finds the best attention for the held-out text, and compares it with beta and with the trained attention."""
    import pandas as pd

    aligner, bitext = _network(settings, progress)
    best, found = optimal_scores(aligner, bitext, settings.tolerance, progress)
    scores = {"alpha_opt": best} | {kind: aligner.score(bitext, kind) for kind in ("alpha", "beta")}
    pairs = (("alpha_opt", "beta"), ("alpha", "beta"), ("beta", "alpha_opt"), ("alpha_opt", "alpha"))
    agreements = {(u, v): agreement(scores[u], scores[v]) for u, v in pairs}
    table = pd.DataFrame([{"u": u, "v": v, **vars(a)} for (u, v), a in agreements.items()])
    problem = counterexample(*settings.counterexample)
    logs = aligner.log_probabilities(bitext)
    remarks = (
        f"{len(bitext)} pairs, {len(found)} target tokens; published A(alpha_opt, beta): {PUBLISHED}.",
        f"The largest duality gap is {found.gap.max():.2g} nats. Mean log p(y): {found.value.mean():.3f} with the "
        f"best attention, {logs.sum() / len(found):.3f} with the network's own.",
    )
    judged = (*_counterexample_claims(problem), *optimal_attention_claims(agreements))
    return Result(table, judged, {"tokens": found.round(6)}, lambda figure: _draw(figure, table), remarks)


def _network(settings: OptimalAttentionSettings, progress: Progress) -> tuple[NeuralAligner, Bitext]:
    """The network, and the pairs to score."""
    if settings.run:
        aligner, valid = load_network(settings.run), open_run(settings.run).valid
    else:
        text = encode_plan(settings)
        aligner, valid = train_network(settings, text, progress), text.valid
    return aligner, take_pairs(valid, settings.scored)


def _counterexample_claims(problem: Problem) -> tuple[Claim, ...]:
    alpha, value, gap = best_attention([problem], 1e-9)
    beta = probabilities(Problem(problem.Z, problem.base.expand(3, 3), problem.y.expand(3)), torch.eye(3).double())
    favourite = int(beta.argmax())
    return (
        claim(
            "There are sentences for which the best attention ignores the word with the largest beta (A.1)",
            "the best attention to the word with the largest beta, three words",
            float(alpha[0, favourite]),
            (0.0, float(alpha[0, favourite])),
            below=1e-3,
        ),
        claim(
            "... and gives the right word a higher probability than that word alone",
            "p(y) of the best attention minus the largest beta",
            float(value.exp() - beta.max()),
            (float(value.exp() - beta.max()), float((value + gap).exp() - beta.max())),
            above=0.0,
        ),
    )


def optimal_attention_claims(agreements: Mapping[tuple[str, str], Agreement]) -> tuple[Claim, ...]:
    """The claims about the network, from the agreements of the table."""
    found = agreements["alpha_opt", "beta"]
    interval = (found.low, found.high)
    own = agreements["alpha", "beta"]
    return (
        claim(
            "beta is high where the best attention is, far above chance (A.1)",
            f"A(alpha_opt, beta), chance {found.chance:.3f}",
            found.agreement,
            interval,
            above=found.chance + 0.1,
        ),
        claim(
            "... but the two are not the same",
            "A(alpha_opt, beta)",
            found.agreement,
            interval,
            below=0.9,
        ),
        claim(
            f"Published: A(alpha_opt, beta) = {PUBLISHED} on Multi30k; judged as: within 0.1",
            "A(alpha_opt, beta)",
            found.agreement,
            interval,
            above=PUBLISHED - 0.1,
            below=PUBLISHED + 0.1,
        ),
        claim(
            "The network's own attention agrees with beta less than the best attention does",
            "A(alpha, beta) minus A(alpha_opt, beta), from the outer ends of their intervals",
            own.agreement - found.agreement,
            (own.low - found.high, own.high - found.low),
            below=0.0,
        ),
    )


def _draw(figure: Figure, table: pd.DataFrame) -> None:
    axes = figure.subplots()
    names = [f"A({u}, {v})" for u, v in zip(table.u, table.v, strict=True)]
    spread = np.stack([table.agreement - table.low, table.high - table.agreement])
    axes.bar(names, table.agreement, yerr=spread, capsize=4, color="tab:blue", label="measured")
    axes.plot(names, table.chance, "k_", ms=25, label="chance")
    axes.plot(names[:1], [PUBLISHED], "r*", ms=12, label="published")
    axes.set_ylabel("top-5 % agreement")
    axes.set_ylim(0, 1.1)
    axes.legend(loc="upper center", ncol=3)
