"""Quality on text with marks: Biblical Hebrew as consonants, with vowels, and with the accents of its verses, too.

    ALIGNKIT_DATA=DATA python benchmarks/marks.py WLC -o benchmarks/results/marks

WLC is the folder wlc of https://github.com/openscriptures/morphhb, the Hebrew Bible with vowels and accents. Each
verse of DATA/aer/ult_hbo_en, whose text is consonants, is replaced by the one there that has the same ones; where
none has, words are replaced by the most frequent ones. Slices of the dev part are aligned alone (as by
benchmarks/slices.py), and longer texts with training text behind the dev part. "as letters" is without what
alignkit.text.spellings does: marks are then characters like others.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np
from inputs import gold_sets, need_files, run_benchmark
from quality import markdown

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.levels import Embeddings
from alignkit.links.links import Links, parse_links
from alignkit.metrics.aer import evaluate
from alignkit.pipeline.align import align
from alignkit.text.reading import read_lines

SECTIONS = "\u05e1", "\u05e4"  # marks of sections, not of the verse
SET, SIZES, SLICES, SEED = "ult_hbo_en", (100, 400, 800), 4, 1
#: What a text keeps of the marks.
TEXTS: dict[str, Callable[[str], str]] = {
    "consonants": lambda word: re.sub("[^\u05d0-\u05ea]", "", word),
    "vowels": lambda word: re.sub("[\u0591-\u05af\u05bd]", "", word),
    "vowels, accents": lambda word: word,
}
AS_LETTERS: dict[str, Callable[[str], object]] = {
    "alignkit.text.units.folded": str.lower,
    "alignkit.classical.hmm.views.folded": str.lower,
    "alignkit.classical.hmm.views.base_letters": str,
    "alignkit.classical.hmm.word_classes.base_letters": str,
    "alignkit.embeddings.contextual.spellings": lambda word: [word],
}


def with_marks(folder: Path, lines: list[str]) -> list[list[str]]:
    """Sentences of consonants with their vowels and accents, a list of words for each."""
    consonants = TEXTS["consonants"]
    verses: dict[tuple[str, ...], list[str]] = {}
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(folder.glob("*.xml")):
        for verse in re.findall(r"<verse\b.*?</verse>", path.read_text("utf-8"), re.DOTALL):
            text = re.findall(
                r"<w\b[^>]*>(.*?)</w>", re.sub(r"<note\b.*?</note>", "", verse, flags=re.DOTALL), re.DOTALL
            )
            text = [word for word in (re.sub("<[^>]+>|/", "", each) for each in text) if consonants(word)]
            verses[tuple(map(consonants, text))] = text
            for word in text:
                words[consonants(word)][word] += 1
    found = []
    for line in lines:
        own = [word for word in line.split() if word not in SECTIONS]
        marked = iter(
            verses.get(tuple(own)) or [max(words[word], key=words[word].get, default=word) for word in own]
        )
        found.append([next(marked) if word not in SECTIONS else word for word in line.split()])
    return found


@click.command()
@click.argument("wlc", type=Path)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(wlc: Path, output: str) -> None:
    """Quality on text with marks."""
    need_files(wlc, remedy="clone https://github.com/openscriptures/morphhb")
    folder = gold_sets("dev", [SET])[0]
    sources = with_marks(wlc, [*read_lines(folder / "dev.src"), *read_lines(folder / "train.src")])
    target = [*read_lines(folder / "dev.tgt"), *read_lines(folder / "train.tgt")]
    gold = parse_links("dev.gold", read_lines(folder / "dev.gold"))
    order = np.random.default_rng(SEED).permutation(len(gold))
    rows: list[dict[str, object]] = []
    for name, keep in TEXTS.items():
        source = [" ".join(map(keep, words)) for words in sources]
        for marks in ("as letters", "as marks"):
            for shown, embeddings in (("none", "none"), ("e5", ContextualEmbeddings())):
                row: dict[str, object] = {"text": name, "marks": marks, "embeddings": shown}
                with ExitStack() as stack:
                    for place, function in AS_LETTERS.items() if marks == "as letters" else ():
                        stack.enter_context(patch(place, function))
                    row |= {f"{size}_pairs": aer(source, target, gold, order, size, embeddings) for size in SIZES}
                click.echo(json.dumps(row), err=True)
                rows.append(row)
    Path(f"{output}.json").write_text(json.dumps(rows, indent=1) + "\n")
    title = "AER in percent, dev part of ult_hbo_en"
    Path(f"{output}.md").write_text("# Quality on text with marks\n\n" + markdown(title, rows).rstrip() + "\n")


def aer(
    source: list[str], target: list[str], gold: Links, order: np.ndarray, size: int, embeddings: Embeddings | str
) -> float:
    """AER of slices that have ``size`` pairs each, or of as many pairs from the beginning on."""
    if size > len(gold):
        links = align(source[:size], target[:size], embeddings=embeddings, threads=1).links
        return evaluate(gold, links.block(0, len(gold))).aer
    parts = [order[k * size : (k + 1) * size] for k in range(min(SLICES, len(gold) // size))]
    sides = [[[side[i] for i in part] for side in (source, target)] for part in parts]
    found = [align(*each, embeddings=embeddings, threads=1).links for each in sides]
    return evaluate(gold.take(np.concatenate(parts)), Links.concatenated(found)).aer


if __name__ == "__main__":
    run_benchmark(main)
