"""Output files that are either complete or absent, with the same bytes for the same content; and what is read
from files, checked value by value.

Every output is written by :func:`atomic_write`. Arrays are stored as ``.npz`` without pickle, little-endian, with
an entry ``header.json`` that names the kind of the file and the version of its format.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import numpy as np

from alignkit.errors import AlignkitError, InputError, abbreviated, plainly_shown, reading, shown, writing
from alignkit.types import PathLike

HEADER = "header.json"
#: Endings of compressed files: these are read, and not written.
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
# Zip entries carry a date; a fixed one keeps equal content equal in bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)
LARGEST = (1 << 63) - 1  #: of whole numbers


@contextmanager
def atomic_write(path: PathLike) -> Iterator[IO[bytes]]:
    """A binary file that takes its place at ``path`` when the block ends without an error.

    Raises:
        AlignkitError: the folder is missing, not writable or full; a file that was there before is unchanged.
    """
    target = Path(path)
    if target.exists() and not target.is_file():  # a pipe or /dev/stdout cannot be renamed over
        with writing(f"write {path}"), open(target, "wb") as stream:
            yield stream
        return
    # Writing through a symbolic link must replace what it points to, not the link.
    target = target.resolve()
    with _temporary(path, target) as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
        stream.close()
        os.replace(stream.name, target)


@contextmanager
def _temporary(path: PathLike, target: Path) -> Iterator[IO[bytes]]:
    """A new file beside ``target``, of its permissions, that is gone after the block unless it was renamed.

    Raises:
        AlignkitError: for any OSError of the block, naming ``path``.
    """
    # The name is known before the file is made, so that a signal between the two leaves nothing behind.
    name = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        with writing(f"write {path}"), open(name, "xb") as stream:
            if target.exists():
                os.chmod(name, target.stat().st_mode & 0o777)
            yield stream
    finally:
        with suppress(OSError):
            name.unlink()


def check_writable(path: PathLike, *, gzip: bool = False) -> None:
    """Check, before the work whose result it will hold, that a file can be written.

    Args:
        path: the file.
        gzip: it may end in ``.gz``.

    Raises:
        AlignkitError: its folder is missing or not writable, it is a folder, or its name is that of a compressed
            file, which are not written.
    """
    given, target = Path(path), Path(path).resolve()
    if target.is_dir():
        raise AlignkitError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise AlignkitError(f"cannot write {path}: there is no folder {target.parent}")
    # A file is replaced by a new one, which its folder has to allow; a pipe or a device is written to.
    replaced = target.parent if given.is_file() or not given.exists() else given
    if not os.access(replaced, os.W_OK):
        raise AlignkitError(f"cannot write {path}: no permission to write to {replaced}")
    if target.suffix in COMPRESSED and not (gzip and target.suffix == ".gz"):
        remedy = f"leave out {target.suffix} and compress the file afterwards"
        raise AlignkitError(f"cannot write {path}: outputs are not compressed; {remedy}")
    if replaced == target.parent:  # some file systems, and long names, are refused only when a file is made
        with _temporary(path, target):
            pass


def check_folder(path: PathLike) -> None:
    """Check, before the work, that a folder is there or can be made, and files in it written.

    Raises:
        AlignkitError: a part of the path is no folder, or may not be written to.
    """
    place = folder = Path(path).resolve()
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise AlignkitError(f"cannot write to {path}: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        missing = "" if folder == place else ", where it would be made"
        raise AlignkitError(f"cannot write to {path}: no permission to write to {folder}{missing}")


def check_ending(path: PathLike, endings: tuple[str, ...]) -> None:
    """Check that the name of a file ends in that of a format that can be written; raises AlignkitError."""
    if not os.fspath(path).endswith(endings):
        raise AlignkitError(
            f"cannot write {path}: its name must end in {' or '.join(endings)}, which gives the format"
        )


def save_arrays(
    path: PathLike,
    kind: str,
    version: int,
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any] | None = None,
    compress: bool = False,
) -> None:
    """Write named arrays and a JSON header to one ``.npz`` file, atomically.

    Args:
        path: the file.
        kind: of the content, as ``alignkit.ibm1``.
        version: of the format of that kind.
        arrays: name -> array; no object arrays.
        header: further JSON values, stored beside ``kind`` and ``version``.
        compress: deflate the entries.
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path) as stream, zipfile.ZipFile(stream, "w", method) as archive:
        known = {"kind": kind, "version": version, "arrays": sorted(arrays)}
        text = json.dumps({**(header or {}), **known}, sort_keys=True)
        archive.writestr(zipfile.ZipInfo(HEADER, EPOCH), text)
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = method
            with archive.open(entry, "w", force_zip64=True) as member:
                # In C order with the lowest byte first, so that every machine writes the same file.
                ordered = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
                if not isinstance(array, np.memmap):
                    np.lib.format.write_array(member, ordered, allow_pickle=False)
                    continue
                facts: Any = np.lib.format.header_data_from_array_1_0(ordered)
                np.lib.format.write_array_header_1_0(member, facts)
                for row in rows_of(array):
                    member.write(np.ascontiguousarray(row, ordered.dtype).data)


def array_on_disk(folder: PathLike, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Float32 zeros, memory-mapped from a file of this folder that has no name and goes with the array.

    Raises:
        AlignkitError: the folder is not writable, or has not enough space.
    """
    with writing(f"write to {folder}"), tempfile.TemporaryFile(dir=folder) as file:
        size = 4 * math.prod(shape)
        if size and hasattr(os, "posix_fallocate"):  # without space, a write to the array would end the program
            os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, np.float32, "w+", shape=shape)


def rows_of(array: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of an array, one by one; the memory that a memory-mapped one takes is let go after each."""
    for row in array:
        yield row
        if isinstance(array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def check_regular(path: PathLike) -> None:
    """Check that a file is no device or pipe, which may never end; raises InputError, also if there is no file."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise InputError(path, getattr(error, "strerror", str(error))) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(path, "is a device or a pipe, not a file")


def read_header(path: PathLike) -> dict[str, Any] | None:
    """The header of a file written by :func:`save_arrays`; None if it is another kind of file.

    Raises:
        InputError: the file is missing or cannot be read.
    """
    check_regular(path)
    try:
        with reading(path), open(path, "rb") as stream:
            if not zipfile.is_zipfile(stream):
                return None
            with zipfile.ZipFile(stream) as archive:
                # At the start of the file: of one that is cut, a file within it would be found.
                if archive.infolist()[0].header_offset != 0:
                    return None
                header = json.loads(archive.read(HEADER))
    except InputError:
        raise
    except Exception:  # a foreign or damaged file makes zipfile and json raise almost anything
        return None
    return header if isinstance(header, dict) else None


def check_kind(path: PathLike, header: Mapping[str, Any], kinds: tuple[str, ...], version: int) -> None:
    """Check that the header of a file names one of these kinds and this version of its format.

    Raises:
        InputError: it names another.
    """
    kind, found = header.get("kind"), header.get("version")
    if kind not in kinds:
        raise InputError(path, f"holds {plainly_shown(kind)}, not {' or '.join(kinds)}")
    if type(found) is not int or found != version:
        problem = f"format version {shown(found)} of {kind}, this program reads {version}"
        raise InputError(path, problem, remedy="write it again with this version of alignkit")


def load_arrays(path: PathLike, kind: str, version: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file written by :func:`save_arrays`; nothing in the file is executed.

    Returns:
        (arrays by name, header).

    Raises:
        InputError: the file is missing, damaged, of another kind or of an unknown version.
    """
    header = read_header(path)
    if header is None:
        raise InputError(path, f"not an {kind} file, or damaged")
    check_kind(path, header, (kind,), version)
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name != HEADER:
                    with archive.open(name) as member:
                        array = np.lib.format.read_array(member, allow_pickle=False)
                    # Files are little-endian; kernels take the machine's own order.
                    native = array.astype(array.dtype.newbyteorder("="), copy=False)
                    arrays[name.removesuffix(".npy")] = native
    except Exception as error:  # as in read_header; a false shape, say, is a MemoryError
        raise InputError(path, f"damaged: {abbreviated(str(error), 200) or type(error).__name__}") from error
    # A wrong byte in a zip directory can hide the entries after it.
    if sorted(arrays) != header.pop("arrays", None):
        raise InputError(path, "damaged: its arrays are not those that its header names")
    return arrays, header


@contextmanager
def loaded(path: PathLike, kind: str, version: int) -> Iterator[tuple[Fields, Record]]:
    """The arrays and the header of a file, as :func:`load_arrays` reads them, to make an object of.

    Raises:
        InputError: the file cannot be read; or what is in it is refused in the block by an AlignkitError,
            IndexError, TypeError or ValueError.
    """
    arrays, header = load_arrays(path, kind, version)
    try:
        yield Fields(path, arrays), Record(path, header)
    except (AlignkitError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InputError) and error.path == os.fspath(path):
            raise
        problem = error.problem if isinstance(error, InputError) else error
        raise InputError(path, f"damaged: {problem}") from error


class Fields:
    """The arrays of a loaded file, with checks of their types and dimensions.

    So a damaged or hand-made file gives one clear error, and no crash inside a kernel.
    """

    def __init__(self, path: PathLike, arrays: Mapping[str, np.ndarray]) -> None:
        self.path = path
        self.arrays = arrays

    def get(self, name: str, dtype: Any, dimensions: int = 1) -> np.ndarray:
        """The array ``name``; raises InputError if it is absent or of another type."""
        array = self.arrays.get(name)
        if array is None or array.dtype != np.dtype(dtype) or array.ndim != dimensions:
            found = "absent" if array is None else f"{array.dtype} with {array.ndim} dimensions"
            raise InputError(self.path, f"damaged: {name} should be {np.dtype(dtype)}, {dimensions}-d, is {found}")
        return array


def parse_json(path: PathLike, text: str, *, line: int | None = None) -> Any:
    """The value of a JSON text.

    Args:
        path, line: where it was read, for the error.
        text: the text.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = str(error).split(":")[0] or type(error).__name__
        raise InputError(path, f"damaged: not JSON ({problem})", line=line) from error


class Record:
    """Values by name, such as the header of a model or a row of a log.

    Its methods return a value of the type that they are called for.

    Args:
        path, line: where they were read.
        values: the values.
        name: of the record in the file, if it is part of another one.

    Raises:
        InputError: ``values`` are not values by name; from the methods: there is no such value, it is of another
            type, or it is out of its range.
    """

    def __init__(self, path: PathLike, values: object, *, name: str = "", line: int | None = None) -> None:
        self._path, self._name, self._line = path, name, line
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise self._problem(f"{name or 'its content'} should be values by name")
        self._values: Mapping[str, Any] = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def whole(self, name: str, low: int = 0, high: int = LARGEST) -> int:
        """A whole number from ``low`` to ``high``."""
        value = self.value(name)
        return self._checked(
            name, type(value) is int and low <= value <= high, f"a whole number from {low} to {high}"
        )

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number from ``low`` to ``high``."""
        return self._number(name, self.value(name), low, high)

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        values = self._checked(name, isinstance(self.value(name), list | tuple), "a list of numbers")
        return tuple(self._number(name, each) for each in values)

    def text(self, name: str, choices: Collection[str] | None = None) -> str:
        """A string, one of the choices if there are any."""
        value = self.value(name)
        is_right = isinstance(value, str) and (choices is None or value in choices)
        return self._checked(name, is_right, "a string" if choices is None else f"one of {', '.join(choices)}")

    def texts(self, name: str, count: int | None = None) -> tuple[str, ...]:
        """A list of strings, ``count`` of them if it is given."""
        value = self.value(name)
        is_right = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        wanted = "a list of strings" if count is None else f"a list of {count} strings"
        return tuple(self._checked(name, is_right and count in (None, len(value)), wanted))

    def flag(self, name: str) -> bool:
        """True or False."""
        return self._checked(name, type(self.value(name)) is bool, "true or false")

    def rows(self, name: str) -> list[Any]:
        """A list of anything."""
        return list(self._checked(name, isinstance(self.value(name), list | tuple), "a list"))

    def value(self, name: str) -> Any:
        """Anything; the caller checks it."""
        if name not in self._values:
            raise self._problem(f"{self._place(name)} is missing")
        return self._values[name]

    def part(self, name: str) -> Record:
        """Values by name."""
        return Record(self._path, self.value(name), name=self._place(name), line=self._line)

    def optional(self, name: str) -> bool:
        """Whether there is such a value that is not None."""
        return self._values.get(name) is not None

    def _number(self, name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
        try:
            number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        bounds = "" if math.isinf(high) and math.isinf(low) else f" from {low:g} to {high:g}"
        if not (math.isfinite(number) and low <= number <= high):
            raise self._wrong(name, f"a finite number{bounds}", value)
        return number

    def _checked(self, name: str, is_right: bool, wanted: str) -> Any:
        """The value of a name; raises InputError unless it is right."""
        if not is_right:
            raise self._wrong(name, wanted, self._values[name])
        return self._values[name]

    def _place(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name

    def _wrong(self, name: str, wanted: str, value: object) -> InputError:
        return self._problem(f"{self._place(name)} should be {wanted}, not {shown(value)}")

    def _problem(self, problem: str) -> InputError:
        return InputError(self._path, f"damaged: {problem}", line=self._line)
