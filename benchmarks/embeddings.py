"""Quality of alignkit align --embeddings e5 on the gold sets, beside the same without embeddings.

    ALIGNKIT_DATA=DATA python benchmarks/embeddings.py -o benchmarks/results/embeddings

The pairs that have gold links are put before the training text, as in benchmarks/quality.py, but as they are
written: the encoder knows upper from lower case. Encoding takes a core some minutes for ten thousand pairs, so by
default only the pairs with gold links are encoded, and nothing is known of the words of the others; with
``--encode all`` every pair is, as by `alignkit align --embeddings e5`. Times are processor times on one thread.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
from inputs import gold_sets, machine, run_benchmark, text_of_set
from quality import markdown
from quality_systems import FirstPairs

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.links.links import Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.pipeline.align import align
from alignkit.support.packages import __version__
from alignkit.text.reading import read_lines


@click.command()
@click.option("--part", default="test", show_default=True, help="test or dev.")
@click.option("--sets", help="Names with commas between them.  [default: all]")
@click.option(
    "--encode", type=click.Choice(["gold", "all"]), default="gold", show_default=True, help="Which pairs."
)
@click.option("--qualities", default="normal,best", show_default=True)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(part: str, sets: str | None, encode: str, qualities: str, output: str) -> None:
    """Quality with embeddings."""
    folders = gold_sets(part, sets.split(",") if sets is not None else None)
    encoder, path = ContextualEmbeddings(), Path(f"{output}.json")
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    for folder in folders:
        source, target = text_of_set(folder, part)
        gold = parse_links(str(folder / f"{part}.gold"), read_lines(str(folder / f"{part}.gold")))
        first = FirstPairs(encoder, len(gold.sure) if encode == "gold" else len(source))
        for quality in qualities.split(","):
            for embeddings in ("none", first):
                encoded = 0.0 if embeddings == "none" else first.seconds
                start = time.process_time()
                links = align(source, target, embeddings=embeddings, quality=quality, threads=1).links
                seconds = time.process_time() - start
                if embeddings != "none" and not encoded:
                    seconds -= first.seconds
                head = Links.from_lists([list(map(tuple, links[m].tolist())) for m in range(len(gold.sure))])
                row = {"set": folder.name, "part": part, "quality": quality, "pairs": len(source)}
                row["encoded"] = 0 if embeddings == "none" else first.count
                found = {**row, "aer": evaluate(gold, head).aer, "seconds": round(seconds, 1)}
                found["encoding"] = round(first.seconds, 1) if embeddings != "none" else 0.0
                click.echo(json.dumps(found), err=True)
                rows = [each for each in rows if any(each[name] != row[name] for name in row)] + [found]
                rows.sort(key=lambda each: (each["set"], each["part"], each["quality"], each["encoded"]))
                facts = {"machine": machine(), "alignkit": __version__}
                path.write_text(json.dumps({"environment": facts, "rows": rows}, indent=1) + "\n")
                title = "# Quality with embeddings\n\n"
                Path(f"{output}.md").write_text(f"{title}{markdown('AER in percent', rows)}".rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
