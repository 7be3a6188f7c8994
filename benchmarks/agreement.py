"""The paper's claim on a real bitext: trains with and without attention, compares, and writes the table.

    python benchmarks/agreement.py DATA RUNS -o benchmarks/results/agreement-multi30k

DATA holds train.de, train.en, val.de and val.en (Multi30k, tokenised and lower-cased). RUNS keeps the two training
runs, so that the command goes on where it stopped. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import click
import numba
import numpy as np
import torch
from inputs import MULTI30K, need_files, run_benchmark, torch_machine

import alignkit
from alignkit.lab.comparison import CompareSettings, Comparison, compare_networks
from alignkit.lab.report.tables import metric_matrix, records
from alignkit.metrics.registry import MAIN
from alignkit.neural.devices import set_threads
from alignkit.neural.settings import PRESETS
from alignkit.neural.training.run_directory import TranslationRun
from alignkit.neural.training.translation import train_translation
from alignkit.text.pairs import read_line_pairs

CLAIMS = [
    ("lstm.alpha", "ibm1.beta"),
    ("lstm.alpha", "proxy.beta"),
    ("uniform.beta", "proxy.beta"),
    ("lstm.alpha", "lstm.beta"),
]


def versions() -> dict[str, str]:
    found = {"alignkit": alignkit.__version__, "python": platform.python_version()}
    return found | {"torch": str(torch.__version__), "numba": numba.__version__, "numpy": np.__version__}


def training_facts(run: TranslationRun) -> dict[str, object]:
    """The number of steps, and the metrics of the best step."""
    log = run.log
    step, loss = log.best("valid.loss")
    at_best = {row.name: row.value for row in log.rows if row.step == step}
    last = max(row.step for row in log.rows)
    return {"steps": last, "best_step": step, "finished": run.finished, **at_best, "valid.loss": loss}


def render(facts: dict, tables: dict[str, Comparison]) -> str:
    lines = [f"# {facts['title']}", "", f"    {facts['command']}", ""]
    lines += [f"{facts['machine']}; " + ", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + ".", ""]
    for name, run in facts["runs"].items():
        shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in run.items())
        lines.append(f"- {name}: {shown}")
    for name, found in tables.items():
        lines += ["", f"## {name}", "", "A(u, v) in per cent, u down, v across; in brackets chance.", ""]
        lines += ["```", metric_matrix(found.table, MAIN), "```", ""]
        table = found.table.set_index(["u", "v"])
        lines += ["| claim | A | 95 % interval | chance | rows | decided by a tie |", "|---|---|---|---|---|---|"]
        for u, v in CLAIMS:
            if (u, v) in table.index:
                row = table.loc[(u, v)]
                span = f"{100 * row.low:.1f} to {100 * row.high:.1f}"
                lines.append(
                    f"| A({u}, {v}) | {100 * row.agreement:.1f} | {span} | {100 * row.chance:.1f} "
                    f"| {int(row['rows'])} | {100 * row.ties:.1f} % |"
                )
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("runs", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="OUT.json and OUT.md.")
@click.option("--preset", default="paper", show_default=True, type=click.Choice(sorted(PRESETS)))
@click.option("--epochs", type=int, help="[default: the preset's]")
@click.option("--seed", default=0, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--threads", type=int)
@click.option("--title", default="Agreement on Multi30k, German to English")
def main(data: Path, runs: Path, output: Path, preset: str, epochs: int | None, seed: int, **options) -> None:
    """Train, or continue training; compare; write the tables."""
    names = [data / f"{part}.{language}" for part in ("train", "val") for language in ("de", "en")]
    need_files(*names, remedy=f"DATA holds these parts of {MULTI30K}")
    set_threads(options["threads"])
    text = read_line_pairs(data / "train.de", data / "train.en")
    held = read_line_pairs(data / "val.de", data / "val.en")
    for attention in ("general", "uniform"):
        changes = {"epochs": epochs, "seed": seed}
        settings = PRESETS[preset].change(network={"attention": attention}, training=changes)

        def progress(done: int, total: int, message: str, name: str = attention) -> None:
            if done % 500 == 0 or done == total:
                click.echo(f"{name}: step {done} of {total}, {message}", err=True)

        train_translation(runs / attention, text, held, settings, progress, options["device"])
    tables = {}
    for name, iterations in (
        ("IBM 1 by EM, 5 iterations", 5),
        ("IBM 1 by counting, 1 iteration (the paper's)", 1),
    ):
        compared = CompareSettings(iterations=iterations, also=("ibm1.alpha",))
        tables[name] = compare_networks(
            str(runs / "general"), str(runs / "uniform"), settings=compared, device=options["device"]
        )
    facts = {
        "title": options["title"],
        "command": f"python benchmarks/agreement.py DATA RUNS --preset {preset} --epochs {epochs} -o OUT",
        "machine": torch_machine(),
        "versions": versions(),
        "runs": {name: training_facts(TranslationRun(runs / name)) for name in ("general", "uniform")},
    }
    result = {**facts, "agreement": {name: records(found.table) for name, found in tables.items()}}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    output.with_suffix(".md").write_text(render(facts, tables))
    click.echo(output.with_suffix(".md").read_text())


if __name__ == "__main__":
    run_benchmark(main)
