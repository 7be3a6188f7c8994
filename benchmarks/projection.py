"""F1 of spans projected through links, against those projected through gold links, for every rule.

    ALIGNKIT_DATA=DATA python benchmarks/projection.py -o benchmarks/results/projection --peer-python PYTHON

Sets of DATA/aer, lower-cased, the test part before at most --most-training pairs of training text. The spans are
on the source side: *names*, the longest sequences of words that begin with a capital letter, not at the start of a
sentence; and *random* ones, three of 1 to 4 words per sentence, drawn with a fixed seed. The right place of a span
is where the sure gold links and a rule put it; a projection is right if both ends are.

Each rule is measured against itself on gold links, over all spans with sure links; and on the spans that gold
links leave no doubt about, whose words are linked to consecutive words and these to nothing else, where all rules
want the same. Writes OUT.json and OUT.md; no figure depends on the load of the machine, but eflomal's links differ
from run to run.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any

import click
import numpy as np
from inputs import gold_sets, run_benchmark
from quality_systems import System, eflomal, importable, measured, ours

from alignkit.links.links import Links, parse_links, parse_probabilities
from alignkit.links.symmetrization import symmetrize
from alignkit.text.reading import read_lines
from alignkit.uses.projection import RULES, Span, project_spans

SETS = [f"xlwa_en_{language}" for language in ("da", "es", "it", "pt", "sl")] + ["cdt_da_en", "hansards_en_fr"]
KINDS = ("names", "random")
JOINED = "grow-diag-final-and"
FILES = ("src", "tgt")
Found = tuple[Links, np.ndarray | None]


def names(words: list[str]) -> list[Span]:
    """The longest sequences of capitalized words behind the first word."""
    found = []
    for is_name, places in groupby(range(1, len(words)), lambda i: words[i][0].isupper()):
        group = list(places)
        if is_name:
            found.append((group[0], group[-1] + 1))
    return found


def random_spans(words: list[str], draw: random.Random) -> list[Span]:
    """Three spans of 1 to 4 words, as far as the sentence has them."""
    found = []
    for size in (draw.randint(1, 4) for _ in range(3)):
        if size <= len(words):
            start = draw.randrange(len(words) - size + 1)
            found.append((start, start + size))
    return found


def spans_of(lines: list[str]) -> dict[str, list[list[Span]]]:
    """Kind -> the spans of each sentence."""
    draw, sentences = random.Random(0), [line.split() for line in lines]
    return {"names": [names(x) for x in sentences], "random": [random_spans(x, draw) for x in sentences]}


def systems(python: str) -> dict[str, System]:
    """Name -> an aligner."""
    found = {
        "alignkit align": ours("", "align", "--format", "probabilities"),
        "alignkit diagonal": ours("", "diagonal", "--symmetrize", JOINED, "--format", "probabilities"),
    }
    if importable(python, "eflomal") and Path(python).with_name("eflomal-align").exists():
        found["eflomal"] = eflomal(python)
    else:
        click.echo(f"{python} has no eflomal: it is left out", err=True)
    return found


def write_text(place: Path, most: int, folder: Path) -> tuple[str, str]:
    """Write the test and training text of a set in lower case; return the two files."""
    for side in FILES:
        parts = [read_lines(place / f"{part}.{side}") for part in ("test", "train")]
        lines = [*parts[0], *parts[1][:most]]
        (folder / side).write_text("".join(f"{line.lower()}\n" for line in lines), encoding="utf-8", newline="\n")
    return str(folder / FILES[0]), str(folder / FILES[1])


def found_links(system: System, files: tuple[str, str], folder: Path, count: int) -> Found:
    """The links of the first ``count`` pairs and their probabilities, None where they have none."""
    measured(system.command(*files, folder, 1), 1)
    if system.directions:
        sides = [parse_links(name, read_lines(folder / name)[:count]).possible for name in ("forward", "reverse")]
        return symmetrize(*sides, JOINED), None
    lines = read_lines(folder / "links")[:count]
    return parse_links("links", lines).possible, parse_probabilities("links", lines)


def places(spans: list[list[Span]], links: Found, rule: str) -> Iterator[Span | None]:
    """The place of each span."""
    for row in project_spans(spans, *links, rule=rule):
        for each in row:
            yield None if each is None else (each.start, each.end)


def undoubted(spans: list[list[Span]], gold: Found) -> list[bool]:
    """Of each span, whether gold links leave no doubt about its place."""
    found = project_spans(spans, *gold, rule="unsplit")
    return [each is not None and each.is_consistent for row in found for each in row]


def f1(right: list[Span | None], got: list[Span | None]) -> float:
    """In per cent."""
    hits = sum(x == y for x, y in zip(right, got, strict=True) if x is not None)
    return 200 * hits / max(sum(x is not None for x in right) + sum(y is not None for y in got), 1)


def score(spans: dict[str, list[list[Span]]], gold: Found, links: Found) -> Iterator[dict[str, Any]]:
    """F1 of every kind of spans and rule."""
    for kind in KINDS:
        clear = undoubted(spans[kind], gold)
        for rule in RULES:
            right, got = list(places(spans[kind], gold, rule)), list(places(spans[kind], links, rule))
            both = [(x, y) for x, y, kept in zip(right, got, clear, strict=True) if kept]
            row = {"kind": kind, "rule": rule, "spans": sum(x is not None for x in right), "clear": len(both)}
            yield {**row, "F1": f1(right, got), "F1 clear": f1([x for x, _ in both], [y for _, y in both])}


def table(rows: list[dict[str, Any]], kind: str, figure: str) -> str:
    """Means over the sets: an aligner in each row, a rule in each column."""
    lines = [f"| aligner | {' | '.join(RULES)} |", "|---|" + "---|" * len(RULES)]
    for system in dict.fromkeys(row["aligner"] for row in rows):
        cells = []
        for rule in RULES:
            wanted = {"aligner": system, "kind": kind, "rule": rule}
            cells.append(f"{mean(row[figure] for row in rows if wanted.items() <= row.items()):.1f}")
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_set(rows: list[dict[str, Any]], rule: str) -> str:
    """F1 on each set: a set in each row, kinds and aligners in the columns."""
    aligners = list(dict.fromkeys(row["aligner"] for row in rows))
    heads = [f"{kind}, {aligner}" for kind in KINDS for aligner in aligners]
    lines = [f"| set | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in dict.fromkeys(row["set"] for row in rows):
        found = {
            (row["kind"], row["aligner"]): row["F1"] for row in rows if (row["set"], row["rule"]) == (name, rule)
        }
        lines.append(
            f"| {name} | {' | '.join(f'{found[kind, each]:.1f}' for kind in KINDS for each in aligners)} |"
        )
    return "\n".join(lines)


def markdown(rows: list[dict[str, Any]]) -> str:
    """All tables."""
    parts = ["# Projection of spans through links", "F1 in per cent, means over the sets."]
    for figure, title in (("F1", "Each rule on gold links"), ("F1 clear", "Spans without doubt")):
        for kind in KINDS:
            chosen = [row for row in rows if row["kind"] == kind and row["rule"] == "hull"]
            count = sum(row["spans" if figure == "F1" else "clear"] for row in chosen) // len(
                {row["aligner"] for row in chosen}
            )
            parts += [f"## {title}: {count:,} {kind}", table(rows, kind, figure)]
    parts += ["## By set, rule hull", by_set(rows, "hull")]
    return "\n\n".join(parts) + "\n"


@click.command()
@click.option(
    "--sets", multiple=True, default=SETS, help="Folders of ALIGNKIT_DATA/aer.  [default: seven small ones]"
)
@click.option("--most-training", type=int, default=10_000, show_default=True, help="Pairs of training text.")
@click.option("--peer-python", default=sys.executable, help="The Python that has eflomal.  [default: this]")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(sets: tuple[str, ...], most_training: int, peer_python: str, output: str) -> None:
    """F1 of projected spans."""
    rows: list[dict[str, Any]] = []
    folders, chosen = gold_sets("test", list(sets)), systems(peer_python)
    for place in folders:
        spans = spans_of(read_lines(place / "test.src"))
        sure = parse_links(place / "test.gold", read_lines(place / "test.gold")).sure
        with tempfile.TemporaryDirectory() as folder:
            files = write_text(place, most_training, Path(folder))
            for name, system in chosen.items():
                try:
                    links = found_links(system, files, Path(folder), len(sure))
                except (RuntimeError, subprocess.SubprocessError) as error:
                    click.echo(f"{place.name}, {name}: left out: {error}", err=True)
                    continue
                rows += [{"set": place.name, "aligner": name, **row} for row in score(spans, (sure, None), links)]
                click.echo(f"{place.name}: {name}", err=True)
    Path(f"{output}.json").write_text(json.dumps(rows, indent=1) + "\n")
    Path(f"{output}.md").write_text(markdown(rows))


if __name__ == "__main__":
    run_benchmark(main)
