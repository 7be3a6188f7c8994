"""A report: the scores of several aligners on one text, labelled for readers without the paper, and its tables.

:func:`build_report` makes it of runs, saved models, text and the scores of other systems. torch is imported only
for a run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from alignkit.aligner import Aligner, load_aligner
from alignkit.classical.settings import IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.lab.interop.heads import RankedHeads, read_ranking
from alignkit.lab.interop.other_systems import (
    ExternalScores,
    is_between_tokens,
    project_scores,
    read_scores,
    scores_with_words,
    scores_without_specials,
    without_specials,
    word_bitext,
    word_grouping,
    word_shapes,
)
from alignkit.lab.time_course import TimeCourseSettings, time_course
from alignkit.links.from_scores import best_links, scores_of_links
from alignkit.links.gold import read_gold
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import LENGTHS, LinkCounts, WordFacts, band_names, count_links, error_table, occurrences
from alignkit.metrics.agreement import AgreementRows, agreement_rows
from alignkit.metrics.intervals import bootstrap_ratio
from alignkit.metrics.protocol import PERCENT, MetricOptions, MetricSettings, Percent
from alignkit.metrics.registry import MAIN, SCORE_METRICS, compare
from alignkit.scores import Grouping, Scores, merge_to_words
from alignkit.support.packages import versions
from alignkit.support.settings import with_options
from alignkit.text.bitext import Bitext
from alignkit.text.tokenization import BOS, EOS, SPECIALS, encode_bitext, split_words, style_of, without_mark
from alignkit.text.vocabulary import is_punctuation
from alignkit.types import PathLike, Progress

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.neural.aligners import NeuralAligner
    from alignkit.neural.training.run_directory import TranslationRun

#: upper ends of the bands of how often a source word occurs in the training text
FREQUENCIES = (0, 3, 10, 30, 100, 300, 1000, 3000)
ENDS = "sentence ends"
CLASSES = ("sentence start", "sentence end", "punctuation", "words")

Sides = tuple[Sequence[str], Sequence[str]]  #: lines of source and target


@dataclass(frozen=True, eq=False)
class ScoreSet:
    """The scores of one aligner, of one kind.

    Attributes:
        name: as in tables, ``lstm.alpha``.
        label: a few words for it.
        note: a sentence that says what the numbers are.
        scores: of the report's pairs.
        order: for measures of the order of scores: those of words are not divided among their subwords.
        null: whether NULL, or the marks of a sentence's start and end, has what a row lacks to 1.
    """

    name: str
    label: str
    note: str
    scores: Scores
    order: Scores
    null: bool = True

    @classmethod
    def of(
        cls, aligner: Aligner, kind: str, scores: Scores, name: str | None = None, order: Scores | None = None
    ) -> ScoreSet:
        """Scores with the label of the aligner that gave them; ``name`` if it is not called by its own."""
        label, note = aligner.label(kind)
        name = name or aligner.name
        label = label if name == aligner.name else f"{label} ({name})"
        return cls(f"{name}.{kind}", label, note, scores, order or scores)

    @property
    def kind(self) -> str:
        """alpha, beta or delta."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that a page is made of.

    Attributes:
        title: of the page.
        bitext: M pairs as the scores see them, in words or subwords, with BOS and EOS where they were scored.
        sets: at least one; all of the M pairs, with the bitext's shapes.
        tables: of :func:`alignkit.metrics.registry.compare` by every metric, of the sets' names.
        counts: int64 (V_src,): how often each source type occurs in the text that was learned from.
        time_course: columns run, step, name, value of :func:`alignkit.lab.time_course.time_course`, or None.
        gold: reference links between words, or None.
        heads: the ranking of the heads of a model, or None.
        words: the same pairs in words, with the words' counts, for errors by class; None if not known.
        specials: whether BOS and EOS at the ends of sentences are specials rather than words.
        marked: whether tokens are subwords that may carry marks.
        facts: settings and versions by what they are of; they may be nested.
        uniform_steps: by what the time course calls a run, the number of its first steps in which attention was
            fixed to uniform; runs without such steps are left out.
        unfinished: the names of the runs whose training has not ended.
        percent: what counts as the top of a row.
        seed: of the bootstraps.
    """

    title: str
    bitext: Bitext
    sets: tuple[ScoreSet, ...]
    tables: Mapping[str, pd.DataFrame]
    counts: np.ndarray
    time_course: pd.DataFrame | None = None
    gold: GoldLinks | None = None
    heads: RankedHeads | None = None
    words: WordFacts | None = None
    specials: bool = True
    marked: bool = True
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    percent: Percent = PERCENT
    seed: int = 0
    uniform_steps: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the sets by name."""
        return {each.name: each.label for each in self.sets}

    @cached_property
    def groups(self) -> tuple[Grouping, Grouping]:
        """Per sentence the word of each token, of source and target."""
        sides = self.bitext.source, self.bitext.target
        source, target = (word_grouping(side, self.specials, self.marked) for side in sides)
        return source, target

    @property
    def main_pair(self) -> tuple[str, str]:
        """(u, v) that the page begins with: attention against the IBM dictionary, or the nearest to that."""
        names = [each.name for each in self.sets]
        links = [n for n in names if n.endswith(".alpha") and not n.startswith("ibm1")]
        first = min(links, key=lambda name: name == "hmm.alpha", default=names[0])
        others = [n for n in ("ibm1.beta", "ibm1.alpha", *names) if n in names and n != first]
        return first, others[0] if others else first

    def token_links(self, links: Links) -> list[list[tuple[int, int]]]:
        """Links of words as links of tokens: every subword of one word with every subword of the other."""
        sentences = []
        for pairs, (source, columns), (target, rows) in zip(links, *self.groups, strict=False):
            linked = np.zeros((columns + 1, rows + 1), bool)  # the last ones are of tokens of no word, whose is -1
            linked[tuple(pairs.T)] = True
            sentences.append([(s, t) for s, t in np.argwhere(linked[source][:, target]).tolist()])
        return sentences


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


class ReportOptions(MetricOptions, total=False):
    """The fields of :class:`ReportInputs`, as options of a function."""

    runs: Sequence[PathLike]
    models: Sequence[PathLike]
    text: Sides | None
    training: Sides | None
    scores: Mapping[str, PathLike]
    gold: PathLike | None
    heads: PathLike | None
    proxy: bool
    device: str


def build_report(
    inputs: ReportInputs | None = None, progress: Progress | None = None, **options: Unpack[ReportOptions]
) -> Report:
    """Score one text with all the inputs and put the report together.

    Args:
        inputs: what the report is made of.
        progress: called with (done, total, message) while a proxy is trained and checkpoints are scored.
        **options: fields of :class:`ReportInputs` that replace those of ``inputs``.

    Raises:
        AlignkitError: there is nothing to score, or files do not fit each other; the message names file and line.
    """
    import pandas as pd

    inputs = with_options(ReportInputs, inputs, options)

    # The text that is scored and the one that was learned from; the scores of networks. With a run, the text has
    # BOS and EOS.
    runs = _open_runs(inputs) if inputs.runs else []
    sets: list[ScoreSet] = []
    if runs:
        training = runs[0].run.train
        scored = runs[0].run.valid
        if inputs.text is not None:
            scored = encode_bitext(runs[0].network.tokenizer, *inputs.text)
        for name, _, network in runs:
            kinds = ("beta",) if network.name == "uniform" else ("alpha", "beta")
            sets += [ScoreSet.of(network, kind, network.score(scored, kind), name) for kind in kinds]
    elif inputs.text is not None:
        scored = _words(inputs.text)
        training = _words(inputs.training) if inputs.training is not None else scored
    else:
        raise AlignkitError("nothing to report on: give a run, or SRC and TGT with --text")

    # The dictionary of IBM 1 without NULL, whose posterior is a row divided by its sum: in the same order.
    from alignkit.classical.ibm1 import fit_ibm1

    ibm1 = fit_ibm1(training, null=False, threads=inputs.threads)
    sets.append(ScoreSet.of(ibm1, "beta", ibm1.score(scored, "beta")))
    if runs and inputs.proxy:
        from alignkit.neural.proxy import proxy_of
        from alignkit.neural.settings import ProxySettings

        run, settings = runs[0].run, ProxySettings(seed=inputs.seed)
        proxy = proxy_of(run.path, training, run.valid, settings, progress, inputs.device)
        sets.append(ScoreSet.of(proxy, "beta", proxy.score(scored, "beta")))
    if not runs and not inputs.models:
        from alignkit.classical.hmm.hmm import fit_hmm

        hmm = fit_hmm(training, threads=inputs.threads)
        sets.insert(0, ScoreSet.of(hmm, "alpha", hmm.score(scored, "alpha")))

    # Those of saved models, of files, and of the best head of a ranking.
    ranked = None if inputs.heads is None else read_ranking(inputs.heads)
    files = dict(inputs.scores)
    if ranked is not None:
        files[f"head {ranked.best}"] = f"{ranked.file}:{ranked.best}"
    shapes = word_shapes(scored, bool(runs), bool(runs))
    others, on_words = _other_sets(inputs.models, files, scored, shapes, bool(runs))
    sets += others
    names = [each.name for each in sets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AlignkitError(f"there are two sets of scores with the name {twice}; give other names")
    if not (shapes > 0).all(axis=1).any():
        problem = "no pair of the text has words on both sides, so there is nothing to show"
        raise AlignkitError(f"{problem}; give another text")

    # Where some know only words, all are compared without BOS and EOS.
    cropped = bool(runs) and on_words

    def crop(scores: Scores) -> Scores:
        return scores_without_specials(scores, scored) if cropped else scores

    bitext = without_specials(scored) if cropped else scored

    def compared(scores: Mapping[str, Scores]) -> dict[str, Scores]:
        found = {name: crop(each) for name, each in scores.items()}
        return scores_with_words(found, scored) if runs and not cropped else found

    named = compared({each.name: each.order for each in sets})
    sets = [replace(each, scores=crop(each.scores), order=named[each.name]) for each in sets]

    # The time courses of the runs with attention, whose alpha and beta are held against IBM 1; the attention of
    # every other seed is also followed towards that of the first network.
    followed = [each for each in runs if each.network.name != "uniform"]
    how: dict[str, Any] = {"device": inputs.device, "progress": progress}
    how["score"] = lambda network, pairs, kind: compared({"": network.score(pairs, kind)})[""]
    course = TimeCourseSettings(percent=inputs.percent, resamples=0, metrics=(MAIN,))
    both = replace(course, kinds=("alpha", "beta"), order="step")
    courses = [time_course(run, scored, {"ibm1.beta": named["ibm1.beta"]}, both, **how) for _, run, _ in followed]
    towards = replace(course, kinds=("alpha",), order="fixed")
    for _, run, _ in followed[1:]:
        main = f"{followed[0].name}.alpha"
        table = time_course(run, scored, {main: named[main]}, towards, **how)
        courses.append(table[table["name"].str.startswith(f"{MAIN.symbol}(")])
    return Report(
        title="What attention learned" if runs else "How aligners see this text",
        bitext=bitext,
        sets=tuple(sets),
        tables={metric.name: compare(named, metric, inputs) for metric in SCORE_METRICS},
        counts=occurrences(training.source, bitext.source),
        time_course=pd.concat(courses, ignore_index=True) if courses else None,
        gold=read_gold(inputs.gold, shapes=shapes) if inputs.gold is not None else None,
        heads=ranked,
        words=WordFacts.of(*(word_bitext(text, bool(runs)) for text in (scored, training)))
        if inputs.gold is not None
        else None,
        specials=bool(runs) and not cropped,
        marked=bool(runs),
        facts={
            "text": {
                "pairs learned from": f"{len(training):,}",
                "pairs scored": f"{len(scored):,}",
                "top of a row": f"{inputs.percent} %",
                "seed of the intervals": inputs.seed,
            },
            "IBM Model 1": {"iterations": IBM1Settings.iterations, "NULL": False},
            **{
                f"run {run.path.name}": {
                    "called here": name,
                    "step": f"{network.step:,}",
                    **{k: f"{v:.4g}" for k, v in sorted(network.metrics.items())},
                    **asdict(network.settings),
                }
                for name, run, network in runs
            },
            "versions": versions(),
        },
        percent=inputs.percent,
        seed=inputs.seed,
        uniform_steps={run.path.name: run.uniform_steps for _, run, _ in followed if run.uniform_steps},
        unfinished=tuple(run.path.name for _, run, _ in runs if not run.finished),
    )


def _words(lines: Sides) -> Bitext:
    return Bitext.from_sentences(*([split_words(line) for line in side] for side in lines))


class NamedRun(NamedTuple):
    """What the report calls a run, the run, and its network."""

    name: str
    run: TranslationRun
    network: NeuralAligner


def _open_runs(inputs: ReportInputs) -> list[NamedRun]:
    """The runs, those with attention first.

    They are called ``lstm`` and ``uniform`` where one run each has that name, else by the names of the folders.

    Raises:
        AlignkitError: a path is no run or is there twice, the runs do not share their tokens, or two have the same
            name.
    """
    from alignkit.neural.aligners import NeuralAligner, load_checkpoint
    from alignkit.neural.training.run_directory import find_run

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
            problem = f"{run.path} and {first.path} do not share their tokens"
            raise AlignkitError(f"{problem}; train both on the same text")
    kinds, places = [network.name for _, network in found], [run.path.resolve() for run, _ in found]
    names = [k if kinds.count(k) == 1 else run.path.name for k, (run, _) in zip(kinds, found, strict=True)]
    twice = next((run.path for run, _ in found if places.count(run.path.resolve()) > 1), None)
    if twice is not None:
        raise AlignkitError(f"the run {twice} is given twice; give each run once")
    if len({run.path.name for run, _ in found}) < len(found):
        raise AlignkitError("two of the runs lie in folders of the same name; give them other names")
    return [NamedRun(name, *pair) for name, pair in zip(names, found, strict=True)]


def _other_sets(
    models: Sequence[PathLike], files: Mapping[str, PathLike], scored: Bitext, shapes: np.ndarray, subwords: bool
) -> tuple[list[ScoreSet], bool]:
    """The sets of saved models and of files, and whether any of them is between words, without BOS and EOS.

    Args:
        models: files of classical aligners. Their scores are between words, and are spread over subwords.
        files: name -> file of scores of another system.
        scored: the text.
        shapes: target and source words of each pair.
        subwords: whether the text is of subwords with BOS and EOS.
    """
    sets = []
    for path in models:
        model = load_aligner(path)
        if model.tokenizer is not None:
            raise AlignkitError(f"{path} is a network: give it as a run, and not with --model")
        if subwords:
            alpha = ExternalScores(os.fspath(path), model.score(word_bitext(scored), "alpha"))
            scores, order = (project_scores(alpha, scored, divided=divided) for divided in (True, False))
            sets.append(ScoreSet.of(model, "alpha", scores, Path(path).stem, order))
        else:
            found = [(kind, model.score(scored, kind)) for kind in model.kinds]
            sets += [ScoreSet.of(model, kind, scores, Path(path).stem) for kind, scores in found]
    on_words = bool(sets)
    for name, path in files.items():
        full = name if name.endswith((".alpha", ".beta", ".delta")) else f"{name}.alpha"
        external = read_scores(path, shapes)
        scores, order = (project_scores(external, scored, specials=subwords, divided=d) for d in (True, False))
        on_words = on_words or not is_between_tokens(external, scored)
        label, note = full.removesuffix(".alpha"), f"Scores read from {Path(path).name}."
        sets.append(ScoreSet(full, label, note, scores, order, null=False))
    return sets, on_words


def frequency_bands(report: Report, rows: AgreementRows) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by how often the text learned from has the source token that u ranks first."""
    names = band_names(FREQUENCIES)
    source = report.bitext.source
    favourites = source.tokens[source.offsets[rows.sentence] + rows.best]
    band = np.searchsorted(np.array(FREQUENCIES), report.counts[favourites], side="left")
    if report.specials:
        specials = np.array([source.vocabulary.id(SPECIALS[i]) for i in (BOS, EOS)])
        band = np.where(np.isin(favourites, specials[specials >= 0]), len(names), band)
    return band, [*names, ENDS]


def length_bands(report: Report, rows: AgreementRows) -> tuple[np.ndarray, list[str]]:
    """The band of each row, by the number of source words in its sentence."""
    lengths = np.array([words for _, words in report.groups[0]])
    return np.searchsorted(np.array(LENGTHS), lengths[rows.sentence], side="left"), band_names(LENGTHS, 1)


def breakdown_table(report: Report) -> list[dict[str, Any]]:
    """Agreement by band: records by (frequency or length), u, v, band, rows, agreement, chance, low, high.

    Bands without rows are left out. The interval is a bootstrap over sentence pairs.
    """
    found: list[dict[str, Any]] = []
    pairs = len(report.bitext)
    for u, v in permutations(report.sets, 2):
        rows = agreement_rows(u.order, v.order, report.percent)
        for by, bands in (("frequency", frequency_bands), ("length", length_bands)):
            band, names = bands(report, rows)
            used = np.flatnonzero(np.bincount(band, minlength=len(names)))
            cells = rows.sentence * len(used) + np.searchsorted(used, band)
            sums = [np.bincount(cells, weights, pairs * len(used)) for weights in (rows.hits, None, rows.expected)]
            hits, count, chance = (each.reshape(pairs, len(used)).astype(np.float64) for each in sums)
            for i, k in enumerate(used):
                total = count[:, i].sum()
                shares = {"agreement": hits[:, i].sum() / total, "chance": chance[:, i].sum() / total}
                shares["low"], shares["high"] = bootstrap_ratio(hits[:, i], count[:, i], report.seed)
                found.append({"by": by, "u": u.name, "v": v.name, "band": names[k], "rows": int(total), **shares})
    return found


def mass_table(report: Report) -> list[dict[str, Any]]:
    """The weight of alpha scores by class of source token: records set, class, mass, even.

    Means over rows; ``mass`` is the class's share of a row's sum, of rows that sum to more than 1 (links, say)
    after division by the sum; what rows lack to 1 is the class ``no source word``. ``even`` is what scores spread
    evenly would give. Scores with an infinite one have no shares, and no records here.
    """
    source = report.bitext.source
    style = style_of([source.vocabulary.tokens])
    ends = {SPECIALS[BOS]: "sentence start", SPECIALS[EOS]: "sentence end"} if report.specials else {}
    names = [
        ends.get(token, "punctuation" if is_punctuation(without_mark(token, style)) else "words")
        for token in source.vocabulary.tokens
    ]
    kinds = np.array([CLASSES.index(name) for name in names], np.int64)
    found = []
    for each in report.sets:
        if each.kind != "alpha" or not np.isfinite(each.scores.values).all():
            continue
        mass, even, rows = np.zeros(len(CLASSES)), np.zeros(len(CLASSES)), 0
        for m, matrix in enumerate(each.scores):
            if matrix.size == 0:
                continue
            member = np.equal.outer(kinds[source[m]], np.arange(len(CLASSES))).astype(np.float64)
            shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True, dtype=np.float64), 1)
            mass += (shares @ member).sum(axis=0)
            even += len(matrix) * member.mean(axis=0)
            rows += len(matrix)
        mass, even = mass / max(rows, 1), even / max(rows, 1)
        for kind, name in enumerate(CLASSES):
            if even[kind] > 0:
                found.append({"set": each.name, "class": name, "mass": mass[kind], "even": even[kind]})
        nowhere = 1 - mass.sum()
        if rows and nowhere > 5e-4:
            found.append({"set": each.name, "class": "no source word", "mass": nowhere, "even": 0.0})
    return found


def against_gold(report: Report) -> Iterator[tuple[ScoreSet, LinkCounts, pd.DataFrame]]:
    """Each set of alpha scores against gold links: its counts and its errors by class; nothing without gold links.

    Scores of subwords are merged into those of words, and each target word is linked to its favourite source word
    (:func:`alignkit.links.from_scores.best_links`). Only pairs with gold links count. A link's probability is its
    score, if all scores of the set are from 0 to 1. The classes are those of
    :func:`alignkit.metrics.aer.error_table`, those without links too.
    """
    gold = report.gold
    for each in report.sets:
        if gold is None or each.kind != "alpha":
            continue
        words = merge_to_words(each.scores, report.groups[1], report.groups[0])
        links = best_links(words, null=each.null).block(0, len(gold))
        probabilities = None
        if not len(words.values) or (words.values.min() >= 0 and words.values.max() <= 1 + 1e-6):
            probabilities = scores_of_links(links, words.block(0, len(links)))
        classes = error_table(gold, links, report.words, probabilities, empty=True)
        yield each, count_links(gold, links), classes
