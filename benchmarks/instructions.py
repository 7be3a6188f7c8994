"""Instructions of `alignkit align` by kernel, counted by Valgrind's callgrind: the same on a busy machine.

    python benchmarks/instructions.py SRC TGT [--pairs 10000] -o benchmarks/results/instructions

The text is the last pairs of SRC and TGT, aligned on one thread. Valgrind has to be there; it knows no AVX-512, so
kernels are compiled for the processor that it emulates, in a first run that counts nothing. Takes some ten
minutes. Writes OUT.json and OUT.md.
"""

from __future__ import annotations

import gc
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click
from inputs import fail, machine, need_files, run_benchmark

from alignkit.support.packages import versions
from alignkit.text.reading import read_lines

COUNTED = re.compile(r"([\d,]+) .*:0x0*([0-9a-f]+) ")


def align(source: str, target: str, addresses: str) -> None:
    """Align two files, and write the address and the name of each kernel that ran: this is what Valgrind runs."""
    from alignkit.kernels.compile import Kernel
    from alignkit_cli.main import run

    if code := run(["align", source, target, "--threads", "1", "-q", "-o", f"{addresses}.links"]):
        raise SystemExit(code)
    found = {}
    for kernel in gc.get_objects():
        if isinstance(kernel, Kernel) and kernel._dispatcher is not None:
            for compiled in kernel._dispatcher.overloads.values():
                entry = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name)
                found[f"{entry:x}"] = kernel.__name__
    Path(addresses).write_text(json.dumps(found))


def counted(lines: list[list[str]], folder: Path) -> dict[str, int]:
    """Instructions by kernel, and in all, of aligning two texts of these lines."""
    addresses, profile, sides = folder / "addresses", folder / "profile", [folder / "source", folder / "target"]
    for path, text in zip(sides, lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    child = [sys.executable, __file__, "--run", *map(str, sides), str(addresses)]
    for tool in (["--tool=none"], ["--tool=callgrind", f"--callgrind-out-file={profile}"]):
        if subprocess.run(["valgrind", "-q", *tool, *child]).returncode:
            fail("valgrind, or the program that it ran, failed")
    listing = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", str(profile)]
    output = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    names, found = json.loads(addresses.read_text()), Counter[str]()
    for line in output.splitlines():
        if match := COUNTED.match(line.strip()):
            found[names.get(match[2], "")] += int(match[1].replace(",", ""))
        elif line.endswith("PROGRAM TOTALS"):
            found["all"] = int(line.split()[0].replace(",", ""))
    del found[""]
    return dict(found)


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--pairs", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="OUT of OUT.json and OUT.md.")
def main(source: str, target: str, pairs: int, output: Path) -> None:
    """Instructions of align by kernel."""
    need_files(source, target)
    if not shutil.which("callgrind_annotate"):
        fail("Valgrind is not installed")
    text = [list(read_lines(path))[-pairs:] for path in (source, target)]
    with tempfile.TemporaryDirectory() as folder:
        found = counted(text, Path(folder))
        start = counted([side[:1] for side in text], Path(folder))["all"]
    elements = sum(len(x.split()) * len(y.split()) for x, y in zip(*text, strict=True))
    whole = found.pop("all")
    rows = {"start of the program, as for one pair": start, **dict(Counter(found).most_common())}
    rows["all else: NumPy and Python"] = whole - sum(rows.values())
    about = {**versions(), "machine": machine(), "pairs": len(text[0]), "elements": elements}
    output.with_suffix(".json").write_text(json.dumps({"about": about, "instructions": rows}, indent=1) + "\n")
    title = f"{len(text[0]):,} pairs, {elements:,} elements of their matrices; {whole:,} instructions in all."
    table = ["| part | million | % | for each element |", "|---|---:|---:|---:|"]
    for name, count in rows.items():
        if count > whole / 200:
            table.append(f"| {name} | {count / 1e6:,.0f} | {100 * count / whole:.1f} | {count / elements:.1f} |")
    lines = ["# Where the instructions of `alignkit align` go", "", title, "", *table]
    output.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        align(*sys.argv[2:])
    else:
        run_benchmark(lambda: main(standalone_mode=False))
