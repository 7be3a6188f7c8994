"""Fits that ranks share have the bytes of a fit by one process, at any number of ranks."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from alignkit.aligner import load_aligner
from alignkit.classical.cooccurrence import cooccurrence
from alignkit.classical.diagonal import fit_diagonal
from alignkit.classical.exchange import ALONE, exchanging
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.hmm.joint_views import fit_views
from alignkit.classical.hmm.model import fit_hmm
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import View
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.memory import MemoryLimit, usual_limit
from alignkit.errors import AlignkitError
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_bitext
from alignkit.workflow.settings import AlignSettings
from alignkit.workflow.sharing import check_shared

from .conftest import environment, our_lines, torchrun

# Every rank reads its part of the text and fits all models on it; rank 0 saves them, and all write their links.
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from alignkit.classical.cooccurrence import cooccurrence
from alignkit.classical.exchange import exchanging
from alignkit.distributed import shards
from alignkit.distributed.exchange import GroupExchange
from alignkit.distributed.reading import read_shared
from alignkit.workflow.sharing import joined_ranks
sys.path.insert(0, {here!r})
from tests.distributed.test_sharing import FITS, as_text
shards.STEP = 1000  # so that the files have many steps
out = Path({out!r})
with joined_ranks() as ranks:
    bitext = read_shared(ranks, {source!r}, {target!r}, parts=64, work=lambda s, t: s * t * (s + t))
    for name, fit in FITS.items():
        with exchanging(GroupExchange(ranks, gathers_tables=True)):
            model = fit(bitext)
        links = model.fitted_links if "joint" in name else model.links(bitext)
        (out / f"{{name}}.{{ranks.rank}}").write_text(as_text(links))
        if ranks.rank == 0:
            model.save(out / f"{{name}}.npz")
    with exchanging(GroupExchange(ranks, gathers_tables=True)):
        table = cooccurrence(bitext, "presence")
    if ranks.rank == 0:
        np.savez(out / "cooc.npz", offsets=table.offsets, columns=table.columns, values=table.values)
"""

VIEWS = View(), View(letters=5), View(subwords=60)


@cache
def known(fit):
    """A model of a text that shares some words with the one below, by one process."""
    draw = random.Random(6)
    lines = [[draw.randrange(100) for _ in range(6)] for _ in range(40)]
    sides = [[[f"{name}{w}" for w in line] for line in lines] for name in ("wort", "word")]
    with exchanging(ALONE):
        return fit(Bitext.from_sentences(*sides), iterations=2, lexical_iterations=1)


def fit_known_views(bitext, **options):
    return fit_views(bitext, views=VIEWS, **options)


FITS = {
    "ibm1": lambda bitext: fit_ibm1(bitext, iterations=4),
    "ibm1-bayes": lambda bitext: fit_ibm1(bitext, iterations=3, dirichlet=0.01, null_probability=0.1, prune=0.01),
    "diagonal": fit_diagonal,
    "hmm": lambda bitext: fit_hmm(bitext, iterations=2, lexical_iterations=2),
    "joint": lambda bitext: fit_joint(bitext, JOINT_SETTINGS, iterations=4),
    "hmm-start": lambda bitext: fit_hmm(bitext, start=known(fit_hmm), iterations=2),
    "joint-start": lambda bitext: fit_joint(bitext, start=known(fit_joint), iterations=2),
    "joint-views": lambda bitext: fit_views(bitext, views=VIEWS, iterations=3),
    "joint-views-start": lambda bitext: fit_views(bitext, views=known(fit_known_views), iterations=2),
}


def as_text(links) -> str:
    return "".join(" ".join(f"{s}-{t}" for s, t in links[m].tolist()) + "\n" for m in range(len(links)))


def write_text(folder: Path, pairs: int = 260) -> tuple[Path, Path]:
    """A text with frequent and rare words, affixes that make classes, copies and blank lines."""
    draw = random.Random(5)
    sides: tuple[list[str], list[str]] = ([], [])
    for _ in range(pairs):
        words = [int(draw.paretovariate(0.7)) % 150 for _ in range(draw.randint(0, 12))]
        sides[0].append(" ".join(f"Wort{w}" if draw.random() < 0.2 else f"wort{w}" for w in words))
        kept = [f"word{w}" for w in words if draw.random() < 0.9] + [","] * (draw.random() < 0.4)
        sides[1].append("  ".join(draw.sample(kept, len(kept)) if draw.random() < 0.3 else kept))
    for side in sides:
        side += side[:20]
    paths = folder / "text.de", folder / "text.en"
    paths[0].write_text("\n".join(sides[0]) + "\n")
    paths[1].write_bytes("\r\n".join(sides[1]).encode())  # and no end of the last line
    return paths


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_ranks_find_the_bytes_that_one_process_finds(ranks, start, tmp_path):
    source, target = write_text(tmp_path)
    bitext = read_bitext(source, target)
    code = PROGRAM.format(
        here=str(Path(__file__).parents[2]), out=str(tmp_path), source=str(source), target=str(target)
    )
    process = start(ranks, code)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    for name, fit in FITS.items():
        model = fit(bitext)
        model.save(tmp_path / "alone.npz")
        assert (tmp_path / "alone.npz").read_bytes() == (tmp_path / f"{name}.npz").read_bytes(), name
        links = model.fitted_links if "joint" in name else model.links(bitext)
        parts = [(tmp_path / f"{name}.{rank}").read_text() for rank in range(ranks)]
        assert "".join(parts) == as_text(links), name
        assert sum(map(bool, parts)) == ranks  # each had its part
    table, found = cooccurrence(bitext, "presence"), np.load(tmp_path / "cooc.npz")
    for part in ("offsets", "columns", "values"):
        assert getattr(table, part).tobytes() == found[part].tobytes()


def run(*command: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        list(map(str, command)), env=environment(), capture_output=True, timeout=300, check=False
    )


def test_the_command_joins_the_lines_of_compressed_shards_or_leaves_them_in_parts(tmp_path):
    source, target = write_text(tmp_path, 60)
    lines = source.read_text().splitlines(), target.read_text().splitlines()
    for n, (low, high) in enumerate([(0, 30), (30, 33), (33, 80)]):
        for side, ending in zip(lines, ("de", "en"), strict=True):
            text = "".join(line + "\n" for line in side[low:high])
            (tmp_path / f"shard{n}.{ending}.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "list").write_text("".join(f"{tmp_path}/shard{n}.en.gz\n" for n in range(3)))
    program = ["-m", "alignkit", "align", "--quality", "fast", "--iterations", "2", "--format", "probabilities"]
    alone = run(torchrun(1)[0], *program, source, target)
    files = [f"{tmp_path}/shard*.de.gz", f"@{tmp_path}/list"]
    shared = run(*torchrun(2, *program), *files)
    assert shared.returncode == 0, shared.stderr
    assert alone.stdout.count(b"\n") == 80
    assert shared.stdout == alone.stdout
    parted = run(*torchrun(2, *program), *files, "--parts", tmp_path / "parts")
    assert (parted.returncode, parted.stdout) == (0, b"")
    manifest = json.loads((tmp_path / "parts" / "manifest.json").read_text())
    assert manifest["pairs"] == 80 == sum(part["pairs"] for part in manifest["parts"])
    texts = [(tmp_path / "parts" / part["file"]).read_bytes() for part in manifest["parts"]]
    assert [text.count(b"\n") for text in texts] == [part["pairs"] for part in manifest["parts"]]
    assert b"".join(texts) == alone.stdout


@pytest.mark.parametrize("command", ["align", "diagonal"])
def test_ranks_that_own_no_word_pair_find_the_same_links(command, tmp_path):
    (tmp_path / "s").write_text("a\n" * 70 + "\n" * 20)
    (tmp_path / "t").write_text("x y\n" * 70 + "\n" * 20)
    program = ["-m", "alignkit", command, "--iterations", "2", "--quiet", tmp_path / "s", tmp_path / "t"]
    alone = run(torchrun(1)[0], *program)
    shared = run(*torchrun(3, *program))
    assert shared.returncode == 0, shared.stderr
    assert shared.stdout == alone.stdout
    assert shared.stdout.count(b"\n") == 90


def test_an_error_of_one_rank_is_one_line(tmp_path):
    (tmp_path / "bad.de").write_bytes(b"a b\n" * 500 + b"\xff\n" + b"c\n" * 99)
    (tmp_path / "x.en").write_text("x y\n" * 600)
    (tmp_path / "short.en").write_text("x y\n" * 599)
    found = run(
        *torchrun(2, "-m", "alignkit", "ibm1"), tmp_path / "bad.de", tmp_path / "x.en", "-o", tmp_path / "o"
    )
    (line,) = [each for each in our_lines(found.stderr.decode()) if each.startswith("alignkit:")]
    assert "bad.de, line 501: is not valid UTF-8" in line
    found = run(*torchrun(2, "-m", "alignkit", "ibm1"), tmp_path / "x.en", tmp_path / "short.en")
    (line,) = [each for each in our_lines(found.stderr.decode()) if each.startswith("alignkit:")]
    assert "x.en has 600 lines" in line
    assert "short.en has 599" in line
    assert not (tmp_path / "o").exists()


def ranks_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The process ids of the ranks that a torchrun has started."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(each) for each in found.read_text().split()] if found.exists() else []


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find the ranks")
def test_a_killed_rank_is_named_and_a_restart_goes_on_to_the_same_bytes(tmp_path):
    source, target = write_text(tmp_path, 1200)
    options = ["--iterations", "6", "--quiet", source, target]
    wanted = run(torchrun(1)[0], "-m", "alignkit", "align", *options).stdout
    command = torchrun(2, "-m", "alignkit", "align", "--checkpoint", tmp_path / "c", *options)
    command = list(map(str, command))
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    complete, end = tmp_path / "c" / "fit-1" / "complete.json", time.monotonic() + 120
    while not (complete.exists() and json.loads(complete.read_bytes())["saved"] >= 3):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    killed, began = ranks_of(process)[1], time.monotonic()
    os.kill(killed, signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - began < 60
    assert process.returncode != 0
    assert stdout == b""
    (line,) = [each for each in our_lines(stderr.decode()) if each.startswith("alignkit:")]
    assert f"(process {killed} on " in line
    assert "with --checkpoint it goes on" in line
    saved = json.loads(complete.read_bytes())["saved"]
    again = run(*command)
    assert again.returncode == 0, again.stderr
    assert again.stdout == wanted
    assert json.loads(complete.read_bytes())["saved"] > saved


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"embeddings": "e5"}, "embeddings"),
        ({"scored": True}, "score matrices"),
        ({"method": "ibm1", "max_memory": "1G"}, "max_memory"),
    ],
)
def test_what_ranks_cannot_share_is_refused(given, name):
    with pytest.raises(AlignkitError, match=f"cannot share a fit with {name}"):
        check_shared(AlignSettings(**given))


def test_what_ranks_share_is_not_refused():
    for method in ("joint", "ibm1", "diagonal", "hmm"):
        check_shared(AlignSettings(method))
    check_shared(AlignSettings(quality="fast", max_memory="1G"))
    check_shared(AlignSettings(start="model"))


def test_ranks_of_a_machine_share_its_memory():
    assert MemoryLimit(processes=3).limit == usual_limit() // 3
    assert MemoryLimit(500, processes=3).limit == 500


def test_ranks_look_at_a_small_text_as_subwords_as_one_process_does(tmp_path):
    draw = random.Random(9)
    lines = [[f"{draw.randrange(1300):04d}" for _ in range(7)] for _ in range(420)]
    for name, letters in (("s", "ab"), ("t", "xy")):
        text = "".join(" ".join(f"{letters}{word}" for word in line) + "\n" for line in lines)
        (tmp_path / name).write_text(text)
    program = ["-m", "alignkit", "align", "--iterations", "1", tmp_path / "s", tmp_path / "t"]
    alone = run(torchrun(1)[0], *program, "--save-model", tmp_path / "one")
    shared = run(*torchrun(2, *program, "--save-model", tmp_path / "two"))
    assert alone.returncode == shared.returncode == 0, shared.stderr
    assert load_aligner(tmp_path / "one").name == "hmm-views"
    assert shared.stdout == alone.stdout
    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
