"""The inputs of a report. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from alignkit.classical.settings import IBM1Settings
from alignkit.metrics.protocol import MetricSettings
from alignkit.types import PathLike

Sides = tuple[Sequence[str], Sequence[str]]  #: lines of source and target


@dataclass(frozen=True)
class ReportInputs(MetricSettings):
    """The runs, models and files that a report is made of, and its settings. The seed is also that of the proxy.

    Attributes:
        runs: run directories of `alignkit train`; the first with attention is the main one.
        models: files of saved aligners.
        text: the lines to score; the first run's validation text if not given.
        training: the lines that IBM 1 is fitted on; the first run's training text, or without a run ``text``.
        scores: name -> a file of scores of another system.
        links: name -> a file of links of another system.
        pieces: name -> (source, target) lines of the subwords that the scores of that name are of.
        gold: a file of gold links between words, or None.
        iterations, null: of IBM 1; the paper's Trans is 1 without NULL.
        proxy: whether to train (or find) the bag-of-words model of the first run.
        title: of the page; None for one that fits.
        device: as :func:`alignkit.neural.devices.pick_device`.
    """

    runs: Sequence[PathLike] = ()
    models: Sequence[PathLike] = ()
    text: Sides | None = None
    training: Sides | None = None
    scores: Mapping[str, PathLike] = field(default_factory=dict)
    links: Mapping[str, PathLike] = field(default_factory=dict)
    pieces: Mapping[str, Sides] = field(default_factory=dict)
    gold: PathLike | None = None
    iterations: int = IBM1Settings.iterations
    null: bool = False
    proxy: bool = False
    title: str | None = None
    device: str = "auto"
