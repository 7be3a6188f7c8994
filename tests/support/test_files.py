import io
import json
import math
import os
import pickle
import stat
import warnings
import zipfile

import numpy as np
import pytest

from alignkit.aligner import load_aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.support.files import (
    HEADER,
    Fields,
    Record,
    atomic_write,
    check_ending,
    check_folder,
    check_kind,
    check_writable,
    load_arrays,
    loaded,
    parse_json,
    read_header,
    save_arrays,
)

ARRAYS = {"a": np.arange(5, dtype=np.int32), "b": np.ones((2, 3), np.float32), "none": np.empty(0, np.int64)}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "x.npz"
    save_arrays(path, "alignkit.test", 3, ARRAYS, {"note": "ä"})
    return path


# Writing.


def test_atomic_write(tmp_path):
    path = tmp_path / "x"
    with atomic_write(path) as stream:
        stream.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    expected = AlignkitError if isinstance(error, OSError) else type(error)

    def write():
        with atomic_write(path) as stream:
            stream.write(b"half of the new")
            stream.flush()
            raise error

    with pytest.raises(expected) as caught:
        write()
    assert str(caught.value).endswith("/x: No space left on device") or not isinstance(error, OSError)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions(tmp_path):
    path = tmp_path / "x"
    mask = os.umask(0o027)
    try:
        with atomic_write(path) as stream:
            stream.write(b"1")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        with atomic_write(path) as stream:
            stream.write(b"2")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(mask)


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with atomic_write(tmp_path / "link") as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_folder_that_is_missing_or_a_directory_is_an_error(tmp_path):
    for path in (tmp_path / "no" / "x", tmp_path):
        with pytest.raises(AlignkitError, match="cannot write") as caught, atomic_write(path):
            pass
        assert "\n" not in str(caught.value)


def test_a_place_where_no_file_can_be_is_known_before_the_work(tmp_path):
    with pytest.raises(AlignkitError, match=r"cannot write .*: File name too long"):
        check_writable(tmp_path / ("x" * 250))  # the temporary file's name is longer
    check_writable(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
def test_a_pipe_without_a_name_is_written_to():
    """As that of ``-o /dev/stdout | less``: what its link resolves to is no file."""
    end, pipe = os.pipe()
    try:
        check_writable(f"/dev/fd/{pipe}")
        with atomic_write(f"/dev/fd/{pipe}") as stream:
            stream.write(b"x")
        assert os.read(end, 2) == b"x"
    finally:
        os.close(end)
        os.close(pipe)


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
def test_a_device_or_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        with pytest.raises(InputError, match=r"is a device or a pipe, not a file$"):
            read_header(path)


# Arrays.


@pytest.mark.parametrize("compress", [False, True])
def test_the_same_content_gives_the_same_bytes(tmp_path, compress, monkeypatch):
    import time

    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 50)  # so large are files that need longer numbers
    save_arrays(tmp_path / "a", "k", 1, ARRAYS, {"z": 1, "y": 2, "kind": "other"}, compress)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2e9))
    save_arrays(tmp_path / "b", "k", 1, dict(ARRAYS), {"y": 2, "z": 1}, compress)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with zipfile.ZipFile(tmp_path / "a") as archive:
        methods = {entry.compress_type for entry in archive.infolist() if entry.filename != HEADER}
    assert methods == {zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED}
    arrays, header = load_arrays(tmp_path / "a", "k", 1)
    assert header == {"kind": "k", "version": 1, "z": 1, "y": 2}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)


def test_files_are_little_endian_whatever_the_arrays(tmp_path):
    """What a big-endian machine would write: the same bytes; and reading gives the machine's own order."""
    values = {
        "a": np.arange(5, dtype=np.int32),
        "b": np.array([[0.5, -2.0]], np.float32),
        "c": np.array([7], np.uint8),
    }
    for name, order in (("little", "<"), ("big", ">")):
        arrays = {key: array.astype(array.dtype.newbyteorder(order)) for key, array in values.items()}
        save_arrays(tmp_path / name, "test.kind", 1, arrays)
    assert (tmp_path / "little").read_bytes() == (tmp_path / "big").read_bytes()
    with zipfile.ZipFile(tmp_path / "big") as archive:
        assert b"'<i4'" in archive.read("a.npy")
        assert b"'<f4'" in archive.read("b.npy")
    arrays, _ = load_arrays(tmp_path / "big", "test.kind", 1)
    for key, array in values.items():
        assert arrays[key].dtype.isnative
        assert arrays[key].dtype == array.dtype
        assert np.array_equal(arrays[key], array)


def test_a_file_of_big_endian_arrays_is_read_as_well(tmp_path):
    header = {"kind": "test.kind", "version": 1, "arrays": ["a"]}
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr(HEADER, json.dumps(header))
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.arange(3, dtype=">i4"))
        archive.writestr("a.npy", stream.getvalue())
    fields = Fields("x", load_arrays(tmp_path / "x", "test.kind", 1)[0])
    assert fields.get("a", np.int32).tolist() == [0, 1, 2]


def test_a_broken_pipe_in_the_block_is_not_blamed_on_the_file(tmp_path):
    with pytest.raises(BrokenPipeError), atomic_write(tmp_path / "x"):
        raise BrokenPipeError(32, "Broken pipe")
    assert list(tmp_path.iterdir()) == []


def refused(path, kind="alignkit.test", version=3):
    """The message with which a file is refused, which must be one line that names it."""
    with pytest.raises(InputError) as caught:
        load_arrays(path, kind, version)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def test_missing_directory_and_foreign_files(tmp_path, saved):
    assert "No such file" in refused(tmp_path / "no")
    assert "Is a directory" in refused(tmp_path)
    other = tmp_path / "other"
    for data in (b"", b"text\n", b"PK\x03\x04 but no zip", pickle.dumps([1]), b"text\n" + saved.read_bytes()):
        other.write_bytes(data)
        assert "not an alignkit.test file, or damaged" in refused(other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr(HEADER, json.dumps({"kind": "alignkit.test", "version": 3, "arrays": ["a"]}))
    assert "its arrays are not those that its header names" in refused(other)
    np.savez(tmp_path / "plain.npz", a=np.zeros(2))
    assert "not an alignkit.test file" in refused(tmp_path / "plain.npz")
    assert "holds alignkit.test, not alignkit.ibm1" in refused(saved, "alignkit.ibm1")


def test_other_versions(saved):
    for version in (2, 4):
        assert f"format version 3 of alignkit.test, this program reads {version}" in refused(
            saved, version=version
        )
    with pytest.raises(InputError, match=r"f: format version 3\.0 of a, this program reads 3"):
        check_kind("f", {"kind": "a", "version": 3.0}, ("a", "b"), 3)
    with pytest.raises(InputError, match="f: holds c, not a or b"):
        check_kind("f", {"kind": "c", "version": 3}, ("a", "b"), 3)


def test_headers_that_are_no_header(tmp_path):
    for text in (
        "[1]",
        "{",
        "\xff",
        '"x"',
        "[" * 100_000,
        json.dumps({"kind": "a\nb", "version": 3}),
        '{"kind": []}',
    ):
        with zipfile.ZipFile(tmp_path / "x", "w") as archive:
            archive.writestr(HEADER, text)
        refused(tmp_path / "x")
        with pytest.raises(InputError) as caught:
            load_aligner(tmp_path / "x")
        assert "\n" not in str(caught.value)


def test_truncated_anywhere(saved):
    data = saved.read_bytes()
    for length in range(0, len(data), 7):
        saved.write_bytes(data[:length])
        refused(saved)


@pytest.mark.parametrize(("compress", "step"), [(False, 5), (True, 1)])
def test_a_changed_byte_gives_the_same_content_or_an_error(tmp_path, compress, step):
    """Nothing but InputError may come out, and never other numbers."""
    path = tmp_path / "x"
    save_arrays(path, "alignkit.test", 3, ARRAYS, compress=compress)
    data = path.read_bytes()
    passed = 0
    for place in range(0, len(data), step):
        flip = (0xFF, 0x80, 0x01)[place // step % 3]
        path.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays, _ = load_arrays(path, "alignkit.test", 3)
        except InputError:
            continue
        passed += 1
        assert arrays.keys() == ARRAYS.keys()
        assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert passed < len(data) / step / 2  # only what no reader looks at, as dates


class Bomb:
    """Unpickled, it sets an environment variable."""

    def __reduce__(self):
        return (exec, ("import os; os.environ['ALIGNKIT_BOMB'] = 'went off'",))


def with_member(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps({"kind": "alignkit.test", "version": 3, "arrays": ["a"]}))
        archive.writestr("a.npy", content)
    return path


def test_pickles_are_refused_and_not_run(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], object), allow_pickle=True)
    assert "damaged: Object arrays cannot be loaded" in refused(with_member(tmp_path / "x", buffer.getvalue()))
    assert "damaged" in refused(with_member(tmp_path / "y", pickle.dumps(Bomb())))
    assert os.environ.get("ALIGNKIT_BOMB") is None


def test_hostile_array_headers(tmp_path):
    def array(text):
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text

    for text in (
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846975,), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (5000000000000,), }\n",
        b"{'descr': '<f4', 'shape': (1,)}\n",
        b"{'descr': (((\n",
        b"\xff\n",
        b"[" * 5000 + b"\n",
        b"",
    ):
        refused(with_member(tmp_path / "x", array(text)))


def test_encrypted_or_unknown_compression(tmp_path):
    path = with_member(tmp_path / "x", b"1234")
    data = path.read_bytes()
    place = data.rindex(b"PK\x01\x02")  # the directory entry of a.npy
    for offset, value in ((8, 1), (10, 99)):
        path.write_bytes(data[: place + offset] + bytes([value]) + data[place + offset + 1 :])
        refused(path)


def test_fields_checks_type_and_dimension():
    fields = Fields("f.npz", ARRAYS)
    assert fields.get("b", np.float32, 2) is ARRAYS["b"]
    for name, dtype, dimensions, found in (
        ("b", np.float32, 1, "float32 with 2 dimensions"),
        ("a", np.int64, 1, "int32 with 1 dimensions"),
        ("a", np.int32, 2, "int32 with 1 dimensions"),
        ("c", np.int64, 1, "absent"),
    ):
        with pytest.raises(InputError, match=f"f.npz: damaged: {name} should be .* is {found}"):
            fields.get(name, dtype, dimensions)


def test_read_header(saved, tmp_path):
    names = ["a", "b", "none"]
    assert read_header(saved) == {"kind": "alignkit.test", "version": 3, "note": "ä", "arrays": names}
    (tmp_path / "text").write_text("no zip")
    assert read_header(tmp_path / "text") is None
    with pytest.raises(InputError, match="No such file"):
        read_header(tmp_path / "no")


# Errors and aligners.


def test_an_error_is_one_line_whatever_it_quotes():
    error = InputError("a\nb", "bad\r\nthing\u2028x", line=3, remedy="do\nthis")
    assert str(error).splitlines() == [str(error)]
    assert str(InputError("-", "is empty")) == "standard input: is empty"
    assert str(InputError("f", "is bad", line=2, remedy="mend it")) == "f, line 2: is bad; mend it"


def test_load_aligner_refuses_what_is_none(saved, tmp_path):
    for path, message in (
        (tmp_path / "no", "no such file"),
        (saved, "holds alignkit.test, which is not an aligner"),
        (tmp_path / "text", "not a saved aligner, or damaged"),
    ):
        (tmp_path / "text").write_text("a text")
        with pytest.raises(InputError, match=message):
            load_aligner(path)


def test_what_can_be_written_is_known_before(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "none" / "x")
    for path in ("file", "new", os.devnull):
        check_writable(tmp_path / path)
    for path, problem in (
        ("", "is a folder"),
        ("none/x", "there is no folder"),
        ("link", "there is no folder"),
        ("file/x", "there is no folder"),
        ("x.gz", "not compressed; leave out .gz"),
        ("x.xz", "not compressed; leave out .xz"),
        ("x.bz2", "not compressed; leave out .bz2"),
        ("x.zst", "not compressed; leave out .zst"),
    ):
        with pytest.raises(AlignkitError, match=problem):
            check_writable(tmp_path / path, gzip=path != "x.gz")
    check_writable(tmp_path / "x.gz", gzip=True)
    for path in ("", "new", "new/newer"):
        check_folder(tmp_path / path)
    with pytest.raises(AlignkitError, match="is not a folder"):
        check_folder(tmp_path / "file" / "x")
    check_ending("a.tsv", (".npz", ".tsv"))
    with pytest.raises(AlignkitError, match=r"must end in \.npz or \.tsv"):
        check_ending("a.csv", (".npz", ".tsv"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_permissions_are_asked_for_before(tmp_path, monkeypatch):
    """Those of the folder that a file will be in, but of a device itself."""
    asked = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append((str(path), mode)))
    (tmp_path / "file").write_text("")
    for path, place in (
        (tmp_path / "file", tmp_path),
        (tmp_path / "new", tmp_path),
        (os.devnull, os.devnull),
    ):
        with pytest.raises(AlignkitError, match=f"cannot write {path}: no permission to write to {place}$"):
            check_writable(path)
    for path, where in ((tmp_path, ""), (tmp_path / "a" / "b", ", where it would be made")):
        with pytest.raises(AlignkitError, match=f"cannot write to {path}: .* to write to {tmp_path}{where}$"):
            check_folder(path)
    places = [str(tmp_path), str(tmp_path), os.devnull, str(tmp_path), str(tmp_path)]
    assert asked == list(zip(places, [os.W_OK] * 3 + [os.W_OK | os.X_OK] * 2, strict=True))


# Records.

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("method", "arguments", "right", "wrong", "wanted"),
    [
        ("whole", (), [0, LARGEST], [-1, LARGEST + 1, True, 1.0, "1"], f"a whole number from 0 to {LARGEST}"),
        ("whole", (2, 4), [2, 4], [1, 5], "a whole number from 2 to 4"),
        ("number", (), [-1e300, 0, 2.5], [math.nan, math.inf, 10**400, True, "1"], "a finite number"),
        ("number", (-1, 0.5), [-1, 0.5], [-1.1, 0.6, math.nan], "a finite number from -1 to 0.5"),
        ("number", (0,), [0, 1e300], [-1, math.inf], "a finite number from 0 to inf"),
        ("number", (-math.inf, 0), [-1e300, 0], [1, -math.inf], "a finite number from -inf to 0"),
        ("numbers", (), [[], [1, 2.5]], ["12", 1], "a list of numbers"),
        ("numbers", (), [], [[1, "2"], [1, math.inf]], "a finite number"),
        ("text", (), ["", "x"], [1, None, ["x"]], "a string"),
        ("text", (("a", "b"),), ["a", "b"], ["", "c", 1], "one of a, b"),
        ("texts", (), [[], ["a"], ["a", "b"]], ["ab", ["a", 1], 1], "a list of strings"),
        ("texts", (2,), [["a", "b"]], [[], ["a"], ["a", 1]], "a list of 2 strings"),
        ("flag", (), [True, False], [0, 1, None], "true or false"),
        ("rows", (), [[], [1, "a"]], ["ab", 1, {}], "a list"),
    ],
)
def test_a_value_of_a_record_is_what_it_should_be(method, arguments, right, wrong, wanted):
    for value in right:
        found = getattr(Record("f", {"x": value}), method)("x", *arguments)
        assert found == (tuple(value) if method in ("numbers", "texts") else value)
    for value in wrong:
        read = getattr(Record("f", {"b": {"x": value}}, name="a", line=3).part("b"), method)
        with pytest.raises(InputError, match=rf"^f, line 3: damaged: a\.b\.x should be {wanted}, not "):
            read("x", *arguments)


def test_records_and_their_parts():
    record = Record("f", {"x": None, "y": 0})
    assert ("x" in record, "z" in record, list(record)) == (True, False, ["x", "y"])
    assert [record.optional(name) for name in "xyz"] == [False, True, False]
    with pytest.raises(InputError, match=r"^f: damaged: z is missing$"):
        record.value("z")
    with pytest.raises(InputError, match=r"^f: damaged: y should be values by name$"):
        record.part("y")
    for values in ([], {1: 2}, {"x": 1, 2: 3}):
        with pytest.raises(InputError, match=r"^f, line 2: damaged: its content should be values by name$"):
            Record("f", values, line=2)


def test_json_that_is_none():
    assert parse_json("f", '{"a": [1]}') == {"a": [1]}
    with pytest.raises(InputError, match=r"^f, line 4: damaged: not JSON \(Expecting value\)$"):
        parse_json("f", "[", line=4)
    with pytest.raises(InputError, match=r"^f: damaged: not JSON \((maximum recursion|Stack overflow)"):
        parse_json("f", "[" * 100_000)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad"), "damaged: bad"),
        (AlignkitError("bad"), "damaged: bad"),
        (InputError("other", "bad"), "damaged: bad"),
        (None, "is bad"),
    ],
)
def test_what_a_file_holds_may_be_refused(saved, error, message):
    """An error that names the file stays as it is; of others, only the problem is said."""

    def read():
        with loaded(saved, "alignkit.test", 3) as (fields, header):
            assert fields.get("a", np.int32) is fields.arrays["a"]
            assert header.text("note") == "ä"
            raise error or InputError(saved, message)

    with pytest.raises(InputError) as caught:
        read()
    assert str(caught.value) == f"{saved}: {message}"
