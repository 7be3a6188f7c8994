"""A report of runs, saved models, text and the scores of other systems. Imports torch only for a run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.aligner import load_aligner
from alignkit.classical.hmm.model import fit_hmm
from alignkit.errors import AlignkitError
from alignkit.interop.external_scores import ExternalScores
from alignkit.interop.other_systems import read_scores
from alignkit.interop.projection import (
    is_between_tokens,
    project_scores,
    scores_without_specials,
    without_specials,
    word_bitext,
    word_shapes,
)
from alignkit.links.gold import parse_gold
from alignkit.links.links import check_range
from alignkit.metrics.error_classes import WordFacts, occurrences
from alignkit.metrics.registry import compare
from alignkit.report.inputs import ReportInputs, Sides
from alignkit.report.model import Report, ScoreSet, score_set
from alignkit.report.scored_text import ScoredText, ibm1_sets, text_facts
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_lines
from alignkit.text.tokenization import split_words
from alignkit.types import PathLike, Progress, with_options
from alignkit.version import versions

if TYPE_CHECKING:
    from alignkit.links.links import GoldLinks


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
    extra, on_words = _other_sets(inputs, scored)
    sets = [*scored.sets, *extra]
    names = [each.name for each in sets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AlignkitError(f"there are two sets of scores with the name {twice}; give other names")
    bitext, specials = scored.bitext, scored.specials
    shapes = word_shapes(bitext, specials, specials)

    def crop(scores: Scores) -> Scores:
        return scores_without_specials(scores, scored.bitext) if on_words and scored.specials else scores

    if on_words and specials:
        sets = [replace(each, scores=crop(each.scores)) for each in sets]
        bitext, specials = without_specials(bitext), False
    if not (shapes > 0).all(axis=1).any():
        raise AlignkitError(
            "no pair of the text has words on both sides, so there is nothing to show; give another text"
        )
    return Report(
        title=inputs.title or ("What attention learned" if inputs.runs else "How aligners see this text"),
        bitext=bitext,
        sets=tuple(sets),
        table=compare({each.name: each.scores for each in sets}, settings=inputs),
        counts=occurrences(scored.training.source, bitext.source),
        time_course=scored.time_course(crop),
        gold=_gold(inputs.gold, shapes) if inputs.gold is not None else None,
        words=_word_facts(scored) if inputs.gold is not None else None,
        specials=specials,
        marked=scored.specials,
        facts={**scored.facts, "versions": versions()},
        percent=inputs.percent,
        seed=inputs.seed,
        steps=scored.steps,
        uniform_steps=scored.uniform_steps,
    )


def _score_runs(inputs: ReportInputs, progress: Progress | None) -> ScoredText:
    from alignkit.report.from_runs import score_runs

    return score_runs(inputs, progress)


def _score_text(inputs: ReportInputs) -> ScoredText:
    """A text without a run, by IBM 1 and, if there is nothing else, an HMM."""
    if inputs.text is None:
        raise AlignkitError("nothing to report on: give a run, or SRC and TGT with --text")
    bitext = _words(inputs.text)
    training = _words(inputs.training) if inputs.training is not None else bitext
    sets = ibm1_sets(inputs, training, bitext)
    alone = not (inputs.models or inputs.scores or inputs.links)
    if alone:
        hmm = fit_hmm(training, threads=inputs.threads)
        sets.insert(0, score_set("hmm.alpha", hmm.score(bitext, "alpha")))
    return ScoredText(bitext, training, sets, text_facts(inputs, training, bitext))


def _words(lines: Sides) -> Bitext:
    return Bitext.from_sentences([split_words(x) for x in lines[0]], [split_words(y) for y in lines[1]])


def _other_sets(inputs: ReportInputs, scored: ScoredText) -> tuple[list[ScoreSet], bool]:
    """The sets of saved models and of files, and whether any of them is between words, without BOS and EOS."""
    sets = _model_sets(inputs, scored)
    on_words = bool(sets)
    shapes = word_shapes(scored.bitext, scored.specials, scored.specials)
    unknown = [name for name in inputs.pieces if name not in {*inputs.scores, *inputs.links}]
    if unknown:
        raise AlignkitError(f"there are pieces of {unknown[0]}, but no scores of that name")
    for name, path in [*inputs.scores.items(), *inputs.links.items()]:
        full = name if name.endswith((".alpha", ".beta", ".delta")) else f"{name}.alpha"
        found, pieces = read_scores(path, shapes), _pieces(inputs.pieces.get(name))
        scores = project_scores(found, scored.bitext, pieces, specials=scored.specials)
        on_words = on_words or not is_between_tokens(found, scored.bitext, pieces)
        sets.append(ScoreSet(full, full.removesuffix(".alpha"), f"Scores read from {Path(path).name}.", scores))
    return sets, on_words


def _pieces(lines: Sides | None) -> tuple[list[list[str]], list[list[str]]] | None:
    if lines is None:
        return None
    return [split_words(line) for line in lines[0]], [split_words(line) for line in lines[1]]


def _word_facts(scored: ScoredText) -> WordFacts:
    """The words of the pairs, and how often the text that was learned from has each."""
    return WordFacts.of(*(word_bitext(text, scored.specials) for text in (scored.bitext, scored.training)))


def _gold(path: PathLike, shapes: np.ndarray) -> GoldLinks:
    found = parse_gold(path, read_lines(path), shapes=shapes).gold
    check_range(path, found.possible, shapes)
    return found


def _model_sets(inputs: ReportInputs, scored: ScoredText) -> list[ScoreSet]:
    """Scores of saved classical aligners, between words; spread over subwords if the report is of subwords."""
    sets = []
    for path in inputs.models:
        model = load_aligner(path)
        if model.tokenizer is not None:
            raise AlignkitError(f"{path} is a network: give it as a run, and not with --model")
        label = Path(path).stem
        suffix = label if label != model.name else ""
        if not scored.specials:
            found = [(kind, model.score(scored.bitext, kind)) for kind in model.kinds]
        else:
            alpha = ExternalScores(os.fspath(path), model.score(word_bitext(scored.bitext), "alpha"))
            found = [("alpha", project_scores(alpha, scored.bitext, specials=True))]
        sets += [score_set(f"{label}.{kind}", scores, aligner=model.name, suffix=suffix) for kind, scores in found]
    return sets
