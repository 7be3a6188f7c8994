"""Peak memory and time of `align`, of `align --fit-on`, and of eflomal, by the number of pairs.

    python benchmarks/align_memory.py SRC TGT --folder DIR -o benchmarks/results/align_memory --peer-python PYTHON
        [--join 3 --sizes 0]

The texts are enlarged as in benchmarks/memory.py: they are the lines of SRC and TGT over and over, with rarer
words changed in each copy, so that the vocabulary and the pairs of words that meet grow with the text. A size of 0
is the text as it is. With --join, that many lines at a time are made one first, for longer sentences. Each program
runs alone on one thread, eflomal with its defaults, in both directions. OUT.md and OUT.json are written after each
run; what is there is not measured again.
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

from alignkit.text.reading import read_lines

PROGRAMS = ("eflomal", "align", "align --fit-on 10%")


def command(name: str, files: tuple[str, str], folder: Path, peer_python: str) -> list[str]:
    """The command line of a program, one of ours with the options that are its name."""
    if name == "eflomal":
        return eflomal(peer_python).command(*files, folder, 1)
    options = ["-q", "--threads", "1", "-o", str(folder / "o")]
    return [sys.executable, "-m", "alignkit", *name.split(), *options, *files]


def joined(source: str, target: str, lines: int, folder: Path) -> tuple[str, str]:
    """The files, with this number of lines at a time made one."""
    if lines == 1:
        return source, target
    found = []
    for path in (source, target):
        text, place = list(read_lines(path)), folder / f"{Path(path).name}-{lines}"
        parts = (" ".join(text[first : first + lines]) for first in range(0, len(text), lines))
        place.write_text("".join(f"{part}\n" for part in parts), encoding="utf-8", newline="\n")
        found.append(str(place))
    return found[0], found[1]


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "# Peak memory of `alignkit align`",
        "",
        f"{result['machine']}; one thread. {result['note']}".strip(),
        "",
    ]
    lines += ["| pairs | words a side | program | peak MB | times eflomal's | wall s | CPU s |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for row in sorted(result["rows"], key=lambda row: (row["words"], row["pairs"])):
        peers = [r for r in result["rows"] if key_of(r) == (row["pairs"], row["words"], "eflomal")]
        peer = peers[0].get("mb") if peers else None
        times = "" if not peer or "mb" not in row else f"{row['mb'] / peer:.1f}"
        figures = (
            f"{row['mb']:.0f} | {times} | {row['seconds']:.0f} | {row['cpu']:.0f}"
            if "mb" in row
            else "refused | | |"
        )
        lines.append(f"| {row['pairs']:,} | {row['words']} | {row['program']} | {figures} |")
    return "\n".join(lines) + "\n"


def key_of(row: dict[str, Any]) -> tuple[int, int, str]:
    """What is measured once."""
    return row["pairs"], row["words"], row["program"]


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--sizes", type=int, multiple=True, default=(0, 1_000_000, 3_000_000, 10_000_000), show_default=True)
@click.option("--programs", multiple=True, default=PROGRAMS, show_default=True)
@click.option("--join", "lines", default=1, show_default=True, type=click.IntRange(1), help="Lines made one.")
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
    **options: Any,
) -> None:
    """Peak memory and time by the number of pairs."""
    source, target = joined(source, target, options["lines"], folder)
    write_texts(source, target, sorted(set(sizes) - {0}), folder)
    place = Path(f"{options['output']}.json")
    result: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {"rows": []}
    result |= {"machine": machine(), "note": options["note"]}
    for size in sorted(sizes):
        files = (str(folder / f"source-{size}"), str(folder / f"target-{size}")) if size else (source, target)
        text = read_pairs(source, target)
        words = round(sum(len(side.split()) for pair in text for side in pair) / (2 * len(text)))
        for program in programs:
            row: dict[str, Any] = {"pairs": size or len(text), "words": words, "program": program}
            if key_of(row) in map(key_of, result["rows"]):
                continue
            try:
                cost = measured(command(program, files, folder, options["peer_python"]), 1)
                row |= {"mb": cost.mb, "seconds": cost.seconds, "cpu": cost.cpu}
            except RuntimeError as error:
                row["refused"] = str(error)
            result["rows"].append(row)
            click.echo(json.dumps(result["rows"][-1]), err=True)
            place.write_text(json.dumps(result, indent=1) + "\n")
            place.with_suffix(".md").write_text(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
