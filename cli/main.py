"""The ``alignkit`` program: from its arguments to its exit code.

Only what heeds signals is imported before they are heeded, so that Ctrl-C prints no traceback.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys

TYPE_CHECKING = False  # that of typing takes as long to load as all the rest
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

RARELY = 100_000  # new objects between two searches for cyclic garbage: imports make many, which all stay


class Stopped(KeyboardInterrupt):
    """A signal has come.

    Python's compiler, at work in imports, drops an exception that is no KeyboardInterrupt; after KeyboardInterrupt
    itself, in text that is run by ``exec``, Python ends by SIGINT whatever the exit code is.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit: 0 done, 2 usage or input error, 130 interrupted, 128 + N ended by signal N.

    Each but the first comes with one line on standard error, except 141, when the reader of
    the output has closed it, and 1, for which doctor prints what is wrong.
    """
    received: list[int] = []
    gc.set_threshold(RARELY)
    # The signals that end a program; one that is ignored, as under nohup, stays ignored.
    known = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    heeded = [each for each in known if each is not None and signal.getsignal(each) is not signal.SIG_IGN]
    try:
        try:
            _heed_signals(heeded, received)
            _mend_streams()
            code = run(arguments)
            if received and code:  # an import that a signal cut short has failed in its own way
                raise Stopped
        finally:
            for each in heeded:
                signal.signal(each, signal.SIG_DFL)  # nothing is left to clean up
    except BaseException:
        # An import that a signal interrupts may end in an error of any other kind.
        if not received:
            raise
        code = 128 + received[0]
        if received[0] == signal.SIGINT and sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal has shown ^C on the line
        name = signal.Signals(received[0]).name
        _fail("interrupted" if name == "SIGINT" else f"ended by {name}")
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _fail(f"output: {error.strerror}")
    if code:  # where Python writes at its end what could not be written to standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


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
    elif isinstance(sys.stdout, io.TextIOWrapper) and isinstance(file := sys.stdout.buffer, io.RawIOBase):
        # With python -u or PYTHONUNBUFFERED, a write that a full disk cuts short is no error there.
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout.detach()
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(file), encoding=encoding, errors=errors, line_buffering=True
        )
    if sys.stderr is not None and os.name == "nt":
        return  # a console of Windows has a way of its own to write letters
    notes = _Notes(os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else 2, "w", closefd=False)
    encoding = getattr(sys.stderr, "encoding", "utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(notes), encoding=encoding, errors="backslashreplace", line_buffering=True
    )


def _heed_signals(signals: list[signal.Signals], received: list[int]) -> None:
    """Turn signals into exceptions, so that no half-written file is left behind.

    Args:
        signals: that end a program.
        received: those that have come, to be filled.
    """

    def stop(number: int, _: FrameType | None) -> NoReturn:
        received.append(number)
        raise Stopped

    for each in signals:
        signal.signal(each, stop)
    from threading import Timer

    show = sys.unraisablehook

    def lost(error: sys.UnraisableHookArgs) -> None:
        if not received:
            show(error)
        elif issubclass(error.exc_type, KeyboardInterrupt):
            # Raised where Python can only print it, as in a callback: it comes again, when that is over.
            Timer(0.01, os.kill, (os.getpid(), received[0])).start()

    sys.unraisablehook = lost


def run(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    import re

    import click

    from alignkit.errors import AlignkitError, abbreviated
    from alignkit_cli.group import cli

    try:
        return cli.main(args=arguments, prog_name="alignkit", standalone_mode=False) or 0
    except SystemExit as error:
        if error.code != 1:  # click's, where the reader of the output has closed it
            raise
        return 141  # as if SIGPIPE had ended it
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            click.echo(error.format_message(), err=True)  # its message is the whole help
            return 2
        command = error.ctx.command_path if error.ctx is not None else "alignkit"
        message = re.sub(r"\S{200,}", lambda word: abbreviated(word[0]), error.format_message())
        return _fail(f"{message} See '{command} --help'.", command)
    except click.ClickException as error:
        return _fail(error.format_message())
    except AlignkitError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        from alignkit.support.packages import PACKAGES, missing

        name = (error.name or "").partition(".")[0]
        if name not in PACKAGES:
            raise
        return _fail(str(missing(name)))
    except MemoryError:
        return _fail("out of memory; give less text at a time")
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}")


def _fail(message: str, command: str = "alignkit") -> int:
    # Names of files and answers of servers may hold anything; the message stays on one line, and plain.
    line = " ".join(message.split())
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
    print(f"{command}: error: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
