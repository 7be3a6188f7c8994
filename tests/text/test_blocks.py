import gzip
import itertools
import os
import random

import numpy as np
import pytest

from alignkit.errors import AlignkitError, InputError
from alignkit.text import blocks, reading
from alignkit.text.blocks import block_bounds, element_bounds, read_blocks, read_sample, sampled_pairs, shard_range
from alignkit.text.pairs import PairFiles, read_bitext


def lines_of(seed, count, last_end=True):
    draw = random.Random(seed)
    lines = [" ".join(f"w{draw.randrange(30)}ü" for _ in range(draw.randrange(8))) for _ in range(count - 1)]
    return "\n".join([*lines, "the end"]) + ("\n" if last_end else "")


def words(bitext):
    return [(bitext.source.words(m), bitext.target.words(m)) for m in range(len(bitext))]


def expected(source, target):
    rows = zip(source.removesuffix("\n").split("\n"), target.removesuffix("\n").split("\n"), strict=True)
    return [(x.split(), y.split()) for x, y in rows]


@pytest.fixture(params=[(1 << 22, "plain"), (7, "plain"), (64, "gzip"), (50, "joined")])
def files(request, tmp_path, monkeypatch):
    """(PairFiles, source text, target text), read in chunks of several sizes."""
    size, kind = request.param
    monkeypatch.setattr(reading, "CHUNK", size)
    source, target = lines_of(1, 53), lines_of(2, 53, last_end=False)
    if kind == "joined":
        both = [f"{x}\t{y}\n" for x, y in zip(source.split("\n"), target.split("\n"), strict=False)]
        (tmp_path / "both").write_text("".join(both))
        return PairFiles(tmp_path / "both"), source, target
    for name, text in (("src", source), ("tgt", target)):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if kind == "gzip" else data)
    return PairFiles(tmp_path / "src", tmp_path / "tgt"), source, target


@pytest.mark.parametrize("size", [1, 5, 53, 100])
def test_blocks_are_the_lines_in_order(files, size):
    files, *texts = files
    rows = expected(*texts)
    assert block_bounds(files, size).tolist() == [*range(0, 53, size), 53]
    for low, high in ((0, 53), (13, 40), (50, 53), (7, 7)):
        bounds = np.array([*range(low, high, size), high])
        parts = list(read_blocks(files, bounds))
        assert [len(part) for part in parts] == np.diff(bounds).tolist()
        assert [pair for block in parts for pair in words(block)] == rows[low:high]


@pytest.mark.parametrize("elements", [1, 60, 200, 10**6])
def test_blocks_of_elements_are_as_large_as_may_be(files, elements, monkeypatch):
    monkeypatch.setattr(blocks, "COUNTED_BLOCK", 9)
    files, *texts = files
    sizes = [(len(x) + 1) * (len(y) + 1) for x, y in expected(*texts)]
    bounds = block_bounds(files, 1, elements).tolist()
    assert bounds == element_bounds([read_bitext(files.source, files.target)], elements).tolist()
    assert (bounds[0], bounds[-1]) == (0, 53)
    for low, high in itertools.pairwise(bounds):
        assert sum(sizes[low:high]) <= elements or high == low + 1
        assert high == 53 or sum(sizes[low : high + 1]) > elements


def test_a_sample_is_of_the_lines_that_are_asked_for(files, monkeypatch):
    monkeypatch.setattr(blocks, "COUNTED_BLOCK", 9)
    files, *texts = files
    rows = expected(*texts)
    for chosen in ([], [0], [3, 8, 9, 30, 52], list(range(53))):
        assert words(read_sample(files, np.array(chosen, np.int64))) == [rows[m] for m in chosen]


@pytest.mark.parametrize("count", [0, 1, 7, 101])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_parts_join_to_the_whole(count, n):
    parts = [shard_range(count, (i, n)) for i in range(1, n + 1)]
    assert [low for low, _ in parts] == [0, *(high for _, high in parts[:-1])]
    assert parts[-1][1] == count
    sizes = [high - low for low, high in parts]
    assert max(sizes) - min(sizes) <= 1
    for i in (0, n + 1):
        with pytest.raises(AlignkitError, match="shard"):
            shard_range(count, (i, n))


def test_samples_are_exact_even_and_nested():
    for count, size in ((5, 5), (5, 9), (100, 1), (300_000, 10_000)):
        chosen = sampled_pairs(count, size)
        assert len(chosen) == min(count, size)
        assert (np.diff(chosen) > 0).all()
        assert chosen[0] >= 0
        assert chosen[-1] < count
    tenths = np.bincount(chosen // 30_000)
    assert len(tenths) == 10
    assert abs(tenths - 1000).max() < 150  # five standard deviations
    assert np.isin(sampled_pairs(300_000, 2000), chosen).all()
    shared = len(np.intersect1d(sampled_pairs(300_000, 10_000, seed=1), chosen))
    assert 250 < shared < 420  # one in thirty


def test_errors_name_file_and_line(tmp_path):
    (tmp_path / "src").write_bytes(b"a\n" * 30 + b"\xff\n")
    (tmp_path / "tgt").write_bytes(b"a\n" * 31)
    (tmp_path / "tab").write_bytes(b"a\tb\n" * 20 + b"c\n")
    for files, line in ((PairFiles(tmp_path / "src", tmp_path / "tgt"), 31), (PairFiles(tmp_path / "tab"), 21)):
        with pytest.raises(InputError) as error:
            list(read_blocks(files, np.array([5, 12, 19, 31])))
        assert error.value.line == line
    (tmp_path / "tgt").write_bytes(b"a\n" * 29)
    with pytest.raises(AlignkitError, match=r"31 lines.* 29"):
        block_bounds(PairFiles(tmp_path / "src", tmp_path / "tgt"), 1)
    with pytest.raises(AlignkitError, match=r"standard input: .* reads the text several times"):
        block_bounds(PairFiles("-"), 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="once"):
        block_bounds(PairFiles(tmp_path / "src", tmp_path / "pipe"), 1)
