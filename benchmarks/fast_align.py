"""Agreement of `alignkit ibm1` and `alignkit diagonal` with fast_align in its library form, systran-align.

    python benchmarks/fast_align.py SRC TGT -o benchmarks/results/fast_align
    ALIGNKIT_DATA=DATA python benchmarks/fast_align.py SRC TGT --aer cdt_da_en -o OUT

Parameters: both estimate from the same text, with n - 1 of our iterations for fast_align's n, and the largest
difference between two translation probabilities is shown. Theirs are written with so wide a beam that no row loses
any: its bound is a multiple of the logarithm of the row's largest, which is next to 0 where that is next to 1. The
authors' program divides the gradient of the tension by a normaliser with the two lengths exchanged (`ComputeDLogZ`
calls `ComputeZ(i, n, m)`, declared as `(i, m, n)`), and so goes to another tension; the last row does as it does,
to show that nothing else is left.

Links: systran-align links by the diagonal prior with tension 4, whatever the parameters were estimated with, joins
both directions (grow-diag-final-and) and hides the directions. F is 2 |A and B| / (|A| + |B|) over all links.

AER: on the sets of ALIGNKIT_DATA/aer, lower-cased, the test part before the training text. Writes OUT.json and
OUT.md.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
from inputs import fail, gold_sets, need_files, run_benchmark
from quality_systems import importable

from alignkit.classical.diagonal import Diagonal, PositionDistribution, fit_diagonal
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.kernels import diagonal as kernels
from alignkit.links.links import Links, parse_links
from alignkit.links.symmetrization import symmetrize
from alignkit.metrics.aer import evaluate
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.reading import read_lines

SYSTRAN = """
import json, sys, systran_align
joined, prefix, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
files = (prefix + ".f", prefix + ".b")
systran_align.generate_alignment_probabilities(joined, *files, beam_threshold=-1e9, **options)
aligner = systran_align.Aligner(*files)
with open(joined, encoding="utf-8", newline="\\n") as stream:
    pairs = [line[:-1].split(" ||| ") for line in stream]
found = aligner.align_batch([x.split(" ") for x, _ in pairs], [y.split(" ") for _, y in pairs])
with open(prefix + ".links", "w") as out:
    for row in found:
        out.write(" ".join(f"{s}-{t}" for s, t in sorted(row["alignments"])) + "\\n")
"""
BEAM = (
    "systran-align keeps all translations here (beam_threshold -1e9), so that parameters can be compared; with "
    "its default of -4, as in quality.md, it drops improbable ones, and its error rates are others "
    "(cdt_da_en: 18.7)."
)
Fit = Callable[[Bitext, int], Any]
DIAGONAL, TENSION, BAYES = {"favor_diagonal": True}, {"optimize_tension": True}, {"variational_bayes": True}
#: name -> (fast_align's options, ours)
SETTINGS: dict[str, tuple[dict[str, bool], Fit]] = {
    "IBM 1": ({}, lambda text, n: fit_ibm1(text, iterations=n)),
    "IBM 1, -v": (BAYES, lambda text, n: fit_ibm1(text, iterations=n, dirichlet=0.01)),
    "-d": (DIAGONAL, lambda text, n: fit_diagonal(text, iterations=n, dirichlet=None, optimize_tension=False)),
    "-d -v": (DIAGONAL | BAYES, lambda text, n: fit_diagonal(text, iterations=n, optimize_tension=False)),
    "-d -o": (DIAGONAL | TENSION, lambda text, n: fit_diagonal(text, iterations=n, dirichlet=None)),
    "-d -o -v": (DIAGONAL | TENSION | BAYES, lambda text, n: fit_diagonal(text, iterations=n)),
    "-d -o -v, lengths exchanged": (DIAGONAL | TENSION | BAYES, lambda text, n: as_the_authors(text, n)),
}


def as_the_authors(text: Bitext, iterations: int) -> Diagonal:
    """The diagonal model with the gradient of the authors' program."""

    def fit_tension(self: PositionDistribution, distance: float) -> None:
        tension, totals = self.tension, np.empty_like(self.distances)
        distances = np.empty_like(totals)
        for _ in range(8):
            kernels.normalisers(self.shapes, tension, totals, distances)
            expected = distances * totals / exchanged_normalisers(self.shapes.lengths, tension)
            tension += 20 * (float(self.tokens @ expected) / self.tokens.sum() - distance)
            tension = min(max(tension, 0.1), 14)
        self.set_tension(tension)

    with mock.patch.object(PositionDistribution, "fit_tension", fit_tension):
        return fit_diagonal(text, iterations=iterations)


def exchanged_normalisers(lengths: np.ndarray, tension: float) -> np.ndarray:
    """ComputeZ(i, n, m) for i = 1..T of each (T, L), T standing where the source length belongs."""
    parts = []
    for target, source in lengths:
        i, m, n = np.arange(1, target + 1), source, target
        floor = (i * n / m).astype(np.int64)
        above = (n - floor) % 2**32  # an unsigned number there
        ratio = np.exp(-tension / n)
        rise, fall = (np.exp(-np.abs(j / n - i / m) * tension) for j in (floor + 1, floor))
        z = np.where(above > 0, rise * (1 - ratio**above) / (1 - ratio), 0.0)
        parts.append(z + np.where(floor > 0, fall * (1 - ratio**floor) / (1 - ratio), 0.0))
    return np.concatenate(parts)


def read_table(path: Path) -> dict[str, dict[str, float]]:
    """systran-align's probabilities: source word (``<eps>`` is NULL) -> target word -> probability."""
    data = path.read_bytes()
    count, place, words = struct.unpack_from("<I", data, 4)[0], 8, []
    for _ in range(count):
        end = data.index(b"\0", place)
        words.append(data[place:end].decode())
        place = end + 1
    numbers = np.frombuffer(data[place:], np.uint32)
    values, rows, k = numbers.view(np.float32), {}, 1
    while k < len(numbers):
        size = int(numbers[k + 1])
        span = range(k + 2, k + 2 + 2 * size, 2)
        rows[words[numbers[k] - 1]] = {words[numbers[j] - 1]: float(values[j + 1]) for j in span}
        k += 2 + 2 * size
    return rows


def largest_difference(rows: dict[str, dict[str, float]], model: Any) -> float:
    """The largest difference between their probabilities and ours, NULL's included; a missing one is 0."""
    differences = []
    for i, word in enumerate(model.source):
        theirs = rows.get(word, {})
        ours = zip(*model.table.row(i), strict=True)
        differences += [abs(float(p) - theirs.get(model.target[o], 0.0)) for o, p in ours]
    null = rows["<eps>"]
    differences += [abs(float(p) - null.get(word, 0.0)) for word, p in zip(model.target, model.null, strict=True)]
    return max(differences)


def run_systran(python: str, text: tuple[str, str], options: dict[str, Any], work: Path) -> Links:
    """Their links; their tables are then in work/s.f and work/s.b."""
    sides = [Path(path).read_bytes().decode().removesuffix("\n").split("\n") for path in text]
    joined = work / "joined"
    joined.write_bytes("".join(f"{x} ||| {y}\n" for x, y in zip(*sides, strict=True)).encode())
    # Its threads add to the same counts at the same time, and some additions are lost.
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [python, "-c", SYSTRAN, str(joined), str(work / "s"), json.dumps(options)], check=True, env=alone
    )
    return parse_links(str(work / "s.links"), read_lines(work / "s.links")).possible


def linked_alike(model: Any) -> Diagonal:
    """A model that links as systran-align's aligner does: by the prior with tension 4, whatever the parameters."""
    return Diagonal(model.source, model.target, model.table, 0.08, 4.0, null=model.null)


def f_measure(first: Links, second: Links) -> float:
    keys = [
        set(zip(links.sentences.tolist(), map(tuple, links.pairs.tolist()), strict=True))
        for links in (first, second)
    ]
    return 2 * len(keys[0] & keys[1]) / max(len(keys[0]) + len(keys[1]), 1)


def agreement(python: str, text: tuple[str, str], iterations: int) -> list[dict[str, Any]]:
    """A row for each setting."""
    bitext, rows = read_bitext(*text), []
    for name, (options, fit) in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            theirs = run_systran(python, text, {**options, "iterations": iterations + 1}, Path(folder))
            forward, reverse = fit(bitext, iterations), fit(bitext.reversed, iterations)
            line: dict[str, Any] = {"setting": name}
            line["largest difference"] = largest_difference(read_table(Path(folder) / "s.f"), forward)
        line["tension"] = getattr(forward, "tension", None)
        pairs = {
            "F, linked alike": (linked_alike(forward), linked_alike(reverse)),
            "F, our links": (forward, reverse),
        }
        for label, (a, b) in pairs.items():
            links = symmetrize(a.links(bitext), b.links(bitext.reversed).reversed)
            line[label] = f_measure(theirs, links)
        rows.append(line)
        click.echo(json.dumps(line), err=True)
    return rows


def error_rates(python: str, folder: Path, iterations: int) -> dict[str, Any]:
    """AER of `-d -o -v` on a set: theirs, ours, and ours as the authors' program finds the tension."""
    gold = parse_links(str(folder / "test.gold"), read_lines(folder / "test.gold"))
    line: dict[str, Any] = {"set": folder.name}
    with tempfile.TemporaryDirectory() as place:
        files = []
        for side in ("src", "tgt"):
            text = "".join((folder / f"{part}.{side}").read_bytes().decode().lower() for part in ("test", "train"))
            files.append(Path(place) / side)
            files[-1].write_bytes(text.encode())
        text_files = (str(files[0]), str(files[1]))
        options = {**SETTINGS["-d -o -v"][0], "iterations": iterations + 1}
        found = {"systran-align": run_systran(python, text_files, options, Path(place))}
        bitext = read_bitext(*text_files)
    for label, fit in (
        ("alignkit diagonal", SETTINGS["-d -o -v"][1]),
        ("the same, lengths exchanged", as_the_authors),
    ):
        forward, reverse = fit(bitext, iterations), fit(bitext.reversed, iterations)
        found[label] = symmetrize(forward.links(bitext), reverse.links(bitext.reversed).reversed)
        line[f"tension, {label}"] = forward.tension
    for label, links in found.items():
        line[f"AER %, {label}"] = 100 * evaluate(gold, links.block(0, len(gold))).aer
    click.echo(json.dumps(line), err=True)
    return line


def markdown(rows: list[dict[str, Any]]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.1e}" if 0 < value < 1e-3 else f"{value:.4g}"
        return "" if value is None else str(value)

    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *("| " + " | ".join(shown(row[n]) for n in names) + " |" for row in rows)]) + "\n"


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--aer", "sets", multiple=True, help="Also the AER on this set of ALIGNKIT_DATA/aer.")
@click.option("--iterations", type=int, default=4, show_default=True, help="Ours; one less than fast_align's.")
@click.option("--peer-python", default=sys.executable, help="The Python that has systran-align.  [default: this]")
@click.option("--title", default="", help="The text in words, for the record.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(
    source: str, target: str, sets: tuple[str, ...], iterations: int, peer_python: str, title: str, output: str
) -> None:
    """Agreement with fast_align."""
    need_files(source, target)
    folders = gold_sets("test", list(sets)) if sets else []
    if not importable(peer_python, "systran_align"):
        fail(f"{peer_python} has no systran-align; pip install systran-align, or give another with --peer-python")
    result: dict[str, Any] = {"text": title, "iterations": iterations}
    result["agreement"] = agreement(peer_python, (source, target), iterations)
    result["aer"] = [error_rates(peer_python, folder, iterations) for folder in folders]
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    head = f"# Agreement with fast_align (systran-align)\n\n{title}; {iterations} iterations of ours. {BEAM}\n\n"
    parts = [head + markdown(result["agreement"]), *([markdown(result["aer"])] if sets else [])]
    Path(f"{output}.md").write_text("\n".join(parts))


if __name__ == "__main__":
    run_benchmark(main)
