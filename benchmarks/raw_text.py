"""AER of links of raw text, tokenized or split at its spaces, beside that of links of the gold's tokens.

    ALIGNKIT_DATA=DATA python benchmarks/raw_text.py -o benchmarks/results/raw_text

The tokens of each set of DATA/aer (as in benchmarks/quality.py) are joined to what raw text looks like, by a few
rules. The dev and test parts are aligned together with the training text, in three ways, one fit each. Links of
raw text are brought back to the gold's tokens by their characters: two of these are linked if each shares a
character with one of two linked words.
"""

from __future__ import annotations

import json
import re
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import click
from inputs import gold_sets, machine, run_benchmark
from quality import markdown

from alignkit.links.links import GoldLinks, Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.pipeline.align import align
from alignkit.pipeline.aligned_text import AlignedText
from alignkit.text.reading import read_lines
from alignkit.text.tokenization import split_words

SMALL = ("cdt_da_en", "xlwa_en_da", "xlwa_en_es", "xlwa_en_it", "xlwa_en_pt", "xlwa_en_sl")
PARTS = ("dev", "test")  # that have gold links
#: Tokens without a space before them, and without one after them.
AFTER = re.compile(r"[,.;:!?)\]}…]+|%|['\u2019](s|re|ve|ll|d|m)?|n['\u2019]t")
BEFORE = re.compile(r"[(\[{¿¡$£]|\w+['\u2019]")
WORD = re.compile(r"\S+")
Spans = list[tuple[int, int]]


def raw_line(tokens: list[str]) -> tuple[str, Spans]:
    """Tokens joined to raw text, and the characters of each of them in it."""
    line, spans, close, open_quote = "", [], True, False
    for token in tokens:
        word = token.replace("_", " ")  # which joins words to a token in some gold sets
        closing = word == '"' and open_quote
        if not (close or closing or AFTER.fullmatch(word)):
            line += " "
        spans.append((len(line), len(line) + len(word)))
        line += word
        open_quote ^= word == '"'
        close = bool(BEFORE.fullmatch(word)) or (word == '"' and open_quote)
    return line, spans


def touched(words: Spans, tokens: Spans) -> list[list[int]]:
    """The tokens that each word shares a character with."""
    return [[n for n, (a, b) in enumerate(tokens) if a < end and start < b] for start, end in words]


def on_tokens(aligned: AlignedText, words: list[list[Spans]], tokens: list[list[Spans]], count: int) -> Links:
    """The links of the first pairs, between tokens of the gold."""
    found = []
    for m in range(count):
        source, target = (touched(words[side][m], tokens[side][m]) for side in range(2))
        pairs = aligned.links[m].tolist()
        found.append([link for s, t in pairs for link in product(source[s], target[t])])
    return Links.from_lists(found)


def measure(folder: Path) -> list[dict[str, Any]]:
    """A row of each way of reading the text of a set."""
    names = [*(part for part in PARTS if (folder / f"{part}.gold").exists()), "train"]
    sides = [
        [split_words(line) for name in names for line in read_lines(folder / f"{name}.{side}")]
        for side in ("src", "tgt")
    ]
    files = [folder / f"{name}.gold" for name in names[:-1]]
    each = [parse_links(str(file), read_lines(file)) for file in files]
    gold = GoldLinks(*(Links.concatenated([getattr(one, kind) for one in each]) for kind in ("sure", "possible")))
    count = len(gold)
    joined = [[raw_line(tokens) for tokens in side] for side in sides]
    raw = [[line for line, _ in side] for side in joined]
    tokens = [[spans for _, spans in side] for side in joined]

    rows = []

    def add(way: str, aligned: AlignedText, links: Links) -> None:
        result = evaluate(gold, links)
        words = sum(int(side.offsets[count]) for side in (aligned.bitext.source, aligned.bitext.target))
        quality = {"aer": result.aer, "precision": result.precision, "recall": result.recall}
        rows.append({"set": folder.name, "text": way, "words": words} | quality)
        click.echo(json.dumps(rows[-1]), err=True)

    aligned = align(*sides)
    add("the gold's tokens", aligned, aligned.links.block(0, count))
    aligned = align(*raw, tokenize=True)
    corpora = aligned.bitext.source, aligned.bitext.target
    found = [[side.spans_of(m) for m in range(count)] for side in corpora]
    add("raw, --tokenize", aligned, on_tokens(aligned, found, tokens, count))
    aligned = align(*raw)
    found = [[[word.span() for word in WORD.finditer(line)] for line in side[:count]] for side in raw]
    add("raw, split at spaces", aligned, on_tokens(aligned, found, tokens, count))
    return rows


@click.command()
@click.option("--sets", default=",".join(SMALL), show_default=True, help="Names with commas between them.")
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(sets: str, output: str) -> None:
    """AER of links of raw text."""
    rows = [row for folder in gold_sets("test", sets.split(",")) for row in measure(folder)]
    versions = {name: metadata.version(name) for name in ("alignkit", "numpy", "numba", "icu4py")}
    result = {"environment": {"machine": machine(), **versions}, "rows": rows}
    Path(f"{output}.json").write_text(json.dumps(result, indent=1) + "\n")
    title = "# AER of links of raw text, dev and test parts, in percent\n\n"
    Path(f"{output}.md").write_text(f"{title}{markdown('Raw text', rows)}".rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
