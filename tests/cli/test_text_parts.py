"""--fit-on, --adapt and --shard."""

from __future__ import annotations

import pytest

import alignkit_data

SAMPLE = [alignkit_data.path(f"train.{side}") for side in ("de", "en")]
TEST = [alignkit_data.path(f"test.{side}") for side in ("de", "en")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from alignkit_cli.main import run

    path = tmp_path_factory.mktemp("model")
    options = ["--fit-on", "300", "--save-model", path / "m.npz", "-o", path / "o"]
    assert run(["align", "-q", *map(str, [*SAMPLE, *options])]) == 0
    return path


def test_a_stream_is_adapted_to_pair_by_pair(alignkit, model):
    lines = [f"{a}\t{b}\n" for a, b in zip(*(path.read_text().splitlines() for path in TEST), strict=True)][:4]
    call = ["align", "--model", model / "m.npz", "--adapt", "-"]
    together = alignkit(*call, stdin="".join(lines).encode())
    assert together.lines == [alignkit(*call, stdin=line.encode()).lines[0] for line in lines]
    assert together.lines != alignkit(*call[:3], "-", stdin="".join(lines).encode()).lines


def test_options_that_do_not_go_together(alignkit, failure, model, write, tmp_path):
    saved = model / "m.npz"
    failure(alignkit("align", *TEST, "--model", saved, "--fit-on", "10%"), "--fit-on")
    failure(alignkit("align", *TEST, "--adapt"), "--adapt goes only with --model")
    failure(alignkit("align", *TEST, "--shard", "1/2"), "--shard goes only with --model")
    failure(alignkit("align", "-", "--model", saved, "--shard", "1/2", stdin=b"a\tb\n"), "--shard")
    failure(alignkit("align", *TEST, "--fit-on", "5", "--save-scores", tmp_path / "s.npz"), "--save-scores")
    failure(alignkit("align", *TEST, "--model", saved, "--adapt", "--save-scores", tmp_path / "s.npz"), "--adapt")
    failure(alignkit("align", "-", TEST[1], "--fit-on", "5", stdin=b"a\n"), "standard input", "file")
    for wrong in ("0/2", "3/2", "1", "a/b", "1/0", "1/2/3"):
        failure(alignkit("align", *TEST, "--model", saved, "--shard", wrong), "--shard", wrong)
    for wrong in ("0", "120%", "some"):
        failure(alignkit("align", *TEST, "--fit-on", wrong), "--fit-on", wrong)
    short = write("short", "a\nb\n")
    failure(alignkit("align", short, TEST[1], "--fit-on", "10%"), "short has 2 lines")
    failure(alignkit("align", short, TEST[1], "--model", saved, "--shard", "1/2"), "short has 2 lines")


def test_an_empty_part_is_told(alignkit, model, write):
    call = ["align", "-q", *TEST, "--model", model / "m.npz"]
    parts = [alignkit(*call, "--adapt", "--shard", f"{i}/3") for i in (1, 2, 3)]
    problem = "is empty: the text has 100 pairs in 1 block, and a block is not divided"
    told = [f"warning: part {i} of 3 {problem}\n" for i in (1, 2)]
    assert [(part.code, len(part.lines), part.err) for part in parts] == [
        *((0, 0, line) for line in told),
        (0, 100, ""),
    ]
    assert alignkit(*call, "--shard", "1/3").err == ""
    one = [write(side, f"{side}\n") for side in ("x", "y")]
    outcome = alignkit("align", "-q", *one, "--model", model / "m.npz", "--shard", "1/2")
    assert (outcome.code, outcome.out) == (0, b"")
    assert outcome.err == "warning: part 1 of 2 is empty: the text has 1 pair\n"


def test_a_saved_model_is_pruned_to_a_size(alignkit, failure, tmp_path):
    whole, small, few = (tmp_path / name for name in ("whole.npz", "small.npz", "few.npz"))
    fast = [*SAMPLE, "--quality", "fast"]
    assert alignkit("align", *fast, "--save-model", whole).code == 0
    size = whole.stat().st_size // 2
    outcome = alignkit("align", *fast, "--save-model", small, "--model-size", f"{size // 1024}K")
    assert outcome.code == 0
    assert 0.9 * size < small.stat().st_size <= size
    assert "word pairs are kept; the others had 0." in outcome.err
    fit = alignkit("align", *fast, "--fit-on", "50%", "--save-model", few, "--model-size", f"{size}")
    assert "word pairs are kept" in fit.err
    same = zip(*(alignkit("align", *TEST, "--model", path).lines for path in (whole, small)), strict=True)
    assert sum(a == b for a, b in same) > 0.9 * TEST[0].read_bytes().count(b"\n")
    failure(alignkit("align", *SAMPLE, "--model-size", "1M"), "--model-size goes only with --save-model")
    failure(alignkit("align", *SAMPLE, "--save-model", few, "--model-size", "big"), "--model-size", "big")
    failure(alignkit("align", *fast, "--save-model", few, "--model-size", "1K", "-q"), "the words of this text")
