"""The paper's row for a text: the agreement of attention with other scores (Snell et al., section 3).

A(alpha, beta_uf), A(beta_uf, beta_px), A(delta, beta_uf) and A(alpha, beta) with chance level, interval,
Kendall's tau and contextualised agreement xi, and beside them the same for IBM Model 1. Torch is imported when
networks are opened or trained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.lab.interop.other_systems import word_shapes
from alignkit.lab.time_course import (
    COLUMNS,
    Part,
    Scorer,
    TimeCourseSettings,
    at_step,
    row_name,
    scores_of,
    series,
    time_course,
)
from alignkit.metrics.agreement import contextualised
from alignkit.metrics.protocol import MetricOptions, MetricSettings, as_number
from alignkit.metrics.registry import MAIN, SCORE_METRICS
from alignkit.scores import Scores
from alignkit.support.settings import with_options
from alignkit.support.stages import named_progress, no_progress
from alignkit.text.pairs import LinePairs
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.neural.aligners import NeuralAligner
    from alignkit.neural.settings import RunSettings
    from alignkit.neural.training.run_directory import TranslationRun

#: The measure of a run's best network.
BestBy = Literal["loss", "accuracy", "bleu"]
PERFORMANCES = {"accuracy": "valid.accuracy", "bleu": "valid.bleu"}  #: name in the table -> in the log
SCORED_PAIRS = 1000  #: of the training text, by default
UNIFORM, OTHER = "uniform.beta", "other.beta"
#: folder of a run that :func:`train_lab_runs` trains -> its attention, and what is added to the seed
RUNS = {"general-0": ("general", 0), "general-1": ("general", 1), "uniform-0": ("uniform", 0)}


#: Options with which the authors evaluate, for :class:`LabSettings`.
AUTHORS: dict[str, Any] = {"largest": True, "both_directions": True, "alpha_by": "accuracy", "proxy_bias": True}


@dataclass(frozen=True)
class LabSettings(MetricSettings):
    """Settings of the lab. The seed is also that of the drawn pairs and of the proxy.

    Attributes:
        on: score the run's validation text or its training text.
        limit: score only this number of pairs, drawn at random; by default all of a validation text and 1,000 of a
            training text.
        bleu: translate at the checkpoints of the second run whose BLEU was not logged.
        all_steps: also give the time course of every run against all fixed scores.
        alpha_by: which network of a run counts: that with the lowest validation loss; or that of the logged step
            with the highest token accuracy or BLEU, as in the authors' own evaluation.
        largest: in every row with uniform.beta, not only in A(alpha, beta_uf), and in that with other.beta, take
            beta at the logged step where the row is largest, as the authors do.
        both_directions: A(u, v) and A(v, u) of every row with uniform.beta; the paper's is one of the two.
        proxy_bias: the authors' proxy is trained with a bias, which its beta leaves out.
    """

    on: Part = "valid"
    limit: int | None = None
    bleu: bool = False
    all_steps: bool = False
    alpha_by: BestBy = "loss"
    largest: bool = False
    both_directions: bool = False
    proxy_bias: bool = False


class LabOptions(MetricOptions, total=False):
    """The fields of :class:`LabSettings`, as options of a function."""

    on: Part
    limit: int | None
    bleu: bool
    all_steps: bool
    alpha_by: BestBy
    largest: bool
    both_directions: bool
    proxy_bias: bool


@dataclass(frozen=True)
class Lab:
    """The result of :func:`lab`.

    Attributes:
        table: a row per (u, v). Columns: u and v; the values of the main metric (agreement, chance, low, high,
            rows, ties) and its xi_accuracy and xi_bleu; the same of every other metric with its name in front
            (tau, tau_low, ..., tau_xi_bleu); not_reached, the names of xi columns whose level no step exceeded;
            beta_step, the step of the uniform or the second run whose beta the row has, NaN for that of its best
            network.
            Shares are fractions, BLEU is 0 to 100; NaN where nothing was measured.
        seeds: A(NETWORK.alpha, alpha(step)), the second run's attention while it learns against the first one's
            best: step, agreement, accuracy and bleu (of the second run, as far as measured); None without one.
        stars: xi*, the best performance of the first run, by ``accuracy`` and ``bleu``, as far as logged.
        time_courses: tables of :func:`alignkit.lab.time_course.time_course`, one after another: of the
            uniform and the second run where given, of all runs with ``all_steps``.
        notes: what was left out, and why; and other remarks on the runs.
        facts: numbers about texts and networks.
    """

    table: pd.DataFrame
    seeds: pd.DataFrame | None
    stars: dict[str, float]
    time_courses: pd.DataFrame
    notes: tuple[str, ...]
    facts: dict[str, Any]


def lab(
    run: PathLike,
    other: PathLike | None = None,
    uniform: PathLike | None = None,
    settings: LabSettings | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    *,
    score: Scorer = scores_of,
    **options: Unpack[LabOptions],
) -> Lab:
    """Measure a network with attention against the scores that may explain it.

    Args:
        run: run directory of the network with attention; that with the lowest validation loss counts, or what
            ``alpha_by`` of the settings says.
        other: run of the same text and another seed, with checkpoints: its attention while it learned gives xi.
        uniform: run of the same text with uniform attention, which gives beta_uf.
        settings: defaults if not given.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: called with (done, total, message) within each part of the work.
        score: gives the scores of the networks; one that keeps them saves other labs of the same runs time.
        **options: fields of :class:`LabSettings` that replace those of ``settings``.

    Raises:
        AlignkitError: a directory is no run, runs are of unlike texts, or have the wrong kind of attention.
    """
    import pandas as pd

    from alignkit.classical.ibm1 import fit_ibm1
    from alignkit.neural.proxy import proxy_of
    from alignkit.neural.settings import ProxySettings

    settings, report = with_options(LabSettings, settings, options), progress or no_progress
    main, network, moving, notes = open_lab_runs(run, other, uniform, device, settings.alpha_by)
    training, valid = main.train, main.valid
    pairs = valid if settings.on == "valid" else training
    limit = settings.limit or (len(pairs) if settings.on == "valid" else SCORED_PAIRS)
    if limit < len(pairs):
        drawn = np.random.default_rng(settings.seed).choice(len(pairs), limit, replace=False)
        pairs = pairs.take(np.sort(drawn))
    pairs = pairs.take(np.flatnonzero((word_shapes(pairs) > 0).all(axis=1)))
    # The scores that are compared with each other, by name.
    scores, fixed = {}, [f"{network.name}.{kind}" for kind in ("alpha", "beta", "delta")]
    alpha, beta, delta = fixed
    for done, name in enumerate(fixed):
        report(done, len(fixed), name)
        scores[name] = score(network, pairs, name.partition(".")[2])
    own_proxy = ProxySettings(seed=settings.seed, bias=settings.proxy_bias)
    proxy = proxy_of(main.path, training, valid, own_proxy, report, device)
    scores["proxy.beta"] = proxy.score(pairs, "beta")
    for iterations in (1, IBM1Settings.iterations):  # the paper's count-based Trans is one, without NULL
        ibm1 = fit_ibm1(training, iterations=iterations, null=False, threads=settings.threads)
        for kind in ("beta", "alpha"):
            scores[f"ibm1({iterations}).{kind}"] = ibm1.score(pairs, kind)
    for name in (UNIFORM, OTHER):
        if name in moving:
            scores[name] = score(best_network(moving[name], settings.alpha_by, device), pairs, "beta")

    def follow(run: TranslationRun, label: str) -> list[pd.DataFrame]:
        """The time course of a run; none, with a note, if it keeps no checkpoints."""
        if len(run.checkpoints) == 0:
            notes.append(f"{run.path} keeps no checkpoints at its logged steps (only its best network)")
            return []
        wanted = [alpha, *(["proxy.beta", delta] if settings.largest and label == "uniform" else [])]
        kinds = ("alpha", "beta") if settings.largest and label == "other" else None
        references = scores if settings.all_steps else {name: scores[name] for name in wanted}
        translate = settings.bleu and label == "other"
        plan = TimeCourseSettings(**settings.metric_options(), kinds=kinds, bleu=translate)
        more: dict[str, Any] = {"label": label, "device": device, "progress": progress, "score": score}
        return [time_course(run, pairs, references, plan, **more)]

    # The runs whose beta is compared, while they learn; and from the second, what xi is read from.
    courses = {name: follow(run, name.partition(".")[0]) for name, run in moving.items()}
    # Its likeness to the first run's attention by every metric, and its performance; NaN where not measured.
    second = None
    if courses.get(OTHER):
        names = {metric.name: row_name(metric.symbol, alpha, at_step("alpha")) for metric in SCORE_METRICS}
        found = {name: series(courses[OTHER][0], each) for name, each in {**names, **PERFORMANCES}.items()}
        columns = {name: pd.Series(values, steps) for name, (steps, values) in found.items()}
        second = pd.DataFrame(columns).loc[columns[MAIN.name].index].rename_axis("step").reset_index()
    # The rows; those with a moving beta at the step where they are largest, if that is asked for. A(alpha,
    # beta_uf) is the largest in any case (appendix A.7). Without logged steps, beta is the best network's.
    quantities = []
    if UNIFORM in moving:
        quantities += [(alpha, UNIFORM), (UNIFORM, "proxy.beta"), (delta, UNIFORM)]
        quantities += [(v, u) for u, v in quantities] if settings.both_directions else []
    quantities += [(alpha, beta), *([(alpha, OTHER)] if OTHER in moving else [])]
    quantities += [(alpha, v) for v in scores if v.split(".")[0] not in ("uniform", network.name, "other")]
    rows = []
    for u, v in quantities:
        chosen, beta_step = scores, math.nan
        own = next((name for name in moving if name in (u, v)), None)
        if own is not None and courses[own] and (settings.largest or (u, v) == (alpha, UNIFORM)):
            both = (at_step("beta") if each == own else each for each in (u, v))
            steps, values = series(courses[own][0], row_name(MAIN.symbol, *both))
            if not np.isnan(values).all():
                beta_step = int(steps[np.nanargmax(values)])
                if not settings.largest:
                    shown = row_name(MAIN.symbol, u, v)
                    notes.append(f"{shown} is at step {beta_step} of the uniform run, where it is largest")
                chosen = {**scores, own: score(moving[own].load(beta_step, device), pairs, "beta")}
        rows.append({**_row(u, v, chosen, settings, second), "beta_step": beta_step})
    tables = [table for found in courses.values() for table in found]
    tables += follow(main, network.name) if settings.all_steps else []
    log = main.log
    facts = {
        "text": "validation" if settings.on == "valid" else "training",
        "scored_pairs": len(pairs),
        "training_pairs": len(training),
        "percent": as_number(settings.percent),
        "ibm1": {"iterations": IBM1Settings.iterations, "null": False},
        "network": {"name": network.name, "step": network.step, "seed": network.settings.training.seed},
        "fingerprint": network.fingerprint,
    }
    seeds = None if second is None else second[["step", MAIN.name, *PERFORMANCES]]
    stars = {name: log.best(key, largest=True)[1] for name, key in PERFORMANCES.items() if log.series(key)}
    course = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))
    return Lab(pd.DataFrame(rows), seeds, stars, course, tuple(notes), facts)


def _row(
    u: str, v: str, scores: Mapping[str, Scores], settings: LabSettings, second: pd.DataFrame | None
) -> dict[str, Any]:
    """Every metric, and xi by it, of one pair of scores.

    ``second`` has the logged steps of the second run, its likeness to the first by every metric, and performance.
    """
    row: dict[str, Any] = {"u": u, "v": v}
    never = []
    for metric in SCORE_METRICS:
        found = metric.measure(scores[u], scores[v], settings)
        # Columns of others have the metric's name in front, and there is none of their chance level.
        front = "" if metric is MAIN else f"{metric.name}_"
        shown = {name: value for name, value in found.items() if metric is MAIN or name != "chance"}
        row |= {name if name == metric.name else front + name: value for name, value in shown.items()}
        for name in PERFORMANCES:
            column = f"{front}xi_{name}"
            row[column] = math.nan
            # Where a step was not measured, it might be the one.
            if second is not None and second[name].notna().all() and not math.isnan(found[metric.name]):
                performance, agreement = (second[each].tolist() for each in (name, metric.name))
                xi = contextualised(performance, agreement, found[metric.name])
                if xi is None:
                    never.append(column)
                else:
                    row[column] = xi
    return {**row, "not_reached": " ".join(never)}


def best_network(run: TranslationRun, by: BestBy, device: str) -> NeuralAligner:
    """The network of a run with the lowest validation loss, or of the logged step with the best performance.

    Args:
        run: with checkpoints of its logged steps, unless ``by`` is ``loss``.
        by: ``loss``; or ``accuracy`` or ``bleu``, as logged; the first step among equals.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: no step that was kept has that performance in the log.
    """
    if by == "loss":
        return run.load(device=device)
    known = dict(run.log.series(PERFORMANCES[by]))
    steps = [step for step in run.checkpoints if step in known]
    if not steps:
        how = "--set training.bleu=logged" if by == "bleu" and run.checkpoints else "--keep logged"
        raise AlignkitError(f"{run.path} has no logged step with {by} whose network was kept; train with {how}")
    return run.load(max(steps, key=lambda step: known[step]), device)


def open_lab_runs(
    run: PathLike, other: PathLike | None, uniform: PathLike | None, device: str, by: BestBy = "loss"
) -> tuple[TranslationRun, NeuralAligner, dict[str, TranslationRun], list[str]]:
    """Open the runs of a lab and check that they belong together.

    Args:
        run, other, uniform: run directories.
        device: as :func:`alignkit.neural.devices.pick_device`.
        by: as of :func:`best_network`, which chooses the network of ``run``.

    Returns:
        main: the run with attention.
        network: its best network.
        moving: the runs of ``OTHER``, of another seed, and ``UNIFORM``, as far as they are given.
        notes: remarks on runs that are missing, unfinished or of one seed.

    Raises:
        AlignkitError: a directory is no run, runs are of unlike texts, or have the wrong kind of attention.
    """
    from alignkit.neural.training.run_directory import open_run

    main, notes = open_run(run), []
    moving = {name: open_run(path) for name, path in ((OTHER, other), (UNIFORM, uniform)) if path is not None}
    network = best_network(main, by, device)
    if network.name == "uniform":
        raise AlignkitError(f"{main.path} was trained with uniform attention; give it as --uniform")
    for name, found in moving.items():
        second = found.load(device="cpu")
        if (second.name == "uniform") != (name == UNIFORM):
            wanted = "uniform attention" if name == UNIFORM else "attention"
            option = f"--{name.partition('.')[0]}"
            raise AlignkitError(f"{found.path} was not trained with {wanted}, which {option} needs")
        same = second.tokenizer.vocabulary == network.tokenizer.vocabulary
        if second.fingerprint != network.fingerprint or not same:
            raise AlignkitError(f"{found.path} was not trained on the text of {main.path}")
    if OTHER in moving:
        if moving[OTHER].path.resolve() == main.path.resolve():
            raise AlignkitError("the second run must be another one, trained with another seed")
        if moving[OTHER].settings.training.seed == main.settings.training.seed:
            notes.append("the two runs have the same seed, so xi compares a network with itself")
    notes += [f"{each.path} is not finished" for each in (main, *moving.values()) if not each.finished]
    if UNIFORM not in moving:
        notes.append("without a uniform run (--uniform RUN), there is no uniform.beta")
    if OTHER not in moving:
        notes.append("without a run of another seed (--other RUN), there is no xi")
    return main, network, moving, notes


def train_lab_runs(
    folder: PathLike,
    training: LinePairs,
    valid: LinePairs,
    settings: RunSettings,
    progress: Progress | None = None,
    device: str = "auto",
) -> dict[str, Path]:
    """Train two networks with attention and one with uniform attention, or continue interrupted training.

    A checkpoint is kept at every logged step, whatever the settings say.

    Args:
        folder: gets the run directories ``general-0``, ``general-1`` (the next seed) and ``uniform-0``.
        training: raw text.
        valid: raw held-out text.
        settings: of all three; the kind of attention is filled in.
        progress: called with (steps done, steps of a run, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        name -> run directory.

    Raises:
        AlignkitError: as :func:`alignkit.neural.training.translation.train_translation`.
    """
    from alignkit.neural.training.translation import train_translation

    paths, plans = {name: Path(folder) / name for name in RUNS}, {}
    for name, (attention, more) in RUNS.items():  # all are checked before the first is trained
        own = {"seed": settings.training.seed + more, "keep": "logged"}
        plans[name] = settings.change(network={"attention": attention}, training=own)
    for name, plan in plans.items():
        report = named_progress(progress, name) if progress is not None else None
        train_translation(paths[name], training, valid, plan, report, device)
    return paths


def find_lab_runs(folder: PathLike) -> dict[str, Path]:
    """The runs of :func:`train_lab_runs` that a folder holds, by name; empty if it holds none."""
    paths = {name: Path(folder) / name for name in RUNS}
    return {name: path for name, path in paths.items() if path.is_dir()}
