"""The time course of a run: performance, agreement and rank correlation at every logged step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.metrics.agreement import PERCENT, agreement
from alignkit.metrics.kendall import rank_correlation
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.checkpoints import BEST
from alignkit.neural.loading import load_checkpoint
from alignkit.neural.scoring.evaluation import bleu as translation_bleu
from alignkit.neural.training.translation_run import TranslationRun
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, str], None]
COLUMNS = ("run", "step", "name", "value")


def moving(kind: str) -> str:
    """What names call the score of ``kind`` of the network at a row's own step: ``alpha(step)``."""
    return f"{kind}(step)"


def measure(name: str, u: str, v: str) -> str:
    """The name of a row, as ``A(lstm.alpha, alpha(step))``."""
    return f"{name}({u}, {v})"


def load_network(path: str | Path, device: str = "auto") -> NeuralAligner:
    """The network of a checkpoint or run directory; raises AlignkitError if it holds another aligner."""
    network = load_checkpoint(path, device)
    if not isinstance(network, NeuralAligner):
        raise AlignkitError(f"{path} holds a {network.name}, not a network of `alignkit train`")
    return network


def time_course(
    run: TranslationRun,
    pairs: Bitext,
    references: Mapping[str, Scores],
    *,
    kinds: Sequence[str] | None = None,
    label: str | None = None,
    percent: float | str | Fraction = PERCENT,
    bleu: bool = False,
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> pd.DataFrame:
    """What was measured while a network learned, and how its scores came to agree with fixed ones.

    Args:
        run: its log, and its checkpoints at the logged steps, are read.
        pairs: the M pairs to score, in the run's tokens.
        references: name -> scores of these pairs that do not change, as ``{"proxy.beta": ...}``.
        kinds: which scores of the network; alpha for one with attention, beta for a uniform one if not given.
        label: what the column ``run`` holds; the directory's name if not given.
        percent: of the agreement.
        bleu: translate the validation text at every checkpoint whose BLEU was not logged (0 to 100; beam as in
            the run's settings); takes long.
        seed, threads: of the agreement.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: called after each checkpoint with (done, total, message).

    Returns:
        a row per measured value with the columns ``run``, ``step``, ``name`` and ``value``. Names are those of the
        training log (``valid.accuracy``, ``valid.bleu``, ...), and for each checkpoint, kind k and reference r,
        with u and v being r and ``k(step)`` in both orders: ``A(u, v)``, the top-5 % agreement of v with u, with
        ``chance(u, v)``, ``low(u, v)`` and ``high(u, v)`` (95 % interval); and ``tau(r, k(step))``, the mean of
        Kendall's tau-b, which is symmetric. Two kinds of one network are compared likewise.

    Raises:
        AlignkitError: the run is damaged, or ``references`` are not of these pairs.
    """
    import pandas as pd

    label = label or run.path.name
    rows: list[tuple[int, str, float]] = [(row.step, row.name, row.value) for row in run.log.rows]
    logged = {row.step for row in run.log.rows if row.name == "valid.bleu"}
    checkpoints = run.checkpoints
    for done, (step, path) in enumerate(checkpoints.items()):
        network = load_network(path, device)
        if kinds is None:
            kinds = ("beta",) if network.name == "uniform" else ("alpha",)
        if bleu and step not in logged:
            rows.append((step, "valid.bleu", _bleu(network, run)))
        scores = {moving(kind): network.score(pairs, kind) for kind in kinds}
        found = _compared(scores, references, percent, seed, threads)
        rows += [(step, name, value) for name, value in found.items()]
        if progress is not None:
            progress(done + 1, len(checkpoints), f"{label}: step {step}")
    table = [(label, *row) for row in rows]
    return pd.DataFrame(table, columns=list(COLUMNS)).sort_values("step", kind="stable", ignore_index=True)


def _bleu(network: NeuralAligner, run: TranslationRun) -> float:
    beam = network.settings.training.beam
    return translation_bleu(network.network, network.tokenizer, run.valid, run.references, beam)


def _compared(
    scores: Mapping[str, Scores],
    references: Mapping[str, Scores],
    percent: float | str | Fraction,
    seed: int,
    threads: int | None,
) -> dict[str, float]:
    """All measures of the moving scores against the references and each other."""
    found: dict[str, float] = {}
    seen = dict(references)
    for name, moved in scores.items():
        for other, fixed in seen.items():
            for u, v, first, second in ((other, name, fixed, moved), (name, other, moved, fixed)):
                result = agreement(first, second, percent, seed=seed, threads=threads)
                found[measure("A", u, v)] = result.agreement
                found[measure("chance", u, v)] = result.chance
                found[measure("low", u, v)] = result.low
                found[measure("high", u, v)] = result.high
            tau = rank_correlation(fixed, moved, resamples=0, threads=threads).tau
            found[measure("tau", other, name)] = tau
        seen[name] = moved
    return found


def series(course: pd.DataFrame, name: str, run: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Steps (int64, rising) and values of one name of a time course; empty if it has none.

    Args:
        course: of :func:`time_course`, or several of them one after another.
        name: as in its column ``name``.
        run: only the rows of that run.
    """
    some = course[(course["name"] == name) & ((course["run"] == run) if run is not None else True)]
    some = some.sort_values("step", kind="stable")
    return some["step"].to_numpy(np.int64), some["value"].to_numpy(np.float64)


def open_run(path: str | Path) -> TranslationRun:
    """The run in a directory.

    Raises:
        InputError: there is no such directory, or it holds no run or one without any network yet.
    """
    place = Path(path)
    if not place.is_dir():
        raise InputError(path, "no such directory", remedy="give a run directory of `alignkit train`")
    run = TranslationRun(place)
    _ = run.config
    if not (place / BEST).exists():
        raise InputError(path, "this run has no network yet", remedy="train it first with `alignkit train`")
    return run
