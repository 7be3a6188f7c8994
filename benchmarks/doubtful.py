"""Quality of texts of which the encoder e5 reads a part: the most doubtful pairs, random ones, or all.

    ALIGNKIT_DATA=DATA python benchmarks/doubtful.py -o benchmarks/results/doubtful

A text is the pairs of a part with gold links (as in benchmarks/quality.py) and the first of the training text, as
many as fit into its size. Seconds are processor time, on one thread; those of doubtful pairs have the fit in which
they are found, too.
"""

from __future__ import annotations

import json
import time
from itertools import product
from pathlib import Path

import click
import numpy as np
from inputs import gold_sets, machine, run_benchmark, text_of_set
from quality import markdown

from alignkit.classical.hmm.joint import JointHMM
from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.levels import Embeddings, OfDoubtfulPairs
from alignkit.links.links import parse_links
from alignkit.metrics.aer import evaluate
from alignkit.pipeline.align import align
from alignkit.scores import Scores
from alignkit.support.packages import __version__
from alignkit.text.reading import read_lines

#: set -> the sizes of its texts
SIZES = {"cdt_da_en": (3748,), "ult_hbo_en": (5000, 10_000, 13_297), "hansards_en_fr": (10_000, 20_000)}
SEED = 1
REMARK = (
    "The gold links of hansards_en_fr are of longer and more doubtful pairs than its other text, so most of them "
    "are read where doubtful pairs are, and few where pairs are drawn at random; elsewhere, as many as of all."
)


@click.command()
@click.option("--part", default="test", show_default=True, help="test or dev.")
@click.option("--read", default="1000,2000", show_default=True, help="How many pairs, with commas between them.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(part: str, read: str, output: str) -> None:
    """Quality of texts of which the encoder reads a part."""
    folders = gold_sets(part, list(SIZES))
    encoder, rows = ContextualEmbeddings(), list[dict[str, object]]()
    for folder in folders:
        gold = parse_links(str(folder / f"{part}.gold"), read_lines(str(folder / f"{part}.gold")))
        for size in SIZES[folder.name]:
            source, target = (lines[:size] for lines in text_of_set(folder, part))
            probabilities, alone = Scores.from_matrices([]), 0.0
            choices = [("none", 0), *product(("doubtful", "random"), map(int, read.split(","))), ("all", size)]
            for choice, most in choices:
                embeddings: Embeddings | str = "none" if choice == "none" else encoder
                if choice in ("doubtful", "random"):
                    embeddings = chosen = OfDoubtfulPairs(encoder, probabilities, most)
                    if choice == "random":
                        chosen.pairs = np.sort(np.random.default_rng(SEED).permutation(len(probabilities))[:most])
                start = time.process_time()
                aligned = align(source, target, embeddings=embeddings, threads=1)
                seconds = time.process_time() - start
                if choice == "none":
                    assert isinstance(aligned.aligner, JointHMM)
                    assert aligned.aligner.fitted is not None
                    probabilities, alone = aligned.aligner.fitted.probabilities, seconds
                row = {"set": folder.name, "part": part, "pairs": size, "read": choice, "of_pairs": most}
                read_pairs = embeddings.pairs if isinstance(embeddings, OfDoubtfulPairs) else np.arange(most)
                row["gold_read"] = f"{np.count_nonzero(read_pairs < len(gold.sure))} of {len(gold.sure)}"
                aer = evaluate(gold, aligned.links.block(0, len(gold.sure))).aer
                seconds += alone if choice == "doubtful" else 0
                rows.append({**row, "aer": aer, "seconds": round(seconds, 1)})
                click.echo(json.dumps(rows[-1]), err=True)
            facts = {"machine": machine(), "alignkit": __version__}
            Path(f"{output}.json").write_text(json.dumps({"environment": facts, "rows": rows}, indent=1) + "\n")
            head = f"# Quality with a part of the text read by e5\n\n{REMARK}\n\n"
            Path(f"{output}.md").write_text(f"{head}{markdown('AER in percent', rows)}".rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
