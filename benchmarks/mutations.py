"""Damaged and foreign files of every kind that alignkit reads, given to the commands that read them.

    python benchmarks/mutations.py -o benchmarks/results/mutations [--tries 10000] [--seed 0] [--kind NAME]...

Each try changes a small valid file (bits, bytes, lines, numbers, encodings, the structure of JSON, archives and
checkpoints, or another kind of file in its place) and runs the command in a forked process with warm kernels. It
must end with exit code 0 and as many lines as the text has, or with exit code 2, one line that names the file,
nothing on standard output, no output file, and the input as it was. A file with checksums that is damaged in its
bytes must be refused or give what it gave before. Linux only. Writes OUT.md, and to standard error the tries that
failed, whose files --keep keeps; exit code 1 if there are any.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np
from inputs import machine, run_benchmark
from mutation_seeds import KINDS, LINES, Kind, run_quietly, words_of, write_seeds

from alignkit.errors import AlignkitError
from alignkit.kernels.cache_folder import read_checked
from alignkit_cli.main import main as program

INSEQ = Path(__file__).parent.parent / "tests" / "interop" / "inseq-0.7.1.json"
SECONDS, MEMORY = 60, 3 << 30  # that a try may take; the memory beside what the program has before
NUMBERS = [*b"Infinity -Infinity NaN nan 1e999 -1 0 1e-400 99999999999".split(), b"7" * 5000]
PARTS = b'\n_\r\n_\r_\t_ _|||_\0_\xff_\xed\xa0\x80_\xe2\x80\xa8_"_{_]'.split(b"_")
WILD = json.loads('[null, true, -1, 0, 3, 0.5, 1e308, NaN, Infinity, "", "x", "@huge", "@deep", [], [[1]], {}]')
AT_ONCE = 25  #: tries in one process
SLOW = ("TRAIN", "classify", "report", "explain")  #: commands that get fewer tries than others
Tried = tuple[int, bytes, bytes, dict[str, bytes]]  #: exit code, standard output and error, outputs by name


def damaged(data: bytes, draw: random.Random) -> bytes:
    """The bytes changed in one way, whatever they mean."""
    place, length = draw.randrange(len(data) + 1), draw.choice([1, 2, 8, 100])
    before, middle, after = data[:place], data[place : place + length], data[place + length :]
    lines = data.splitlines(keepends=True)
    numbers = list(re.finditer(rb"\d+(\.\d+)?(e-?\d+)?", data)) or [re.search(b"", data)]
    chosen = draw.choice(numbers)
    how = draw.choice(
        ["flip"] * 4 + ["insert", "delete", "cut", "twice", "swap", "number", "number", "start", "ends"]
    )
    if how == "flip" and data:
        changed = bytearray(data)
        for _ in range(draw.choice([1, 1, 3])):
            changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return bytes(changed)
    if how == "swap":
        draw.shuffle(lines)
    changes = {
        "insert": before + draw.choice([draw.randbytes(length), *PARTS]) + middle + after,
        "delete": before + after,
        "cut": before,
        "twice": before + middle * draw.choice([2, 100]) + after,
        "swap": b"".join(lines),
        "number": data[: chosen.start()] + draw.choice(NUMBERS) + data[chosen.end() :],
        "start": draw.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\0"]) + data,
        "ends": data.replace(b"\n", draw.choice([b"\r\n", b"\r", b"\n\n"])),
    }
    return changes.get(how, b"")


def restructured(value: Any, draw: random.Random) -> Any:
    """Nested values with one of them changed, missing, or there twice."""
    if isinstance(value, dict | list | tuple) and value and draw.random() < 0.85:
        items = dict(value) if isinstance(value, dict) else dict(enumerate(value))
        key = draw.choice(list(items))
        how = draw.choice(["inside"] * 6 + ["missing", "twice"])
        if how == "inside":
            items[key] = restructured(items[key], draw)
        else:
            kept = items.pop(key)
            items.update({"more": kept, len(items) + 1: kept} if how == "twice" else {})
        if isinstance(value, dict):
            return {key if isinstance(key, str) else str(key): inner for key, inner in items.items()}
        return type(value)(items.values())
    if isinstance(value, str) and draw.random() < 0.5:
        return value[: draw.randrange(len(value) + 1)] + draw.choice(["", "x", "\0", "é\ud800", "9" * 30])
    return rearranged(value, draw) if hasattr(value, "dtype") else draw.choice(WILD)


def rearranged(array: Any, draw: random.Random) -> Any:
    """An array, or a tensor, of another type or shape, or with other numbers."""
    is_tensor = hasattr(array, "numpy")
    other = np.array(array.numpy() if is_tensor else array)
    if other.dtype == np.uint8 and other.ndim == 1 and draw.random() < 0.7:
        other = np.frombuffer(damaged(other.tobytes(), draw), np.uint8)
    elif draw.random() < 0.5 and other.size:
        number = np.array(draw.choice([-1, 1, 0, 3e38, np.nan, np.inf])).astype(other.dtype)
        np.put(other, draw.randrange(other.size), number)
    else:
        shapes = [other[:0], other[None], other.reshape(-1)[:-1], other.reshape(-1), other.T, other.sum()]
        kinds = [other.astype(kind) for kind in ("f4", "f8", "f2", "i4", "i8", "u1", "?", "c8", "U3", ">f4")]
        other = np.asarray(draw.choice([*shapes, *kinds, np.array([None, "x"], object)]))
    if not is_tensor:
        return other
    import torch

    return torch.tensor(other if other.dtype.kind in "fiubc" and other.dtype.isnative else [])


def as_json(value: Any) -> bytes:
    """Nested values as JSON, with numbers of many digits and deep lists where they ask for them."""
    text = json.dumps(value).replace('"@huge"', "7" * 5000).replace('"@deep"', "[" * 30000 + "]" * 30000)
    return text.encode("utf-8", "surrogatepass")


def remade(data: bytes, draw: random.Random) -> bytes:
    """JSON, JSON lines, an archive of arrays or a checkpoint with other content, and checksums that are right."""
    if not data.startswith(b"PK"):
        try:
            return as_json(restructured(json.loads(data), draw)) + b"\n"
        except ValueError:
            lines = data.splitlines()
            place = draw.randrange(len(lines))
            lines[place] = as_json(restructured(json.loads(lines[place]), draw))
            return b"\n".join(lines) + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if any(name.endswith("data.pkl") for name in members) and draw.random() < 0.8:
        import torch

        torch.save(restructured(torch.load(io.BytesIO(data), weights_only=True), draw), buffer)
        return buffer.getvalue()
    name = draw.choice(list(members))
    content, how = members.pop(name), draw.choice(["inside"] * 6 + ["missing", "renamed", "huge", "bytes"])
    if how == "inside" and name.endswith(".npy"):
        stream = io.BytesIO()
        np.save(stream, rearranged(np.load(io.BytesIO(content)), draw), allow_pickle=True)
        members[name] = stream.getvalue()
    elif how == "inside" and name.endswith(".json"):
        members[name] = as_json(restructured(json.loads(content), draw))
    elif how == "huge":
        members[name] = re.sub(rb"\((\d)", rb"(99999999999\1", content, count=1)
    elif how != "missing":
        name = draw.choice(["more.npy", "../x.npy", name + "x"]) if how == "renamed" else name
        members[name] = damaged(content, draw)
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def mutated(data: bytes, others: list[bytes], draw: random.Random) -> tuple[str, bytes]:
    """How the content of a file was changed, and that."""
    how = draw.choice(["bytes"] * 5 + ["content"] * 5 + ["other", "empty"])
    if how == "content" and data.startswith((b"PK", b"{", b"[")):
        return how, remade(data, draw)
    if how == "other":
        return how, draw.choice(others)
    if how == "empty":
        return how, draw.choice([b"", b"\n", b" ", b"\0", b"\xef\xbb\xbf"])
    for _ in range(draw.choice([1, 1, 1, 2])):
        data = damaged(data, draw)
    return "bytes", data


def prepared(kind: Kind, data: bytes, seeds: Path, place: Path) -> tuple[list[str], Path]:
    """The command of a kind, and its file with this content, in the new folder ``place``."""
    top, file = kind.file.partition("/")[0], place / kind.file
    if top != kind.file:
        shutil.copytree(seeds / top, place / top)
    (place / "out").mkdir(parents=True)
    file.write_bytes(data)
    return words_of(kind.command, f=file, d=file.parent, s=seeds, o=place / "out"), file


def attempts(kind: Kind, contents: list[bytes], seeds: Path, place: Path) -> list[Tried]:
    """Run the command of a kind on these contents of its file, in folders 0, 1, ... of ``place``."""
    codes: list[int] = []
    while len(codes) < len(contents):
        child = os.fork()
        if child == 0:
            in_child(kind, contents, len(codes), seeds, place)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ended = [place / str(k) / "code" for k in range(len(codes), len(contents))]
        codes += [int(path.read_text()) for path in ended if path.exists()]
        codes += [status] if status != 0 else []  # of the one that ended the process
    found = []
    for k, (code, data) in enumerate(zip(codes, contents, strict=True)):
        here = place / str(k)
        files = {str(path.relative_to(here)): path.read_bytes() for path in here.rglob("*") if path.is_file()}
        files.pop("code", None)
        out, error = files.pop("stdout"), files.pop("stderr")
        given = {name: seeds / name for name in files if (seeds / name).exists()}
        before = {name: path.read_bytes() for name, path in given.items()} | {kind.file: data}
        found.append((code, out, error, {name: x for name, x in files.items() if x != before.get(name)}))
    return found


def in_child(kind: Kind, contents: list[bytes], first: int, seeds: Path, place: Path) -> None:
    """In a new process, with limits, run the command on the contents from the first on, and end."""
    os.fsync = lambda _: None  # most of the time otherwise
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for k in range(first, len(contents)):
        code: Any = 1
        words, file = prepared(kind, contents[k], seeds, place / str(k))
        for number, name in enumerate([file if "-" in words else os.devnull, "stdout", "stderr"]):
            opened = os.open(place / str(k) / name, os.O_RDWR | os.O_CREAT if number else os.O_RDONLY)
            os.dup2(opened, number)
            os.close(opened)
        signal.alarm(SECONDS)
        try:
            if words:
                program(words)
            code = 0 if (content := read_checked(file)) is not None else 2
            sys.stdout.buffer.write(content or b"")
        except SystemExit as error:
            code = error.code
        except BaseException:
            traceback.print_exc()
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        (place / str(k) / "code").write_text(str(code))
    os._exit(0)


def wrong(kind: Kind, how: str, data: bytes, found: Tried, usual: Tried, place: Path) -> str | None:
    """What is wrong with the end of a try; None if nothing is."""
    code, out, err, files = found
    error = err.decode("utf-8", "replace")
    if code not in (0, 2):
        return f"{'no end' if code == -signal.SIGALRM else f'exit code {code}'}: {error[-1500:]}"
    if "Traceback" in error or "Warning" in error:
        return f"noise: {error[-1500:]}"
    if code == 2:
        if error.count("\n") != 1 or not error.endswith("\n") or len(error) > 700:
            return f"not one line: {error[-1500:]!r}"
        if str(place) not in error and "standard input" not in error:
            return f"the file is not named: {error}"
        if (out and " - " not in kind.command) or files:
            return f"refused, but there is output: {out[:200]!r}, {sorted(files)}"
        return None
    result = next(iter(files.values()), b"") if "LINKS" in kind.command else out
    lines = LINES if "=text" in kind.judge else data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    # Another file may be compressed, or have a header.
    if "=" in kind.judge and ("=text" in kind.judge or how == "bytes") and result.count(b"\n") != lines:
        return f"{result!r} for {lines} lines"
    if not files and ("{o}" in kind.command or "LINKS" in kind.command):
        return "accepted, but there is no output"
    if "checked" in kind.judge and how == "bytes" and (out, files) != (usual[1], usual[3]):
        return "damaged, and gives another result"
    return None


def warm(kind: Kind, data: bytes, seeds: Path, place: Path) -> Tried:
    """What the file gives as it is; its kernels are compiled and its packages imported in this process."""
    words, file = prepared(kind, data, seeds, place)
    if words:
        with file.open("rb") as stream:
            run_quietly(words, stream if "-" in words else None)
    shutil.rmtree(place)
    (usual,) = attempts(kind, [data], seeds, place)
    problem = wrong(kind, "", data, usual, usual, place)
    if problem is not None or usual[0] != 0:
        raise AlignkitError(f"{kind.name}, as it is: {problem or usual[2].decode()}")
    shutil.rmtree(place)
    return usual


def tries_of(kind: Kind, count: int, seed: int, seeds: Path, place: Path, keep: Path | None) -> Counter[str]:
    """How many of the tries with a kind of file ended how."""
    data, counts = (seeds / kind.file).read_bytes(), Counter[str]()
    others = [(seeds / other.file).read_bytes() for other in KINDS if (seeds / other.file).exists()]
    usual, draw = warm(kind, data, seeds, place), random.Random(f"{seed} {kind.name}")
    for first in range(0, count, AT_ONCE):
        changed = [mutated(data, others, draw) for _ in range(min(AT_ONCE, count - first))]
        for k, found in enumerate(attempts(kind, [content for _, content in changed], seeds, place)):
            problem = wrong(kind, *changed[k], found, usual, place)
            ends = "failed" if problem is not None else "accepted" if found[0] == 0 else "refused"
            counts[ends] += 1
            if problem is not None:
                print(f"{kind.name}, try {first + k} ({changed[k][0]}): {problem}", file=sys.stderr)
                if keep is not None:
                    shutil.copytree(place / str(k), keep / f"{kind.name} {first + k}", dirs_exist_ok=True)
        shutil.rmtree(place)
    return counts


@click.command()
@click.option("--tries", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--kind", "names", multiple=True, help="Only kinds whose name has this in it.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the files of tries that failed.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="OUT of OUT.md.")
def main(tries: int, seed: int, names: tuple[str, ...], keep: Path | None, output: Path | None) -> None:
    """Damaged files of every kind."""
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        seeds, place = Path(folder) / "seeds", Path(folder) / "try"
        seeds.mkdir()
        child = os.fork()  # so that the tries that need no torch are those of a process without it
        if child == 0:
            write_seeds(seeds, INSEQ)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(1)
        kinds = [each for each in KINDS if (seeds / each.file).exists()]
        kinds = [each for each in kinds if not names or any(name in each.name for name in names)]
        parts = np.cumsum([0] + [1 if kind.command.startswith(SLOW) else 3 for kind in kinds])
        for kind, first, last in zip(kinds, parts[:-1], parts[1:], strict=True):
            count = int(tries * last // parts[-1] - tries * first // parts[-1])
            counts[kind.name] = tries_of(kind, count, seed, seeds, place, keep)
    rows = [*counts.items(), ("all", sum(counts.values(), Counter[str]()))]
    lines = ["| file | tries | refused in one line | accepted | failed |", "|---|---|---|---|---|"]
    for name, row in rows:
        lines.append(f"| {name} | {row.total()} | {row['refused']} | {row['accepted']} | {row['failed']} |")
    print("\n".join(lines))
    if output is not None:
        about = f"# Damaged files\n\n{machine()}. Seed {seed}."
        output.with_suffix(".md").write_text(about + "\n\n" + "\n".join(lines) + "\n")
    sys.exit(1 if rows[-1][1]["failed"] else 0)


if __name__ == "__main__":
    run_benchmark(lambda: main(standalone_mode=False))
