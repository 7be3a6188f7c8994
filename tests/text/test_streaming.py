"""Pairs of a stream, as they come."""

import gzip
import io
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignkit.errors import InputError
from alignkit.text.bitext import Bitext
from alignkit.text.blocks import pair_batches
from alignkit.text.pair_formats import BARS
from alignkit.text.reading import BOM, encode_text, read_chunks, whole_lines


class Slow(io.RawIOBase):
    """A stream that gives what was typed, chunk by chunk."""

    def __init__(self, chunks):
        self.chunks = list(chunks)

    def read1(self, size=-1):
        return self.chunks.pop(0) if self.chunks else b""


def batches_of(stream, **how):
    return pair_batches("-", read_chunks("-", stream, 0), **how)


def lines_of(*bitexts):
    """The words of both sides of each pair, with spaces between them."""
    return [
        tuple(" ".join(side.words(m)) for side in (bitext.source, bitext.target))
        for bitext in bitexts
        for m in range(len(bitext))
    ]


def of_file(data):
    return lines_of(Bitext(*map(encode_text, BARS.sides("-", data))))


@given(st.lists(st.binary(min_size=1, max_size=8)))
@settings(max_examples=100, deadline=None)
def test_whole_lines_changes_no_byte_and_cuts_after_newlines(chunks):
    text = b"x" + b"".join(chunks)
    parts = list(whole_lines("-", [BOM, b"x", *chunks]))
    assert b"".join(parts) == text
    assert all(part.endswith(b"\n") for part in parts[:-1])
    assert all(parts)


TEXT = "A b ||| c d\r\n\nä ||| ö\n ||| x\nlast ||| one"


@given(st.sets(st.integers(1, len(TEXT.encode()) - 1)), st.booleans())
@settings(max_examples=100, deadline=None)
def test_however_it_comes_the_pairs_are_those_of_the_file(cuts, single):
    data = TEXT.encode()
    bounds = [0, *sorted(cuts), len(data)]
    stream = Slow(data[a:b] for a, b in pairwise(bounds))
    batches = list(batches_of(stream, single=single))
    assert lines_of(*(batch.bitext for batch in batches)) == of_file(data)
    if single:
        assert [len(batch.bitext) for batch in batches] == [1] * 5


def test_a_line_is_answered_before_the_next_is_asked_for():
    stream = Slow([b"a |||", b" b\n", b"c ||| d\n", b"never"])
    batches = batches_of(stream)
    assert lines_of(next(batches).bitext) == [("a", "b")]
    assert len(stream.chunks) == 2
    assert lines_of(next(batches).bitext) == [("c", "d")]
    assert stream.chunks == [b"never"]


def test_compressed_and_bom():
    data = gzip.compress("\ufeffa\tb\n".encode() * 1000)
    chunks = [data[i : i + 9] for i in range(0, len(data), 9)]
    source = [x for x, _ in lines_of(*(batch.bitext for batch in batches_of(Slow(chunks))))]
    # Only the first is a byte order mark, the others are letters.
    assert source == ["a"] + ["\ufeffa"] * 999
    for skip in (False, True):
        with pytest.raises(InputError, match="standard input: damaged or truncated gzip"):
            list(batches_of(Slow(chunks[:-1]), skip=skip))


@pytest.mark.parametrize("chunks", [[], [b"\xef\xbb\xbf"], [gzip.compress(b"")]])
def test_an_empty_stream_is_an_error_as_an_empty_file_is(chunks):
    with pytest.raises(InputError, match="standard input: is empty"):
        list(batches_of(Slow(chunks)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [(b"no separator", "separators"), (b"a ||| b ||| c", "2 separators"), (b"\xff ||| b", "UTF-8")],
)
def test_errors_have_their_line_and_come_after_the_pairs_before(bad, message):
    batches = batches_of(Slow([b"a ||| b\nc ||| d\n", b"\n", bad + b"\n"]))
    assert [len(next(batches).bitext) for _ in range(2)] == [2, 1]
    with pytest.raises(InputError, match=f"standard input, line 4: .*{message}"):
        next(batches)


def test_the_first_line_decides_what_separates():
    batches = batches_of(Slow([b"\n \n", b"a ||| b\tc\n", b"d\te\n"]))
    assert [lines_of(next(batches).bitext) for _ in range(2)] == [[("", "")] * 2, [("a", "b c")]]
    with pytest.raises(InputError, match=r"line 4: has 0 separators \(\|\|\|\)"):
        next(batches)


def test_lowercase_and_replaced():
    batch = next(batches_of(Slow([b"\xc3\x84 ||| \xff\n"]), lowercase=True, encoding_errors="replace"))
    assert lines_of(batch.bitext) == [("ä", "\ufffd")]


FINE = [b"a b ||| c\n", b"\n", b" ||| x\n", "\u00e4 ||| \u00f6\r\n".encode()]
MALFORMED = [b"no separator\n", b"a ||| b ||| c\n", b"\xff ||| b\n", b"tab\tonly\n"]


@given(st.lists(st.sampled_from([*FINE, *MALFORMED]), min_size=1), st.sets(st.integers(0, 100)), st.booleans())
@settings(max_examples=100, deadline=None)
def test_malformed_lines_are_skipped_and_no_other_changes(lines, cuts, single):
    data = b"x ||| y\n" + b"".join(lines)
    bounds = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
    stream = Slow(data[a:b] for a, b in pairwise(bounds))
    batches = list(batches_of(stream, single=single, skip=True))
    repaired = b"x ||| y\n" + b"".join(b"\n" if line in MALFORMED else line for line in lines)
    assert lines_of(*(batch.bitext for batch in batches)) == of_file(repaired)
    wrong = [number for number, line in enumerate(lines, 2) if line in MALFORMED]
    assert [error.line for batch in batches for error in batch.errors] == wrong


def test_what_separates_is_decided_by_the_first_line_that_is_not_skipped():
    batches = list(batches_of(Slow([b"none\na\tb\tc\na ||| b\tc\nd\te\n"]), skip=True))
    assert [lines_of(batch.bitext) for batch in batches] == [[("", "")], [("", "")], [("a", "b c")], [("", "")]]
    assert [error.line for batch in batches for error in batch.errors] == [1, 2, 4]


OBJECTS = [
    ('{"id": "\u00e4", "src": "a\\tb", "tgt": ["c", "d"]}', "a b", "c d", "\u00e4"),
    ("", "", "", None),
    ('{"tgt": null, "src": "x ||| y", "more": 5}', "x ||| y", "", None),
    ('{"src": "e", "tgt": "f", "id": [7]}', "e", "f", [7]),
]


@given(st.sets(st.integers(1, 150)), st.booleans())
@settings(max_examples=50, deadline=None)
def test_objects_of_a_stream_keep_their_ids(cuts, single):
    data = "\n".join(line for line, *_ in OBJECTS).encode()
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    batches = list(batches_of(Slow(data[a:b] for a, b in pairwise(bounds)), single=single))
    ids = [each for batch in batches for each in batch.ids or [None] * len(batch.bitext)]
    pairs = zip(lines_of(*(batch.bitext for batch in batches)), ids, strict=True)
    assert [(*pair, each) for pair, each in pairs] == [tuple(r) for _, *r in OBJECTS]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "is not JSON: .*object"),
        ('{"src": "a", "id": 2}', "no pair of texts .src, tgt."),
        ('{"src": ["a b"], "tgt": "", "id": 2}', r"has \['a b'\] as src"),
        ('{"src": "a", "tgt": "\\ud83d"}', "not valid UTF-8"),
    ],
)
def test_a_line_that_is_no_pair_is_named_and_the_others_are_answered(bad, message):
    text = f'{{"src": "a", "tgt": "b", "id": 1}}\n{bad}\n{{"src": "c", "tgt": "d", "id": 3}}\n'.encode()
    batches = batches_of(Slow([text]))
    assert next(batches).ids == (1,)
    with pytest.raises(InputError, match=f"standard input, line 2: .*{message}"):
        next(batches)
    batches = list(batches_of(Slow([text]), skip=True))
    known = 2 if '"id": 2' in bad else None
    assert lines_of(*(batch.bitext for batch in batches)) == [("a", "b"), ("", ""), ("c", "d")]
    assert [batch.ids for batch in batches] == [(1,), (known,), (3,)]


def test_objects_with_invalid_utf8_keep_their_ids():
    data = b'{"src": "a\xff", "tgt": "b", "id": 1}\n'
    assert next(batches_of(Slow([data]), encoding_errors="replace")).ids == (1,)
    (batch,) = batches_of(Slow([data]), skip=True)
    assert (batch.ids, len(batch.errors)) == ((1,), 1)
