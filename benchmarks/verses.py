"""Quality on New Testaments: languages that the default encoder knows, some that it does not, and ancient Greek.

    python benchmarks/verses.py BIBLES SBLGNT -o benchmarks/results/verses

BIBLES is a checkout of https://github.com/scrollmapper/bible_databases, SBLGNT one of
https://github.com/morphgnt/sblgnt, whose words have lemmas. Nobody has aligned these texts by hand: the links of a
slice are compared with those that the same aligner finds, without embeddings, in all verses (of Greek: in the
lemmas of all verses). So figures say what evidence is worth where a text is small, not how good links are.
"""

from __future__ import annotations

import csv
import json
import re
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np
from inputs import need_files, run_benchmark
from marks import AS_LETTERS, SEED, aer
from quality import markdown

from alignkit.embeddings.contextual import ContextualEmbeddings
from alignkit.embeddings.levels import tell_translations
from alignkit.links.links import Links
from alignkit.pipeline.align import align

#: Translations to align with the English one, and their languages; two English ones for Greek.
ENGLISH, LANGUAGES = (
    "Noyes",
    {
        "Est": "Estonian",
        "HebModern": "modern Hebrew",
        "ArmEastern": "Eastern Armenian",
        "Peshitta": "Syriac",
        "Wulfila": "Gothic",
        "PohnOld": "Pohnpeian",
        "ManxGaelic": "Manx",
    },
)
GREEK = {"Noyes": "literal", "Twenty": "free"}
SIZES, GREEK_SIZES, VERSES = (100, 400), (100, 274), 8000
WORDS = re.compile("[^\\W_](?:[\\w\u0300-\u036f\u0591-\u05c7\u0700-\u074f'\u2019]*[\\w\u0300-\u036f])?|[^\\w\\s]")
CHECK = "alignkit.embeddings.contextual.tell_translations"

Place = tuple[str, int, int]  # book, chapter, verse


def translation(bibles: Path, name: str) -> dict[Place, str]:
    """The verses of a translation, in words."""
    path = bibles / "formats" / "csv" / f"{name}.csv"
    need_files(path, remedy="clone https://github.com/scrollmapper/bible_databases")
    verses = {}
    with path.open(encoding="utf-8", newline="") as file:
        for book, chapter, verse, text, *_ in list(csv.reader(file))[1:]:
            if words := WORDS.findall(text):
                verses[book, int(chapter), int(verse)] = " ".join(words)
    return verses


def greek(folder: Path, books: list[str]) -> tuple[dict[Place, str], dict[Place, str]]:
    """The verses of the Greek New Testament, and their lemmas; its books by their names."""
    need_files(folder / "61-Mt-morphgnt.txt", remedy="clone https://github.com/morphgnt/sblgnt")
    forms, lemmas = dict[Place, str](), dict[Place, str]()
    for path in sorted(folder.glob("*-morphgnt.txt")):
        for line in path.read_text("utf-8").splitlines():
            place, _, _, text, _, _, lemma = line.split()
            key = books[int(place[:2]) - 1], int(place[2:4]), int(place[4:])
            word, marks = re.fullmatch("(.*?)([.,;\u00b7\u2014]*)", re.sub("[\u2e00-\u2e05]", "", text)).groups()
            forms[key] = " ".join([*forms.get(key, "").split(), word, *marks])
            lemmas[key] = " ".join([*lemmas.get(key, "").split(), lemma, *marks])
    return forms, lemmas


def links_of_all(source: list[str], target: list[str]) -> Links:
    """What stands for gold links."""
    return align(source, target, embeddings="none", threads=1).links


@click.command()
@click.argument("bibles", type=Path)
@click.argument("sblgnt", type=Path)
@click.option("-o", "--output", required=True, help="Without suffix: OUT.json and OUT.md are written.")
def main(bibles: Path, sblgnt: Path, output: str) -> None:
    """Quality on New Testaments."""
    rng, encoder = np.random.default_rng, ContextualEmbeddings()
    english = {name: translation(bibles, name) for name in GREEK}
    books = [*dict.fromkeys(book for book, _, _ in english[ENGLISH])]
    forms, lemmas = greek(sblgnt, books[books.index("Matthew") :])
    tables: dict[str, list[dict[str, object]]] = {"By language": [], "Ancient Greek": []}

    def add(title: str, row: dict[str, object]) -> None:
        click.echo(json.dumps(row), err=True)
        tables[title].append(row)

    for name, language in LANGUAGES.items():
        verses = translation(bibles, name)
        keys = [key for key in verses if key in english[ENGLISH]][-VERSES:]
        source, target = [verses[key] for key in keys], [english[ENGLISH][key] for key in keys]
        gold, order = links_of_all(source, target), rng(SEED).permutation(len(keys))
        for size in SIZES:
            known = list[bool]()

            def check(*text: object, known: list[bool] = known) -> bool:
                known.append(tell_translations(*text))
                return known[-1]

            row = {"language": language, "pairs": size}
            row["without_e5"] = aer(source, target, gold, order, size, "none")
            with patch(CHECK, lambda *_: True):
                row["with_e5"] = aer(source, target, gold, order, size, encoder)
            with patch(CHECK, check):
                row["by_default"] = aer(source, target, gold, order, size, encoder)
            add("By language", row | {"e5 left out": f"{known.count(False)} of {len(known)}"})
    for name, kind in GREEK.items():
        keys = [key for key in forms if key in english[name]]
        target = [english[name][key] for key in keys]
        gold = links_of_all([lemmas[key] for key in keys], target)
        source, order = [forms[key] for key in keys], rng(SEED).permutation(len(keys))
        for marks in ("as letters", "as marks"):
            for shown, embeddings in (("none", "none"), ("e5", encoder)):
                row = {"English": kind, "marks": marks, "embeddings": shown}
                with ExitStack() as stack:
                    for place, function in AS_LETTERS.items() if marks == "as letters" else ():
                        stack.enter_context(patch(place, function))
                    for size in GREEK_SIZES:
                        row[f"{size}_pairs"] = aer(source, target, gold, order, size, embeddings)
                add("Ancient Greek", row)
    Path(f"{output}.json").write_text(json.dumps(tables, indent=1) + "\n")
    text = "".join(markdown(title, rows) for title, rows in tables.items())
    about = "AER in percent of slices of New Testaments, against links of all their verses; target: English.\n\n"
    Path(f"{output}.md").write_text("# Quality on New Testaments\n\n" + about + text.rstrip() + "\n")


if __name__ == "__main__":
    run_benchmark(main)
