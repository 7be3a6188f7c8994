"""Arguments and options that several commands share."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from alignkit.pipeline.settings import ReadSettings
from alignkit.support import stages
from alignkit_cli.command import argument
from alignkit_cli.parameter_types import TEXT, THREADS, InputPath, OutputPath

Command = Callable[..., Any]
Settings = TypeVar("Settings")


def setting_option(settings: object, field: str, *names: str, **attributes: Any) -> Callable[[Command], Command]:
    """An option whose default is that of a field of the library's settings.

    Args:
        settings: a settings dataclass, or an instance with other defaults.
        field: name of the field, and of the option if there are no ``names``.
        names: of the option.
        attributes: further ones of ``click.option``.
    """
    default = getattr(settings, field)
    attributes.setdefault("show_default", default is not None)
    return click.option(*(names or ("--" + field.replace("_", "-"),)), default=default, **attributes)


def set_option(what: str) -> Callable[[Command], Command]:
    """--set; ``what`` says of what. Its texts are for :func:`alignkit.support.settings.assigned`."""
    return click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help=what)


def choice_option(*names: str, choices: Iterable[str], help: str) -> Callable[[Command], Command]:
    """An option that takes one of several words, by default the first."""
    words = list(choices)
    return click.option(*names, type=click.Choice(words), default=words[0], show_default=True, help=help)


#: What SRC may be, for help.
SOURCE = (
    "The source text, a sentence per line; or, without TGT, one file of both texts (lines SRC ||| TGT, TSV, CSV, "
    'JSON lines, Parquet); or "-". Words are separated by spaces. Fields of records are src and tgt, or those of '
    'FILE:SOURCE,TARGET. "-" is standard input.'
)


def with_given(settings: Settings, options: Mapping[str, Any], **values: Any) -> Settings:
    """The settings with the values of all options that are called like one of their fields, and ``values``."""
    names = {field.name for field in fields(settings)}  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if name in names}
    return replace(settings, **(given | values))  # type: ignore[type-var]


def apply(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    """The command with these options, in this order."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def side_arguments(metavar: str = "SRC", required: bool = False, more: str = "") -> Callable[[Command], Command]:
    """SRC [TGT]; ``more`` is said of SRC."""
    source = argument("source", metavar=metavar, required=required, type=TEXT, help=f"{SOURCE}{more}")
    text = "The target text: line n translates line n of SRC."
    target = argument("target", metavar="[TGT]", required=False, type=TEXT, help=text)
    return lambda command: apply(command, source, target)


def text_arguments(command: Command) -> Command:
    """SRC [TGT], and how to read them."""
    return apply(command, side_arguments(), reading_options)


def reading_options(command: Command) -> Command:
    """--lowercase and --encoding-errors."""
    lowercase = setting_option(
        ReadSettings, "lowercase", is_flag=True, show_default=False, help="Lower-case both sides while reading."
    )
    return apply(command, lowercase, encoding_option)


def reading_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the options say of how to read a text."""
    return {each.name: options[each.name] for each in fields(ReadSettings) if each.name in options}


def tokenize_option(command: Command) -> Command:
    """--tokenize."""
    return setting_option(
        ReadSettings,
        "tokenize",
        "--tokenize/--no-tokenize",
        help="Split raw text into words and punctuation marks. Links count these, not what stands between "
        "spaces. Needs the extra text; `alignkit doctor` says how to get it.  "
        "[default: no, or as the model was fitted]",
    )(command)


def encoding_option(command: Command) -> Command:
    """--encoding-errors."""
    return setting_option(
        ReadSettings,
        "encoding_errors",
        type=click.Choice(["strict", "replace"]),
        help="What to do about bytes that are not UTF-8: stop with an error, or replace them with U+FFFD.",
    )(command)


def sample_option(command: Command) -> Command:
    """--sample."""
    text = "Use the German-English sample that comes with alignkit instead of SRC and TGT."
    return click.option("--sample", is_flag=True, help=text)(command)


def threads_option(command: Command) -> Command:
    """--threads."""
    text = "Number of threads. The result does not depend on it; a container's limit and OMP_NUM_THREADS count."
    text += "  [default: all cores]"
    return click.option("--threads", type=THREADS, help=text)(command)


def files_option(*names: str, help: str) -> Callable[[Command], Command]:
    """An option that takes the two files of a text."""
    return click.option(*names, nargs=2, type=TEXT, metavar="SRC TGT", help=help)


def run_option(name: str, help: str) -> Callable[[Command], Command]:
    """An option that takes a run directory."""
    return click.option(name, type=InputPath(folder=True), metavar="RUN", help=help)


def output_option(command: Command) -> Command:
    """-o FILE."""
    text = "Write the result to FILE, whole or not at all."
    return click.option("-o", "--output", type=OutputPath(result=True), help=text)(command)


def quiet_option(command: Command) -> Command:
    """--quiet and --verbose."""
    text = "Show nothing but warnings and errors."
    quiet = click.option("-q", "--quiet", is_flag=True, is_eager=True, callback=_show_notes, help=text)
    text = "Print a line for every iteration and all that is logged."
    verbose = click.option(
        "-v", "--verbose", is_flag=True, expose_value=False, callback=_show_everything, help=text
    )
    return apply(command, quiet, verbose)


def work_options(command: Command) -> Command:
    """--threads, --quiet and --verbose."""
    return apply(command, threads_option, quiet_option)


def choose_text(
    source: str | None, target: str | None, sample: bool, part: str = "train"
) -> tuple[str, str | None]:
    """The files to read: those given, or the embedded sample's.

    Raises:
        click.UsageError: neither, or both.
    """
    if sample:
        if source is not None:
            raise click.UsageError("Give SRC and TGT or --sample, not both.")
        import alignkit_data

        return os.fspath(alignkit_data.path(f"{part}.de")), os.fspath(alignkit_data.path(f"{part}.en"))
    if source is None:
        raise click.UsageError("Missing argument SRC (try --sample for the embedded text).")
    return source, target


def needs(name: str, wanted: str, there: bool) -> None:
    """Refuse an option that has no effect without another one.

    Args:
        name: the parameter of the option, as ``prior_weight``; a command may lack it.
        wanted: the other option, as users write it.
        there: whether that was given.

    Raises:
        click.UsageError: the option was given without the other one.
    """
    context = click.get_current_context()
    source = context.get_parameter_source(name)
    if not there and source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
        option = next(max(each.opts, key=len) for each in context.command.params if each.name == name)
        raise click.UsageError(f"{option} goes only with {wanted}.")


def write_output(data: bytes | Iterable[bytes], output: str | None) -> None:
    """Write a result, which may come in parts, to a file, whole or not at all, or to standard output."""
    parts = [data] if isinstance(data, bytes) else data
    if output is not None and output != "-":
        from alignkit.support.files import atomic_write

        with atomic_write(output) as stream:
            stream.writelines(parts)
        return
    sys.stdout.buffer.writelines(parts)
    sys.stdout.buffer.flush()


class NoteHandler(logging.Handler):
    """Writes the library's log messages to standard error, as :func:`note` does."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "warning: " if record.levelno >= logging.WARNING else ""
        note(prefix + record.getMessage())


def _show_notes(_: click.Context, __: click.Parameter, quiet: bool) -> bool:
    """Show what the library logs, only warnings if ``quiet``; a terminal has bars instead of lines of progress."""
    logger = logging.getLogger("alignkit")
    logger.handlers = [NoteHandler()]
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    stages.log.setLevel(logging.WARNING if sys.stderr.isatty() else logging.NOTSET)
    return quiet


def _show_everything(context: click.Context, _: click.Parameter, verbose: bool) -> None:
    """Show all that the library logs, lines of progress too."""
    if verbose and context.params.get("quiet"):
        raise click.UsageError("Give --quiet or --verbose, not both.")
    if verbose:
        logging.getLogger("alignkit").setLevel(logging.DEBUG)
        stages.log.setLevel(logging.DEBUG)


def note(message: str, quiet: bool = False) -> None:
    """Print a line on standard error, unless ``quiet``."""
    if not quiet:
        click.echo(message, err=True)


def give_memory_back() -> None:
    """Return the memory of large arrays to the system as soon as they are freed.

    The C library of most Linux systems returns only blocks above a size, which it raises up to 32 MB, and
    keeps smaller ones: a sixth of the peak at 290,000 pairs. On other systems this has no effect.
    """
    import ctypes
    from contextlib import suppress

    mmap_threshold = -3  # of <malloc.h>
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(mmap_threshold, 1 << 20)
