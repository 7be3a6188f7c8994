"""The claims of `alignkit experiment deceptive-attention` from rows of a run that had no networks of other seeds.

    python benchmarks/deceptive_attention.py benchmarks/results/experiments/deceptive-attention-sentences.csv

Of two classes, two networks agree about a sentence exactly if both are right or both are wrong, so that the rows
of the usual networks say how many predictions they share. How far apart their attention is, they do not say.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import click
import numpy as np
import pandas as pd
from inputs import need_files, run_benchmark

from alignkit.experiments.deceptive_attention import OTHER, deceptive_attention_claims
from alignkit.experiments.render import verdict_line


@click.command()
@click.argument("rows", type=click.Path(path_type=Path))
def main(rows: Path) -> None:
    """Print the shares of predictions, and the claims."""
    need_files(rows, remedy="`alignkit experiment deceptive-attention -o FOLDER` writes it")
    raw = pd.read_csv(rows, dtype={"lambda": str})
    raw = raw[raw["lambda"] != OTHER]
    right = raw[raw["lambda"] == "P"].pivot_table(index="sentence", columns="seed", values="right")
    parts = []
    for one, other in permutations(right.columns, 2):
        same = (right[one] == right[other]).astype(float)
        if one < other:
            click.echo(f"seeds {one} and {other} share {same.mean():.3f} of their predictions")
        values = {"same": same.to_numpy(), "right": right[other].to_numpy(), "JSD": np.nan}
        parts.append(pd.DataFrame({"lambda": OTHER, "seed": one, "sentence": right.index, **values}))
    for claim in deceptive_attention_claims(pd.concat([raw, *parts], ignore_index=True)):
        click.echo(verdict_line(claim))


if __name__ == "__main__":
    run_benchmark(main)
