"""Types of arguments and options: each checks its value before any work begins."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from errno import EACCES, EISDIR
from pathlib import Path
from typing import Any

import click

from alignkit.errors import AlignkitError, InputError, abbreviated
from alignkit.links.heuristics import ALIASES
from alignkit.support.packages import imported, need
from alignkit.support.settings import GREATEST_THREAD_COUNT

#: A size that is not bounded by what it is used for.
GREATEST = 2**31 - 1
#: Passes over a text; more would not end.
GREATEST_PASSES = 1_000_000
#: Files that a run directory needs, beside checkpoints (.pt).
RUN_FILES = {"config.json", "train.npz", "valid.npz", "valid.tgt.txt", "log.jsonl"}
#: In the context of a command: the paths that it was given, those of inputs with the name of their parameter, and
#: those of outputs with that of the parameter whose file they may replace.
INPUTS, OUTPUTS = "alignkit.inputs", "alignkit.outputs"


class WholeNumber(click.IntRange):
    """A whole number of a range, shown as N in the help."""

    name = "whole number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "N"


class RealNumber(click.FloatRange):
    """A number of a range; click's own takes nan for one."""

    name = "number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail("nan is not a number.", param, ctx)
        return number


class Checked(click.ParamType):
    """A text that a function of the library checks, which is imported only when there is a text.

    Args:
        name: what is shown for it in the help.
        check: the place of the function, ``module:function``; raises AlignkitError.
        before: arguments that stand before the text.
    """

    def __init__(self, name: str, check: str, *before: str) -> None:
        self.name, self.check, self.before = name, check, before

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            imported(self.check)(*self.before, str(value))
        except AlignkitError as error:
            self.fail(f"{error}.", param, ctx)
        return str(value)


class Shard(click.ParamType):
    """A part of a text, as 2/8: the second of eight."""

    name = "i/n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(value))
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            self.fail(f"{abbreviated(str(value))} is not i/n with i from 1 to n, as 2/8.", param, ctx)
        return int(match[1]), int(match[2])


class Device(click.ParamType):
    """The name of a device of torch's; whether the machine has it is seen when torch is loaded."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", value):
            self.fail(f"{abbreviated(value)!r} is none of auto, cpu, cuda, cuda:1 and so on.", param, ctx)
        return str(value)


class HeuristicName(click.Choice):
    """The name of a way to combine two directions, or a short one, as gdfa."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(ALIASES.get(value, value), param, ctx))


@dataclass(eq=False, repr=False)
class InputPath(click.ParamType):
    """A file that is there and can be read.

    Args:
        stdin: "-" is standard input.
        folder: it may be a folder.
        scores: it is a file of scores, or a part of one as FILE:LAYER.HEAD.
    """

    name = "file"

    stdin: bool = False
    folder: bool = False
    scores: bool = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = os.fspath(value)
        if self.scores:
            from alignkit.lab.interop.heads import split_choice

            path = os.fspath(split_choice(path)[0])
        elif self.stdin and ":" in path:  # a text may name its fields after the file
            from alignkit.text.pair_formats import split_fields

            path = os.fspath(split_fields(path)[0])
        _keep_path(INPUTS, path, None if param is None else param.name, ctx)
        if path == "-" and self.stdin:
            return path
        try:
            if os.path.isdir(path) and not self.folder:
                raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
            os.stat(path)
            if not os.access(path, os.R_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
        except (OSError, ValueError) as error:
            raise InputError(path, f"cannot be read: {getattr(error, 'strerror', error)}") from error
        return os.fspath(value)


class RunPath(InputPath):
    """A run directory, or a checkpoint of one.

    Args:
        command: that trains such runs.
        checkpoint: a checkpoint will do.
    """

    name = "run"

    def __init__(self, command: str, checkpoint: bool = True) -> None:
        super().__init__(folder=True)
        self.command, self.checkpoint = command, checkpoint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from alignkit.neural.settings import check_run

        check_run(path := super().convert(value, param, ctx), self.command, self.checkpoint)
        return path


class NamedInputPath(click.ParamType):
    """NAME=FILE, a file of scores that is there and can be read."""

    name = "name=file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, path = value.partition("=")
        if not equals or not name.strip() or not path:
            self.fail(f"it must be NAME=FILE, not {abbreviated(value)!r}.", param, ctx)
        return name, InputPath(scores=True).convert(path, param, ctx)


class EmbeddingSource(click.ParamType):
    """The name e5 or none, a folder, perhaps with languages, or one file or two with a comma between them, which
    are there and can be read."""

    name = "e5|none|folder|file[,file]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from alignkit.text.pair_formats import split_fields

        folder = os.fspath(split_fields(value)[0])
        is_folder = os.path.isdir(folder)
        for path in [] if value in ("e5", "none") else [folder] if is_folder else value.split(","):
            if not os.path.exists(path):
                self.fail(
                    f"{path!r} is neither e5, none nor the name of a file or folder that is there.", param, ctx
                )
            InputPath(folder=is_folder).convert(path, param, ctx)
        return str(value)


@dataclass(eq=False, repr=False)
class OutputPath(click.ParamType):
    """A file that can be written.

    Args:
        endings: of the names of files in formats that can be written; none: any name will do.
        result: of the command, which goes to standard output if no file or "-" is given.
        stdout: "-" is standard output.
        gzip: a name in .gz is one of a file that is compressed.
        replaces: the name of the parameter whose file it may replace; all other inputs are kept.
    """

    name = "file"

    endings: tuple[str, ...] = ()
    result: bool = False
    stdout: bool = False
    gzip: bool = False
    replaces: str | None = None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from alignkit.support.files import check_ending, check_writable

        path = os.fspath(value)
        if path == "-":
            if not (self.stdout or self.result):
                self.fail("standard output has the result itself; give a file.", param, ctx)
            _keep_path(OUTPUTS, path, None, ctx)
            return path
        check_writable(path, gzip=self.gzip)
        place = Path(os.path.realpath(path))
        if place.is_file() and (place.name in RUN_FILES or place.suffix == ".pt"):
            from alignkit.neural.settings import command_of_run

            if any(command_of_run(folder) for folder in place.parents[:2]):
                self.fail(f"{path} is a file of a run, which needs it; give another file.", param, ctx)
        if os.path.exists(path) and not os.path.isfile(path):
            return path  # a pipe or a device, which may have any name and several outputs
        if self.endings:
            check_ending(path, self.endings)
            if path.endswith(".parquet"):
                need("pyarrow")
        _keep_path(OUTPUTS, path, self.replaces, ctx)
        return path


class OutputFolder(click.ParamType):
    """A folder in which files can be written; it is made if it does not exist.

    Args:
        run: the command whose run it may hold; no other folder may hold a run.
    """

    name = "folder"

    def __init__(self, run: str | None = None) -> None:
        self.run = run

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from alignkit.support.files import check_folder

        check_folder(value)
        if os.path.exists(os.path.join(value, "config.json")):
            from alignkit.neural.settings import command_of_run

            if (found := command_of_run(Path(value))) not in (None, self.run):
                self.fail(f"{value} holds a run of `alignkit {found}`; give another folder.", param, ctx)
        return os.fspath(value)


#: Types that several commands share.
PERCENT = Checked("percent", "alignkit.metrics.protocol:top_share")
ATTENTION = Checked("name", "alignkit.neural.settings:parse_attention", "network")
LANGUAGES = Checked("source,target", "alignkit.uses.phrases.tables:language_pair")
SEED = WholeNumber(0, 2**63 - 1)
COUNT = WholeNumber(1, GREATEST)
NATURAL = WholeNumber(0, GREATEST)
PASSES = WholeNumber(1, GREATEST_PASSES)
THREADS = WholeNumber(1, GREATEST_THREAD_COUNT)
SHARE = RealNumber(0, 1)
TEXT = InputPath(stdin=True)


def _keep_path(kind: str, path: str, name: str | None, ctx: click.Context | None) -> None:
    if ctx is not None:
        ctx.meta.setdefault(kind, []).append((path, name))


def check_paths(ctx: click.Context) -> None:
    """Refuse two outputs to one file, an output that replaces an input or a file in it, and two standard inputs.

    Args:
        ctx: of a command whose parameters are parsed.

    Raises:
        click.UsageError: naming the file.
    """
    inputs: dict[str, str | None] = {}  # place -> name of its parameter
    for path, name in ctx.meta.get(INPUTS, []):
        place = "standard input" if path == "-" else os.path.realpath(path)
        if path == "-" and place in inputs:
            raise click.UsageError("Only one file can be read from standard input.", ctx)
        inputs[place] = name

    results = [each for each in ctx.command.params if isinstance(each.type, OutputPath) and each.type.result]
    not_given: list[tuple[str, str | None]] = [
        ("-", None) for each in results if ctx.params[str(each.name)] is None
    ]
    places: set[str] = set()
    for path, replaces in [*ctx.meta.get(OUTPUTS, []), *not_given]:
        place = "standard output" if path == "-" else os.path.realpath(path)
        if place in places:
            raise click.UsageError(f"Two outputs cannot both go to {place}; give another file for one.", ctx)
        places.add(place)
        # A page or table in a folder that is read is an earlier output: no folder is read for these.
        folders = () if place.endswith((".html", ".csv")) else map(str, Path(place).parents)
        read = inputs.keys() & {place, *folders} if os.path.isfile(place) else ()
        if any(inputs[each] != replaces for each in read):
            raise click.UsageError(f"The output would replace the input {place}; give another file.", ctx)
