"""The inputs of the benchmarks; a missing one is an error of one line, with exit code 2."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from alignkit.errors import AlignkitError
from alignkit.text.reading import read_lines

MULTI30K = "Multi30k (https://github.com/multi30k/dataset), tokenised and lower-cased"
TEXTS = f"give files with a sentence on each line, as of {MULTI30K}, or the small ones in data/sample"
SETS = (
    "ALIGNKIT_DATA=DATA names a folder with gold-aligned sets: DATA/aer/NAME has train.src, train.tgt, test.src, "
    "test.tgt and test.gold (docs/data-sets.md says where ours come from, docs/formats.md how gold links look)"
)


def fail(problem: str) -> NoReturn:
    """End the program with an error."""
    print(f"{Path(sys.argv[0]).name}: error: {' '.join(problem.split())}", file=sys.stderr)
    raise SystemExit(2)


def need_files(*paths: str | Path, remedy: str = TEXTS) -> None:
    """End the program if one of these files is missing; ``remedy`` says how to get it."""
    missing = [str(path) for path in paths if not Path(path).exists()]
    if missing:
        fail(f"{', '.join(missing)}: no such file; {remedy}")


def gold_sets(part: str, names: list[str] | None = None) -> list[Path]:
    """The folders in ALIGNKIT_DATA/aer that have gold links of this part; of all sets, or of those named."""
    data = os.environ.get("ALIGNKIT_DATA")
    if not data:
        fail(f"ALIGNKIT_DATA is not set; {SETS}")
    place = Path(data) / "aer"
    found = sorted(path.parent for path in place.glob(f"*/{part}.gold"))
    if not found:
        fail(f"{place} has no set with {part}.gold; {SETS}")
    if names is not None:
        need_files(*(place / name / f"{part}.gold" for name in names), remedy=SETS)
        found = [path for path in found if path.name in names]
    for path in found:
        need_files(*(path / f"{name}.{side}" for name in ("train", part) for side in ("src", "tgt")), remedy=SETS)
    return found


def text_of_set(folder: Path, part: str) -> tuple[list[str], list[str]]:
    """The lines of the pairs with gold links, then those of the training text."""
    sides = ([*read_lines(str(folder / f"{name}.{side}"))] for side in ("src", "tgt") for name in (part, "train"))
    source, source_train, target, target_train = sides
    return [*source, *source_train], [*target, *target_train]


def machine() -> str:
    """The processor and the system, in words."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{os.cpu_count()} cores of {cpu or platform.processor() or platform.machine()}, {platform.system()}"


def torch_machine() -> str:
    """The same, with the GPU and the number of threads that torch uses."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{machine()}, {gpu}, {torch.get_num_threads()} threads"


def run_benchmark(main: Callable[[], Any]) -> None:
    """Run a benchmark; input and output errors are one line."""
    try:
        main()
    except AlignkitError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or 'output'}: {error.strerror or error}")
