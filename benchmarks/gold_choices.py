"""Which sentence pairs to align by hand? AER of `alignkit align --gold` by the way in which its pairs were chosen.

    ALIGNKIT_DATA=DATA python benchmarks/gold_choices.py -o benchmarks/results/gold-choices

For each set of DATA/aer with a dev part of a hundred pairs or more, as in gold.py. From each of several random
four fifths of the dev part, pairs are chosen without a look at their gold links:

- random: drawn from all, as `alignkit gold` does;
- short: drawn from the shorter half;
- doubtful: those with the most links expected to be wrong or missing, per word;
- varied: one after another, that in which words have the most such links, per word of the pair, where those of a
  word count less if chosen pairs have some (their sum counts by its square root).

Shown are the means of the AER of the test part, and of the number of gold links, since these are the work.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from gold import read
from inputs import gold_sets, run_benchmark
from quality import environment, markdown

from alignkit.classical.hmm.joint import JointHMM, fit_joint
from alignkit.links.from_scores import links_above
from alignkit.links.links import GoldLinks, Links
from alignkit.metrics.aer import evaluate
from alignkit.supervised import Cells, SupervisedAligner, fit_supervised
from alignkit.text.bitext import Bitext

SIZES, SHARE, LEAST = (20, 50), 0.8, 100
Pool = list[tuple[int, int, Counter[str]]]  # of each pair its number, its words, and doubtful links by word


def random_pairs(pool: Pool, size: int, rng: np.random.Generator) -> list[int]:
    """Any."""
    return [pool[i][0] for i in rng.permutation(len(pool))[:size]]


def short_pairs(pool: Pool, size: int, rng: np.random.Generator) -> list[int]:
    """Any of the shorter half, or of as many as are needed."""
    ranked = sorted(pool, key=lambda pair: pair[1])
    return random_pairs(ranked[: max(size, len(pool) // 2)], size, rng)


def doubtful_pairs(pool: Pool, size: int, _: np.random.Generator) -> list[int]:
    """Those with the most doubtful links per word."""
    return [pair[0] for pair in sorted(pool, key=lambda pair: -pair[2].total() / pair[1])[:size]]


def varied_pairs(pool: Pool, size: int, _: np.random.Generator) -> list[int]:
    """Those with doubtful links of words that have few so far."""
    left, chosen, seen = list(pool), [], Counter[str]()

    def gain(pair: tuple[int, int, Counter[str]]) -> float:
        return sum((seen[word] + value) ** 0.5 - seen[word] ** 0.5 for word, value in pair[2].items()) / pair[1]

    while len(chosen) < size:
        best = max(left, key=gain)
        left.remove(best)
        chosen.append(best[0])
        seen.update(best[2])
    return chosen


CHOICES: dict[str, Callable[[Pool, int, np.random.Generator], list[int]]] = {
    "random": random_pairs,
    "short": short_pairs,
    "doubtful": doubtful_pairs,
    "varied": varied_pairs,
}


def described(model: JointHMM, bitext: Bitext, count: int) -> Pool:
    """The first pairs of a text: words, and links expected to be wrong or missing."""
    pool, scores = [], model.fitted_probabilities
    for m in range(count):
        alpha = np.asarray(scores[m], np.float64)
        doubt = np.where(alpha >= model.threshold, 1 - alpha, alpha)
        found: Counter[str] = Counter()
        sides = ("s", bitext.source.words(m), doubt.sum(axis=0)), ("t", bitext.target.words(m), doubt.sum(axis=1))
        for side, words, values in sides:
            for word, value in zip(words, values.tolist(), strict=True):
                found[f"{side} {word.lower()}"] += value
        pool.append((m, sum(alpha.shape), found))
    return pool


def measure(folder: Path, draws: int) -> list[dict[str, object]]:
    """A row for each choice and number of pairs."""
    bitext, dev, test = read(folder)
    size, count = len(dev), len(dev) + len(test)
    model = fit_joint(bitext, threads=1)
    pool, alpha = described(model, bitext, size), model.fitted_probabilities.block(size, count)
    cells = Cells(bitext.block(size, count), alpha)
    rows = []
    for pairs in SIZES:
        for name, choose in CHOICES.items():
            found = []
            for draw in range(draws):
                rng = np.random.default_rng([pairs, draw])
                kept = np.sort(rng.permutation(size)[: int(SHARE * size)])
                chosen = set(choose([pool[m] for m in kept.tolist()], pairs, rng))
                only = (
                    Links.from_lists(map(tuple, links[m].tolist()) if m in chosen else [] for m in range(size))
                    for links in (dev.sure, dev.possible)
                )
                gold = GoldLinks(*only)
                aligner = fit_supervised(model, bitext, gold, 1)
                assert isinstance(aligner, JointHMM | SupervisedAligner)
                scores = aligner.trees.probabilities(cells) if isinstance(aligner, SupervisedAligner) else alpha
                aer = evaluate(test, links_above(scores, aligner.threshold)).aer
                found.append((aer, len(gold.possible.pairs)))
            aer, links = np.mean(found, axis=0).tolist()
            rows.append(
                {"set": folder.name, "pairs": str(pairs), "choice": name, "links": str(int(links)), "aer": aer}
            )
            click.echo(json.dumps(rows[-1]), err=True)
    return rows


@click.command()
@click.option("--sets", help="Names of sets, with commas between them.  [default: all]")
@click.option("--draws", type=click.IntRange(min=1), default=2, show_default=True, help="Parts to choose from.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(sets: str | None, draws: int, output: str) -> None:
    """AER by the way in which gold pairs were chosen."""
    place = Path(f"{output}.json")
    rows: list[dict[str, object]] = json.loads(place.read_text())["aer"] if place.exists() else []
    facts = environment("python3")
    for folder in gold_sets("dev", sets.split(",") if sets is not None else None):
        if (folder / "dev.src").read_bytes().count(b"\n") < LEAST:
            continue
        rows = [*(row for row in rows if row["set"] != folder.name), *measure(folder, draws)]
        place.write_text(json.dumps({"environment": facts, "aer": rows}, indent=1) + "\n")
        about = ", ".join(f"{name} {value}" for name, value in facts.items())
        table = markdown(f"AER in percent, means of {draws} draws", rows)
        Path(f"{output}.md").write_text(f"# Choosing gold pairs\n\n{about}\n\n{table}".rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
