"""The paper's row for a text: what attention agrees with, and how much that is (Snell et al., section 3).

A(alpha, beta_uf), A(beta_uf, beta_px), A(delta, beta_uf) and A(alpha, beta) with chance level, interval,
Kendall's tau and contextualised agreement xi, and beside them the same for IBM Model 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from alignkit.analysis.compare import proxy_of
from alignkit.analysis.time_course import COLUMNS as COURSE_COLUMNS
from alignkit.analysis.time_course import load_network, measure, moving, open_run, series, time_course
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.metrics.agreement import PERCENT, agreement
from alignkit.metrics.contextual import contextualised
from alignkit.metrics.kendall import rank_correlation
from alignkit.neural.training.translation_run import TranslationRun
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, str], None]
LIMIT = 1000  #: pairs of the training text that are scored where nothing else is asked for
PERFORMANCES = {"accuracy": "valid.accuracy", "bleu": "valid.bleu"}  #: name in the table -> in the log
COLUMNS = (
    *("u", "v", "agreement", "chance", "low", "high", "rows", "ties", "xi_accuracy", "xi_bleu"),
    *("tau", "tau_low", "tau_high", "tau_rows", "tau_undefined", "tau_xi_accuracy", "tau_xi_bleu", "not_reached"),
)


@dataclass(frozen=True)
class LabSettings:
    """What is measured, and on what.

    Attributes:
        on: score the run's validation text or its training text.
        limit: score only so many pairs, drawn at random; by default all of a validation text and 1,000 of a
            training text.
        iterations: EM iterations of IBM 1, beside the one iteration of the paper's count-based Trans.
        null: whether IBM 1 has NULL.
        bleu: translate at the checkpoints of the second run whose BLEU was not logged.
        courses: also give the time course of every run against all fixed scores.
        percent: the top of a row, in per cent.
        proxy_epochs: the preset's if not given.
        seed: of the drawn pairs, the bootstrap and the proxy.
        threads: of the classical part; no result depends on it.
    """

    on: Literal["valid", "train"] = "valid"
    limit: int | None = None
    iterations: int = IBM1Settings.iterations
    null: bool = False
    bleu: bool = False
    courses: bool = False
    percent: float | str | Fraction = PERCENT
    proxy_epochs: int | None = None
    seed: int = 0
    threads: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Lab:
    """What :func:`lab` found.

    Attributes:
        table: a row per (u, v) with the columns ``COLUMNS``. Shares are fractions, BLEU is 0 to 100; NaN where it
            was not measured. ``not_reached`` names the xi columns of which no step exceeded the level.
        stars: xi*, the best performance of the first run, by ``accuracy`` and ``bleu``, as far as logged.
        course: the time courses, as :func:`.time_course.time_course` gives them: of the
            uniform and the second run where given, of all runs with ``courses``.
        notes: what was left out, and why; and what else a reader must know.
        facts: numbers about texts and networks.
    """

    table: pd.DataFrame
    stars: dict[str, float]
    course: pd.DataFrame
    notes: tuple[str, ...]
    facts: dict[str, object]


def lab(
    run: str | Path,
    other: str | Path | None = None,
    uniform: str | Path | None = None,
    settings: LabSettings | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Lab:
    """Measures a network with attention against everything that explains it.

    Args:
        run: run directory of the network with attention; the network with the lowest validation loss counts.
        other: run of the same text and another seed, with checkpoints: its attention while it learned gives xi.
        uniform: run of the same text with uniform attention, which gives beta_uf.
        settings: defaults if not given.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: called with (done, total, message) within each part of the work.

    Raises:
        AlignkitError: a directory is no run, runs are of unlike texts, or have the wrong kind of attention.
    """
    return _Bench(run, other, uniform, settings or LabSettings(), device, progress).measure()


class _Bench:
    """The runs, the pairs and what was found so far."""

    def __init__(
        self,
        run: str | Path,
        other: str | Path | None,
        uniform: str | Path | None,
        settings: LabSettings,
        device: str,
        progress: Progress | None,
    ) -> None:
        self.settings, self.device, self.progress = settings, device, progress
        self.run = open_run(run)
        self.other = open_run(other) if other is not None else None
        self.uniform = open_run(uniform) if uniform is not None else None
        self.network = load_network(self.run.path, device)
        self.notes: list[str] = []
        self._check()
        self.training = self.run.train
        self.pairs = self._pairs()
        self.scores: dict[str, Scores] = {}
        self.courses: list[pd.DataFrame] = []

    def _check(self) -> None:
        """Raises AlignkitError if the runs do not belong together."""
        if self.network.name != "lstm":
            raise AlignkitError(f"{self.run.path} was trained with uniform attention; give it as --uniform")
        for run, name, option in ((self.other, "lstm", "--other"), (self.uniform, "uniform", "--uniform")):
            if run is None:
                continue
            network = load_network(run.path, "cpu")
            if network.name != name:
                wanted = "attention" if name == "lstm" else "uniform attention"
                raise AlignkitError(f"{run.path} was not trained with {wanted}, which {option} needs")
            same = network.tokenizer.vocabulary == self.network.tokenizer.vocabulary
            if network.fingerprint != self.network.fingerprint or not same:
                raise AlignkitError(f"{run.path} was not trained on the text of {self.run.path}")
        if self.other is not None and self.other.path.resolve() == self.run.path.resolve():
            raise AlignkitError("the second run must be another one, trained with another seed")
        if self.other is not None and self.other.settings.training.seed == self.run.settings.training.seed:
            self.notes.append("the two runs have the same seed, so xi compares a network with itself")
        for run in (self.run, self.other, self.uniform):
            if run is not None and not run.finished:
                self.notes.append(f"{run.path} is not finished")

    def _pairs(self) -> Bitext:
        valid = self.settings.on == "valid"
        text = self.run.valid if valid else self.training
        limit = self.settings.limit or (len(text) if valid else LIMIT)
        if limit >= len(text):
            return text
        rng = np.random.default_rng(self.settings.seed)
        return text.take(np.sort(rng.choice(len(text), limit, replace=False)))

    def measure(self) -> Lab:
        import pandas as pd

        self._fixed_scores()
        self._follow_other()
        rows = []
        if self.uniform is not None:
            rows.append(self._row("lstm.alpha", "uniform.beta", self._strongest_uniform(self.uniform)))
            rows += [self._row("uniform.beta", "proxy.beta"), self._row("lstm.delta", "uniform.beta")]
        rows.append(self._row("lstm.alpha", "lstm.beta"))
        rows += [self._row("lstm.alpha", v) for v in self.scores if v.split(".")[0] not in ("uniform", "lstm")]
        if self.settings.courses:
            self._course(self.run, "lstm", self.scores)
        nothing = pd.DataFrame(columns=list(COURSE_COLUMNS))
        course = pd.concat(self.courses, ignore_index=True) if self.courses else nothing
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        return Lab(table, self._stars(), course, tuple(self.notes), self._facts())

    def _fixed_scores(self) -> None:
        """Every score that does not move, by name."""
        settings, pairs = self.settings, self.pairs
        for done, kind in enumerate(("alpha", "beta", "delta")):
            self._say(done, 3, f"lstm.{kind}")
            self.scores[f"lstm.{kind}"] = self.network.score(pairs, kind)
        proxy = proxy_of(
            self.network,
            self.run,
            self.training,
            self.run.valid,
            seed=settings.seed,
            epochs=settings.proxy_epochs,
            progress=self.progress,
            device=self.device,
        )
        self.scores["proxy.beta"] = proxy.score(pairs, "beta")
        for iterations in dict.fromkeys((1, settings.iterations)):
            null = settings.null and iterations > 1  # the paper's Trans has none
            ibm1 = fit_ibm1(self.training, iterations=iterations, null=null, threads=settings.threads)
            for kind in ("beta", "alpha"):
                self.scores[f"ibm1({iterations}).{kind}"] = ibm1.score(pairs, kind)
        if self.uniform is None:
            self.notes.append("without a uniform run (--uniform RUN), there is no uniform.beta")
        else:
            self.scores["uniform.beta"] = load_network(self.uniform.path, self.device).score(pairs, "beta")

    def _say(self, done: int, total: int, message: str) -> None:
        if self.progress is not None:
            self.progress(done, total, message)

    def _course(self, run: TranslationRun, label: str, references: Mapping[str, Scores]) -> pd.DataFrame | None:
        """The time course of a run; None, with a note, if it keeps no checkpoints."""
        if len(run.checkpoints) == 0:
            self.notes.append(f"{run.path} keeps no checkpoints at its logged steps (only its best network)")
            return None
        course = time_course(
            run,
            self.pairs,
            references,
            label=label,
            percent=self.settings.percent,
            bleu=self.settings.bleu and label == "other",
            seed=self.settings.seed,
            threads=self.settings.threads,
            device=self.device,
            progress=self.progress,
        )
        self.courses.append(course)
        return course

    def _references(self) -> Mapping[str, Scores]:
        return self.scores if self.settings.courses else {"lstm.alpha": self.scores["lstm.alpha"]}

    def _strongest_uniform(self, run: TranslationRun) -> Scores | None:
        """beta of the uniform run at the logged step that alpha agrees with most (appendix A.7).

        None if there are no logged steps: then its best network has to do.
        """
        course = self._course(run, "uniform", self._references())
        if course is None:
            return None
        steps, values = series(course, measure("A", "lstm.alpha", moving("beta")))
        if np.isnan(values).all():
            return None
        step = int(steps[np.nanargmax(values)])
        self.notes.append(f"A(lstm.alpha, uniform.beta) is at step {step} of the uniform run, where it is largest")
        return load_network(run.checkpoints[step], self.device).score(self.pairs, "beta")

    def _follow_other(self) -> None:
        """What xi is read from: likeness to alpha, and performance, at the logged steps of the second run."""
        self.likeness: dict[str, np.ndarray] = {}
        self.performance: dict[str, np.ndarray] = {}
        if self.other is None:
            self.notes.append("without a run of another seed (--other RUN), there is no xi")
            return
        course = self._course(self.other, "other", self._references())
        if course is None:
            return
        steps: np.ndarray
        for name in ("A", "tau"):
            steps, values = series(course, measure(name, "lstm.alpha", moving("alpha")))
            self.likeness[name] = values
        for name, logged in PERFORMANCES.items():
            known = dict(zip(*(part.tolist() for part in series(course, logged)), strict=True))
            values = np.array([known.get(step, math.nan) for step in steps.tolist()])
            if not np.isnan(values).any():  # a step between those measured might be the one
                self.performance[name] = values

    def _row(self, u: str, v: str, v_scores: Scores | None = None) -> dict[str, object]:
        """Agreement, rank correlation and xi of one pair of scores."""
        settings = self.settings
        first, second = self.scores[u], v_scores or self.scores[v]
        found = agreement(first, second, settings.percent, seed=settings.seed, threads=settings.threads)
        tau = rank_correlation(first, second, seed=settings.seed, threads=settings.threads)
        row = {"u": u, "v": v, **dataclasses.asdict(found)}
        row |= {"tau": tau.tau, "tau_low": tau.low, "tau_high": tau.high}
        row |= {"tau_rows": tau.rows, "tau_undefined": tau.undefined}
        never = []
        for measured, level, prefix in (("A", found.agreement, ""), ("tau", tau.tau, "tau_")):
            for name in PERFORMANCES:
                column = f"{prefix}xi_{name}"
                row[column] = math.nan
                if name not in self.performance or math.isnan(level):
                    continue
                xi = contextualised(self.performance[name].tolist(), self.likeness[measured].tolist(), level)
                if xi is None:
                    never.append(column)
                else:
                    row[column] = xi
        return {**row, "not_reached": " ".join(never)}

    def _stars(self) -> dict[str, float]:
        log = self.run.log
        return {
            name: log.best(logged, largest=True)[1] for name, logged in PERFORMANCES.items() if log.series(logged)
        }

    def _facts(self) -> dict[str, object]:
        settings = self.settings
        return {
            "text": "validation" if settings.on == "valid" else "training",
            "scored_pairs": len(self.pairs),
            "training_pairs": len(self.training),
            "percent": float(settings.percent),
            "ibm1": {"iterations": settings.iterations, "null": settings.null},
            "network": {"step": self.network.step, "seed": self.network.settings.training.seed},
            "fingerprint": self.network.fingerprint,
        }
