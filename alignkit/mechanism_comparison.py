"""Attention mechanisms side by side: networks that differ in nothing else, trained on one text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from alignkit.aligner import Aligner
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.links.from_scores import best_links
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks
from alignkit.metrics.aer import evaluate
from alignkit.metrics.agreement import agreement
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.settings import NetworkSettings, Reading, RunSettings
from alignkit.neural.training.translation import TranslationRun, train_translation, translation_trainer
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import Files, LinePairs, read_training_pairs
from alignkit.text.tokenization import Tokenizer, split_words
from alignkit.types import PathLike, Progress, named_progress

if TYPE_CHECKING:
    import pandas as pd

IBM1 = "ibm1"  #: the row of IBM Model 1, whose AER is that of five iterations with NULL, on words
TIMED_STEPS = 12  #: steps of training that are timed, after two that are not
#: compared by default: an entry is a mechanism, or ARCHITECTURE/MECHANISM
MECHANISMS = (
    "general+softmax",
    "additive+softmax",
    "general+sparsemax",
    "general+entmax15",
    "general+learned-entmax",
    "general+fusedmax",
    "general+sigmoid",
    "general+straight-through",
    "general+gumbel",
    "general+sparsemap",
    "uniform",
    "transformer/scaled-dot+softmax",
    "transformer/scaled-dot+entmax15",
)


@dataclass(frozen=True)
class MechanismText:
    """The text that mechanisms are compared on.

    Attributes:
        training, valid: raw lines.
        gold: gold links between the words of the first pairs of ``valid``; None if there are none.
    """

    training: LinePairs
    valid: LinePairs
    gold: GoldLinks | None = None


def compare_mechanisms(
    folder: PathLike,
    text: MechanismText,
    mechanisms: Sequence[str] = MECHANISMS,
    settings: RunSettings | None = None,
    progress: Progress | None = None,
    device: str = "auto",
    networks: Mapping[str, NetworkSettings] | None = None,
) -> pd.DataFrame:
    """Train a network for every mechanism, or continue, and measure all of them on the validation text.

    Args:
        folder: gets a run directory for each.
        text: what they are trained and measured on.
        mechanisms: such as ``additive+sparsemax`` or ``transformer/scaled-dot+entmax15``.
        settings: of all runs; the mechanism is filled in. The paper's if not given.
        progress: called with (steps done, steps of a run, message).
        device: as :func:`alignkit.neural.devices.pick_device`.
        networks: of mechanisms that name an architecture; its defaults if not given.

    Returns:
        a row for each mechanism and one for IBM Model 1: ``mechanism``, ``agreement`` (top-5 % of alpha with beta
        of IBM 1 after one iteration without NULL) and its ``chance``, ``support`` (weights above 0 in a row),
        ``entropy`` (nats, of a row divided by its sum), ``loss`` and ``accuracy`` of the validation text,
        ``bleu`` (of the beam), ``aer`` and ``aer_shifted`` (with gold links; of the shifted reading), and ``ms``
        (a training step of the whole network, the median of a few). NaN where a value is not known.

    Raises:
        AlignkitError: there is no such mechanism; or as
            :func:`alignkit.neural.training.translation.train_translation`.
    """
    import pandas as pd

    base = settings or RunSettings()
    plans = {
        name: mechanism_settings(base, name, networks) for name in mechanisms
    }  # refused before anything is trained
    rows: list[dict[str, Any]] = []
    ibm1: Scores | None = None
    for name, own in plans.items():
        place = Path(folder) / re.sub(r"[^\w.-]+", "_", name)
        told = None if progress is None else named_progress(progress, name)
        network = train_translation(place, text.training, text.valid, own, told, device)
        run = TranslationRun(place)
        valid = run.valid
        if ibm1 is None:
            model = fit_ibm1(run.train, iterations=1, null=False)
            ibm1 = model.score(valid, "beta")
            rows.append({"mechanism": IBM1, **_gold_error(_word_ibm1(text), text)})
        rows.append({"mechanism": name, **_measured(network, run, valid, ibm1), **_network_errors(network, text)})
        rows[-1]["ms"] = 1000 * step_seconds(run, own, network.tokenizer, device)
    columns = ["mechanism", "agreement", "chance", "support", "entropy", "loss", "accuracy"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "bleu", "aer", "aer_shifted", "ms"])


def mechanism_settings(
    settings: RunSettings, name: str, networks: Mapping[str, NetworkSettings] | None = None
) -> RunSettings:
    """The settings with ``MECHANISM`` or ``ARCHITECTURE/MECHANISM``; raises AlignkitError if there is none.

    Args:
        settings: of the run.
        name: of the mechanism.
        networks: of architectures that are named; their defaults if not given.
    """
    architecture, slash, mechanism = name.rpartition("/")
    if slash and architecture in (networks or {}):
        settings = replace(settings, network=(networks or {})[architecture])
    return settings.change(network={"architecture": architecture if slash else None, "attention": mechanism})


def _measured(network: NeuralAligner, run: TranslationRun, valid: Bitext, ibm1: Scores) -> dict[str, float]:
    alpha = network.score(valid, "alpha")
    support, entropy = row_shape(alpha)
    found = agreement(alpha, ibm1, resamples=0)
    values = {"agreement": found.agreement, "chance": found.chance, "support": support, "entropy": entropy}
    values |= {"loss": network.metrics["valid.loss"], "accuracy": network.metrics["valid.accuracy"]}
    logged = {row.name: row.value for row in run.log.rows}
    return values | {"bleu": logged.get("valid.bleu", float("nan"))}


def row_shape(alpha: Scores) -> tuple[float, float]:
    """The mean number of weights above 0 in a row, and the mean entropy of a row divided by its sum, nats."""
    support, entropies = [], []
    for matrix in alpha:
        sums = matrix.sum(1, keepdims=True, dtype=np.float64) if matrix.size else np.zeros((0, 1))
        rows = matrix[sums[:, 0] > 0] / sums[sums[:, 0] > 0] if matrix.size else np.zeros((0, 1))
        support.append((matrix > 0).sum(1) if matrix.size else np.zeros(0))
        entropies.append(-(rows * np.log(np.maximum(rows, 1e-300))).sum(1))
    counts, values = np.concatenate(support), np.concatenate(entropies)
    return tuple(float(x.mean()) if len(x) else float("nan") for x in (counts, values))  # type: ignore[return-value]


def _network_errors(network: NeuralAligner, text: MechanismText) -> dict[str, float]:
    if text.gold is None:
        return {}
    errors = {}
    for name, reading in (("aer", Reading()), ("aer_shifted", Reading(shifted=True))):
        errors[name] = _gold_error(network.with_reading(reading).on_words(), text)["aer"]
    return errors


def _gold_error(aligner: Aligner, text: MechanismText) -> dict[str, float]:
    """AER of the links of an aligner of words; nothing without gold links."""
    if text.gold is None:
        return {}
    words = _words(LinePairs(*(side[: len(text.gold)] for side in text.valid)))
    return {"aer": evaluate(text.gold, best_links(aligner.score(words, "alpha"))).aer}


def _word_ibm1(text: MechanismText) -> Aligner:
    """IBM Model 1 of words, five iterations with NULL, of training and validation text together."""
    both = LinePairs(*([*own, *held] for own, held in zip(text.training, text.valid, strict=True)))
    return fit_ibm1(_words(both))


def _words(lines: LinePairs) -> Bitext:
    source, target = ([split_words(line) for line in side] for side in lines)
    return Bitext.from_sentences(source, target)


def step_seconds(run: TranslationRun, settings: RunSettings, tokenizer: Tokenizer, device: str = "auto") -> float:
    """The median time of a training step of a new network on the first batches of a run, seconds."""
    trainer = translation_trainer(run.train, run.valid, settings, tokenizer, device=device)
    batches = trainer.task.batches(0)
    times = []
    for number in range(TIMED_STEPS + 2):
        start = perf_counter()
        trainer.advance(batches[number % len(batches)])
        if trainer.task.device.type == "cuda":
            torch.cuda.synchronize(trainer.task.device)
        times.append(perf_counter() - start)
    return float(np.median(times[2:]))


def read_mechanism_text(
    training: Files, valid: Files | None, gold: PathLike | None = None, **reading: Any
) -> MechanismText:
    """Read a text and its gold links.

    Args:
        training, valid, **reading: as of :func:`alignkit.text.pairs.read_training_pairs`.
        gold: of the validation text, in any format of :func:`alignkit.links.gold.read_gold`.

    Raises:
        AlignkitError: a file cannot be read; there are more gold links than validation pairs, or they are given
            without a validation text.
    """
    if gold is not None and valid is None:
        raise AlignkitError("gold links need the validation text that they belong to; give both")
    lines, held = read_training_pairs(training, valid, **reading)
    links = None if gold is None else read_gold(gold)
    if links is not None and len(links) > len(held.source):
        raise AlignkitError(
            f"{gold}: gold links of {len(links)} sentence pairs, but {len(held.source)} pairs of text"
        )
    return MechanismText(lines, held, links)
