"""A text of any size on one machine: a fit on a sample of the pairs, and a map of the model over all of them.

    python benchmarks/scale.py SRC TGT --folder DIR -o benchmarks/results/scale [--pairs 100000000 --every 10]

The text is enlarged as in benchmarks/memory.py: the lines of SRC and TGT over and over in random order, half of
the rarer words changed in each copy. The sample is every tenth pair. DIR needs 160 MB for a million pairs. One
run of each: `align SAMPLE --save-model M`, then `align --model M --shard i/10` of all parts of the whole, one
after the other. As many lines of links as pairs must come out, or it ends with an error. With --adapted,
`align --fit-on` of a tenth of the first so many pairs is measured too, which adapts the model to blocks of the
text. Writes OUT.json and OUT.md after each run; what is there is not measured again.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import click
from inputs import fail, machine, run_benchmark
from memory import write_texts
from quality_systems import measured

from alignkit.text.blocks import shard_range


def part_of(path: Path, lines: slice) -> Path:
    """A file of some of the lines of another; one that is there is used again."""
    part = path.with_name(f"{path.name}-{lines.stop or 'all'}-{lines.step or 1}")
    if not part.exists():
        with open(path, "rb") as whole, open(f"{part}.new", "wb") as stream:
            stream.writelines(islice(whole, lines.start, lines.stop, lines.step))
        Path(f"{part}.new").replace(part)
    return part


def line_count(path: Path) -> int:
    """The number of line ends in a file."""
    with open(path, "rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 24), b""))


def in_all(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The sums of runs one after the other, and their largest memory."""
    sums = {key: sum(row[key] for row in rows) for key in ("pairs", "lines", "seconds", "cpu")}
    return {"command": f"these {len(rows)} shards", "mb": max(row["mb"] for row in rows), **sums}


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    lines = ["# A text of any size: fit on a sample, map over the rest", "", result["machine"], ""]
    lines += [f"{result['threads']} threads. {result['note']}".strip(), ""]
    lines += ["| command | pairs | lines of links | wall min | CPU min | pairs a CPU second | peak GB |"]
    lines += ["|---|---|---|---|---|---|---|"]
    shards = [row for row in result["rows"] if "--shard" in row["command"]]
    for row in [*result["rows"], *([in_all(shards)] if shards else [])]:
        rate = row["pairs"] / row["cpu"]
        lines.append(
            f"| `{row['command']}` | {row['pairs']:,} | {row['lines']:,} | {row['seconds'] / 60:.0f} | "
            f"{row['cpu'] / 60:.0f} | {rate:,.0f} | {row['mb'] / 1000:.1f} |"
        )
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--pairs", default=100_000_000, show_default=True, type=click.IntRange(min=1))
@click.option("--every", default=10, show_default=True, type=click.IntRange(min=1), help="The sample.")
@click.option("--shards", default=10, show_default=True, type=click.IntRange(min=1), help="Parts of the map.")
@click.option("--adapted", default=0, show_default=True, help="Pairs that --fit-on is measured with.")
@click.option("--threads", default=2, show_default=True, type=click.IntRange(min=1))
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For texts, model and links.")
@click.option("--note", default="", help="A sentence for the record.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(
    source: str,
    target: str,
    pairs: int,
    every: int,
    shards: int,
    adapted: int,
    threads: int,
    folder: Path,
    **options: str,
) -> None:
    """Time and memory of a fit on a sample and of a map over all pairs."""
    write_texts(source, target, [pairs], folder)
    whole = [folder / f"{side}-{pairs}" for side in ("source", "target")]
    links, model = folder / "links", folder / "model.npz"
    place = Path(f"{options['output']}.json")
    result: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {"rows": []}
    result |= {"machine": machine(), "threads": threads, "note": options["note"]}

    def run(shown: str, texts: list[Path], *arguments: str, shard: tuple[int, int] = (1, 1)) -> None:
        if shown in [row["command"] for row in result["rows"]]:
            return
        command = ["align", *map(str, texts), *arguments, "-q", "--threads", str(threads), "-o", str(links)]
        cost = measured([sys.executable, "-m", "alignkit", *command], threads)
        low, high = shard_range(line_count(texts[0]), shard)
        if (lines := line_count(links)) != high - low:
            fail(f"{lines} lines of links for {high - low} pairs")
        row = {"command": shown, "pairs": high - low, "lines": lines, **vars(cost)}
        click.echo(json.dumps(row), err=True)
        result["rows"].append(row)
        place.write_text(json.dumps(result, indent=1) + "\n")
        Path(f"{options['output']}.md").write_text(markdown(result))

    sample = [part_of(path, slice(0, None, every)) for path in whole]
    run("align SAMPLE --save-model M", sample, "--save-model", str(model))
    for i in range(1, shards + 1):
        part = f"{i}/{shards}"
        run(f"align --model M --shard {part}", whole, "--model", str(model), "--shard", part, shard=(i, shards))
    if adapted:
        first = [part_of(path, slice(0, adapted)) for path in whole]
        run("align --fit-on 10%", first, "--fit-on", "10%")


if __name__ == "__main__":
    run_benchmark(main)
