"""Time and memory of `alignkit phrases` and `alignkit terms`.

    python benchmarks/phrases.py SRC TGT LINKS -o benchmarks/results/phrases

LINKS are as `alignkit align --format probabilities` writes them. Each command runs alone on one thread, one time.
Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from inputs import machine, need_files, run_benchmark
from quality_systems import measured

from alignkit.text.reading import read_raw_lines

#: Name in the table -> command, ending of its output, what a line of that is.
COMMANDS = {
    "`phrases -o table.gz`": ("phrases", "gz", "phrase pairs"),
    "`phrases -o table`": ("phrases", "txt", "phrase pairs"),
    "`terms`": ("terms", "tsv", "terms"),
}


def row(name: str, files: tuple[str, str, str], pairs: int) -> dict[str, Any]:
    """What a command took, and how much it found."""
    command, ending, what = COMMANDS[name]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, f"out.{ending}")
        cost = measured([sys.executable, "-m", "alignkit", command, "-q", *files, "-o", str(output)], 1)
        lines = sum(1 for _ in read_raw_lines(output)) - (command == "terms")
        size = output.stat().st_size
    found = {"command": name, "found": lines, "what": what, "output_mb": round(size / 1e6, 1)}
    speed = {"seconds": round(cost.seconds, 1), "cpu_seconds": round(cost.cpu, 1), "peak_mb": round(cost.mb)}
    return {**found, **speed, "pairs_per_cpu_second": round(pairs / cost.cpu)}


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    lines = ["# Phrase tables and terms", "", f"{result['machine']}; one thread, a machine that is not quiet."]
    lines += [f"{result['pairs']:,} sentence pairs with their links.", ""]
    titles = ["command", "output", "MB", "s", "CPU s", "sentence pairs per CPU s", "peak MB"]
    lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for each in result["rows"]:
        cells = [each["command"], f"{each['found']:,} {each['what']}", each["output_mb"], each["seconds"]]
        cells += [each["cpu_seconds"], f"{each['pairs_per_cpu_second']:,}", f"{each['peak_mb']:,}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("source")
@click.argument("target")
@click.argument("links")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(source: str, target: str, links: str, output: str) -> None:
    """Time, memory and number of phrase pairs and terms."""
    need_files(source, target)
    need_files(links, remedy="write it by alignkit align SRC TGT --format probabilities -o LINKS")
    pairs = sum(1 for _ in read_raw_lines(source))
    rows = [row(name, (source, target, links), pairs) for name in COMMANDS]
    result = {"machine": machine(), "pairs": pairs, "rows": rows}
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(result))


if __name__ == "__main__":
    run_benchmark(main)
