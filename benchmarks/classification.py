"""The paper's row for classification on four real data sets (Snell et al., section 3 and appendices A.6, A.10).

    python benchmarks/classification.py DATA RUNS -o benchmarks/results [--only sst2 ...] [--steps sst2=4000 ...]

DATA holds sst2/train.tsv and dev.tsv, sms/all.tsv, ag_news/all.tsv and imdb/all.tsv, lines of LABEL<tab>TEXT. RUNS
keeps the training runs, so that the command goes on where it stopped. Writes classification-NAME.json and .md for
each data set that is done.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numba
import numpy as np
import torch
from inputs import need_files, run_benchmark

import alignkit
from alignkit.analysis.classification import QUANTITIES, Classification, classify
from alignkit.analysis.settings import ClassifySettings
from alignkit.metrics.intervals import against_chance
from alignkit.neural.classifier_settings import CLASSIFIER_PRESETS
from alignkit.neural.devices import set_threads
from alignkit.report.tables import records
from alignkit.text.labelled import LabelledLines, hold_out, read_labelled, two_labels


@dataclass(frozen=True)
class DataSet:
    """A data set: its files, its source and the training steps, of which the paper has 4,000."""

    title: str
    home: str
    train: str
    valid: str | None = None
    labels: tuple[str, str] | None = None
    raw: bool = False
    longest: int | None = None
    steps: int = 4000

    def check(self, data: Path) -> None:
        """End the program if a file is missing."""
        paths = [data / name for name in (self.train, self.valid) if name is not None]
        need_files(*paths, remedy=f"write {self.title}, from {self.home}, there as lines of LABEL<tab>TEXT")

    def read(self, data: Path) -> tuple[LabelledLines, LabelledLines, tuple[str, str]]:
        text, names = two_labels(read_labelled(data / self.train, lowercase=True), self.labels)
        if self.valid is not None:
            held = read_labelled(data / self.valid, lowercase=True)
        else:
            text, held = hold_out(text)
        if self.raw:
            text, held = text.split_punctuation(), held.split_punctuation()
        if self.longest is not None:
            text, held = text.cut(self.longest), held.cut(self.longest)
        return text, held, names

    @property
    def reading(self) -> str:
        parts = ["lower-cased"]
        parts += ["punctuation split off"] if self.raw else []
        parts += [f"only the first {self.longest} words of each text"] if self.longest else []
        parts += ["validation: one text in ten, drawn"] if self.valid is None else ["validation: the dev set"]
        return ", ".join(parts)


SETS = {
    "sst2": DataSet("SST-2 (sentences)", "nlp.stanford.edu/sentiment", "sst2/train.tsv", "sst2/dev.tsv"),
    "sms": DataSet("SMS spam", "archive.ics.uci.edu/dataset/228", "sms/all.tsv", raw=True),
    "ag_news": DataSet(
        "AG News, world against business",
        "groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
        "ag_news/all.tsv",
        labels=("1", "3"),
        raw=True,
    ),
    "imdb": DataSet(
        "IMDB (Pang and Lee's 2,000 reviews)",
        "www.cs.cornell.edu/people/pabo/movie-review-data",
        "imdb/all.tsv",
        longest=100,
    ),
}


def machine() -> str:
    """The machine, in words."""
    cpu = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    name = cpu[0] if cpu else platform.processor()
    return f"{os.cpu_count()} cores of {name}, {gpu}, {torch.get_num_threads()} threads, {platform.system()}"


def _lines(path: str) -> list[str]:
    place = Path(path)
    return place.read_text().splitlines() if place.exists() else []


def versions() -> dict[str, str]:
    found = {"alignkit": alignkit.__version__, "python": platform.python_version()}
    return found | {"torch": str(torch.__version__), "numba": numba.__version__, "numpy": np.__version__}


def claims(found: Classification) -> list[dict[str, object]]:
    """The claims of A.6 and A.10 and the paper's main one, with the verdicts of the intervals."""
    row = found.row.set_index("quantity")

    def compare(claim: str, larger: str, smaller: str) -> dict[str, object]:
        one, other = row.loc[larger], row.loc[smaller]
        verdict = "holds" if one.low > other.high else "does not hold" if one.high < other.low else "undecided"
        return {"claim": claim, larger: one.agreement, smaller: other.agreement, "verdict": verdict}

    main = row.loc["A(alpha, beta_uf)"]
    verdict = "holds" if main.low > main.chance else "does not hold" if main.high < main.chance else "undecided"
    said: list[dict[str, object]] = [
        {
            "claim": "attention agrees with word meanings learned without it, above chance",
            "A(alpha, beta_uf)": main.agreement,
            "chance": main.chance,
            "verdict": verdict,
        },
        compare(
            "attention learned over a frozen random beta agrees less with attention than beta_uf does (A.6)",
            "A(alpha, beta_uf)",
            "A(alpha, alpha_fr)",
        ),
    ]
    if "A(beta_uf, beta_log)" in row.index:
        log, proxy = row.loc["A(beta_uf, beta_log)"], row.loc["A(beta_uf, beta_px)"]
        close = log.low <= proxy.high and proxy.low <= log.high
        said.append(
            {
                "claim": "logistic regression agrees with beta_uf about as the proxy does (A.10)",
                "A(beta_uf, beta_log)": log.agreement,
                "A(beta_uf, beta_px)": proxy.agreement,
                "verdict": "the intervals overlap" if close else "the intervals do not overlap",
            }
        )
    accuracy = found.accuracy.set_index("model")
    if (accuracy.low[["standard", "uniform"]] <= accuracy.accuracy["majority"]).any():
        for one in said:
            one["verdict"] = "undecided, for a network is not better than the majority label"
    return said


def render(facts: dict, found: Classification) -> str:
    lines = [f"# {facts['title']}", "", f"    {facts['command']}", ""]
    lines += [f"{facts['machine']}; " + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + ".", ""]
    counts = f"{facts['training_texts']} training and {facts['validation_texts']} validation texts"
    lines += [
        f"{counts}; {facts['reading']}. {facts['steps']} training steps per network (the paper: 4,000), otherwise "
        "the paper's settings. The "
        f"validation texts are scored. beta_uf is that of step {found.uniform_step}, where A(alpha, beta_uf) is "
        "largest (A.7); its interval does not count that choice.",
        "",
        "| quantity | A % | 95 % interval | chance % | A is | decided by a tie % | tau | 95 % interval | xi % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found.row.itertuples():
        span = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
        cells = [
            row.quantity,
            f"{100 * row.agreement:.1f}",
            span,
            f"{100 * row.chance:.1f}",
            f"{against_chance(row.low, row.high, row.chance)} chance",
            f"{100 * row.ties:.1f}",
        ]
        xi = "not reached" if row.xi != row.xi else f"{100 * row.xi:.1f}"
        cells += [f"{row.tau:.3f}", f"{row.tau_low:.3f} to {row.tau_high:.3f}", xi]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"xi* (the standard classifier's accuracy): {100 * found.best_accuracy:.1f} %"]
    lines += [
        "",
        *(f"- {name}: {question}" for name, u, v, question in QUANTITIES if name in set(found.row.quantity)),
    ]
    lines += ["", "| model | accuracy % | 95 % interval | best step |", "|---|---|---|---|"]
    for row in found.accuracy.itertuples():
        span = "" if row.low != row.low else f"{100 * row.low:.1f} to {100 * row.high:.1f}"
        step = "" if row.step != row.step else f"{row.step:.0f}"
        lines.append(f"| {row.model} | {100 * row.accuracy:.1f} | {span} | {step} |")
    if found.penalties is not None:
        chosen = found.logistic.strength if found.logistic is not None else None
        lines += [
            "",
            f"A(beta_uf, beta_log) by the penalty of the regression (A.10); C = {chosen:g} has the lowest "
            "validation loss:",
            "",
            "| C | validation loss | accuracy % | A % | 95 % interval |",
            "|---|---|---|---|---|",
        ]
        for row in found.penalties.itertuples():
            span = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
            cells = [
                f"{row.strength:g}",
                f"{row.loss:.3f}",
                f"{100 * row.accuracy:.1f}",
                f"{100 * row.agreement:.1f}",
            ]
            lines.append(f"| {' | '.join([*cells, span])} |")
    lines += ["", "Claims:", ""]
    for one in facts["claims"]:
        numbers = ", ".join(f"{k} {100 * v:.1f} %" for k, v in one.items() if isinstance(v, float))
        lines.append(f"- {one['claim']}: {one['verdict']} ({numbers})")
    return "\n".join(lines) + "\n"


def measure(name: str, data: Path, runs: Path, output: Path, steps: int, device: str) -> None:
    """Train, or continue training; compare; write the two files of a data set."""
    chosen = SETS[name]
    text, held, labels = chosen.read(data)
    settings = ClassifySettings(CLASSIFIER_PRESETS["paper"].change(training={"steps": steps}))
    begun = time.monotonic()

    def progress(done: int, total: int, message: str) -> None:
        if done % 50 == 0:
            click.echo(f"{name}: {done} of {total}, {message}, {time.monotonic() - begun:.0f} s", err=True)

    found = classify(runs / name, text, held, labels, settings, progress=progress, device=device)
    facts = {
        "title": f"What a classifier's attention has learned: {chosen.title}",
        "command": f"python benchmarks/classification.py DATA RUNS --only {name} --steps {name}={steps} "
        "-o benchmarks/results",
        "machine": machine(),
        "versions": versions(),
        "reading": chosen.reading,
        "labels": labels,
        "training_texts": len(text),
        "validation_texts": len(held),
        "steps": steps,
        "claims": claims(found),
    }
    more = {
        "row": records(found.row),
        "accuracy": records(found.accuracy),
        "uniform_step": found.uniform_step,
        "best_accuracy": found.best_accuracy,
        "logistic": None if found.logistic is None else found.logistic.strength,
        "penalties": None if found.penalties is None else records(found.penalties),
        "courses": {course: records(table) for course, table in found.time_courses.items()},
    }
    output.mkdir(parents=True, exist_ok=True)
    place = output / f"classification-{name.replace('_', '-')}"
    place.with_suffix(".json").write_text(json.dumps({**facts, **more}, indent=1, allow_nan=False) + "\n")
    place.with_suffix(".md").write_text(render(facts, found))
    click.echo(place.with_suffix(".md").read_text())


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the results.")
@click.option("--only", multiple=True, type=click.Choice(list(SETS)), help="[default: all]")
@click.option("--steps", multiple=True, metavar="NAME=N", help="Steps of a data set's networks. [default: 4000]")
@click.option("--device", default="auto", show_default=True)
@click.option("--threads", type=int)
def main(data: Path, runs: Path, output: Path, only: tuple[str, ...], steps: tuple[str, ...], **options) -> None:
    """Measure one data set after another."""
    for name in only or SETS:
        SETS[name].check(data)
    set_threads(options["threads"])
    wanted = dict(part.split("=") for part in steps)
    for name in only or SETS:
        measure(name, data, runs, output, int(wanted.get(name, SETS[name].steps)), options["device"])


if __name__ == "__main__":
    run_benchmark(main)
