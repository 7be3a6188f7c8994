"""A command whose arguments are explained and whose paths are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from alignkit_cli.parameter_types import check_paths


class ExplainedArgument(click.Argument):
    """An argument with an explanation, which click itself has only in its latest versions.

    Args:
        explanation: what to give.
        **attributes: those of ``click.Argument``.
    """

    def __init__(self, *names: Any, explanation: str = "", **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.explanation = explanation


class Command(click.Command):
    """A command of the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse and check all that can be checked without the work itself; raises click.UsageError."""
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            check_paths(ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options."""
        arguments = [
            (str(each.metavar).strip("[]."), each.explanation)
            for each in self.params
            if isinstance(each, ExplainedArgument)
        ]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        super().format_options(ctx, formatter)


def alignkit_command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """The decorator that makes a function a command of the program."""
    return click.command(name, cls=Command)


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator that gives a command an argument; ``help`` says what to give."""
    return click.argument(name, cls=ExplainedArgument, explanation=help, **attributes)
