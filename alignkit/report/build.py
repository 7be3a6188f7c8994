"""What a report is made of, gathered from runs, saved models, text and the scores of other systems.

Torch is loaded only where there is a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.aligner.protocol import HasTokenizer
from alignkit.aligner.registry import load_aligner
from alignkit.classical.hmm.joint import fits_in_memory
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.interop.other_systems import ExternalScores, read_scores
from alignkit.interop.projection import (
    is_between_tokens,
    project_scores,
    scores_without_specials,
    without_specials,
    word_grouping,
    word_shapes,
)
from alignkit.links.gold import parse_gold
from alignkit.links.links import check_range
from alignkit.metrics.protocol import PERCENT, MetricSettings
from alignkit.metrics.registry import metric_table
from alignkit.report.model import Report, ScoreSet, score_set
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.reading import read_lines
from alignkit.text.subword_marks import join_words
from alignkit.text.tokenization import SPECIALS, UNK, split_words
from alignkit.version import versions

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.links.links import GoldLinks
    from alignkit.neural.aligners import NeuralAligner
    from alignkit.neural.training.translation_run import TranslationRun

Sides = tuple[Sequence[str], Sequence[str]]  #: lines of source and target
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Sources:
    """What a report is asked of.

    Attributes:
        runs: run directories of `alignkit train`; the first with attention is the main one.
        models: files of saved aligners.
        text: the lines to score; the first run's validation text if not given.
        training: the lines that IBM 1 is fitted on; the first run's training text, or without a run ``text``.
        scores: name -> a file of scores from elsewhere.
        links: name -> a file of links from elsewhere.
        pieces: name -> (source, target) lines of the pieces that the scores of that name are of.
        gold: a file of gold links between words, or None.
        iterations, null: of IBM 1; the paper's Trans is 1 without NULL.
        proxy: whether to train (or find) the bag-of-words model of the first run.
        title: of the page; None for one that fits.
        percent, seed: as in :func:`alignkit.metrics.agreement.agreement`.
        threads, device: no result should depend on them.
    """

    runs: Sequence[str] = ()
    models: Sequence[str] = ()
    text: Sides | None = None
    training: Sides | None = None
    scores: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    pieces: Mapping[str, Sides] = field(default_factory=dict)
    gold: str | None = None
    iterations: int = IBM1Settings.iterations
    null: bool = False
    proxy: bool = False
    title: str | None = None
    percent: Any = PERCENT
    seed: int = 0
    threads: int | None = None
    device: str = "auto"


@dataclass(frozen=True)
class _Base:
    """The text of a report, with what is known of it before any scores from elsewhere."""

    bitext: Bitext
    training: Bitext
    sets: list[ScoreSet]
    facts: dict[str, Any]
    course: Callable[[Callable[[Scores], Scores]], pd.DataFrame | None]
    specials: bool
    steps: dict[str, int]


def gather(sources: Sources, progress: Progress | None = None) -> Report:
    """Scores one text with everything there is.

    Raises:
        AlignkitError: there is nothing to score, or files that do not fit each other, with file and line.
    """
    base = _from_runs(sources, progress) if sources.runs else _from_text(sources)
    extra, on_words = _other_sets(sources, base)
    sets = [*base.sets, *extra]
    names = [each.name for each in sets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AlignkitError(f"there are two sets of scores with the name {twice}; give other names")
    bitext, specials = base.bitext, base.specials
    shapes = word_shapes(bitext, specials, specials)

    def crop(scores: Scores) -> Scores:
        return scores_without_specials(scores, base.bitext) if on_words and base.specials else scores

    if on_words and specials:
        sets = [replace(each, scores=crop(each.scores)) for each in sets]
        bitext, specials = without_specials(bitext), False
    if not (shapes > 0).all(axis=1).any():
        raise AlignkitError(
            "no pair of the text has words on both sides, so there is nothing to show; give another text"
        )
    chosen = MetricSettings(percent=sources.percent, seed=sources.seed, threads=sources.threads)
    table = metric_table({each.name: each.scores for each in sets}, settings=chosen)
    return Report(
        sources.title or ("What attention learned" if sources.runs else "How aligners see this text"),
        bitext,
        tuple(sets),
        table,
        _counts(base.training.source, bitext.source),
        base.course(crop),
        _gold(sources.gold, shapes) if sources.gold is not None else None,
        specials,
        base.specials,
        {**base.facts, "versions": versions()},
        sources.percent,
        sources.seed,
        base.steps,
    )


def _other_sets(sources: Sources, base: _Base) -> tuple[list[ScoreSet], bool]:
    """The sets of saved models and of files, and whether any of them knows words alone, no BOS and EOS."""
    sets = _model_sets(sources, base)
    on_words = bool(sets)
    shapes = word_shapes(base.bitext, base.specials, base.specials)
    unknown = [name for name in sources.pieces if name not in {*sources.scores, *sources.links}]
    if unknown:
        raise AlignkitError(f"pieces of {unknown[0]}, but no scores of that name")
    for name, path in [*sources.scores.items(), *sources.links.items()]:
        full = name if name.endswith((".alpha", ".beta", ".delta")) else f"{name}.alpha"
        found, pieces = read_scores(path, shapes), _pieces(sources.pieces.get(name))
        scores = project_scores(found, base.bitext, pieces, specials=base.specials)
        on_words = on_words or not is_between_tokens(found, base.bitext, pieces)
        sets.append(ScoreSet(full, full.removesuffix(".alpha"), f"Scores read from {Path(path).name}.", scores))
    return sets, on_words


def _pieces(lines: Sides | None) -> tuple[list[list[str]], list[list[str]]] | None:
    if lines is None:
        return None
    return [split_words(line) for line in lines[0]], [split_words(line) for line in lines[1]]


def _gold(path: str, shapes: np.ndarray) -> GoldLinks:
    found = parse_gold(path, read_lines(path), shapes=shapes).gold
    check_range(path, found.possible, shapes)
    return found


def _counts(training: Corpus, scored: Corpus) -> np.ndarray:
    """How often each type of ``scored`` occurs in ``training``: int64 (V,)."""
    counts = np.bincount(training.tokens, minlength=len(training.vocabulary))
    places = training.vocabulary.translate(scored.vocabulary)
    return np.where(places >= 0, counts[np.maximum(places, 0)] if len(counts) else 0, 0).astype(np.int64)


def _ibm_sets(sources: Sources, training: Bitext, bitext: Bitext) -> list[ScoreSet]:
    model = fit_ibm1(training, iterations=sources.iterations, null=sources.null, threads=sources.threads)
    # Without NULL a posterior is the dictionary's row divided by its sum: in the same order.
    kinds = ("beta", "alpha") if sources.null else ("beta",)
    return [score_set(f"ibm1.{kind}", model.score(bitext, kind)) for kind in kinds]


def _text_facts(sources: Sources, training: Bitext, bitext: Bitext) -> dict[str, Any]:
    top = {"top of a row": f"{sources.percent} %", "seed of the intervals": sources.seed}
    return {
        "text": {"pairs learned from": f"{len(training):,}", "pairs scored": f"{len(bitext):,}", **top},
        "IBM Model 1": {"iterations": sources.iterations, "NULL": sources.null},
    }


def _from_text(sources: Sources) -> _Base:
    if sources.text is None:
        raise AlignkitError("nothing to report on: give a run, or SRC and TGT with --text")
    bitext = _words(sources.text)
    training = _words(sources.training) if sources.training is not None else bitext
    sets = _ibm_sets(sources, training, bitext)
    alone = not (sources.models or sources.scores or sources.links)
    if alone and fits_in_memory(training):
        hmm = fit_hmm(training, threads=sources.threads)
        sets.insert(0, score_set("hmm.alpha", hmm.score(bitext, "alpha")))
    return _Base(bitext, training, sets, _text_facts(sources, training, bitext), lambda _: None, False, {})


def _words(lines: Sides) -> Bitext:
    return Bitext.from_sentences([split_words(x) for x in lines[0]], [split_words(y) for y in lines[1]])


def _model_sets(sources: Sources, base: _Base) -> list[ScoreSet]:
    """Scores of saved classical aligners, which know words; spread over pieces if the report is of pieces."""
    sets = []
    for path in sources.models:
        model = load_aligner(path)
        if isinstance(model, HasTokenizer):
            raise AlignkitError(f"{path} is a network: give it as a run, and not with --model")
        label = Path(path).stem
        if not base.specials:
            found = [(kind, model.score(base.bitext, kind)) for kind in model.kinds]
        else:
            sides = []
            for side in (base.bitext.source, base.bitext.target):
                groups = [group for group, _ in word_grouping(side, base.specials)]
                joined = [join_words(side.words(m), group) for m, group in enumerate(groups)]
                sides.append([[SPECIALS[UNK] if word is None else word for word in line] for line in joined])
            alpha = ExternalScores(os.fspath(path), model.score(Bitext.from_sentences(*sides), "alpha"))
            found = [("alpha", project_scores(alpha, base.bitext, specials=True))]
        sets += [score_set(f"{label}.{kind}", scores, aligner=model.name, suffix=label) for kind, scores in found]
    return sets


def _from_runs(sources: Sources, progress: Progress | None) -> _Base:
    from alignkit.analysis.learning import learning_course
    from alignkit.neural.aligners import NeuralAligner
    from alignkit.neural.loading import load_checkpoint
    from alignkit.neural.training.translation_run import find_run
    from alignkit.text.tokenization import encode_bitext

    found: list[tuple[TranslationRun, NeuralAligner]] = []
    for path in sources.runs:
        network, run = load_checkpoint(path, sources.device), find_run(path)
        if run is None or not isinstance(network, NeuralAligner):
            raise AlignkitError(f"{path} is not a run directory of `alignkit train`")
        found.append((run, network))
    found.sort(key=lambda pair: pair[1].name == "uniform")  # the main one has attention, if any has
    run, network = found[0]
    training, tokenizer = run.train, network.tokenizer
    for other_run, other in found:
        if other.tokenizer.vocabulary != tokenizer.vocabulary:
            raise AlignkitError(
                f"{other_run.path} and {run.path} do not share their tokens; train both on the same text"
            )
    bitext = run.valid if sources.text is None else encode_bitext(tokenizer, *sources.text)
    ibm = _ibm_sets(sources, training, bitext)
    names = _run_names(found)
    sets = [
        score_set(
            f"{name}.{kind}", each.score(bitext, kind), aligner=each.name, suffix="" if name == each.name else name
        )
        for name, (_, each) in zip(names, found, strict=True)
        for kind in (("beta",) if each.name == "uniform" else ("alpha", "beta"))
    ]
    sets += ibm
    if sources.proxy:
        sets.append(_proxy_set(sources, run, training, bitext, progress))
    facts = _text_facts(sources, training, bitext)
    for name, (each_run, each) in zip(names, found, strict=True):
        facts[f"run {each_run.path.name}"] = _run_facts(name, each)

    def courses(crop: Callable[[Scores], Scores]) -> pd.DataFrame | None:
        parts = [
            learning_course(each_run, bitext, crop(ibm[0].scores), sources.percent, sources.device, progress, crop)
            for each_run, each in found
            if each.name != "uniform"
        ]
        return _joined(parts)

    steps = {name: each.step for name, (_, each) in zip(names, found, strict=True)}
    return _Base(bitext, training, sets, facts, courses, True, steps)


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame | None:
    import pandas as pd

    return pd.concat(parts, ignore_index=True) if parts else None


def _run_names(found: Sequence[tuple[TranslationRun, NeuralAligner]]) -> list[str]:
    """``lstm`` and ``uniform`` where one run each has that name, else the names of the folders."""
    kinds = [network.name for _, network in found]
    names = [k if kinds.count(k) == 1 else run.path.name for k, (run, _) in zip(kinds, found, strict=True)]
    if len(set(names)) < len(names):
        raise AlignkitError("two of the runs lie in folders of the same name; give them other names")
    return names


def _run_facts(name: str, network: NeuralAligner) -> dict[str, Any]:
    measured = {k: f"{v:.4g}" for k, v in sorted(network.metrics.items())}
    return {"called here": name, "step": f"{network.step:,}", **measured, **asdict(network.settings)}


def _proxy_set(
    sources: Sources, run: TranslationRun, training: Bitext, bitext: Bitext, progress: Progress | None
) -> ScoreSet:
    from alignkit.analysis.compare import PROXY_CACHE, fit_or_load_proxy
    from alignkit.neural.settings import PROXY_PRESETS

    settings = replace(PROXY_PRESETS["paper"], seed=sources.seed)
    cache = run.path / PROXY_CACHE
    proxy = fit_or_load_proxy(cache, training, run.valid, settings, progress, sources.device)
    return score_set("proxy.beta", proxy.score(bitext, "beta"))
