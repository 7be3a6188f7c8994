"""The text of a report with the scores of trained networks on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.analysis.proxy import PROXY_CACHE, fit_or_load_proxy
from alignkit.errors import AlignkitError
from alignkit.metrics.registry import MAIN
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.loading import load_checkpoint
from alignkit.neural.settings import PROXY_PRESETS
from alignkit.neural.training.translation_run import TranslationRun, find_run
from alignkit.report.inputs import ReportInputs
from alignkit.report.model import ScoreSet, score_set
from alignkit.report.scored_text import ScoredText, ibm1_sets, text_facts
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import encode_bitext
from alignkit.time_course import Network, TimeCourseSettings, time_course
from alignkit.types import Progress

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class NamedRun:
    """A run, its network, and what the report calls it."""

    name: str
    run: TranslationRun
    network: NeuralAligner

    def sets(self, bitext: Bitext) -> list[ScoreSet]:
        """The scores of the network."""
        aligner = self.network.name
        kinds = ("beta",) if aligner == "uniform" else ("alpha", "beta")
        suffix = "" if self.name == aligner else self.name
        scores = {kind: self.network.score(bitext, kind) for kind in kinds}
        return [score_set(f"{self.name}.{k}", scores[k], aligner=aligner, suffix=suffix) for k in kinds]

    def facts(self) -> dict[str, Any]:
        """Settings and performance of the network, for the page."""
        measured = {k: f"{v:.4g}" for k, v in sorted(self.network.metrics.items())}
        settings = asdict(self.network.settings)
        return {"called here": self.name, "step": f"{self.network.step:,}", **measured, **settings}


def score_runs(inputs: ReportInputs, progress: Progress | None = None) -> ScoredText:
    """Score the text of the inputs, or the first run's validation text, with networks, IBM 1 and the proxy.

    Raises:
        AlignkitError: a path is no run or is there twice, the runs do not share their tokens, or two have the same
            name.
    """
    runs = _open(inputs)
    main = runs[0]  # with attention, if any has
    training, tokenizer = main.run.train, main.network.tokenizer
    bitext = main.run.valid if inputs.text is None else encode_bitext(tokenizer, *inputs.text)
    ibm1 = ibm1_sets(inputs, training, bitext)
    sets = [each for run in runs for each in run.sets(bitext)] + ibm1
    if inputs.proxy:
        sets.append(_proxy_set(inputs, main.run, training, bitext, progress))
    plan = TimeCourseSettings(
        percent=inputs.percent, resamples=0, kinds=("alpha", "beta"), metrics=(MAIN,), order="step"
    )

    def time_courses(crop: Callable[[Scores], Scores]) -> pd.DataFrame | None:
        import pandas as pd

        reference = {"ibm1.beta": crop(ibm1[0].scores)}
        followed = [each.run for each in runs if each.network.name != "uniform"]

        def cropped(network: Network, pairs: Bitext, kind: str) -> Scores:
            return crop(network.score(pairs, kind))

        how: dict[str, Any] = {"device": inputs.device, "progress": progress, "score": cropped}
        parts = [time_course(run, bitext, reference, plan, **how) for run in followed]
        # The attention of every other seed is followed towards that of the first network.
        own = {each.name: crop(each.scores) for each in sets if each.name == f"{main.name}.alpha"}
        towards = replace(plan, kinds=("alpha",), order="fixed")
        for run in followed[1:]:
            table = time_course(run, bitext, own, towards, **how)
            parts.append(table[table["name"].str.startswith(f"{MAIN.symbol}(")])
        return pd.concat(parts, ignore_index=True) if parts else None

    facts = text_facts(inputs, training, bitext)
    facts |= {f"run {each.run.path.name}": each.facts() for each in runs}
    steps = {each.name: each.network.step for each in runs}
    forced = {each.run.path.name: each.run.uniform_steps for each in runs if each.network.name != "uniform"}
    forced = {name: count for name, count in forced.items() if count}
    return ScoredText(bitext, training, sets, facts, time_courses, True, steps, forced)


def _open(inputs: ReportInputs) -> list[NamedRun]:
    """The runs, those with attention first."""
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
    settings = replace(PROXY_PRESETS["paper"], seed=inputs.seed)
    cache = run.path / PROXY_CACHE
    proxy = fit_or_load_proxy(cache, training, run.valid, settings, progress, inputs.device)
    return score_set("proxy.beta", proxy.score(bitext, "beta"))
