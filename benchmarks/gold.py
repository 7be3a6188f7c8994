"""AER of `alignkit align --gold` by the number of gold pairs that it learns from.

    ALIGNKIT_DATA=DATA python benchmarks/gold.py -o benchmarks/results/gold

For each set of DATA/aer with a dev part, the text is its dev part, its test part and its training text. Pairs of
the dev part are drawn, whose gold links are given; the links of the test part are judged. Of small numbers there
are three draws, and the AER is their mean. With --embeddings, all pairs of texts of up to 2,000 pairs are encoded,
and those of the dev and the test part of larger ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from inputs import gold_sets, run_benchmark
from quality import environment, markdown
from quality_systems import FirstPairs

from alignkit.classical.hmm.joint import JointHMM, fit_joint
from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.supervised import Cells, SupervisedAligner, fit_supervised, with_own_links
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_lines

PARTS = "dev", "test", "train"
SIZES, DRAWS = (10, 20, 50, 100), 3
ENCODED = 2_000  # pairs of a text that are encoded, if it has no more


def read(folder: Path) -> tuple[Bitext, GoldLinks, GoldLinks]:
    """The text, and the gold links of its first and second part."""
    sides = (
        [line for part in PARTS for line in read_lines(str(folder / f"{part}.{side}"))] for side in ("src", "tgt")
    )
    gold = (
        parse_links(str(path), read_lines(str(path))) for path in (folder / f"{part}.gold" for part in PARTS[:2])
    )
    dev, test = gold
    return Bitext.from_sentences(*([line.split() for line in side] for side in sides)), dev, test


def drawn(gold: GoldLinks, size: int) -> Iterator[GoldLinks]:
    """The gold links without those of all pairs but some, drawn several times; once if all are wanted."""
    for draw in range(DRAWS if size < len(gold) else 1):
        kept = np.random.default_rng([size, draw]).permutation(len(gold))[:size]
        blank = np.ones(len(gold), bool)
        blank[kept] = False
        yield GoldLinks(*(_without(each, blank) for each in (gold.sure, gold.possible)))


def _without(links: Links, blank: np.ndarray) -> Links:
    return Links.from_lists([] if blank[m] else map(tuple, links[m].tolist()) for m in range(len(links)))


def measure(folder: Path, embeddings: bool, threads: int) -> dict[str, float]:
    """AER by the number of gold pairs; 0: without."""
    bitext, dev, test = read(folder)
    count = len(dev) + len(test)
    encoded = len(bitext) if len(bitext) <= ENCODED else count
    encoder = FirstPairs(ContextualEmbeddings(), encoded) if embeddings else None
    model = fit_joint(bitext, threads=threads, embeddings=encoder)
    own = model.fitted_links.block(len(dev), count)
    unattached = model.without_attachment.fitted_probabilities.block(len(dev), count)
    cells = Cells(bitext.block(len(dev), count), unattached)

    def aer(gold: GoldLinks | None) -> float:
        aligner = model if gold is None else fit_supervised(model, bitext, gold, threads)
        assert isinstance(aligner, JointHMM | SupervisedAligner)
        found = own
        if isinstance(aligner, SupervisedAligner):
            scores = with_own_links(aligner.trees.probabilities(cells), own, aligner.weight)
            found = links_above(scores, aligner.threshold)
        return evaluate(test, found).aer

    found = {"0_pairs": aer(None)}
    for size in (size for size in SIZES if size <= len(dev)):
        found[f"{size}_pairs"] = float(np.mean([aer(gold) for gold in drawn(dev, size)]))
    return found | {"whole_dev": aer(dev)}


@click.command()
@click.option("--sets", help="Names of sets, with commas between them.  [default: all]")
@click.option("--embeddings", is_flag=True, help="With those of e5, too.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(sets: str | None, embeddings: bool, threads: int, output: str) -> None:
    """AER by the number of gold pairs that are learned from."""
    place = Path(f"{output}.json")
    known = json.loads(place.read_text())["aer"] if place.exists() else []
    rows = {(row["set"], row["embeddings"]): row for row in known}
    facts = environment("python3")
    for kind in ("", "e5") if embeddings else ("",):
        for folder in gold_sets("dev", sets.split(",") if sets is not None else None):
            row = {"set": folder.name, "embeddings": kind, **measure(folder, bool(kind), threads)}
            rows[folder.name, kind] = row
            click.echo(json.dumps(row), err=True)
            shown = sorted(rows.values(), key=lambda row: (row["embeddings"], row["set"]))
            place.write_text(json.dumps({"environment": facts, "aer": shown}, indent=1) + "\n")
            versions = ", ".join(f"{name} {value}" for name, value in facts.items())
            text = f"# Links learned from gold pairs\n\n{versions}\n\n" + markdown("AER in percent", shown)
            Path(f"{output}.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
