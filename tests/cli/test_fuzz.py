"""Any bytes at all: no traceback, no hang, and a line for every line or one line of error.

ALIGNKIT_FUZZ=5000 tries so many inputs in each test, for a night; the tests are the same.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alignkit_cli.main import run

# Bytes that mean something to some reader, among any others.
SPECIAL = [
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"\t",
    b"|||",
    b" ||| ",
    b"||",
    b"a",
    b"b",
    b"\0",
    b"\x0b",
    b"\x0c",
    b"\x1c",
]
SPECIAL += [letter.encode() for letter in "\ufeff\u2028\u0085\u00a0\u3000ßİΣ\U0001f600"]
SPECIAL += [b"\xff", b"\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
PACKED = b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh91AY&SY", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"
special = st.sampled_from([*SPECIAL, *PACKED, b"PK\x03\x04"])
texts = st.lists(st.one_of(special, special, special, st.binary(max_size=4)), max_size=25).map(b"".join)
OPTIONS = (
    "",
    "--lowercase",
    "--encoding-errors replace",
    "--reverse --no-null",
    "--symmetrize grow-diag-final-and",
    "--symmetrize product --format probabilities",
    "--format giza --encoding-errors replace",
)
options = st.sampled_from(OPTIONS).map(str.split)
FUZZ = settings(
    max_examples=int(os.environ.get("ALIGNKIT_FUZZ", "25")),
    deadline=20_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def check(tmp_path, capfdbinary, monkeypatch):
    def call(command, files, extra, count, stdin=b""):
        paths = [tmp_path / str(i) for i in range(len(files))]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        code = run([*command, *map(str, paths), *extra])
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        if code == 0 and count is not None:
            per_pair = 3 if "giza" in extra else 1
            assert out.count(b"\n") == per_pair * count
        elif code != 0:
            assert code == 2
            assert err.count(b"\n") == 1
        return code, out

    return call


def line_count(data):
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def is_packed(data):
    return data.startswith(PACKED)


@given(texts, texts, options)
@FUZZ
def test_two_files_of_any_bytes(check, source, target, extra):
    code, out = check(["ibm1", "-q"], [source, target], extra, line_count(source))
    assert code == 0 or out == b""
    if code == 0:
        assert line_count(source) == line_count(target)
    plain = [data.removeprefix(b"\xef\xbb\xbf") for data in (source, target)]
    fine = (
        all(plain) and not is_packed(source) and not is_packed(target) and line_count(source) == line_count(target)
    )
    if fine and "replace" in extra:
        assert code == 0


@given(
    st.one_of(texts, st.lists(st.tuples(texts, texts)).map(lambda p: b"\n".join(a + b" ||| " + b for a, b in p)))
)
@FUZZ
def test_a_joined_file_of_any_bytes(check, data):
    code, out = check(["ibm1", "-q"], [data], [], line_count(data))
    assert code == 0 or out == b""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "text").write_bytes(b"a b ||| a c\nb ||| c\na\xc3\xa4 ||| b\n")
    assert (
        run(["ibm1", "-q", str(folder / "text"), "--save-model", str(folder / "m"), "-o", str(folder / "o")]) == 0
    )
    return folder / "m"


@given(data=texts)
@FUZZ
def test_a_stream_of_any_bytes(check, model, data):
    """Lines before a bad one are answered; there are never more answers than lines."""
    _, out = check(["align", "-q", "--model", str(model), "-"], [], [], line_count(data), stdin=data)
    assert out.count(b"\n") <= line_count(data)


@given(texts, texts)
@FUZZ
def test_links_of_any_bytes(check, first, second):
    check(["symmetrize"], [first, second], [], line_count(first))


@given(texts, texts)
@FUZZ
def test_gold_of_any_bytes(check, gold, links):
    check(["evaluate"], [gold, links], [], 1)


PACKERS = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}
packers = st.sampled_from(list(PACKERS))
damages = st.one_of(
    st.none(),
    st.tuples(st.just("cut"), st.floats(0, 1, exclude_max=True)),
    st.tuples(st.just("flip"), st.floats(0, 1, exclude_max=True)),
    st.tuples(st.just("add"), st.binary(min_size=1, max_size=4)),
)


def damaged(data, damage):
    """The bytes of a file cut short, with one bit changed, or with something after their end."""
    if damage is None:
        return data
    kind, how = damage
    if kind == "add":
        return data + how
    place = int(how * len(data))
    return data[:place] if kind == "cut" else data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@given(texts, texts, packers, damages, options)
@FUZZ
def test_packed_files(check, source, target, packer, damage, extra):
    """What is right gives what it gives unpacked; what is damaged, links for all lines or one error."""
    files = [damaged(PACKERS[packer](source), damage), PACKERS[packer](target)]
    code, out = check_lenient(check, ["ibm1", "-q"], files, extra)
    if damage is None:
        # Not the inner text again: text that looks packed is only unpacked once.
        if not any(is_packed(data) or data == b"" for data in (source, target)):
            assert (code, out) == check_lenient(check, ["ibm1", "-q"], [source, target], extra)
    elif damage[0] == "cut" and len(files[0]) >= 10:
        assert code == 2
        assert out == b""


def check_lenient(check, command, files, extra, stdin=b""):
    """As ``check``, where how many lines there should be is not known: only that there is one error or none."""
    return check(command, files, extra, None, stdin)
