"""Any bytes at all: no traceback, no hang, and a line for every line or one line of error."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alignkit_cli.main import run

# Bytes that mean something to some reader, among any others.
special = st.sampled_from(
    [
        *(
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
        ),
        *("\ufeff", "\u2028", "\u0085", "\u00a0", "\u3000", "ß", "İ", "Σ", "\U0001f600"),
        *(
            b"\xff",
            b"\xfe",
            b"\xc3",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\x1f\x8b",
            b"\xfd7zXZ\0",
            b"BZh91AY&SY",
        ),
        *(b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"PK\x03\x04"),
    ]
).map(lambda part: part.encode() if isinstance(part, str) else part)
texts = st.lists(st.one_of(special, special, special, st.binary(max_size=4)), max_size=25).map(b"".join)
lines = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"c\xc3\xa4", b" ", b"\t", b"\r"]), max_size=5).map(b"".join)
)
options = st.sampled_from(
    [
        [],
        ["--lowercase"],
        ["--encoding-errors", "replace"],
        ["--reverse", "--no-null"],
        ["--symmetrize", "grow-diag-final-and"],
        ["--symmetrize", "product", "--format", "probabilities"],
        ["--format", "giza", "--encoding-errors", "replace"],
    ]
)
FUZZ = settings(
    max_examples=150,
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
        if code == 0:
            per_pair = 3 if "giza" in extra else 1
            assert out.count(b"\n") == per_pair * count
        else:
            assert code == 2
            assert err.count(b"\n") == 1
        return code, out

    return call


def line_count(data):
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def is_packed(data):
    return data.startswith((b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh91AY&SY", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"))


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


@given(lines, lines, options)
@FUZZ
def test_two_files_of_clean_lines(check, source, target, extra):
    """As above, but of texts that are right and equally long: nothing may be refused."""
    length = max(len(source), len(target))
    files = [
        b"".join(line + b"\n" for line in [*side, *[b""] * (length - len(side))]) for side in (source, target)
    ]
    code, _ = check(["ibm1", "-q"], files, extra, length)
    assert (code == 0) == (length > 0)


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
    assert run(["ibm1", "-q", str(folder / "text"), "--model", str(folder / "m"), "-o", str(folder / "o")]) == 0
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
