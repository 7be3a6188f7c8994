"""The ``alignkit`` program: from its arguments to its exit code.

Nothing but Python's own modules is imported before signals are heeded, so that Ctrl-C never prints a traceback.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import click

INTERRUPTED = 130  # the exit code that shells give a program after Ctrl-C


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit: 0 done, 2 usage or input error (one line on standard error), 130 interrupted."""
    received = _heed_signals()
    try:
        code = run(arguments)
    except (Exception, SystemExit):
        # An import that a signal interrupts may end in an error of any other kind.
        if not received:
            raise
        code = 128 + received[0]
        if code == INTERRUPTED:
            if sys.stderr is not None and sys.stderr.isatty():
                print(file=sys.stderr)  # the terminal has shown ^C on the line
            _fail("interrupted")
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to clean up
    sys.exit(code)


def _heed_signals() -> list[int]:
    """Turn the signals that end a program into exceptions, so that no half-written file is left behind.

    A signal that is ignored, as under nohup, stays ignored.

    Returns:
        the signals that have come, at first none.
    """
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> NoReturn:
        received.append(number)
        raise SystemExit(128 + number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        known = getattr(signal, name, None)
        if known is not None and signal.getsignal(known) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(known, stop)
    show = sys.unraisablehook

    def again(lost: sys.UnraisableHookArgs) -> None:
        # Raised where Python can only print it, as in a callback of an import: raise it once more, elsewhere.
        if issubclass(lost.exc_type, SystemExit) and received:
            signal.raise_signal(received[-1])
        else:
            show(lost)

    sys.unraisablehook = again
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
    # File names may hold anything; the message stays on one line.
    line = " ".join(message.split())
    if sys.stderr is not None:
        print(f"{command}: error: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
