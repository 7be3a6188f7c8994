"""The paper's row for classification on four real data sets (Snell et al., section 3, appendices A.6 to A.10).

    python benchmarks/classification.py DATA RUNS -o benchmarks/results [--only sst2 ...] [--seeds 5] [--authors]

DATA holds sst2/train.tsv, dev.tsv and test.tsv, sms/all.tsv, ag_news/all.tsv and imdb/all.tsv, lines of
LABEL<tab>TEXT. RUNS keeps the training runs, so that the command goes on where it stopped. Writes
classification-NAME.json and .md for each data set that is done.

``--authors`` reads and trains as the authors' programs do (github.com/Sea-Snell/AttentionDynamics), and writes
classification-NAME-authors.json and .md: BOS and EOS around each text, batches of texts of any lengths, a proxy
with a bias, rare words known (there, those that have a word2vec vector; here, all of them), and the test set of
SST-2 in the place of its dev set.

``--vectors FILE`` initializes embeddings with word vectors, as the paper does with GloVe's (A.8), and writes
classification-NAME-vectors.json and .md. Those of the committed run are gensim 4.4.0's, of the training text's
words in lower case (with PYTHONHASHSEED=0):

    model = Word2Vec(sentences, vector_size=300, min_count=3, sg=1, epochs=20, seed=0, workers=1)
    model.wv.save_word2vec_format("sst2.word2vec.txt")
"""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numba
import numpy as np
import torch
from classification_claims import claims, claims_over_seeds, course_over_seeds, table_over_seeds
from inputs import need_files, run_benchmark, torch_machine

import alignkit
from alignkit.lab.classification import (
    QUANTITIES,
    STRENGTHS,
    Classification,
    ClassifySettings,
    classify,
    word_scores,
)
from alignkit.lab.report.tables import records
from alignkit.metrics.agreement import agreement_rows
from alignkit.metrics.intervals import against_chance
from alignkit.metrics.registry import MAIN
from alignkit.neural.devices import set_threads
from alignkit.neural.settings import CLASSIFIER_PRESETS, CLASSIFIER_PROXY
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines, hold_out, read_labelled, two_labels

SEED_STEP = 10  #: between the seeds of two rows, each of which has four runs of their own


@dataclass(frozen=True)
class DataSet:
    """A data set: its files, its source and the training steps, of which the paper has 4,000.

    The authors' programs choose the best step by the test text, and score it.
    """

    title: str
    home: str
    train: str
    valid: str | None = None
    test: str | None = None
    labels: tuple[str, str] | None = None
    raw: bool = False
    longest: int | None = None
    steps: int = 4000

    def check(self, data: Path, authors: bool = False) -> None:
        """End the program if a file is missing."""
        paths = [data / name for name in (self.train, self._held(authors)) if name is not None]
        need_files(*paths, remedy=f"write {self.title}, from {self.home}, there as lines of LABEL<tab>TEXT")

    def _held(self, authors: bool) -> str | None:
        return self.test if authors and self.test else self.valid

    def read(self, data: Path, authors: bool = False) -> tuple[LabelledLines, LabelledLines, tuple[str, str]]:
        """Training text, the text that is scored, and the labels."""
        text, names = two_labels(read_labelled(data / self.train, lowercase=True), self.labels)
        if (scored := self._held(authors)) is not None:
            held = read_labelled(data / scored, lowercase=True)
        else:
            text, held = hold_out(text)
        if self.raw:
            text, held = text.split_punctuation(), held.split_punctuation()
        if self.longest is not None:
            text, held = text.cut(self.longest), held.cut(self.longest)
        return text, held, names

    def reading(self, ends: bool, authors: bool, vectors: Path | None) -> str:
        """How the texts are read, and what differs from the paper's training."""
        parts = ["lower-cased"]
        parts += ["punctuation split off"] if self.raw else []
        parts += [f"only the first {self.longest} words of each text"] if self.longest else []
        named = "the test set" if authors and self.test else "the dev set"
        parts += ["validation: one text in ten, drawn"] if self.valid is None else [f"validation: {named}"]
        parts += ["BOS and EOS around each text"] if ends else []
        parts += ["no word unknown, batches of any lengths, a proxy with a bias"] if authors else []
        parts += [f"embeddings initialized with {vectors.name}" if vectors else "embeddings initialized at random"]
        return ", ".join(parts)


SETS = {
    "sst2": DataSet(
        "SST-2 (sentences)", "nlp.stanford.edu/sentiment", "sst2/train.tsv", "sst2/dev.tsv", "sst2/test.tsv"
    ),
    "sms": DataSet("SMS spam", "archive.ics.uci.edu/dataset/228", "sms/all.tsv", raw=True),
    "ag_news": DataSet(
        "AG News, world against business",
        "groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
        "ag_news/all.tsv",
        labels=("1", "3"),
        raw=True,
    ),
    "imdb": DataSet(
        "2,000 film reviews (Pang and Lee's, a small relative of IMDB), 100 words of each",
        "www.cs.cornell.edu/people/pabo/movie-review-data",
        "imdb/all.tsv",
        longest=100,
    ),
}


def versions() -> dict[str, str]:
    found = {"alignkit": alignkit.__version__, "python": platform.python_version()}
    return found | {"torch": str(torch.__version__), "numba": numba.__version__, "numpy": np.__version__}


def claim_lines(said: list[dict[str, Any]]) -> list[str]:
    """A line per claim."""
    lines = []
    for one in said:
        numbers = [
            f"{k} {100 * v:.1f} %" for k, v in one.items() if isinstance(v, float) and k not in ("low", "high")
        ]
        if "low" in one:
            numbers.append(f"[{100 * one['low']:.1f}, {100 * one['high']:.1f}]")
        lines.append(f"- {one['claim']}: {one['verdict']} ({', '.join(numbers)})")
    return lines


def table_of(header: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def cent(value: float) -> str:
    """A share in per cent; empty if it is NaN."""
    return "" if value != value else f"{100 * value:.1f}"


def row_lines(found: Classification) -> list[str]:
    """The row of one seed."""
    rows = []
    for row in found.row.itertuples():
        cells = [row.quantity, cent(row.agreement), f"{cent(row.low)} to {cent(row.high)}", cent(row.chance)]
        cells += [f"{against_chance(row.low, row.high, row.chance)} chance", cent(row.ties), f"{row.tau:.3f}"]
        rows.append([*cells, f"{row.tau_low:.3f} to {row.tau_high:.3f}", cent(row.xi) or "not reached"])
    header = ["quantity", "A %", "95 % interval", "chance %", "A is", "decided by a tie %", "tau", "95 % interval"]
    return table_of([*header, "xi %"], rows)


def seed_lines(found: list[Classification]) -> list[str]:
    """The means over seeds."""
    rows = []
    for row in table_over_seeds(found).itertuples():
        span = f"{cent(row.low)} to {cent(row.high)}"
        xi = f"{cent(row.xi)} ({row.reached} of {row.seeds})" if row.reached else "not reached"
        rows.append([row.quantity, cent(row.agreement), span, cent(row.chance), f"{row.tau:.3f}", xi])
    header = ["quantity", "A %, mean", "95 % interval over seeds", "chance %", "tau", "xi % (seeds that reach it)"]
    stars = np.array([each.best_accuracy for each in found])
    return [*table_of(header, rows), "", f"xi*: {cent(stars.mean())} % ({', '.join(map(cent, stars))})."]


def course_lines(found: list[Classification]) -> list[str]:
    """A(u, v) at the logged steps, means over seeds."""
    named = {
        "A(alpha, beta_uf(step))": "uniform",
        "A(alpha, alpha_fr(step))": "frozen",
        "A(beta_log, beta_uf(step))": "logistic",
        "A(alpha(step), alpha_2(step))": "seeds",
    }
    known = {name: course for name, course in named.items() if course in found[0].time_courses}
    tables = {
        name: course_over_seeds([each.time_courses[course] for each in found]).set_index("step")
        for name, course in known.items()
    }
    steps = next(iter(tables.values())).index
    rows = [[str(step), *(cent(table.agreement[step]) for table in tables.values())] for step in steps]
    return table_of(["step", *tables], rows)


def penalty_lines(found: Classification) -> list[str]:
    """A(beta_uf, beta_log) by the penalty."""
    if found.penalties is None or found.logistic is None:
        return []
    rows = [
        [f"{row.strength:g}", f"{row.loss:.3f}", cent(row.accuracy), cent(row.agreement)]
        for row in found.penalties.itertuples()
    ]
    text = (
        "A(beta_uf, beta_log) by the penalty of the regression (A.10), first seed; "
        f"C = {found.logistic.strength:g} has the highest validation accuracy:"
    )
    return ["", text, "", *table_of(["C", "validation loss", "accuracy %", "A %"], rows)]


def render(facts: dict[str, Any], found: list[Classification]) -> str:
    """The page of a data set."""
    first, several = found[0], len(found) > 1
    counts = f"{facts['training_texts']} training and {facts['validation_texts']} validation texts"
    lines = [f"# {facts['title']}", "", f"    {facts['command']}", ""]
    lines += [f"{facts['machine']}; " + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + ".", ""]
    lines += [
        f"{counts}; {facts['reading']}. {facts['steps']} training steps per network (the paper: 4,000), otherwise "
        f"the paper's settings but for embeddings, which start from GloVe's there; {len(found)} "
        f"seed{'s' if several else ''} (the paper: 5). Validation texts are "
        f"scored. beta_uf and alpha_fr are those of the logged step of the largest A(alpha, .) (A.7, A.6): "
        f"{', '.join(f'{each.uniform_step} and {each.frozen_step}' for each in found)}.",
        "",
    ]
    if several:
        lines += [*seed_lines(found), "", "The first seed, with intervals over texts:", ""]
    lines += [
        *row_lines(first),
        "",
        f"xi* (the standard classifier's accuracy): {cent(first.best_accuracy)} %",
        "",
    ]
    known = set(first.row.quantity)
    lines += [f"- A({u}, {v}): {question}" for u, v, question in QUANTITIES if f"A({u}, {v})" in known]
    rows = []
    for row in first.accuracy.itertuples():
        span = f"{cent(row.low)} to {cent(row.high)}" if row.low == row.low else ""
        rows.append([row.model, cent(row.accuracy), span, "" if row.step != row.step else f"{row.step:.0f}"])
    lines += ["", *table_of(["model", "accuracy %", "95 % interval", "best step"], rows), *penalty_lines(first)]
    lines += ["", "In training, means over the seeds, in per cent:", "", *course_lines(found)]
    if "places" in facts:
        lines += place_lines(facts["places"])
    lines += ["", "Claims, first seed, intervals over texts:", "", *claim_lines(facts["claims"])]
    if several:
        lines += ["", f"Claims over {len(found)} seeds:", "", *claim_lines(facts["claims_over_seeds"])]
    return "\n".join(lines) + "\n"


def unturned_course(place: Path, found: Classification, device: str) -> list[dict[str, float]]:
    """A(beta_uf, beta_log) and A(alpha, beta_uf) of log-odds for the second label, whatever a text's label is.

    The notebook of the authors' first runs (classification/calculate_corr.ipynb) prints these for SMS, where its
    shares are multiples of 1 / 2,074, at the steps 500, 1,500, 3,000 and 3,999.

    Returns:
        At each logged step: step, alpha (A(alpha, beta_uf)), and of A(beta_uf, beta_log), with the penalty of the
        best accuracy, log and log_chance, and with scikit-learn's default, C = 1, default and default_chance.
    """
    text = found.text
    signs = np.repeat(2.0 * text.labels - 1, text.corpus.lengths).astype(np.float32)

    def unturned(scores: Scores) -> Scores:
        return Scores(scores.values * signs, scores.offsets, scores.shapes)

    assert found.logistic is not None
    weights = {"log": found.logistic.weights, "default": found.logistic.tried[STRENGTHS.index(1.0)]}
    course = []
    uniform = ClassifierRun(place / "uniform")
    for step in uniform.checkpoints:
        beta = unturned(uniform.load(step, device).score(text.bitext, "beta"))
        row = {"step": float(step), "alpha": MAIN.measure(found.scores["alpha"], beta)["agreement"]}
        for name, each in weights.items():
            values = MAIN.measure(beta, unturned(word_scores(each, text)))
            row |= {name: values["agreement"], f"{name}_chance": values["chance"]}
        course.append(row)
    return course


def places(found: Classification) -> list[dict[str, Any]]:
    """Where attention goes in the texts of each label, and A(alpha, alpha_2) there (A.9).

    Returns:
        For each label: label, texts, agreement, chance; and for both alphas the shares of the texts whose most
        attended word is the first (BOS) and the last (EOS): alpha_bos, alpha_eos, alpha_2_bos, alpha_2_eos.
    """
    text, alpha, second = found.text, found.scores["alpha"], found.scores["alpha_2"]
    rows = agreement_rows(alpha, second)
    labels, last = text.labels[rows.sentence], text.corpus.lengths[rows.sentence] - 1
    most = {"alpha": rows.best, "alpha_2": agreement_rows(second, alpha).best}
    table = []
    for number, label in enumerate(text.names):
        here = labels == number
        row: dict[str, Any] = {"label": label, "texts": int(here.sum())}
        row |= {"agreement": float(rows.hits[here].mean()), "chance": float(rows.expected[here].mean())}
        for name, best in most.items():
            row[f"{name}_bos"] = float((best[here] == 0).mean())
            row[f"{name}_eos"] = float((best[here] == last[here]).mean())
        table.append(row)
    return table


def place_lines(seeds: list[list[dict[str, Any]]]) -> list[str]:
    """The tables of :func:`places`."""
    header = ["seeds of alpha and alpha_2", "label", "texts", "A(alpha, alpha_2) %", "chance %"]
    header += ["alpha at BOS %", "at EOS %", "alpha_2 at BOS %", "at EOS %"]
    rows = []
    for number, seed in enumerate(seeds):
        for row in seed:
            values = [cent(value) for name, value in row.items() if name not in ("label", "texts")]
            first = SEED_STEP * number
            rows.append([f"{first} and {first + 1}", row["label"], str(row["texts"]), *values])
    return ["", "Where attention goes, by label (A.9):", "", *table_of(header, rows)]


def records_of(found: Classification) -> dict[str, object]:
    """Everything about a seed but the scores."""
    return {
        "row": records(found.row),
        "accuracy": records(found.accuracy),
        "uniform_step": found.uniform_step,
        "frozen_step": found.frozen_step,
        "best_accuracy": found.best_accuracy,
        "logistic": None if found.logistic is None else found.logistic.strength,
        "penalties": None if found.penalties is None else records(found.penalties),
        "courses": {course: records(table) for course, table in found.time_courses.items()},
    }


def measure(name: str, data: Path, runs: Path, output: Path, steps: int, options: dict[str, Any]) -> None:
    """Train, or continue training; compare; write the two files of a data set."""
    chosen = SETS[name]
    text, held, labels = chosen.read(data, options["authors"])
    begun = time.monotonic()

    def progress(done: int, total: int, message: str) -> None:
        if done % 50 == 0:
            click.echo(f"{name}: {done} of {total}, {message}, {time.monotonic() - begun:.0f} s", err=True)

    found, unturned = [], []
    seeds = [SEED_STEP * number for number in range(options["seeds"])]
    authors, vectors = options["authors"], options["vectors"]
    ends, kind = options["bos_eos"] or authors, "-authors" if authors else "-bos-eos" if options["bos_eos"] else ""
    kind += "-vectors" if vectors else ""
    for seed in seeds:
        chosen_runs = CLASSIFIER_PRESETS["paper"].change(training={"steps": steps, "seed": seed})
        if authors:
            chosen_runs = chosen_runs.change(text={"minimum": 1}, training={"buckets": False})
        proxy = replace(CLASSIFIER_PROXY, bias=authors)
        settings = ClassifySettings(replace(chosen_runs, ends=ends), proxy, loo=True, seed=seed)
        place = runs / f"{name}{kind}" / f"seed-{seed}"
        device = options["device"]
        found.append(
            classify(place, text, held, labels, settings, vectors=vectors, progress=progress, device=device)
        )
        if authors:
            unturned.append(unturned_course(place, found[-1], device))
    command = f"python benchmarks/classification.py DATA RUNS --only {name} --seeds {len(seeds)}"
    command += " --authors" if authors else " --bos-eos" if options["bos_eos"] else ""
    command += f" --vectors {vectors.name}" if vectors else ""
    facts: dict[str, Any] = {
        "title": f"What a classifier's attention has learned: {chosen.title}",
        "command": f"{command} --steps {name}={steps} -o benchmarks/results",
        "machine": torch_machine(),
        "versions": versions(),
        "reading": chosen.reading(ends, authors, vectors),
        "labels": labels,
        "training_texts": len(text),
        "validation_texts": len(held),
        "steps": steps,
        "seeds": seeds,
        "claims": claims(found[0]),
    }
    more: dict[str, Any] = {"first": records_of(found[0]), "by_seed": [records_of(each) for each in found[1:]]}
    if len(found) > 1:
        facts["claims_over_seeds"] = claims_over_seeds(found)
        more["over_seeds"] = records(table_over_seeds(found))
    if authors:
        more["unturned"] = unturned
        facts["places"] = [places(each) for each in found]
    output.mkdir(parents=True, exist_ok=True)
    place = output / f"classification-{name.replace('_', '-')}{kind}"
    place.with_suffix(".json").write_text(json.dumps({**facts, **more}, indent=1, allow_nan=False) + "\n")
    place.with_suffix(".md").write_text(render(facts, found))
    click.echo(place.with_suffix(".md").read_text())


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the results.")
@click.option("--only", multiple=True, type=click.Choice(list(SETS)), help="[default: all]")
@click.option("--steps", multiple=True, metavar="NAME=N", help="Steps of a data set's networks. [default: 4000]")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="The paper averages five.")
@click.option("--bos-eos", is_flag=True, help="Texts begin with BOS and end with EOS.")
@click.option("--authors", is_flag=True, help="Read and train as the authors' programs do.")
@click.option("--vectors", type=click.Path(path_type=Path, exists=True), help="Word vectors, as text.")
@click.option("--device", default="auto", show_default=True)
@click.option("--threads", type=int)
def main(data: Path, runs: Path, output: Path, only: tuple[str, ...], steps: tuple[str, ...], **options) -> None:
    """Measure one data set after another."""
    for name in only or SETS:
        SETS[name].check(data, options["authors"])
    set_threads(options["threads"])
    wanted = dict(part.split("=") for part in steps)
    for name in only or SETS:
        measure(name, data, runs, output, int(wanted.get(name, SETS[name].steps)), options)


if __name__ == "__main__":
    run_benchmark(main)
