"""AER of `align --fit-on`: a model of a sample of the pairs links all of them; and of models pruned to a size.

    ALIGNKIT_DATA=DATA python benchmarks/sample_fit.py -o benchmarks/results/sample_fit

Sets as of benchmarks/quality.py: both sides are lower-cased, the part stands before the training text, the sample
is drawn from all pairs, and the links of the first lines are scored. The AER of a share is the mean over samples of
several seeds, with the lowest and the highest. `--fit-on` links by the model of the sample, adapted to blocks of
100,000 pairs, as `--model M --adapt` does; `--model` is what the same model says of each pair by itself. Pruned
models are those of the smallest share, by number of word pairs kept. Writes OUT.json and OUT.md; no figure depends
on the load of the machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from inputs import gold_sets, run_benchmark
from quality import environment

from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.text.reading import read_lines
from alignkit.workflow.align import AlignedText

#: Shares of the word pairs that pruned models keep.
KEPT = (0.3, 0.1, 0.03, 0.01, 0.003)


class GoldText:
    """A set written to two files, and its gold links."""

    def __init__(self, place: Path, part: str, folder: Path) -> None:
        gold = parse_links(place / f"{part}.gold", read_lines(place / f"{part}.gold"))
        self.gold = GoldLinks(gold.sure, gold.possible)
        self.files = folder / "src", folder / "tgt"
        for path in self.files:
            text = [line for name in (part, "train") for line in read_lines(place / f"{name}.{path.name}")]
            path.write_text("".join(f"{line.lower()}\n" for line in text), encoding="utf-8", newline="\n")

    def aer(self, texts: Iterable[AlignedText]) -> float:
        """In per cent; all texts are read, so that a fault in a later one is seen."""
        links = Links.concatenated([text.links for text in texts])
        return 100 * evaluate(self.gold, links.block(0, len(self.gold.sure))).aer


def measure(text: GoldText, shares: list[str], seeds: int) -> dict[str, Any]:
    """The results of one set."""
    found = ", ".join(f"{name} {value}" for name, value in environment(sys.executable).items())
    result: dict[str, Any] = {"environment": found, "part": part, "sets": {}}
    for place in gold_sets(part, list(sets) or None):
        click.echo(place.name, err=True)
        with tempfile.TemporaryDirectory() as folder:
            result["sets"][place.name] = measure(GoldText(place, part, Path(folder)), list(shares), seeds)
        Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
        Path(f"{output}.md").write_text(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
