"""Expected time, memory and traffic of `alignkit align` for texts that are too large to try, from a text at hand.

    python benchmarks/cost_model.py SRC TGT -o benchmarks/results/cost-model

Fits the text on one thread and measures an iteration, all other work, and linking with the fitted model; counts
the words, and the pairs of words that meet, in a quarter, in half and in all of it, which gives the exponents by
which they grow. A larger text is expected to be like this one: time and elements grow with the sentence pairs,
vocabularies and pairs of words by their exponents. One rank runs on each machine, and traffic and memory are those
of docs/beyond-one-machine.md; a machine alone is given all the memory it can use. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import machine, need_files, run_benchmark

from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.word_pairs import IndexedBitext
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import read_bitext
from alignkit.text.units import lowercased

#: Bytes of a rank for each pair of words in its part of the text, for each that it owns, and for each element.
PART, OWNED, ELEMENT = 40, 94, 4
#: Bytes of one process for each pair of words.
ALONE = 16
FERTILITY = 144  # bytes of fertilities by word that each rank passes on
JUMPS = 0.62e6
SIZES = (10**7, 10**8, 10**9)
MACHINES = (1, 4, 16)


@dataclass(frozen=True)
class Measured:
    """What one thread needs for a text.

    Attributes:
        pairs: sentence pairs; elements: of their matrices.
        iteration, other, linking: seconds of an iteration, of all the rest of a fit, of linking with the model.
        iterations: how many there were.
        words: of both vocabularies; target_words: of the target's; met: pairs of words that meet.
        words_grow, met_grow: the exponents by which they grow with the sentence pairs.
    """

    pairs: int
    elements: int
    iteration: float
    other: float
    linking: float
    iterations: int
    words: float
    target_words: float
    met: float
    words_grow: float
    met_grow: float


def measure(source: str, target: str, first: int | None) -> Measured:
    start = time.perf_counter()
    bitext, marks = read_bitext(source, target), []
    if first is not None:
        bitext = bitext.block(0, min(first, len(bitext))).with_own_words()
    model = fit_joint(bitext, threads=1, progress=lambda *_: marks.append(time.perf_counter()))
    whole = time.perf_counter() - start
    iteration = float(np.median(np.diff(marks)))
    start = time.perf_counter()
    model.links(bitext)
    linking = time.perf_counter() - start
    text = lowercased(bitext)
    subsets = [np.arange(0, len(text), step) for step in (4, 2, 1)]
    sizes = [len(subset) for subset in subsets]
    counts = np.array([counted(text.take(subset)) for subset in subsets], float)
    grow = [np.polyfit(np.log(sizes), np.log(column), 1)[0] for column in (counts[:, 0], counts[:, 2])]
    elements = int(bitext.shapes.prod(axis=1).sum())
    rest = whole - iteration * len(marks)
    return Measured(len(bitext), elements, iteration, rest, linking, len(marks), *counts[-1], *grow)


def counted(text: Bitext) -> tuple[int, int, int]:
    """Words of both sides and of the target that occur, and pairs of words that meet."""
    occur = [len(np.unique(side.tokens)) for side in (text.source, text.target)]
    return sum(occur), occur[1], len(IndexedBitext.of(text, 1).pairs().columns)


def estimate(found: Measured, pairs: int, machines: int, speed: float, network: float) -> dict[str, Any]:
    """A row: one rank on each of so many machines.

    Args:
        speed: of a machine, in threads like the measured one; network: bytes a second, of each machine.
    """
    times = pairs / found.pairs
    part = times / machines
    met, held = found.met * times**found.met_grow, found.met * part**found.met_grow * machines
    words, targets = (each * times**found.words_grow for each in (found.words, found.target_words))
    others = machines - 1
    sent = (8 * held + 12 * held + 48 * met) * others / machines + (
        16 * (words + 2 * targets) + FERTILITY * words + JUMPS
    ) * others
    by_elements = ELEMENT * found.elements * part
    memory = ALONE * met + by_elements if machines == 1 else (PART * held + OWNED * met) / machines + by_elements
    work = (found.iteration * found.iterations + found.other) * part / speed
    talk = found.iterations * sent / machines / network if machines > 1 else 0.0
    return {
        "pairs": pairs,
        "machines": machines,
        "met": met,
        "sent": sent,
        "memory": memory,
        "hours": (work + talk) / 3600,
        "waiting": talk / (work + talk),
    }


def sampled(found: Measured, pairs: int, machines: int, sample: int, speed: float) -> float:
    """Hours to fit a sample on one machine, and to link the rest with the model on all of them."""
    fit = (found.iteration * found.iterations + found.other) * sample / found.pairs / speed
    return (fit + found.linking * (pairs - sample) / found.pairs / speed / machines) / 3600


def markdown(result: dict[str, Any]) -> str:
    found, options = Measured(**result["measured"]), result["options"]
    lengths = (found.elements / found.pairs) ** 0.5
    lines = [
        "# Expected costs of large texts",
        "",
        f"Measured: {found.pairs:,} sentence pairs, whose sides have about {lengths:.0f} words, on one thread of "
        f"{result['machine']}: {found.iterations} iterations of {found.iteration:.2f} s, {found.other:.1f} s for "
        f"all else; {found.pairs / found.linking:,.0f} pairs a second when linking with the model. The number of "
        f"words grows with the {found.words_grow:.2f}th power of that of sentence pairs, that of pairs of words "
        f"with the {found.met_grow:.2f}th.",
        "",
        f"Assumed: machines with {options['cores']} such cores, of which threads make {options['efficiency']:.0%} "
        f"use, and a network of {options['network']:g} Gbit/s.",
        "",
        "| sentence pairs | machines | pairs of words, 1e9 | sent in an iteration, GB | memory of a machine, GB | "
        f"hours | of them sending | hours with `--fit-on {options['sample']}` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {row['pairs']:,} | {row['machines']} | {row['met'] / 1e9:.2f} | {row['sent'] / 1e9:.1f} | "
        f"{row['memory'] / 1e9:.0f} | {row['hours']:.2f} | {row['waiting']:.0%} | {row['sampled']:.2f} |"
        for row in result["rows"]
    ]
    return "\n".join([*lines, *rows, ""])


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--first", type=int, help="Measure the first N sentence pairs.")
@click.option("--cores", default=64, help="Of each machine.")
@click.option("--efficiency", default=0.6, help="What part of the speed of so many threads it has.")
@click.option("--network", default=10.0, help="Gbit/s of each machine.")
@click.option("--sample", default=10**7, help="Sentence pairs that --fit-on would fit.")
@click.option("-o", "--output", required=True)
def main(source: str, target: str, first: int | None, output: str, **options: Any) -> None:
    """Expected time, memory and traffic of align for large texts."""
    need_files(source, target)
    found = measure(source, target, first)
    speed, network = options["cores"] * options["efficiency"], options["network"] * 1e9 / 8
    rows = []
    for pairs in SIZES:
        for machines in MACHINES:
            row = estimate(found, pairs, machines, speed, network)
            rows.append(row | {"sampled": sampled(found, pairs, machines, options["sample"], speed)})
    result = {"machine": machine(), "measured": asdict(found), "options": options, "rows": rows}
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(result))
    print(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
