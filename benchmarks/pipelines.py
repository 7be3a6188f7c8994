"""Programs that call eflomal or read links, unchanged, with alignkit in eflomal's place and with eflomal itself.

    ALIGNKIT_DATA=DATA python benchmarks/pipelines.py --translations CHECKOUT --atools ATOOLS -o OUT

Runs under a Python that has alignkit, eflomal 2.0.0, opusfilter, opustrainer, and what mozilla/translations
imports (zstandard, tqdm, requests, psutil). CHECKOUT is one of mozilla/translations, ATOOLS fast_align's program.
The text of a set is its test part followed by the first pairs of its training part; OpusFilter learns from the
training pairs and scores the test part, a fifth of which is mismatched.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import fail, gold_sets, machine, need_files, run_benchmark
from quality import markdown

from alignkit.links.gold import read_gold, read_links
from alignkit.metrics.aer import evaluate
from alignkit.text.reading import read_lines

SETS = ["cdt_da_en", "hansards_en_fr"]
SEED = 1
ALIAS = "from alignkit.uses.eflomal import *\n"
#: align.py starts as many processes as a quarter of the cores, none where there are fewer than four.
CORES = "import os\nos.cpu_count = lambda: 4\n"
FILTER = """\
steps:
  - type: train_alignment
    parameters: {src_data: train.src, tgt_data: train.tgt, parameters: {model: 3}, output: align.priors}
  - type: score
    parameters:
      inputs: [noisy.src, noisy.tgt]
      output: scores.jsonl
      filters: [{WordAlignFilter: {priors: align.priors, model: 3}}]
  - type: filter
    parameters:
      inputs: [noisy.src, noisy.tgt]
      outputs: [clean.src, clean.tgt]
      filters: [{WordAlignFilter: {priors: align.priors, model: 3, src_threshold: 8, tgt_threshold: 8}}]
"""
TRAINER = """\
datasets: {clean: corpus.tsv}
stages: [start]
start:
  mix: [clean 1, until clean 1]
  modifiers:
    - Tags: 1.0
      template: "__source__ {src} __target__ {trg} __done__"
seed: 1
trainer: cat
"""


def call(command: list[str], folder: Path, paths: list[Path], **environment: str) -> tuple[float, str]:
    """Run a program in a folder; returns its seconds and its standard output."""
    environment = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1", **environment}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        fail(f"{command[1]}: {done.stderr.strip()[-300:]}")
    return time.perf_counter() - start, done.stdout


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def translations(folder: Path, checkout: Path, programs: Path, paths: list[Path]) -> float:
    """Firefox Translations' alignment of text.src and text.tgt; writes ``links``."""
    script = checkout / "pipeline/alignments/align.py"
    corpus = ["--corpus_src", str(folder / "text.src"), "--corpus_trg", str(folder / "text.tgt")]
    command = [sys.executable, str(script), *corpus, "--output_path", str(folder / "links")]
    return call(command, folder, [*paths, checkout], BIN=str(programs), SRC="xx", TRG="yy")[0]


def opusfilter(folder: Path, paths: list[Path], is_bad: np.ndarray) -> tuple[float, np.ndarray, dict[str, int]]:
    """Seconds; scores float64 (M, 2) of the noisy pairs; and what the filter kept of good and of bad ones."""
    (folder / "filter.yaml").write_text(FILTER)
    program = shutil.which("opusfilter", path=str(Path(sys.executable).parent))
    if program is None:
        fail("opusfilter is not installed in this Python")
    seconds = call([sys.executable, program, "filter.yaml"], folder, paths)[0]
    rows = [json.loads(line)["WordAlignFilter"] for line in (folder / "scores.jsonl").read_text().splitlines()]
    kept = set(zip(read_lines(folder / "clean.src"), read_lines(folder / "clean.tgt"), strict=True))
    pairs = zip(read_lines(folder / "noisy.src"), read_lines(folder / "noisy.tgt"), strict=True)
    stayed = np.array([pair in kept for pair in pairs])
    return seconds, np.array(rows), {"good": int(stayed[~is_bad].sum()), "bad": int(stayed[is_bad].sum())}


def opustrainer(folder: Path, paths: list[Path]) -> tuple[float, int, int]:
    """Seconds, lines that came out, and lines with tags of links."""
    columns = [read_lines(folder / name) for name in ("text.src", "text.tgt", "links")]
    write_lines(folder / "corpus.tsv", ["\t".join(row) for row in zip(*columns, strict=True)])
    (folder / "trainer.yml").write_text(TRAINER)
    program = str(Path(sys.executable).with_name("opustrainer-train"))
    seconds, out = call([sys.executable, program, "--config", "trainer.yml"], folder, paths)
    lines = [line for line in out.splitlines() if "\t" in line]
    return seconds, len(lines), sum("__target__" in line for line in lines)


def ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values))


def separation(scores: np.ndarray, is_bad: np.ndarray) -> float:
    """The chance that a mismatched pair has a higher score than another (area under the curve)."""
    bad, good = int(is_bad.sum()), int((~is_bad).sum())
    return float((ranks(scores)[is_bad].sum() - bad * (bad - 1) / 2) / (bad * good))


def prepare(place: Path, folder: Path, pairs: int) -> np.ndarray:
    """Write the texts of a set; returns which of the noisy pairs are mismatched, bool (M,)."""
    for side in ("src", "tgt"):
        test, train = (read_lines(place / f"{part}.{side}") for part in ("test", "train"))
        write_lines(folder / f"text.{side}", [*test, *train[:pairs]])
        write_lines(folder / f"train.{side}", train[:pairs])
        write_lines(folder / f"noisy.{side}", test)
    target, is_bad = mismatched(read_lines(folder / "noisy.tgt"))
    write_lines(folder / "noisy.tgt", target)
    return is_bad


def mismatched(target: list[str]) -> tuple[list[str], np.ndarray]:
    """A fifth of the lines exchanged among each other, drawn at random; and which, bool (M,)."""
    target, is_bad = [*target], np.zeros(len(target), bool)
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(target))[: len(target) // 5])
    for m, other in zip(chosen.tolist(), [target[m] for m in np.roll(chosen, 1).tolist()], strict=True):
        target[m] = other
    is_bad[chosen] = True
    return target, is_bad


def measure(place: Path, checkout: Path, atools: Path, pairs: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of one set, and its scores by both aligners."""
    gold, rows, scores = read_gold(place / "test.gold"), [], {}
    with tempfile.TemporaryDirectory() as name:
        for aligner in ("alignkit", "eflomal"):
            folder = Path(name, aligner)
            programs, modules = folder / "bin", folder / "modules"
            programs.mkdir(parents=True)
            modules.mkdir()
            (modules / "sitecustomize.py").write_text(CORES)
            program = f'exec "{atools.resolve()}"'
            if aligner == "alignkit":
                (modules / "eflomal.py").write_text(ALIAS)
                program = f'exec "{sys.executable}" -m alignkit atools'
            (programs / "atools").write_text(f'#!/bin/sh\n{program} "$@"\n')
            (programs / "atools").chmod((programs / "atools").stat().st_mode | stat.S_IXUSR)
            is_bad = prepare(place, folder, pairs)
            seconds = translations(folder, checkout, programs, [modules])
            links = read_links(folder / "links")
            aer = evaluate(gold, links.block(0, len(gold))).aer
            row = {"set": place.name, "aligner": aligner, "pipeline": "mozilla/translations align.py"}
            rows.append(row | {"lines": len(links), "result": f"AER {100 * aer:.1f}", "seconds": seconds})
            seconds, found, kept = opusfilter(folder, [modules], is_bad)
            scores[aligner] = found
            area = separation(found.sum(axis=1), is_bad)
            result = f"AUC {area:.3f}; kept {kept['good']} of {(~is_bad).sum()} good, "
            result += f"{kept['bad']} of {is_bad.sum()} bad"
            row |= {"pipeline": "OpusFilter WordAlignFilter", "lines": len(found), "result": result}
            rows.append(row | {"seconds": seconds})
            seconds, lines, tagged = opustrainer(folder, [modules])
            row |= {"pipeline": "OpusTrainer Tags", "lines": lines, "result": f"{tagged} lines tagged"}
            rows.append(row | {"seconds": seconds})
            for each in rows[-3:]:
                click.echo(json.dumps(each), err=True)
    compared: dict[str, Any] = {"set": place.name}
    for n, direction in enumerate(("forward", "reverse")):
        ours, theirs = scores["alignkit"][:, n], scores["eflomal"][:, n]
        compared[f"{direction} rank correlation"] = f"{np.corrcoef(ranks(ours), ranks(theirs))[0, 1]:.2f}"
        for label, values in (("alignkit", ours), ("eflomal", theirs)):
            shown = np.quantile(values, [0.05, 0.5, 0.95]).tolist()
            compared[f"{direction}, {label}: 5 %, median, 95 %"] = ", ".join(f"{x:.1f}" for x in shown)
    return rows, compared


@click.command()
@click.option("--translations", "checkout", required=True, type=Path, help="A checkout of mozilla/translations.")
@click.option("--atools", required=True, type=Path, help="fast_align's program, which eflomal's links go through.")
@click.option("--set", "sets", multiple=True, default=SETS, show_default=True, help="A folder of DATA/aer.")
@click.option("--pairs", default=5000, show_default=True, help="Training pairs of each set.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(checkout: Path, atools: Path, sets: tuple[str, ...], pairs: int, output: str) -> None:
    """Programs that call eflomal or read links, with alignkit and with eflomal."""
    need_files(checkout / "pipeline/alignments/align.py", remedy="fetch mozilla/translations")
    need_files(atools, remedy="build fast_align")
    rows, scores = [], []
    for place in gold_sets("test", list(sets)):
        found, compared = measure(place, checkout, atools, pairs)
        rows += found
        scores.append(compared)
    packages = ("alignkit", "eflomal", "opusfilter", "opustrainer")
    result = {"machine": machine(), **{name: version(name) for name in packages}, "rows": rows, "scores": scores}
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    title = "# Unchanged programs with alignkit and with eflomal\n\n"
    tables = markdown("Pipelines", rows) + markdown("Scores of OpusFilter's filter", scores)
    Path(f"{output}.md").write_text((title + tables).rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
