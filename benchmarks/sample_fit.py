"""AER of `align --fit-on`, where a model of a sample of the pairs links all of them; and of pruned models.

    ALIGNKIT_DATA=DATA python benchmarks/sample_fit.py -o benchmarks/results/sample_fit

Sets as of benchmarks/quality.py: both sides are lower-cased, the part stands before the training text, the
sample is drawn from all pairs, and the links of the first lines are scored. The AER of a share is the mean over
samples of several seeds, with the lowest and the highest. `--fit-on` links by the model of the sample, adapted to
blocks, as `--model M --adapt` does, but the pairs of the sample count once; `--model` is what the
same model says of each pair by itself.
Pruned models are those of the smallest share, by number of word pairs kept. Writes OUT.json and OUT.md; no figure
depends on the load of the machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

import click
import numpy as np
from inputs import gold_sets, run_benchmark
from quality import environment

from alignkit.classical.hmm.joint import JointHMM, pruned_to_pairs
from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.pipeline import align as alignment
from alignkit.pipeline import models
from alignkit.pipeline.align import align, align_blocks, sample_share
from alignkit.pipeline.aligned_text import AlignedText
from alignkit.text.reading import read_lines

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
    result: dict[str, Any] = {"fitted": text.aer([align(*text.files)]), "shares": {}, "pruned": []}
    for share in shares:
        rows = []
        for seed in range(seeds if share != "100%" else 1):
            fit = align_blocks(*text.files, fit_on=share, seed=seed)
            row = {"pairs": sample_share(share)(fit.pairs), "fit_on": text.aer(fit.texts)}
            row["not_adapted"] = text.aer(align_blocks(*text.files, model=fit.aligner).texts)
            rows.append(row)
            click.echo(json.dumps({"share": share, "seed": seed, **row}), err=True)
            if share == shares[0] and seed == 0:
                result["pruned"] = list(pruned_rows(text, fit.aligner))
        result["shares"][share] = rows
    return result


def pruned_rows(text: GoldText, model: Any) -> Iterable[dict[str, Any]]:
    """AER of a model pruned to several sizes."""
    pairs, links, _ = table_facts(model)
    for share in (1.0, *KEPT):
        smaller = pruned_to_pairs(model, int(share * pairs))
        kept, kept_links, size = table_facts(smaller)
        row = {
            "kept": kept,
            "of": pairs,
            "megabytes": size / 2**20,
            "links_lost": 1 - kept_links / links,
            "adapted": text.aer(align_blocks(*text.files, model=smaller, adapt=True).texts),
            "not_adapted": text.aer(align_blocks(*text.files, model=smaller).texts),
        }
        click.echo(json.dumps(row), err=True)
        yield row


def table_facts(model: JointHMM) -> tuple[int, float, int]:
    """The number of word pairs of a model or of its views' models, their expected links, and their bytes."""
    counts = [each.counts.pairs for each in model.models if each.counts is not None]
    size = sum(array.nbytes for each in model.models for array in each.arrays().values())
    return sum(map(len, counts)), float(sum(map(np.sum, counts))), size


def markdown(result: dict[str, Any]) -> str:
    """The tables."""
    lines = ["# A model of a sample of the pairs links all pairs", "", result["environment"], ""]
    lines += ["AER in per cent; mean (lowest to highest) over the seeds of the sample.", ""]
    if result.get("block") is not None:
        lines += [f"Adapted to blocks of {result['block']:,} elements.", ""]
    lines += ["| set | sample | pairs | `--fit-on` | all fitted | loss | `--model` |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for name, one in result["sets"].items():
        for share, rows in one["shares"].items():
            cells = {key: [row[key] for row in rows] for key in ("fit_on", "not_adapted")}
            found = mean(cells["fit_on"])
            spread = f" ({min(cells['fit_on']):.1f} to {max(cells['fit_on']):.1f})" if len(rows) > 1 else ""
            lines.append(
                f"| {name} | {share} | {rows[0]['pairs']:,} | {found:.1f}{spread} | {one['fitted']:.1f} | "
                f"{found - one['fitted']:+.1f} | {mean(cells['not_adapted']):.1f} |"
            )
    lines += ["", "## Pruned models", "", "Of the smallest sample, seed 0.", ""]
    lines += ["| set | word pairs kept | of | MB | expected links lost | `--adapt` | not adapted |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for name, one in result["sets"].items():
        lines += [
            f"| {name} | {row['kept']:,} | {row['of']:,} | {row['megabytes']:.1f} | {row['links_lost']:.2%} | "
            f"{row['adapted']:.1f} | {row['not_adapted']:.1f} |"
            for row in one["pruned"]
        ]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--sets", multiple=True, help="Names; all by default.")
@click.option("--part", default="test", show_default=True)
@click.option("--shares", multiple=True, default=("10%", "30%", "100%"), show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--block", type=click.IntRange(min=1), help="Adapt to blocks of this many elements instead.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(
    sets: tuple[str, ...], part: str, shares: tuple[str, ...], seeds: int, block: int | None, output: str
) -> None:
    """AER of a model of a sample of the pairs."""
    models.ADAPTED_ELEMENTS = alignment.ADAPTED_ELEMENTS = block or models.ADAPTED_ELEMENTS
    found = ", ".join(f"{name} {value}" for name, value in environment(sys.executable).items())
    result: dict[str, Any] = {"environment": found, "part": part, "block": block, "sets": {}}
    for place in gold_sets(part, list(sets) or None):
        click.echo(place.name, err=True)
        with tempfile.TemporaryDirectory() as folder:
            result["sets"][place.name] = measure(GoldText(place, part, Path(folder)), list(shares), seeds)
        Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
        Path(f"{output}.md").write_text(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
