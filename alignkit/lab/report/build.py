"""A report of runs, saved models, text and the scores of other systems. Imports torch only for a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.aligner import load_aligner
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.lab.interop.heads import read_ranking
from alignkit.lab.interop.other_systems import read_scores
from alignkit.lab.interop.projection import (
    is_between_tokens,
    project_scores,
    scores_without_specials,
    without_specials,
    word_bitext,
    word_shapes,
)
from alignkit.lab.interop.score_formats import ExternalScores
from alignkit.lab.report.model import Report, ScoreSet, score_set
from alignkit.lab.time_course import TimeCourseSettings, time_course
from alignkit.links.gold import read_gold
from alignkit.metrics.error_classes import WordFacts, occurrences
from alignkit.metrics.protocol import MetricSettings
from alignkit.metrics.registry import MAIN, SCORE_METRICS, compare
from alignkit.scores import Scores
from alignkit.support.settings import with_options
from alignkit.support.version import versions
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext, split_words
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.neural.aligners import NeuralAligner
    from alignkit.neural.training.translation import TranslationRun

Sides = tuple[Sequence[str], Sequence[str]]  #: lines of source and target
Crop = Callable[[Scores], Scores]  #: takes from the scores of a text what the report shows


@dataclass(frozen=True)
class ReportInputs(MetricSettings):
    """The runs, models and files that a report is made of, and its settings. The seed is also that of the proxy.

    Attributes:
        runs: run directories of `alignkit train`; the first with attention is the main one.
        models: files of saved aligners.
        text: the lines to score; the first run's validation text if not given.
        training: the lines that IBM 1 is fitted on; the first run's training text, or without a run ``text``.
        scores: name -> a file of scores or links of another system.
        gold: a file of gold links between words, or None.
        heads: a file with the JSON of ``alignkit heads``, whose best head is shown too; or None.
        proxy: whether to train (or find) the bag-of-words model of the first run.
        device: as :func:`alignkit.neural.devices.pick_device`.
    """

    runs: Sequence[PathLike] = ()
    models: Sequence[PathLike] = ()
    text: Sides | None = None
    training: Sides | None = None
    scores: Mapping[str, PathLike] = field(default_factory=dict)
    gold: PathLike | None = None
    heads: PathLike | None = None
    proxy: bool = False
    device: str = "auto"


@dataclass(frozen=True)
class NamedRun:
    """A run, its network, and what the report calls it."""

    name: str
    run: TranslationRun
    network: NeuralAligner

    def sets(self, bitext: Bitext) -> list[ScoreSet]:
        """The scores of the network."""
        network = self.network
        kinds = ("beta",) if network.name == "uniform" else ("alpha", "beta")
        more = {"name": self.name, "suffix": "" if self.name == network.name else self.name}
        return [score_set(network, kind, network.score(bitext, kind), **more) for kind in kinds]

    def facts(self) -> dict[str, Any]:
        """Settings and performance of the network, for the page."""
        measured = {k: f"{v:.4g}" for k, v in sorted(self.network.metrics.items())}
        settings = asdict(self.network.settings)
        return {"called here": self.name, "step": f"{self.network.step:,}", **measured, **settings}


@dataclass(frozen=True)
class ScoredText:
    """A text with its scores, before those of other systems are added.

    Attributes:
        bitext: M pairs, as they are scored.
        training: the text that was learned from, with the same tokens.
        sets: the scores of the M pairs.
        runs: those that score it, the main one first; then the pairs have BOS and EOS.
    """

    bitext: Bitext
    training: Bitext
    sets: list[ScoreSet]
    runs: Sequence[NamedRun] = ()


def build_report(inputs: ReportInputs | None = None, progress: Progress | None = None, **options: Any) -> Report:
    """Score one text with all the inputs and put the report together.

    Args:
        inputs: what the report is made of.
        progress: called with (done, total, message) while a proxy is trained and checkpoints are scored.
        **options: fields of :class:`ReportInputs` that replace those of ``inputs``.

    Raises:
        AlignkitError: there is nothing to score, or files do not fit each other; the message names file and line.
    """
    inputs = with_options(inputs or ReportInputs(), options)
    scored = _score_runs(inputs, progress) if inputs.runs else _score_text(inputs)
    bitext, specials = scored.bitext, bool(scored.runs)
    ranked = None if inputs.heads is None else read_ranking(inputs.heads)
    if ranked is not None:
        best = {f"head {ranked.best}": f"{ranked.file}:{ranked.best}"}
        inputs = replace(inputs, scores={**inputs.scores, **best})
    shapes = word_shapes(bitext, specials, specials)
    extra, on_words = _other_sets(inputs, scored, shapes)
    sets = [*scored.sets, *extra]
    names = [each.name for each in sets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AlignkitError(f"there are two sets of scores with the name {twice}; give other names")

    def crop(scores: Scores) -> Scores:
        return scores_without_specials(scores, scored.bitext) if on_words and scored.runs else scores

    if on_words and specials:
        sets = [replace(each, scores=crop(each.scores)) for each in sets]
        bitext, specials = without_specials(bitext), False
    named = {each.name: each.scores for each in sets}
    words = (word_bitext(text, bool(scored.runs)) for text in (scored.bitext, scored.training))
    if not (shapes > 0).all(axis=1).any():
        raise AlignkitError(
            "no pair of the text has words on both sides, so there is nothing to show; give another text"
        )
    return Report(
        title="What attention learned" if inputs.runs else "How aligners see this text",
        bitext=bitext,
        sets=tuple(sets),
        tables={metric.name: compare(named, metric, inputs) for metric in SCORE_METRICS},
        counts=occurrences(scored.training.source, bitext.source),
        time_course=_time_courses(inputs, scored, crop, progress),
        gold=read_gold(inputs.gold, shapes=shapes) if inputs.gold is not None else None,
        heads=ranked,
        words=WordFacts.of(*words) if inputs.gold is not None else None,
        specials=specials,
        marked=bool(scored.runs),
        facts=_facts(inputs, scored),
        percent=inputs.percent,
        seed=inputs.seed,
        uniform_steps=_uniform_steps(scored.runs),
        unfinished=tuple(each.run.path.name for each in scored.runs if not each.run.finished),
    )


def _score_text(inputs: ReportInputs) -> ScoredText:
    """A text without a run, by IBM 1 and, if there is no saved model, an HMM."""
    from alignkit.classical.hmm.hmm import fit_hmm

    if inputs.text is None:
        raise AlignkitError("nothing to report on: give a run, or SRC and TGT with --text")
    bitext = _words(inputs.text)
    training = _words(inputs.training) if inputs.training is not None else bitext
    sets = [_ibm1_set(inputs, training, bitext)]
    if not inputs.models:
        hmm = fit_hmm(training, threads=inputs.threads)
        sets.insert(0, score_set(hmm, "alpha", hmm.score(bitext, "alpha")))
    return ScoredText(bitext, training, sets)


def _words(lines: Sides) -> Bitext:
    return Bitext.from_sentences([split_words(x) for x in lines[0]], [split_words(y) for y in lines[1]])


def _ibm1_set(inputs: ReportInputs, training: Bitext, bitext: Bitext) -> ScoreSet:
    """The dictionary of IBM 1 without NULL, whose posterior is a row divided by its sum: in the same order."""
    from alignkit.classical.ibm1 import fit_ibm1

    model = fit_ibm1(training, null=False, threads=inputs.threads)
    return score_set(model, "beta", model.score(bitext, "beta"))


def _score_runs(inputs: ReportInputs, progress: Progress | None) -> ScoredText:
    """The text of the inputs, or the first run's validation text, by networks, IBM 1 and the proxy.

    Raises:
        AlignkitError: a path is no run or is there twice, the runs do not share their tokens, or two have the same
            name.
    """
    runs = _open(inputs)
    main = runs[0]  # with attention, if any has
    training, tokenizer = main.run.train, main.network.tokenizer
    bitext = main.run.valid if inputs.text is None else encode_bitext(tokenizer, *inputs.text)
    sets = [each for run in runs for each in run.sets(bitext)] + [_ibm1_set(inputs, training, bitext)]
    if inputs.proxy:
        sets.append(_proxy_set(inputs, main.run, training, bitext, progress))
    return ScoredText(bitext, training, sets, runs)


def _open(inputs: ReportInputs) -> list[NamedRun]:
    """The runs, those with attention first."""
    from alignkit.neural.aligners import NeuralAligner, load_checkpoint
    from alignkit.neural.training.translation import find_run

    found: list[tuple[TranslationRun, NeuralAligner]] = []
    for path in inputs.runs:
        network, run = load_checkpoint(path, inputs.device), find_run(path)
        if run is None or not isinstance(network, NeuralAligner):
            raise AlignkitError(f"{path} is not a run directory of `alignkit train`")
        run.check(network, Path(path))
        found.append((run, network))
    found.sort(key=lambda pair: pair[1].name == "uniform")
    first, main = found[0]
    for run, network in found:
        if network.tokenizer.vocabulary != main.tokenizer.vocabulary:
            raise AlignkitError(
                f"{run.path} and {first.path} do not share their tokens; train both on the same text"
            )
    return [NamedRun(name, *pair) for name, pair in zip(_names(found), found, strict=True)]


def _names(found: Sequence[tuple[TranslationRun, NeuralAligner]]) -> list[str]:
    """``lstm`` and ``uniform`` where one run each has that name, else the names of the folders."""
    kinds = [network.name for _, network in found]
    names = [k if kinds.count(k) == 1 else run.path.name for k, (run, _) in zip(kinds, found, strict=True)]
    places = [run.path.resolve() for run, _ in found]
    twice = next((run.path for run, _ in found if places.count(run.path.resolve()) > 1), None)
    if twice is not None:
        raise AlignkitError(f"the run {twice} is given twice; give each run once")
    if len(set(names)) < len(names):
        raise AlignkitError("two of the runs lie in folders of the same name; give them other names")
    return names


def _proxy_set(
    inputs: ReportInputs, run: TranslationRun, training: Bitext, bitext: Bitext, progress: Progress | None
) -> ScoreSet:
    from alignkit.neural.proxy import proxy_of
    from alignkit.neural.settings import ProxySettings

    proxy = proxy_of(run.path, training, run.valid, ProxySettings(seed=inputs.seed), progress, inputs.device)
    return score_set(proxy, "beta", proxy.score(bitext, "beta"))


def _time_courses(
    inputs: ReportInputs, scored: ScoredText, crop: Crop, progress: Progress | None
) -> pd.DataFrame | None:
    """The time courses of the runs with attention, one after another; None if there are none."""
    import pandas as pd

    followed = [each for each in scored.runs if each.network.name != "uniform"]
    if not followed:
        return None
    sets = {each.name: each.scores for each in scored.sets}
    plan = TimeCourseSettings(
        percent=inputs.percent, resamples=0, kinds=("alpha", "beta"), metrics=(MAIN,), order="step"
    )
    how: dict[str, Any] = {"device": inputs.device, "progress": progress}
    how["score"] = lambda network, pairs, kind: crop(network.score(pairs, kind))
    reference = {"ibm1.beta": crop(sets["ibm1.beta"])}
    parts = [time_course(each.run, scored.bitext, reference, plan, **how) for each in followed]
    # The attention of every other seed is followed towards that of the first network.
    main = f"{followed[0].name}.alpha"
    towards = replace(plan, kinds=("alpha",), order="fixed")
    for each in followed[1:]:
        table = time_course(each.run, scored.bitext, {main: crop(sets[main])}, towards, **how)
        parts.append(table[table["name"].str.startswith(f"{MAIN.symbol}(")])
    return pd.concat(parts, ignore_index=True)


def _uniform_steps(runs: Sequence[NamedRun]) -> dict[str, int]:
    """As :class:`alignkit.lab.report.model.Report` has them."""
    found = {each.run.path.name: each.run.uniform_steps for each in runs if each.network.name != "uniform"}
    return {name: count for name, count in found.items() if count}


def _other_sets(inputs: ReportInputs, scored: ScoredText, shapes: np.ndarray) -> tuple[list[ScoreSet], bool]:
    """The sets of saved models and of files, and whether any of them is between words, without BOS and EOS."""
    sets = _model_sets(inputs, scored)
    on_words, specials = bool(sets), bool(scored.runs)
    for name, path in inputs.scores.items():
        full = name if name.endswith((".alpha", ".beta", ".delta")) else f"{name}.alpha"
        found = read_scores(path, shapes)
        scores = project_scores(found, scored.bitext, specials=specials)
        on_words = on_words or not is_between_tokens(found, scored.bitext)
        sets.append(ScoreSet(full, full.removesuffix(".alpha"), f"Scores read from {Path(path).name}.", scores))
    return sets, on_words


def _model_sets(inputs: ReportInputs, scored: ScoredText) -> list[ScoreSet]:
    """Scores of saved classical aligners, between words; spread over subwords if the report is of subwords."""
    sets = []
    for path in inputs.models:
        model = load_aligner(path)
        if model.tokenizer is not None:
            raise AlignkitError(f"{path} is a network: give it as a run, and not with --model")
        label = Path(path).stem
        suffix = label if label != model.name else ""
        if not scored.runs:
            found = [(kind, model.score(scored.bitext, kind)) for kind in model.kinds]
        else:
            alpha = ExternalScores(os.fspath(path), model.score(word_bitext(scored.bitext), "alpha"))
            found = [("alpha", project_scores(alpha, scored.bitext, specials=True))]
        sets += [score_set(model, kind, scores, name=label, suffix=suffix) for kind, scores in found]
    return sets


def _facts(inputs: ReportInputs, scored: ScoredText) -> dict[str, Any]:
    """Settings and versions, for the page."""
    pairs = {"pairs learned from": f"{len(scored.training):,}", "pairs scored": f"{len(scored.bitext):,}"}
    top = {"top of a row": f"{inputs.percent} %", "seed of the intervals": inputs.seed}
    return {
        "text": {**pairs, **top},
        "IBM Model 1": {"iterations": IBM1Settings.iterations, "NULL": False},
        **{f"run {each.run.path.name}": each.facts() for each in scored.runs},
        "versions": versions(),
    }
