"""The explanation tests on SST-2 and on IMDB (2,000 reviews), beside what the literature found.

    python benchmarks/explanation.py DATA RUNS -o benchmarks/results [--only sst2] [--test order]

DATA holds sst2/train.tsv, sst2/dev.tsv and imdb/all.tsv, lines of LABEL<tab>TEXT. RUNS keeps the training runs and
the rows of each test that is done, so that the command goes on where it stopped. When all tests of a data set are
done, it writes explanation-NAME.json and .md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from classification import SETS, DataSet, versions
from inputs import machine, run_benchmark

from alignkit.lab.explain.registry import EXPLANATION_TESTS, ExplanationSettings
from alignkit.lab.explain.subject import explanation_table, subject_of_run
from alignkit.lab.report.tables import NONE, records
from alignkit.neural.devices import set_threads
from alignkit.neural.settings import CLASSIFIER_PRESETS
from alignkit.neural.training.classification import train_classifier
from alignkit.neural.training.run_directory import ClassifierRun

NAMES = ("sst2", "imdb")
SEEDS = (0, 1, 2)
Rows = dict[str, dict[str, Any]]  # by group and test, as "guides: own, gain"


def apart(rows: Rows, larger: str, smaller: str) -> str:
    """The verdict on larger > smaller, by whether the intervals are apart."""
    one, other = rows[larger], rows[smaller]
    if one["low"] > other["high"]:
        return "yes"
    return "no" if one["high"] < other["low"] else "undecided"


def above(rows: Rows, name: str, level: float = 0.0) -> str:
    """The verdict on value > level, by where the interval lies."""
    row = rows[name]
    return "yes" if row["low"] > level else "no" if row["high"] < level else "undecided"


#: (what the paper found, the question of ours, the rows that answer it, the verdict)
FINDINGS: tuple[tuple[str, str, tuple[str, ...], Callable[[Rows], str]], ...] = (
    (
        "Jain and Wallace 2019: attention is frequently uncorrelated with gradient-based importance",
        "do both put the words of a text in much the same order (tau above 0.5)?",
        ("order: tau, gradient", "order: tau, leave-one-out", "order: tau, gradient and leave-one-out"),
        lambda rows: above(rows, "order: tau, gradient", 0.5),
    ),
    (
        "Jain and Wallace 2019: very different attention gives the same output",
        "is the adversary further away than other seeds are?",
        ("adversary: adversary, JSD", "seeds: seeds, JSD"),
        lambda rows: apart(rows, "adversary: adversary, JSD", "seeds: seeds, JSD"),
    ),
    (
        "Serrano and Smith 2019: gradients rank the effects of attention better than its size does",
        "do decisions flip sooner by attention x gradient than by attention?",
        ("erasure: erased, attention", "erasure: erased, attention x gradient", "erasure: erased, random"),
        lambda rows: apart(rows, "erasure: erased, attention", "erasure: erased, attention x gradient"),
    ),
    (
        "Serrano and Smith 2019: attention noisily predicts importance",
        "do decisions flip sooner by attention than by a random order?",
        ("erasure: erased, random", "erasure: erased, attention"),
        lambda rows: apart(rows, "erasure: erased, random", "erasure: erased, attention"),
    ),
    (
        "Wiegreffe and Pinter 2019: on some sets attention of 1/L does as well",
        "is the classifier more accurate than the same network trained with attention of 1/L?",
        ("guides: recurrent, gain", "guides: recurrent, accuracy", "guides: recurrent, uniform"),
        lambda rows: above(rows, "guides: recurrent, gain"),
    ),
    (
        "Wiegreffe and Pinter 2019: adversaries can be trained ...",
        "is some trained adversary, with a TVD no larger than that of other seeds, further away than these?",
        ("seeds: seeds, change", "seeds: seeds, JSD"),
        lambda rows: _adversary(rows),
    ),
    (
        "Wiegreffe and Pinter 2019: ... but do not do well as guides",
        "is the classifier's attention a better guide than a trained adversary's?",
        ("guides: classifier, accuracy", "guides: adversary, accuracy", "guides: uniform, accuracy"),
        lambda rows: apart(rows, "guides: classifier, accuracy", "guides: adversary, accuracy"),
    ),
    (
        "Wiegreffe and Pinter 2019: the attention of a recurrent network helps one without recurrence",
        "is the gain over attention of 1/L above 0?",
        ("guides: classifier, gain", "guides: own, gain"),
        lambda rows: above(rows, "guides: classifier, gain"),
    ),
    (
        "Pruthi et al. 2020: attention on words can be removed at little cost in accuracy",
        "at lambda 1, is less than a tenth of the attention left on them, at an accuracy at most 5 points lower?",
        (
            "inattention: recurrent, lambda 1, mass",
            "inattention: recurrent, lambda 0, accuracy",
            "inattention: recurrent, lambda 1, accuracy",
        ),
        lambda rows: _cheaply(rows, "inattention: recurrent, lambda"),
    ),
    (
        "Pruthi et al. 2020: the network goes on using these words",
        "does taking the words out cost more accuracy than giving them no attention?",
        ("inattention: recurrent, lambda 1, hidden", "inattention: recurrent, lambda 1, removed"),
        lambda rows: apart(
            rows, "inattention: recurrent, lambda 1, hidden", "inattention: recurrent, lambda 1, removed"
        ),
    ),
)


def _adversary(rows: Rows) -> str:
    weights = {key.split(", ")[0] for key in rows if key.startswith("trained-adversary: ")}
    bar = rows["seeds: seeds, change"]["high"]
    found = [
        apart(rows, f"{name}, JSD", "seeds: seeds, JSD") for name in weights if rows[f"{name}, TVD"]["low"] <= bar
    ]
    return "yes" if "yes" in found else "no" if found and set(found) == {"no"} else "undecided"


def _cheaply(rows: Rows, name: str) -> str:
    if above(rows, f"{name} 1, mass", 0.1) != "no":
        return "no"
    return above(rows, f"{name} 1, accuracy", rows[f"{name} 0, accuracy"]["value"] - 0.05)


def train_runs(data: DataSet, folder: Path, place: Path, steps: int) -> None:
    """Train the classifiers of all seeds that are not there yet."""
    text, held, labels = data.read(folder)
    for seed in SEEDS:
        settings = CLASSIFIER_PRESETS["small"].change(training={"steps": steps, "seed": seed, "keep": "best"})
        train_classifier(place / f"seed{seed}", text, held, labels, settings, device="cpu")


def measure(name: str, place: Path, settings: ExplanationSettings) -> list[dict[str, Any]]:
    """The rows of one test, computed if they are not there."""
    kept = place / f"{name}.json"
    wanted = json.loads(json.dumps(asdict(settings)))
    if kept.exists():
        found = json.loads(kept.read_text())
        if found["settings"] == wanted:
            return found["rows"]
    begun = time.monotonic()
    others = [place / f"seed{seed}" for seed in SEEDS[1:]]
    subject = subject_of_run(place / f"seed{SEEDS[0]}", others, replace(settings, tests=(name,)), device="cpu")
    rows = records(explanation_table(subject))
    kept.write_text(json.dumps({"settings": wanted, "rows": rows}, indent=1))
    click.echo(f"{place.name}, {name}: {time.monotonic() - begun:.0f} s", err=True)
    return rows


def shown(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def render(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [f"# {facts['title']}", "", f"    {facts['command']}", ""]
    lines += [f"{facts['machine']}; " + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + ".", ""]
    accuracies = ", ".join(f"{100 * each:.1f}" for each in facts["accuracy"])
    lines += [
        f"{facts['training_texts']} training and {facts['validation_texts']} validation texts; "
        f"{facts['reading']}. Classifiers of the preset `small`, {facts['steps']} steps, seeds "
        f"{', '.join(map(str, SEEDS))}; their validation accuracies are {accuracies} %. The decisions of the "
        "first on the validation texts are tested; the others are the yardstick. Networks that tests train have "
        "the same size and number of steps.",
        "",
        "## Beside the literature",
        "",
        "What the papers found is given in words: their networks, embeddings and texts are others, so that their "
        "numbers are not to be set beside ours. Yes or no: where the 95 % intervals leave no doubt.",
        "",
        "| the paper | asked here | answer | numbers |",
        "|---|---|---|---|",
    ]
    by_name = {f"{row['group']}: {row['test']}": row for row in rows}
    for paper, question, used, verdict in FINDINGS:
        numbers = "; ".join(f"{key.split(': ')[1]} {shown(by_name[key]['value'])}" for key in used)
        lines.append(f"| {paper} | {question} | {verdict(by_name)} | {numbers} |")
    for name, test in EXPLANATION_TESTS.items():
        lines += ["", f"## {name}: {test.summary}", "", f"{test.source}.", ""]
        lines += ["| | value | 95 % interval | texts | meaning |", "|---|---|---|---|---|"]
        for row in rows:
            if row["group"] == name:
                span = f"{shown(row['low'])} to {shown(row['high'])}"
                lines.append(f"| {row['test']} | {shown(row['value'])} | {span} | {row['n']} | {row['meaning']} |")
    return "\n".join(lines) + "\n"


def write(name: str, place: Path, output: Path, steps: int, rows: list[dict[str, Any]]) -> None:
    """The two files of a data set."""
    data = SETS[name]
    runs = [ClassifierRun(place / f"seed{seed}") for seed in SEEDS]
    command = f"python benchmarks/explanation.py DATA RUNS -o benchmarks/results --only {name} --steps {steps}"
    facts = {
        "title": f"Does attention explain decisions? {data.title}",
        "command": command,
        "machine": machine(),
        "versions": versions(),
        "reading": data.reading,
        "steps": steps,
        "training_texts": len(runs[0].train),
        "validation_texts": len(runs[0].valid),
        "accuracy": [run.load(device="cpu").metrics["valid.accuracy"] for run in runs],
    }
    by_name = {f"{row['group']}: {row['test']}": row for row in rows}
    findings = [{"paper": p, "question": q, "answer": verdict(by_name)} for p, q, _, verdict in FINDINGS]
    output.mkdir(parents=True, exist_ok=True)
    target = output / f"explanation-{name}"
    found = {**facts, "findings": findings, "explanation": rows}
    target.with_suffix(".json").write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    target.with_suffix(".md").write_text(render(facts, rows))
    click.echo(target.with_suffix(".md").read_text())


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder of the results.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="[default: both]")
@click.option("--test", "tests", multiple=True, type=click.Choice(list(EXPLANATION_TESTS)), help="[default: all]")
@click.option("--steps", type=int, default=500, show_default=True, help="Training steps of every network.")
@click.option("--threads", type=int)
def main(
    data: Path,
    runs: Path,
    output: Path,
    only: tuple[str, ...],
    tests: tuple[str, ...],
    steps: int,
    threads: int | None,
) -> None:
    """Run the tests of one data set after another."""
    for name in only or NAMES:
        SETS[name].check(data)
    set_threads(threads)
    for name in only or NAMES:
        place = runs / name
        train_runs(SETS[name], data, place, steps)
        settings = ExplanationSettings(steps=steps)
        for test in tests or EXPLANATION_TESTS:
            measure(test, place, settings)
        if all((place / f"{test}.json").exists() for test in EXPLANATION_TESTS):
            rows = [row for test in EXPLANATION_TESTS for row in measure(test, place, settings)]
            write(name, place, output, steps, rows)


if __name__ == "__main__":
    run_benchmark(main)
