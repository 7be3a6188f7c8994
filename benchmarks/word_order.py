"""What the weights of last positions are worth where word order differs: the source side in other orders.

    ALIGNKIT_DATA=DATA python benchmarks/word_order.py -o benchmarks/results/word_order

The gold sets (as in benchmarks/quality.py) are aligned with their source sentences as they are and with all words
but the last, mostly a mark, in another order, to which the gold links are moved: a text of a distant language
whose gold is known. AER of the joint model with the weights and without.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from inputs import gold_sets, run_benchmark
from quality import environment, head, markdown, prepare

from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.text.pairs import read_bitext

SETS = "cdt_da_en,ult_hbo_en,xlwa_en_da,xlwa_en_es,xlwa_en_it,xlwa_en_pt,xlwa_en_sl"
#: the number of words before the last one, mostly a mark that stays where it is -> where each of them comes from
ORDERS: dict[str, Callable[[int], list[int]]] = {
    "as they are": lambda n: list(range(n)),
    "backwards": lambda n: list(range(n))[::-1],
    "the second half first": lambda n: [*range(n // 2, n), *range(n // 2)],
    "the second word last": lambda n: [*range(min(n, 1)), *range(2, n), *range(1, min(n, 2))],
}


def reordered(links: Links, orders: list[list[int]]) -> Links:
    """The links of source words in these orders; there may be more orders than sentences."""
    pairs = zip(links, orders[: len(links)], strict=True)
    return Links.from_lists([(order.index(s), t) for s, t in found.tolist()] for found, order in pairs)


def measure(folder: Path, part: str, order: Callable[[int], list[int]], ends: bool, threads: int) -> float:
    """AER of one set."""
    with tempfile.TemporaryDirectory() as name:
        (source, target), gold = prepare(folder, part, Path(name))
        lines = [line.split() for line in Path(source).read_text(encoding="utf-8").split("\n")[:-1]]
        orders = [[*order(len(words) - 1), len(words) - 1] if words else [] for words in lines]
        moved = (" ".join(words[k] for k in places) for words, places in zip(lines, orders, strict=True))
        Path(source).write_text("".join(f"{line}\n" for line in moved), encoding="utf-8", newline="\n")
        bitext = read_bitext(source, target)
    gold = GoldLinks(*(reordered(each, orders) for each in (gold.sure, gold.possible)))
    links = links_above(fit_joint(bitext, threads=threads, ends=ends).fitted_probabilities, JOINT_THRESHOLD)
    return evaluate(gold, head(links, len(gold))).aer


@click.command()
@click.option("--part", type=click.Choice(["test", "dev"]), default="dev", show_default=True)
@click.option("--sets", default=SETS, show_default=True, help="Names of sets, with commas between them.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(part: str, sets: str, threads: int, output: str) -> None:
    """AER with and without weights of last positions, in several orders of the source words."""
    rows, facts = [], environment(sys.executable)
    folders = gold_sets(part, sets.split(","))
    for name, order in ORDERS.items():
        for kind, ends in (("without", False), ("with", True)):
            found = {folder.name: measure(folder, part, order, ends, threads) for folder in folders}
            mean = {"mean_of_sets": sum(found.values()) / len(found)}
            rows.append({"source words": name, "last positions": kind, **found, **mean})
            click.echo(json.dumps(rows[-1]), err=True)
            content = {"environment": facts, "part": part, "aer": rows}
            Path(f"{output}.json").write_text(json.dumps(content, indent=1) + "\n")
            versions = ", ".join(f"{name} {value}" for name, value in facts.items())
            title = f"# Weights of last positions, AER on the {part} parts\n\n{versions}\n\n"
            Path(f"{output}.md").write_text(title + markdown("AER in percent", rows).rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
