"""The sample bitext keeps what data/README.md promises of it."""

import importlib.util
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
TEXTS = ("train.de", "train.en", "test.de", "test.en")

LINK = re.compile(r"(\d+)([-p])(\d+)")


def lines(name):
    text = (SAMPLE / name).read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text.removesuffix("\n").split("\n")


def gold():
    """Per held-out pair the links as (German, kind, English)."""
    matches = [[LINK.fullmatch(link) for link in line.split(" ")] for line in lines("test.gold")]
    assert all(match for pair in matches for match in pair)
    return [[(int(m[1]), m[2], int(m[3])) for m in pair] for pair in matches]


def test_the_package_knows_its_files(monkeypatch):
    """data/ is installed as the import package alignkit_data; here it is loaded from the source tree."""
    data = SAMPLE.parent
    spec = importlib.util.spec_from_file_location(
        "alignkit_data", data / "__init__.py", submodule_search_locations=[str(data)]
    )
    package = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "alignkit_data", package)
    spec.loader.exec_module(package)
    assert {package.path(name) for name in package.FILES} == set(SAMPLE.iterdir())
    with pytest.raises(ValueError, match=r"no sample file 'train\.fr'"):
        package.path("train.fr")


def test_the_text_of_the_option_has_the_pairs_with_gold_links_first():
    for language in ("de", "en"):
        assert lines(f"sample.{language}") == [*lines(f"test.{language}"), *lines(f"train.{language}")]


@pytest.mark.parametrize("name", [*TEXTS, "test.gold"])
def test_layout(name):
    for line in lines(name):
        assert line
        assert line == " ".join(line.split()), line
        assert unicodedata.is_normalized("NFC", line), line


def test_tags_and_subwords_are_those_of_the_held_out_text():
    assert [re.sub("</?b>", "", line) for line in lines("test.tagged.de")] == lines("test.de")
    assert sum("<b>" in line for line in lines("test.tagged.de")) >= 50
    for language in ("de", "en"):
        joined = [line.replace(" ", "").replace("▁", " ").strip() for line in lines(f"test.pieces.{language}")]
        assert joined == lines(f"test.{language}")


def test_gold_is_well_formed():
    for links, german, english in zip(gold(), lines("test.de"), lines("test.en"), strict=True):
        positions = [(i, j) for i, _, j in links]
        assert positions == sorted(set(positions)), german  # in order, and none both sure and possible
        assert max(i for i, _ in positions) < len(german.split()), german
        assert max(j for _, j in positions) < len(english.split()), english


def test_the_counts_of_the_page():
    texts = {name: [word for line in lines(name) for word in line.split()] for name in TEXTS}
    kinds = Counter(kind for pair in gold() for _, kind, _ in pair)
    linked = sum(len({german for german, _, _ in pair}) for pair in gold())
    known = {word.lower() for name in ("train.de", "train.en") for word in texts[name]}
    longer = [word for name in ("test.de", "test.en") for word in texts[name] if word.isalpha() and len(word) > 3]
    types = [
        len({word for part in ("train", "test") for word in texts[f"{part}.{language}"] if word.isalpha()})
        for language in ("de", "en")
    ]
    page = " ".join((SAMPLE.parent / "README.md").read_text(encoding="utf-8").split())
    for part, pairs in (("train", 940), ("test", 100)):
        counts = [len(texts[f"{part}.{language}"]) for language in ("de", "en")]
        assert [len(lines(f"{part}.{language}")) for language in ("de", "en")] == [pairs, pairs]
        assert f"| {pairs} | {counts[0]:,} | {counts[1]:,} |" in page
    assert f"{types[0]:,} German and {types[1]:,} English word types" in page
    assert f"has {kinds['-']:,} sure and {kinds['p']} possible links" in page
    assert f"{linked / len(texts['test.de']):.1%}".replace("%", " %") + " of the German tokens" in page
    assert f"letters, {sum(word.lower() in known for word in longer) / len(longer):.0%}".replace("%", " %") in page
