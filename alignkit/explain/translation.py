"""The explanation tests that make sense for a translation network, whose output is a word at each position.

Order of the source words against gradient and leave-one-out; uniform attention at test time; the distance of
another seed. Order is compared in the row of each target word, and its mean is over all of them; the other tests
take the mean over the target words of a sentence pair, then over pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from alignkit.errors import AlignkitError, InputError
from alignkit.explain.decisions import sums_to_one
from alignkit.explain.interventions import order_of
from alignkit.explain.registry import TRANSLATION_TESTS, UNTRAINED, ExplanationSettings
from alignkit.explain.subject import COLUMNS, NUMBERS, Row, mean_row
from alignkit.metrics.divergence import LARGEST_DIVERGENCE, jensen_shannon
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.batching import Batcher, batch_sizes, scoring_batches
from alignkit.neural.devices import device_of, evaluation_mode
from alignkit.neural.networks.base import TranslationNetwork
from alignkit.neural.scoring.translation import rows_at_a_time
from alignkit.neural.training.translation import TranslationRun
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd


def is_translation_run(path: PathLike) -> bool:
    """Whether a directory holds a run of `alignkit train`."""
    try:
        _ = TranslationRun(Path(path)).config
    except InputError:
        return False
    return True


def explain_translation_run(
    run: PathLike,
    others: Sequence[PathLike] = (),
    settings: ExplanationSettings | None = None,
    device: str = "auto",
) -> pd.DataFrame:
    """:func:`explain_translation` of the best network of a run, on the run's validation text.

    Args:
        run: the directory of a run of `alignkit train`.
        others: those of other seeds on the same text.
        settings: tests, limit and seed count.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: there is no such run, another one has other tokens, or a test is for classifiers.
    """
    own = TranslationRun(Path(run))
    network, second = own.load(device=device), []
    for path in others:
        second.append(TranslationRun(Path(path)).load(device=device))
        if second[-1].tokenizer.vocabulary != network.tokenizer.vocabulary:
            raise AlignkitError(
                f"{path}: this network has other tokens; give a run of another seed on the same text"
            )
    return explain_translation(network, own.valid, second, settings)


def explain_translation(
    network: NeuralAligner,
    bitext: Bitext,
    others: Sequence[NeuralAligner] = (),
    settings: ExplanationSettings | None = None,
) -> pd.DataFrame:
    """Test a translation network's attention as an explanation of the words that it predicts.

    Args:
        network: the network; each word is predicted from the given ones before it.
        bitext: pairs of its own tokens.
        others: networks of other seeds.
        settings: tests, limit and seed count.

    Returns:
        a table as of :func:`alignkit.explain.explain.explain_classifier`; its ``n`` counts sentence
        pairs, and target words in the test ``order``.

    Raises:
        AlignkitError: no pair has words on both sides, or a test is for classifiers.
    """
    import pandas as pd

    settings = settings or ExplanationSettings()
    tests = TRANSLATION_TESTS if settings.tests == UNTRAINED else settings.tests
    strange = [name for name in tests if name not in TRANSLATION_TESTS]
    if strange:
        known = ", ".join(TRANSLATION_TESTS)
        raise AlignkitError(f"the test {strange[0]} is for classifiers; translation networks have {known}")
    pairs = np.flatnonzero(bitext.shapes.min(1) > 0)[: settings.limit]
    if not len(pairs):
        raise AlignkitError("no sentence pair has words on both sides to explain")
    text, found = bitext.take(pairs), dict[str, list[Row]]()
    if "order" in tests:
        scores = {kind: network.score(text, kind) for kind in ("alpha", "delta", "loo")}
        found["order"] = order_of(scores, settings.seed)
    if "uniform" in tests:
        found["uniform"] = _uniform_rows(network.network, text)
    if "seeds" in tests:
        found["seeds"] = _seeds_rows(network, text, others)
    rows = [{"group": name, **row} for name in tests for row in found[name]]
    return pd.DataFrame(rows, columns=COLUMNS)


def _uniform_rows(network: TranslationNetwork, text: Bitext) -> list[Row]:
    change, flips, loss = uniform_translation(network, text)
    return [
        mean_row("uniform, change", change, "total variation distance of p(y_t) with attention of 1/L"),
        mean_row("uniform, flips", flips, "share of words whose most probable choice then changes"),
        mean_row("uniform, loss", loss, "fall of log p of the right word, nats", NUMBERS),
    ]


def uniform_translation(network: TranslationNetwork, text: Bitext) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What attention of 1/L does at test time, float64 (M,) each, means over the words of a sentence.

    Returns:
        the total variation distance of the distributions of y_t; the share of words whose most probable choice
        changes; and the fall of log p(y_t), nats.
    """
    device = device_of(network)
    batcher, sizes = Batcher(text, device), batch_sizes("evaluation", device)
    out = np.zeros((3, len(text)))
    with evaluation_mode(network):
        for pairs in scoring_batches(text, sizes):
            batch = batcher(pairs)
            encoding = network.encode(batch.source, batch.source_lengths)
            both = [
                network.decode(batch.previous, encoding, encoding.start, uniform).features.flatten(0, 1)
                for uniform in (False, True)
            ]
            places, step = batch.places, rows_at_a_time(network.output, sizes.logits)
            parts = [
                _compared(network, [x[some] for x in both], y)
                for some, y in zip(places.split(step), batch.targets.split(step), strict=True)
            ]
            values = torch.cat(parts, 1).double().cpu().numpy()
            sentence = np.repeat(np.arange(len(pairs)), batch.target_lengths)
            for row, each in enumerate(values):
                out[row, pairs] = np.bincount(sentence, each, len(pairs)) / batch.target_lengths
    return out[0], out[1], out[2]


def _compared(network: TranslationNetwork, features: list[Tensor], y: Tensor) -> Tensor:
    """(3, N): distance, flip and fall of log p(y) between two features (N, F) of each word."""
    one, other = (torch.log_softmax(network.output(x), 1) for x in features)
    distance = (one.exp() - other.exp()).abs().sum(1) / 2
    flips = (one.argmax(1) != other.argmax(1)).to(distance.dtype)
    fall = (one - other).gather(1, y.unsqueeze(1)).squeeze(1)
    return torch.stack([distance, flips, fall])


def _seeds_rows(network: NeuralAligner, text: Bitext, others: Sequence[NeuralAligner]) -> list[Row]:
    """The distance of other seeds' attention, in the pairs where all rows of all networks sum to 1."""
    if not others:
        return []
    own, every = network.score(text, "alpha"), [other.score(text, "alpha") for other in others]
    usable = [m for m in range(len(text)) if all(sums_to_one(scores[m]) for scores in (own, *every))]
    if not usable:
        return []
    apart = [[_distance(own[m], scores[m]) for m in usable] for scores in every]
    who = "another seed" if len(others) == 1 else f"other seeds ({len(others)})"
    return [mean_row("seeds, JSD", np.mean(apart, 0), f"JSD, of log 2, of the attention of {who}")]


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """The mean over the rows of two (T, L) of the distance of their attention, of log 2."""
    return float(np.mean([jensen_shannon(*rows) for rows in zip(one, other, strict=True)])) / LARGEST_DIVERGENCE
