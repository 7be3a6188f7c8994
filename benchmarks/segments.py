"""Inline elements put into one translated segment at a time, with and without a corpus.

    ALIGNKIT_DATA=DATA python benchmarks/segments.py -o benchmarks/results/segments

Of each set of DATA/aer, --segments pairs of the test part are drawn with a fixed seed, of 5 to 40 words a side.
Each has one or two elements, <b> and <i>, around 1 to 4 source words whose place the sure gold links leave no
doubt about: they are linked to consecutive target words, and these to nothing else. `alignkit project` puts them
into the translation, segment by segment; an element is right if both of its ends are. A system is the default,
which uses e5; no embeddings; or a model of at most --most-training pairs of the training part. Writes OUT.json and
OUT.md.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from pathlib import Path
from typing import Any

import click
from inputs import gold_sets, run_benchmark
from projection import undoubted

from alignkit.links.links import Links, parse_links
from alignkit.pipeline.align import align
from alignkit.text.reading import read_lines
from alignkit.uses.projection import Span, project_spans
from alignkit.uses.projection_files import project_files

WORDS = range(5, 41)  # of each side of a segment
LONGEST = 4  # words of an element
NAMES = ("b", "i")


def clear_spans(length: int, sure: Links) -> dict[Span, Span]:
    """The spans of source words of a pair that have an undoubted place: their target words."""
    spans = [(i, j) for i in range(length) for j in range(i + 1, min(i + LONGEST, length) + 1)]
    kept = [span for span, clear in zip(spans, undoubted([spans], (sure, None)), strict=True) if clear]
    (found,) = project_spans([kept], sure)
    return {span: (each.start, each.end) for span, each in zip(kept, found, strict=True) if each is not None}


def drawn_elements(places: dict[Span, Span], draw: random.Random) -> list[Span]:
    """One span, or two that have no word in common, in order."""
    first = draw.choice(sorted(places))
    others = [span for span in sorted(places) if span[1] <= first[0] or span[0] >= first[1]]
    return sorted([first, draw.choice(others)] if others else [first])


def tagged(words: list[str], spans: list[Span]) -> str:
    """The words with an element around each span."""
    words = list(words)
    for name, (start, end) in zip(NAMES, spans, strict=False):
        words[start] = f"<{name}>{words[start]}"
        words[end - 1] += f"</{name}>"
    return " ".join(words)


def places_of(line: str) -> dict[str, Span]:
    """Name of an element -> the words that are in it."""
    found = {}
    for name in NAMES:
        match = re.search(f"<{name}>.*</{name}>", line)
        if match:
            before, inside = (len(re.sub("<.*?>", "", text).split()) for text in (line[: match.start()], match[0]))
            found[name] = (before, before + inside)
    return found


def right_elements(source: str, target: str, wanted: list[Span], folder: Path, fitting: dict[str, Any]) -> int:
    """How many elements of a segment are put where they belong."""
    files = folder / "tagged", folder / "plain"
    for path, line in zip(files, (source, target), strict=True):
        path.write_text(f"{line}\n", encoding="utf-8")
    (line,) = project_files(*files, fitting={"threads": 1, **fitting})
    found = places_of(line.decode())
    return sum(found.get(name) == place for name, place in zip(NAMES, wanted, strict=False))


def escaped(line: str) -> list[str]:
    """The words of a line without what would be a tag."""
    return line.translate({ord("<"): "(", ord(">"): ")", ord("{"): "(", ord("}"): ")"}).split()


@click.command(help=__doc__)
@click.option("--segments", default=8, show_default=True, help="Of each set.")
@click.option("--most-training", default=10_000, show_default=True, help="Pairs of training text.")
@click.option("-o", "--output", required=True, help="Without suffix.")
def main(segments: int, most_training: int, output: str) -> None:
    rows = []
    for place in gold_sets("test", None):
        source, target = (list(map(escaped, read_lines(place / f"test.{side}"))) for side in ("src", "tgt"))
        sure = parse_links(place / "test.gold", read_lines(place / "test.gold")).sure
        draw, chosen = random.Random(0), []
        for m in draw.sample(range(len(source)), len(source)):
            if len(chosen) < segments and len(source[m]) in WORDS and len(target[m]) in WORDS:
                places = clear_spans(len(source[m]), sure.block(m, m + 1))
                if places:
                    spans = drawn_elements(places, draw)
                    chosen.append((m, spans, [places[span] for span in spans]))
        training = [
            list(map(escaped, read_lines(place / f"train.{side}")[:most_training])) for side in ("src", "tgt")
        ]
        systems: dict[str, dict[str, Any]] = {
            "default (e5)": {},
            "--embeddings none": {"embeddings": "none"},
            "--model": {"model": align(*training, embeddings="none", threads=1).aligner},
        }
        row: dict[str, Any] = {"set": place.name, "elements": sum(len(spans) for _, spans, _ in chosen)}
        with tempfile.TemporaryDirectory() as folder:
            for name, fitting in systems.items():
                row[name] = sum(
                    right_elements(tagged(source[m], spans), " ".join(target[m]), wanted, Path(folder), fitting)
                    for m, spans, wanted in chosen
                )
        click.echo(json.dumps(row), err=True)
        rows.append(row)
    rows.append({"set": "all", **{name: sum(row[name] for row in rows) for name in rows[0] if name != "set"}})
    Path(f"{output}.json").write_text(json.dumps(rows, indent=1) + "\n")
    lines = [f"# Elements put into one segment, exactly right, {segments} segments of each set", ""]
    lines += [f"| {' | '.join(rows[0])} |", "|---|" + "--:|" * (len(rows[0]) - 1)]
    lines += [f"| {' | '.join(map(str, row.values()))} |" for row in rows]
    Path(f"{output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
