"""Settings of the comparison and the lab. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.classical.settings import IBM1Settings
from alignkit.metrics.protocol import MetricSettings
from alignkit.metrics.registry import MAIN

#: The part of a run's text that is scored.
Part = Literal["valid", "train"]
#: What says which network of a run is the best.
BestBy = Literal["loss", "accuracy", "bleu"]


@dataclass(frozen=True)
class CompareSettings(MetricSettings):
    """Settings of the comparison.

    Attributes:
        metric: its name, one of ``alignkit.metrics.registry.SCORE_METRICS``.
        iterations: EM iterations of IBM 1; 1 without NULL is the paper's count-based Trans.
        null: whether IBM 1 has NULL.
        ibm_alpha: also score IBM 1's posterior, ``ibm1.alpha``.
        delta: also score the network's saliency, ``lstm.delta``.
        ov: also score the lexicon of a transformer's attention heads, ``transformer.ov``.
        proxy_epochs: the preset's if not given.
        device: as :func:`alignkit.neural.devices.pick_device`.
    """

    metric: str = MAIN.name
    iterations: int = IBM1Settings.iterations
    null: bool = False
    ibm_alpha: bool = False
    delta: bool = False
    ov: bool = False
    proxy_epochs: int | None = None
    device: str = "auto"


@dataclass(frozen=True)
class LabSettings(MetricSettings):
    """Settings of the lab. The seed is also that of the drawn pairs and of the proxy.

    Attributes:
        on: score the run's validation text or its training text.
        limit: score only this number of pairs, drawn at random; by default all of a validation text and 1,000 of a
            training text.
        iterations: EM iterations of IBM 1, beside the one iteration of the paper's count-based Trans.
        null: whether IBM 1 has NULL.
        bleu: translate at the checkpoints of the second run whose BLEU was not logged.
        all_steps: also give the time course of every run against all fixed scores.
        alpha_by: which network of a run counts: that with the lowest validation loss; or that of the logged step
            with the highest token accuracy or BLEU, as in the authors' own evaluation.
        largest: in every row with uniform.beta, not only in A(alpha, beta_uf), and in that with other.beta, take
            beta at the logged step where the row is largest, as the authors do.
        both_directions: A(u, v) and A(v, u) of every row with uniform.beta; the paper's is one of the two.
        proxy_epochs: the preset's if not given.
        proxy_bias: the authors' proxy is trained with a bias, which its beta leaves out.
    """

    on: Part = "valid"
    limit: int | None = None
    iterations: int = IBM1Settings.iterations
    null: bool = False
    bleu: bool = False
    all_steps: bool = False
    alpha_by: BestBy = "loss"
    largest: bool = False
    both_directions: bool = False
    proxy_epochs: int | None = None
    proxy_bias: bool = False
