"""Peak memory and time of `align`, of `align --fit-on`, and of eflomal, by the number of pairs.

    python benchmarks/align_memory.py SRC TGT --folder DIR -o benchmarks/results/align_memory --peer-python PYTHON

The texts are enlarged as in benchmarks/memory.py: they are the lines of SRC and TGT over and over, with rarer
words changed in each copy, so that the vocabulary and the pairs of words that meet grow with the text. A size of 0
is the text as it is. Each program runs alone on one thread, eflomal with its defaults, in both directions. Writes
OUT.json after each run, and what it has is not measured again; and OUT.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from inputs import machine, run_benchmark
from memory import write_texts
from quality_systems import eflomal, measured
from speed import read_pairs

OURS: dict[str, tuple[str, ...]] = {
    "align": (),
    "align --fit-on 10%": ("--fit-on", "10%"),
    "align --max-memory 1G": ("--max-memory", "1G"),
}


def command(name: str, files: tuple[str, str], folder: Path, peer_python: str) -> list[str]:
    """The command line of a program."""
    if name == "eflomal":
        return eflomal(peer_python).command(*files, folder, 1)
    more = [*OURS[name], "--temp-dir", str(folder)]
    return [
        sys.executable,
        "-m",
        "alignkit",
        "align",
        "-q",
        "--threads",
        "1",
        *more,
        *files,
        "-o",
        str(folder / "o"),
    ]


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "# Peak memory of `alignkit align`",
        "",
        f"{result['machine']}; one thread. {result['note']}".strip(),
        "",
    ]
    lines += ["| pairs | program | peak MB | times eflomal's | wall s | CPU s |", "|---|---|---|---|---|---|"]
    for row in result["rows"]:
        peer = next(
            (r.get("mb") for r in result["rows"] if (r["pairs"], r["program"]) == (row["pairs"], "eflomal")), None
        )
        times = "" if not peer or "mb" not in row else f"{row['mb'] / peer:.1f}"
        figures = (
            f"{row['mb']:.0f} | {times} | {row['seconds']:.0f} | {row['cpu']:.0f}"
            if "mb" in row
            else "refused | | |"
        )
        lines.append(f"| {row['pairs']:,} | {row['program']} | {figures} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--sizes", type=int, multiple=True, default=(0, 1_000_000, 3_000_000, 10_000_000), show_default=True)
@click.option("--programs", multiple=True, default=("eflomal", *OURS), show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For texts and links.")
@click.option("--peer-python", default=sys.executable, help="A Python that has eflomal.")
@click.option("--note", default="", help="A sentence for the record.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(
    source: str,
    target: str,
    sizes: tuple[int, ...],
    programs: tuple[str, ...],
    folder: Path,
    peer_python: str,
    note: str,
    output: str,
) -> None:
    """Peak memory and time by the number of pairs."""
    write_texts(source, target, sorted(set(sizes) - {0}), folder)
    place = Path(f"{output}.json")
    result: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {"rows": []}
    result |= {"machine": machine(), "note": note}
    for size in sorted(sizes):
        files = (str(folder / f"source-{size}"), str(folder / f"target-{size}")) if size else (source, target)
        pairs = size or len(read_pairs(source, target))
        for name in programs:
            if any((row["pairs"], row["program"]) == (pairs, name) for row in result["rows"]):
                continue
            row: dict[str, Any] = {"pairs": pairs, "program": name}
            try:
                cost = measured(command(name, files, folder, peer_python), 1)
                row |= {"mb": cost.mb, "seconds": cost.seconds, "cpu": cost.cpu}
            except RuntimeError as error:
                row["refused"] = str(error)
            result["rows"].append(row)
            click.echo(json.dumps(result["rows"][-1]), err=True)
            place.write_text(json.dumps(result, indent=1) + "\n")
            Path(f"{output}.md").write_text(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
