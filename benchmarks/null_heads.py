"""How often a text seems to have a head better than chance when it has none.

    python benchmarks/null_heads.py -o benchmarks/results/null_heads

Heads hit a word with the probability of chance: independently, or, in a share of the pairs, all of them as
often. The family-wise error is the share of texts whose smallest adjusted p is at most 0.05. Writes OUT.json and
OUT.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from inputs import run_benchmark

from alignkit.metrics.intervals import adjusted_p, resampled_sums

#: Sentence pairs of 5 to 14 words, heads, and the chance of a hit.
CASES = ((20, 40, 0.1), (60, 40, 0.1), (60, 400, 0.1), (300, 400, 0.1), (60, 40, 0.3))
ALIKE = (0.0, 0.6)


def smallest(pairs: int, heads: int, chance: float, alike: float, seed: int) -> float:
    """The smallest p of one text."""
    rng = np.random.default_rng(seed)
    words, same = rng.integers(5, 15, (pairs, 1)), rng.random((pairs, 1)) < alike
    hits = np.where(same, rng.binomial(words, chance), rng.binomial(words, chance, (pairs, heads)))
    more = np.concatenate([hits - chance * words, words], axis=1)
    sums, draws = more.sum(axis=0), resampled_sums(more, seed)
    return float(adjusted_p(sums[:-1] / sums[-1], draws[:, :-1] / draws[:, -1:]).min())


@click.command(help=__doc__)
@click.option("--texts", default=500, show_default=True)
@click.option("-o", "--output", required=True)
def main(texts: int, output: str) -> None:
    rows, lines = [], ["| pairs | heads | chance | alike | family-wise error |", "|--:|--:|--:|--:|--:|"]
    for alike in ALIKE:
        for pairs, heads, chance in CASES:
            found = [smallest(pairs, heads, chance, alike, seed) <= 0.05 for seed in range(texts)]
            rows.append(
                {"pairs": pairs, "heads": heads, "chance": chance, "alike": alike, "error": np.mean(found)}
            )
            lines.append(f"| {pairs} | {heads} | {chance} | {alike} | {100 * np.mean(found):.1f} % |")
            print(lines[-1], flush=True)
    title = (
        f"# Heads at chance that seem better\n\n`python benchmarks/null_heads.py`, {texts} texts each, 0.05.\n\n"
    )
    Path(f"{output}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    Path(f"{output}.md").write_text(title + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_benchmark(main)
