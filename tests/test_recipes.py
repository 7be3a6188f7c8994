"""The recipes of docs/guides run as they stand, and what they write has the form that other programs document."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import alignkit
import alignkit_data

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
PAGES = sorted(page.stem for page in GUIDES.glob("*.md") if page.name != "README.md")
_BLOCK = re.compile(r"<!-- (run|file)(?: with (\w+))?(?:: (\S+))? -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """A folder with the sample text in which the blocks of a page were run; with eflomal and the like if they are
    installed."""
    place = tmp_path_factory.mktemp(request.param)
    for side in ("de", "en"):
        shutil.copy(alignkit_data.path(f"train.{side}"), place / f"corpus.{side}")
    for name, program in (("alignkit", '-m alignkit "$@"'), ("python", '"$@"')):
        script = place / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {program}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    script = ""
    for kind, needed, name, text in _BLOCK.findall((GUIDES / f"{request.param}.md").read_text(encoding="utf-8")):
        if kind == "file":
            (place / name).write_text(text, encoding="utf-8")
        elif not needed or find_spec(needed) is not None:
            script += text
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=place,
        env=with_programs(place),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return place


def with_programs(place):
    """The environment with the programs of a folder."""
    paths = [str(place / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.environ | {"PATH": os.pathsep.join(paths)}


def lines(place, name):
    return (place / name).read_text(encoding="utf-8").split("\n")[:-1]


def check_links(place, name, source, target):
    """As Moses' ``extract`` and Marian read links: ``s-t``, zero-based, inside the pair, a line for each pair."""
    texts = [lines(place, side) for side in (source, target)]
    found = lines(place, name)
    assert len(found) == len(texts[0]) == len(texts[1])
    assert sum(map(len, found)) > 5 * len(found)
    for line, x, y in zip(found, *texts, strict=True):
        for item in line.split(" ") if line else []:
            match = re.fullmatch(r"(\d+)-(\d+)", item)
            assert match, item
            assert int(match[1]) < len(x.split(" "))
            assert int(match[2]) < len(y.split(" "))


def check_lexicon(place, name, first, second):
    """Lines ``WORD WORD PROBABILITY``, each word one of its text."""
    words = [{word for line in lines(place, text) for word in line.split(" ")} for text in (first, second)]
    found = [line.split(" ") for line in lines(place, name)]
    assert len(found) > 1000
    assert all(len(row) == 3 and 0 < float(row[2]) <= 1 for row in found)
    assert {row[0] for row in found} <= words[0]
    assert {row[1] for row in found} <= words[1] | {"NULL"}


def test_every_page_has_a_line_in_the_index_and_every_recipe_a_test():
    index = (GUIDES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w[\w-]*)\.md\)", index)) == PAGES
    recipes = {name for name in PAGES if _BLOCK.search((GUIDES / f"{name}.md").read_text(encoding="utf-8"))}
    assert recipes == {
        "eflomal",
        "fast_align",
        "large-corpus",
        "moses",
        "opusfilter",
        "pipelines",
        "projection",
        "subwords",
    }


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["fast_align"], indirect=True)
def test_fast_align(folder):
    for name in ("forward.align", "reverse.align", "both.align", "ibm1.align"):
        check_links(folder, name, "corpus.de", "corpus.en")
    assert alignkit.read_links(folder / "forward.align").to_strings() == lines(folder, "forward.align")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["eflomal"], indirect=True)
def test_eflomal(folder):
    check_links(folder, "alignkit.links", "corpus.de", "corpus.en")
    check_links(folder, "small.links", "small.de", "small.en")
    if find_spec("eflomal") is not None:
        check_links(folder, "eflomal.links", "corpus.de", "corpus.en")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["subwords"], indirect=True)
def test_subwords(folder):
    check_links(folder, "pieces.links", "pieces.de", "pieces.en")
    check_links(folder, "raw.links", "raw.de", "raw.en")
    check_lexicon(folder, "lex.s2t", "pieces.en", "pieces.de")
    assert not any(row.split(" ")[1] == "NULL" for row in lines(folder, "lex.s2t"))


@pytest.mark.parametrize("folder", ["moses"], indirect=True)
def test_moses(folder):
    check_links(folder, "model/aligned.grow-diag-final-and", "corpus.de", "corpus.en")
    check_lexicon(folder, "model/lex.f2e", "corpus.en", "corpus.de")
    check_lexicon(folder, "model/lex.e2f", "corpus.de", "corpus.en")
    table = gzip.decompress((folder / "model/phrase-table.gz").read_bytes()).decode().splitlines()
    assert len(table) > 1000
    assert all(line.count(" |||") == 6 for line in table)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["projection"], indirect=True)
def test_projection(folder):
    tagged, plain = lines(folder, "tagged.en"), lines(folder, "corpus.en")
    assert [re.sub(r"</?b[^>]*>|\{0\}", "", line) for line in tagged] == plain
    assert all(line.count('<b id="1">') == line.count("</b>") == line.count("{0}") == 1 for line in tagged)
    blocks = (folder / "labels.en").read_text(encoding="utf-8").split("\n\n")[:-1]
    assert [" ".join(row.split("\t")[0] for row in block.split("\n")) for block in blocks] == plain


@pytest.mark.parametrize("folder", ["opusfilter"], indirect=True)
def test_opusfilter(folder, monkeypatch):
    """The filter by itself, on OpusFilter's documented base class or a stand-in for it."""
    monkeypatch.syspath_prepend(folder)
    installed = find_spec("opusfilter") is not None
    if not installed:
        from types import SimpleNamespace

        stand_in = SimpleNamespace(FilterABC=type("FilterABC", (), {}), CLEAN_HIGH="clean high")
        monkeypatch.setitem(sys.modules, "opusfilter", stand_in)
    from alignkit_filter import AlignkitFilter

    pairs = list(zip(lines(folder, "noisy.de"), lines(folder, "noisy.en"), strict=True))
    chosen = AlignkitFilter(model=folder / "model.npz", threshold=-4.5)
    scores = list(chosen.score([*pairs, ("", "the")]))
    assert len(scores) == 101
    accepted = [chosen.accept(score) for score in scores]
    assert sum(accepted[:50]) >= 45
    assert sum(accepted[50:100]) <= 5
    assert not accepted[100]
    if installed:
        assert lines(folder, "clean.de") == [x for (x, _), kept in zip(pairs, accepted, strict=False) if kept]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["pipelines"], indirect=True)
def test_pipelines(folder):
    check_links(folder, "corpus.links", "corpus.de", "corpus.en")
    assert lines(folder, "forward.links") == lines(folder, "reverse.links") == lines(folder, "corpus.links")
    assert len(lines(folder, "scores")) == len(lines(folder, "corpus.tsv")) == len(lines(folder, "corpus.de"))
    answers = [json.loads(line) for line in lines(folder, "answers.jsonl")]
    assert [answer["id"] for answer in answers] == list(range(len(lines(folder, "corpus.de"))))
    assert [" ".join(answer["src"]) for answer in answers] == lines(folder, "corpus.de")
    for side in ("de", "en"):  # fewer lines than workers
        (folder / f"corpus.{side}").write_text(f"{lines(folder, f'corpus.{side}')[0]}\n", encoding="utf-8")
    subprocess.run([folder / "bin" / "python", "pool.py"], cwd=folder, check=True, env=with_programs(folder))
    assert len(lines(folder, "answers.jsonl")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["large-corpus"], indirect=True)
def test_large_corpus(folder):
    for name in ("links", "all.links", "stream.links"):
        check_links(folder, name, "corpus.de", "corpus.en")
