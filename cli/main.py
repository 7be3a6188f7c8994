"""The ``alignkit`` program: from its arguments to its exit code.

Nothing but Python's own modules is imported before signals are heeded, so that Ctrl-C never prints a traceback.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from threading import Timer
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import click

RARELY = 100_000  # new objects between two searches for cyclic garbage: imports make many, which all stay
INTERRUPTED = 130  # the exit code that shells give a program after Ctrl-C


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit: 0 done, 2 usage or input error, 130 interrupted, 128 + N ended by signal N.

    Each but the first comes with one line on standard error.
    """
    received = _heed_signals()
    gc.set_threshold(RARELY)
    try:
        try:
            _mend_streams()
            code = run(arguments)
        finally:
            for each in _signals():
                signal.signal(each, signal.SIG_DFL)  # nothing is left to clean up
    except (Exception, SystemExit):
        # An import that a signal interrupts may end in an error of any other kind.
        if not received:
            raise
        code = 128 + received[0]
    if received and code == 128 + received[0]:
        if code == INTERRUPTED and sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal has shown ^C on the line
        _fail("interrupted" if code == INTERRUPTED else f"ended by {signal.Signals(received[0]).name}")
    sys.exit(_flushed(code))


def atools() -> None:
    """The program of that name, which is a command of this one."""
    main(["atools", *sys.argv[1:]])


class _Notes(io.FileIO):
    """A file for messages: what cannot be written is lost, and the work goes on."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _mend_streams() -> None:
    """Let nothing depend on standard error, and make the use of other closed streams an error of that use.

    A closed one is opened again the wrong way round, or the next file that is opened would get its number.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is not None and os.name == "nt":
        return  # a console of Windows has a way of its own to write letters
    notes = _Notes(os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else 2, "w", closefd=False)
    encoding = getattr(sys.stderr, "encoding", "utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(notes), encoding=encoding, errors="backslashreplace", line_buffering=True
    )


def _flushed(code: int) -> int:
    """The exit code, that of an error if the rest of standard output cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where Python writes it at its end
        return code or _fail(f"output: {error.strerror}")
    return code


def _signals() -> list[int]:
    """The signals that end a program; one that is ignored, as under nohup, stays ignored."""
    known = (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP"))
    return [each for each in known if each is not None and signal.getsignal(each) is not signal.SIG_IGN]


def _heed_signals() -> list[int]:
    """Turn the signals that end a program into exceptions, so that no half-written file is left behind.

    Returns:
        the signals that have come, at first none.
    """
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> NoReturn:
        received.append(number)
        raise SystemExit(128 + number)

    for each in _signals():
        signal.signal(each, stop)
    show = sys.unraisablehook

    def lost(error: sys.UnraisableHookArgs) -> None:
        if not received:
            show(error)
        elif issubclass(error.exc_type, SystemExit):
            # Raised where Python can only print it, as in a callback: it comes again, when that is over.
            Timer(0.01, os.kill, (os.getpid(), received[0])).start()

    sys.unraisablehook = lost
    return received


def run(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        _fail("interrupted")
        return INTERRUPTED


def _run(arguments: list[str] | None) -> int:
    import click

    from alignkit.errors import AlignkitError
    from alignkit_cli.group import cli

    try:
        cli.main(args=arguments, prog_name="alignkit", standalone_mode=False)
    except click.ClickException as error:
        return _usage_error(error)
    except AlignkitError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        from alignkit.packages import PACKAGES, missing

        name = (error.name or "").partition(".")[0]
        if name not in PACKAGES:
            raise
        return _fail(str(missing(name)))
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except MemoryError:
        return _fail("out of memory; give less text at a time")
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}")
    return 0


def _usage_error(error: click.ClickException) -> int:
    import re

    import click

    from alignkit.errors import abbreviated

    if not isinstance(error, click.UsageError):
        return _fail(error.format_message())
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        click.echo(error.format_message(), err=True)  # its message is the whole help
        return 2
    command = error.ctx.command_path if error.ctx is not None else "alignkit"
    message = re.sub(r"\S{200,}", lambda word: abbreviated(word[0]), error.format_message())
    return _fail(f"{message} See '{command} --help'.", command)


def _fail(message: str, command: str = "alignkit") -> int:
    # Names of files and answers of servers may hold anything; the message stays on one line, and plain.
    line = " ".join(message.split())
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
    print(f"{command}: error: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
