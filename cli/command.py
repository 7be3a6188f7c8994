"""A command whose arguments are explained, whose paths are checked, and which helps with a mistyped option."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import click

from alignkit.errors import abbreviated
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
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(self.unknown_option(ctx, error.option_name), ctx) from error
        if not ctx.resilient_parsing:
            check_paths(ctx)
        return rest

    def unknown_option(self, ctx: click.Context, name: str) -> str:
        """The error for an option that this command does not have, with the one that was probably meant."""
        near = get_close_matches(name, _options_of(self), n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        group = ctx.parent.command if ctx.parent is not None else None
        if isinstance(group, click.Group):
            everywhere = {other: _options_of(group.get_command(ctx, other)) for other in group.list_commands(ctx)}
            known = get_close_matches(name, {option for options in everywhere.values() for option in options}, n=1)
            others = [other for other, options in everywhere.items() if known and known[0] in options]
            if others and (not near or known[0] == name):
                hint += f" '{known[0]}' is an option of {', '.join(others)}."
        return f"There is no option '{abbreviated(name)}'.{hint}"

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


def _options_of(command: click.Command | None) -> list[str]:
    """The long names of all options of a command."""
    parameters = command.params if command is not None else []
    names = [option for each in parameters for option in (*each.opts, *each.secondary_opts)]
    return [name for name in names if name.startswith("--")]


def alignkit_command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """The decorator that makes a function a command of the program."""
    return click.command(name, cls=Command)


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator that gives a command an argument; ``help`` says what to give."""
    return click.argument(name, cls=ExplainedArgument, explanation=help, **attributes)
