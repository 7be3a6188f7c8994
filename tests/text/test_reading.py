"""Reading of real bytes in real files, good and bad."""

import bz2
import gzip
import io
import lzma
import sys
import tempfile

import naive
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError, InputError
from alignkit.text import reading
from alignkit.text.pair_formats import separator_of
from alignkit.text.pairs import read_bitext, read_line_pairs
from alignkit.text.reading import encode_text, file_parts, read_chunks, read_lines, split_lines, valid_text
from alignkit.text.tokenization import split_words


def tokens_of(corpus):
    """The corpus as lists of bytes, from its arrays alone."""
    vocabulary = corpus.vocabulary
    types = [vocabulary.text[a:b].tobytes() for a, b in zip(vocabulary.offsets, vocabulary.offsets[1:])]  # noqa: B905
    assert len(set(types)) == len(types)
    return [[types[i] for i in sentence] for sentence in corpus]


def whole(path):
    return b"".join(file_parts(path))


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


FRAGMENTS = ["ab", "\r\n", *"ab \t\n\r\0\u2028\u0085\u00a0\u3000\u200b\u00ad\ufeff\v\fß"]


@given(st.one_of(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join), st.text(max_size=60)))
@settings(max_examples=100, deadline=None)
def test_encode_text_equals_the_naive_tokeniser(text):
    data = text.encode("utf-8", "replace")
    corpus = encode_text(data)
    assert tokens_of(corpus) == naive.tokenize(data)
    assert len(corpus) == data.count(b"\n") + (data != b"" and not data.endswith(b"\n"))
    flat = [token for line in naive.tokenize(data) for token in line]
    in_order = list(dict.fromkeys(flat))
    assert [token.encode() for token in corpus.vocabulary.tokens] == in_order
    lines = split_lines(data)
    assert len(lines) == len(corpus)
    assert [split_words(line) for line in lines] == [
        [token.decode() for token in line] for line in tokens_of(corpus)
    ]


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_encode_text_survives_any_bytes(data):
    """Those of words that are no UTF-8 may become U+FFFD."""
    assert [*map(len, encode_text(data))] == [*map(len, naive.tokenize(data))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("a b\r\nc\r\n", ["a b", "c"]),
        ("\ufeffa\nb\n", ["a", "b"]),
        ("a\u00a0b\u202fc\u2007d\u3000e\vf\fg\n", ["a\u00a0b\u202fc\u2007d e\vf\fg"]),
        ("\u3000a\u3000\n\u3000\n", ["a", ""]),
        ("\u200b\n\u00ad \u200d\t\ufeff\u2060\na \u200b b\n\f\n\u00a0\n", ["", "", "a \u200b b", "", ""]),
    ],
)
def test_lines_and_tokens(tmp_path, data, expected):
    path = write(tmp_path / "x", data)
    bitext = read_bitext(path, path)
    assert [" ".join(bitext.source.words(m)) for m in range(len(bitext))] == expected
    assert len(read_lines(path)) == len(expected)


@pytest.mark.parametrize("types", [16_384, 16_385, 70_000])
def test_the_hash_table_grows(types):
    """The table starts with 32,768 slots and may be half full; words that come again must find their id."""
    order = np.random.default_rng(types).permutation(types)
    first = " ".join(map(str, range(types)))
    corpus = encode_text(f"{first}\n{' '.join(map(str, order))}\n".encode())
    assert len(corpus.vocabulary) == types
    assert np.array_equal(corpus[0], np.arange(types))
    assert np.array_equal(corpus[1], order)
    assert corpus.vocabulary.text.tobytes() == "".join(map(str, range(types))).encode()


def test_lowercase_is_of_all_scripts(tmp_path, monkeypatch):
    path = write(tmp_path / "x", "ÄB Straße ΣΑΣ\n")
    assert read_lines(path, lowercase=True) == ["äb straße σας"]
    assert read_bitext(path, path, lowercase=True).source.words(0) == ["äb", "straße", "σας"]
    lines = "Σ ÄΣ\nΣÄ\nÄÖ ÜΣ\n\nΣ" * 3
    for size in (1, 2, 5, 100):  # lower-cased at a time
        monkeypatch.setattr(reading, "_LOWERED", size)
        assert valid_text("x", lines.encode(), lowercase=True).decode() == lines.lower()
    ascii_only = write(tmp_path / "y", "AB c\n")
    assert read_lines(ascii_only, lowercase=True) == ["ab c"]
    assert read_lines(ascii_only) == ["AB c"]


# Compressed files.


def zstd(data):
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


COMPRESSORS = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": zstd}
TEXT = "".join(f"Zeile {i} ä\n" for i in range(2000)).encode()


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed_files_are_told_by_their_bytes(tmp_path, kind):
    path = write(tmp_path / "no-suffix", COMPRESSORS[kind](TEXT))
    assert whole(path) == TEXT
    several = write(
        tmp_path / "several", COMPRESSORS[kind](b"a\n") + COMPRESSORS[kind](b"") + COMPRESSORS[kind](b"b\n")
    )
    assert whole(several) == b"a\nb\n"


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("streams", [1, 2])
def test_truncated_or_damaged_compressed_files(tmp_path, kind, streams):
    """Damage in a later stream must not pass for the end of the file (pbzip2 writes many streams)."""
    last = COMPRESSORS[kind](TEXT)
    before = COMPRESSORS[kind](b"first\n") * (streams - 1)
    flipped = bytearray(last)
    flipped[len(last) // 2] ^= 0xFF
    for data in (last[:-1], last[: len(last) // 2], last[:20], bytes(flipped), last + b"junk"):
        path = write(tmp_path / "x", before + data)
        with pytest.raises(InputError, match="damaged or truncated") as caught:
            whole(path)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)


def test_xz_padding_is_no_damage(tmp_path):
    assert whole(write(tmp_path / "x", lzma.compress(b"a\n") + b"\0" * 8)) == b"a\n"


def test_a_text_that_starts_like_bzip2_is_text(tmp_path):
    assert read_lines(write(tmp_path / "x", "BZh ist kein Wort\nBZh9 auch nicht\n")) == [
        "BZh ist kein Wort",
        "BZh9 auch nicht",
    ]


def test_zstd_frames_to_be_skipped_are_skipped(tmp_path):
    skip = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"
    assert whole(write(tmp_path / "x", skip + zstd(b"a\n") + skip + zstd(b"b\n"))) == b"a\nb\n"


def test_zstd_without_its_package_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match="compressed with zstd; pip install zstandard"):
        whole(write(tmp_path / "x", b"\x28\xb5\x2f\xfd rest"))


class Typed:
    """A stream that comes in these chunks, whatever size is asked for."""

    def __init__(self, chunks):
        self.chunks = list(chunks)

    def read(self, size):
        return self.chunks.pop(0) if self.chunks else b""


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_compressed_stream_comes_in_chunks(kind, size):
    data = COMPRESSORS[kind](TEXT) + COMPRESSORS[kind](b"more\n")
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    assert b"".join(read_chunks("-", Typed(chunks), 0)) == TEXT + b"more\n"
    with pytest.raises(InputError, match="standard input: damaged or truncated"):
        list(read_chunks("-", Typed([*chunks[:-1], chunks[-1][:-1]]), 0))


def test_a_plain_stream_waits_for_no_more_than_it_needs():
    """What somebody types must not wait for the next line, unless it may yet be a compressed file."""
    typed = Typed([b"a\n", b"b\n"])
    assert next(read_chunks("-", typed, 0)) == b"a\n"
    assert typed.chunks == [b"b\n"]
    assert list(read_chunks("-", Typed([b"B", b"Z", b"h ist", b"\n"]), 0)) == [b"BZh ist", b"\n"]
    assert list(read_chunks("-", Typed([]), 0)) == []


# Files that cannot be read.


@pytest.mark.parametrize(
    "data",
    [b"", b"\xef\xbb\xbf", *(pack(b"") for pack in COMPRESSORS.values())],
    ids=["nothing", "BOM", *COMPRESSORS],  # gzip's data has the time, which differs between pytest's workers
)
def test_empty_file(tmp_path, data):
    path = write(tmp_path / "leer", data)
    with pytest.raises(InputError, match="leer: is empty"):
        read_bitext(path, path)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(InputError, match=r"weg: cannot be read: No such file"):
        whole(tmp_path / "weg")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        whole(tmp_path)
    with tempfile.TemporaryFile("ab") as file, pytest.raises(InputError, match=r"^standard input: cannot be read"):
        list(read_chunks("-", file, 0))


def test_invalid_utf8_names_file_and_line(tmp_path):
    good = write(tmp_path / "good", "a\nb\nc\nd\n")
    bad = write(tmp_path / "bad", b"a\r\n\xc3\xa4\nx\xe4y\nd\xff\n")
    for sides in ((good, bad), (bad, good)):
        with pytest.raises(InputError, match=r"bad, line 3: is not valid UTF-8; .*--encoding-errors replace"):
            read_bitext(*sides)
    bitext = read_bitext(bad, good, encoding_errors="replace")
    assert bitext.source.words(2) == ["x\ufffdy"]
    assert bitext.source.words(3) == ["d\ufffd"]
    assert read_lines(bad, encoding_errors="replace", lowercase=True)[2] == "x\ufffdy"


def test_a_byte_cut_off_at_the_end_is_invalid(tmp_path):
    with pytest.raises(InputError, match="line 2"):
        read_lines(write(tmp_path / "x", b"a\nb\xc3"))


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
def test_utf16_is_recognised(tmp_path, codec):
    mark = "\ufeff" if codec == "utf-16-be" else ""
    with pytest.raises(InputError, match="looks like UTF-16"):
        read_lines(write(tmp_path / "x", (mark + "ab\ncd\n").encode(codec)))


def test_a_model_in_place_of_a_text_is_recognised(tmp_path):
    np.savez(tmp_path / "x.npz", np.arange(1000))
    with pytest.raises(InputError, match="a zip archive, as saved models are"):
        read_lines(tmp_path / "x.npz")


def test_unknown_encoding_errors(tmp_path):
    with pytest.raises(AlignkitError, match="strict or replace"):
        read_lines(write(tmp_path / "x", "a\n"), encoding_errors="ignore")


def test_unequal_counts_name_both(tmp_path):
    x, y = write(tmp_path / "x", "a\nb\nc\n"), write(tmp_path / "y", "a\nb\n")
    for function in (read_bitext, read_line_pairs):
        with pytest.raises(AlignkitError, match=r"x has 3 lines, .*y has 2"):
            function(x, y)


# One file with both sides.


@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        ("a b ||| c\n", [("a b", "c")]),
        ("a ||| b", [("a", "b")]),
        ("a ||| b\r\nc ||| d\r\n", [("a", "b"), ("c", "d")]),
        ("||| b\na |||\n|||\n\n \r\n", [("", "b"), ("a", ""), ("", ""), ("", ""), ("", "")]),
        ("a\t|||\tb\n", [("a", "b")]),
        ("a||| x ||| b ||||\n", [("a||| x", "b ||||")]),
        ("a b\tc d\n", [("a b", "c d")]),
        ("a b\tc d\r\ne\tf", [("a b", "c d"), ("e", "f")]),
        ("\tb\na\t\n\t\n\n", [("", "b"), ("a", ""), ("", ""), ("", "")]),
        ("a|||b\tc\n", [("a|||b", "c")]),
        ("a ||| b\tc\nd\te\n", [("a ||| b", "c"), ("d", "e")]),
        ("a\tb\nc\td ||| e\n", [("a", "b"), ("c", "d ||| e")]),
        ("a\t||| c\nd ||| e\n", [("a", "c"), ("d", "e")]),
        ("\ufeffa\u2028 ||| b\u0085c\n", [("a\u2028", "b\u0085c")]),
        ("\t\na ||| b\n", [("", ""), ("a", "b")]),  # the first line with one separator and not the other decides
        (" \t \na\tb\n", [("", ""), ("a", "b")]),
        ("a ||| x\ty\nc ||| d\n", [("a", "x\ty"), ("c", "d")]),
        ("a ||| x\ty\n", [("a", "x\ty")]),
    ],
)
def test_joined_file(tmp_path, data, pairs):
    path = write(tmp_path / "x", data)
    bitext = read_bitext(path)
    words = [(" ".join(bitext.source.words(m)), " ".join(bitext.target.words(m))) for m in range(len(bitext))]
    assert words == [(x, y.replace("\t", " ")) for x, y in pairs]
    lines = read_line_pairs(path)
    assert [(x.strip(" \t"), y.strip(" \t")) for x, y in zip(*lines, strict=True)] == pairs


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a ||| b\nc d\n", r"line 2: has 0 separators \(\|\|\|\)"),
        ("a ||| b ||| c\n", r"line 1: has 2 separators \(\|\|\|\)"),
        ("a ||| ||| c\n", r"line 1: has 2 separators \(\|\|\|\)"),
        ("a\tb\nb\tc\td\n", r"line 2: has 2 separators \(tab\)"),
        ("just text\n", r"line 1: has 0 separators \(\|\|\|\)"),
    ],
)
def test_joined_file_with_a_wrong_line(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        read_bitext(write(tmp_path / "x", data))


@given(
    st.lists(
        st.tuples(*[st.lists(st.sampled_from(["a", "ä", "\u2028c", "b|||"]), max_size=4)] * 2),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([" ||| ", "\t"]),
)
@settings(max_examples=100, deadline=None)
def test_joined_text_comes_apart_as_it_was_joined(pairs, separator):
    data = "".join(f"{' '.join(x)}{separator}{' '.join(y)}\n" for x, y in pairs).encode()
    sides = separator_of([data]).sides("x", data, "strict", False)
    for side, place in zip(sides, (0, 1), strict=True):
        assert tokens_of(encode_text(side)) == [[w.encode() for w in pair[place]] for pair in pairs]


# Standard input.


def test_standard_input(tmp_path, monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    give(b"a ||| b\n")
    assert read_bitext("-").target.words(0) == ["b"]
    give(gzip.compress(b"a\n"))
    assert read_bitext("-", write(tmp_path / "y", "b\n")).source.words(0) == ["a"]
    give(b"a\nb\nc\n")
    with pytest.raises(AlignkitError, match=r"^standard input has 3 lines, .*y has 1"):
        read_bitext("-", tmp_path / "y")
    give(b"")
    with pytest.raises(InputError, match="standard input: is empty"):
        read_bitext("-")
    give(b"a\n\xff\n")
    with pytest.raises(InputError, match="standard input, line 2"):
        read_lines("-")
    with pytest.raises(AlignkitError, match="cannot be both sides"):
        read_bitext("-", "-")
