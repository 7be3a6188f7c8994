"""Texts on disk equal the texts that the same files give in memory, and so do the errors."""

from __future__ import annotations

import gzip
import io
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alignkit.errors import AlignkitError
from alignkit.text import on_disk
from alignkit.text.on_disk import DiskArray, GrowingVocabulary, read_bitext_to_disk, release, text_size
from alignkit.text.reading import encode_text, read_bitext

WORDS = [b"a", b"b", b" ", b"\t", b"\n", b"\r\n", b"\r", b"|||", b" ||| ", "Ä".encode(), b"\xff", b"\xef\xbb\xbf"]
texts = st.lists(st.sampled_from(WORDS), max_size=40).map(b"".join)


def outcome(read, *files, **options):
    """The fingerprint of the text, or the message of the error."""
    try:
        text = read(*files, **options)
    except AlignkitError as error:
        return str(error)
    return text.fingerprint()


@pytest.fixture
def tiny_chunks(monkeypatch):
    monkeypatch.setattr(on_disk, "CHUNK", 5)


@given(texts, texts, st.booleans(), st.sampled_from(["strict", "replace"]))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_files_are_read_as_in_memory(tmp_path, tiny_chunks, source, target, lowercase, errors):
    files = [tmp_path / "s", tmp_path / "t"]
    for path, data in zip(files, (source, target), strict=True):
        path.write_bytes(data)
    options = {"lowercase": lowercase, "encoding_errors": errors}
    assert outcome(read_bitext_to_disk, *files, **options) == outcome(read_bitext, *files, **options)


@given(texts)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_joined_file_is_read_as_in_memory(tmp_path, tiny_chunks, data):
    path = tmp_path / "joined"
    path.write_bytes(data)
    expected = outcome(read_bitext, path, encoding_errors="replace")
    assert outcome(read_bitext_to_disk, path, encoding_errors="replace") == expected


def test_compressed_files_and_streams(tmp_path, monkeypatch):
    lines = [f"a b{i} ||| c{i % 7} d\n".encode() for i in range(500)]
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(b"".join(lines))
    packed.write_bytes(b"".join(map(gzip.compress, lines)))
    expected = read_bitext(plain).fingerprint()
    assert read_bitext_to_disk(packed, folder=str(tmp_path)).fingerprint() == expected
    reader, writer = os.pipe()
    os.write(writer, packed.read_bytes()[:60_000])
    os.close(writer)
    with open(reader, "rb") as stream:  # a pipe cannot be read twice
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        assert read_bitext_to_disk("-").fingerprint() == expected


def test_a_growing_vocabulary_numbers_words_as_a_whole_text_does():
    lines = [" ".join(f"w{i * i % 3001}x" for i in range(m, m + 9)) for m in range(0, 20_000, 9)]
    growing, ids = GrowingVocabulary(), []
    for line in lines:
        part = encode_text(line.encode())
        ids.append(growing.ids(part.vocabulary)[part.tokens])
    whole = encode_text("\n".join(lines).encode())
    assert np.array_equal(np.concatenate(ids), whole.tokens)
    assert growing.finish() == whole.vocabulary


def test_arrays_on_disk(tmp_path):
    array = DiskArray(np.int32, str(tmp_path))
    for low in range(0, 100_000, 1000):
        array.append(np.arange(low, low + 1000, dtype=np.int32))
    found = array.finish()
    assert not any(tmp_path.iterdir())  # the file has no name
    assert np.array_equal(found, np.arange(100_000))
    release(found, found[10:20], np.arange(3))
    assert np.array_equal(found, np.arange(100_000))
    assert len(DiskArray(np.int64, None).finish()) == 0


def test_errors_of_the_folder(tmp_path):
    with pytest.raises(AlignkitError, match=r"temporary files in .*nowhere.*--temp-dir"):
        DiskArray(np.int32, str(tmp_path / "nowhere"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(monkeypatch):
    monkeypatch.setattr(on_disk.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "wb"))  # noqa: SIM115
    array = DiskArray(np.int32, "there")
    with pytest.raises(AlignkitError, match="cannot write temporary files in there: No space left"):
        array.append(np.zeros(1 << 20, np.int32))


def test_sizes_of_texts(tmp_path, monkeypatch):
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(b"x" * 1000)
    packed.write_bytes(gzip.compress(os.urandom(500)))
    assert text_size(plain, packed, 0) == 1000 + 6 * packed.stat().st_size
    assert text_size(tmp_path / "none", None, 5) == 0
    reader, writer = os.pipe()
    os.close(writer)
    with open(reader, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        assert text_size("-", None, 77) == 77
