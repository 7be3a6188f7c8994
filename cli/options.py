"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from alignkit.kernels import compile
from alignkit.links.formats import OUTPUT_FORMATS

Command = Callable[..., Any]


def text_arguments(command: Command) -> Command:
    """SRC [TGT], and how to read them."""
    decorators = [
        click.argument("source", metavar="SRC", required=False),
        click.argument("target", metavar="TGT", required=False),
        *_reading(),
    ]
    return _apply(command, decorators)


def _reading() -> list[Callable[[Command], Command]]:
    return [
        click.option("--lowercase", is_flag=True, help="Lower-case both sides while reading."),
        encoding_option,
    ]


def encoding_option(command: Command) -> Command:
    """--encoding-errors."""
    return click.option(
        "--encoding-errors",
        type=click.Choice(["strict", "replace"]),
        default="strict",
        show_default=True,
        help="What to do with bytes that are not UTF-8: stop, or put U+FFFD in their place.",
    )(command)


def reading_options(command: Command) -> Command:
    """How to read text, without the arguments."""
    return _apply(command, _reading())


def sample_option(command: Command) -> Command:
    """--sample."""
    text = "Use the embedded German-English sample instead of SRC and TGT."
    return click.option("--sample", is_flag=True, help=text)(command)


def threads_option(command: Command) -> Command:
    """--threads."""
    text = "Threads to use; the result does not depend on it.  [default: all cores]"
    return click.option("--threads", type=click.IntRange(min=1), help=text)(command)


def memory_options(command: Command) -> Command:
    """--max-memory and --temp-dir."""
    decorators = [
        click.option(
            "--max-memory",
            metavar="SIZE",
            help="Stay within so much memory, as 800M or 4G: a larger text is kept on disk and fitted a part at a "
            "time, with the same result. If that cannot be enough, say so, with an estimate, before fitting.  "
            "[default: half of the machine's, as far as can be]",
        ),
        click.option(
            "--temp-dir",
            metavar="DIR",
            help="Where a text too large for memory is kept meanwhile.  [default: $TMPDIR]",
        ),
    ]
    return _apply(command, decorators)


def output_option(command: Command) -> Command:
    """-o FILE."""
    text = "Write the result to FILE, whole or not at all, instead of standard output."
    return click.option("-o", "--output", metavar="FILE", help=text)(command)


def format_options(command: Command) -> Command:
    """--format and --sentence-scores."""
    decorators = [
        click.option(
            "--format",
            "output_format",
            type=click.Choice(list(OUTPUT_FORMATS)),
            default="pharaoh",
            show_default=True,
            help="; ".join(f"{name}: {one.help}" for name, one in OUTPUT_FORMATS.items()) + ".",
        ),
        click.option(
            "--sentence-scores",
            metavar="FILE",
            help="Also write a line per pair: log p(target | source) per target word (natural logarithm); with "
            "two directions, log p(source | target) per source word after a tab. nan if a side is blank.",
        ),
    ]
    return _apply(command, decorators)


def quiet_option(command: Command) -> Command:
    """--quiet."""
    text = "Suppress notes and progress messages."
    return click.option("-q", "--quiet", is_flag=True, callback=_silence, help=text)(command)


def _silence(_: click.Context, __: click.Parameter, quiet: bool) -> bool:
    if quiet:
        compile.announce = None
    return quiet


def _apply(command: Command, decorators: list[Callable[[Command], Command]]) -> Command:
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


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
    """Refuses an option that was given although nothing would come of it.

    Args:
        name: the parameter, as ``prior_weight``.
        wanted: what it goes with, as a user writes it.
        there: whether that was given.

    Raises:
        click.UsageError: it was not.
    """
    source = click.get_current_context().get_parameter_source(name)
    if not there and source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
        option = "--" + name.replace("_", "-")
        raise click.UsageError(f"{option} goes only with {wanted}.")


def check_outputs(*paths: str | None) -> None:
    """Refuses two outputs in one file, of which the last would be all there is; None: not to be written.

    Raises:
        click.UsageError: a file comes twice.
    """
    seen = set()
    for path in paths:
        if path is None or (os.path.exists(path) and not os.path.isfile(path)):
            continue  # two may well go to /dev/null
        place = "standard output" if path == "-" else os.path.realpath(path)
        if place in seen:
            raise click.UsageError(f"Two outputs cannot both go to {place}; give another file for one.")
        seen.add(place)


def named(options: Sequence[str], option: str) -> dict[str, str]:
    """NAME=FILE options as a dict; raises click.UsageError for another form or a name that comes twice."""
    found: dict[str, str] = {}
    for text in options:
        name, equals, path = text.partition("=")
        if not equals or not name.strip() or not path:
            raise click.UsageError(f"{option} wants NAME=FILE, not {text!r}.")
        if name in found:
            raise click.UsageError(f"{option} has the name {name!r} twice.")
        found[name] = path
    return found


def write_output(data: bytes, output: str | None) -> None:
    """Writes a result to a file, atomically, or to standard output."""
    if output is not None and output != "-":
        from alignkit.storage import atomic_write

        with atomic_write(output) as stream:
            stream.write(data)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def note(message: str, quiet: bool = False) -> None:
    """A line on standard error."""
    if not quiet:
        click.echo(message, err=True)


def note_blanks(count: int, quiet: bool = False) -> None:
    """Says how many pairs get an empty output line because a side is blank."""
    if count:
        pairs, lines = (
            ("1 pair", "its output line is") if count == 1 else (f"{count} pairs", "their output lines are")
        )
        note(f"{pairs} with a blank side: {lines} empty", quiet)


def give_memory_back() -> None:
    """Lets large arrays go back to the system as soon as they are done with.

    The C library of most Linux systems raises the size from which it does so each time that it happens, up to
    32 MB, and keeps smaller holes in its heap: a sixth of the peak at 290,000 pairs. Elsewhere this does nothing.
    """
    import ctypes
    from contextlib import suppress

    mmap_threshold = -3  # of <malloc.h>
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(mmap_threshold, 16 << 20)
