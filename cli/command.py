"""A command whose arguments are explained and whose paths are checked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import click
from click.core import augment_usage_errors

from alignkit_cli.parameter_types import check_paths

#: The groups of options in the help, each with the most used first; what is in none is the command's own.
GROUPS = {
    "Input": ("sample", "text", "valid", "training", "lowercase", "tokenize", "encoding_errors", "on_error"),
    "Model": (
        *("quality", "model", "models", "threshold", "symmetrization", "embeddings", "gold", "prior"),
        *("reverse", "iterations", "null", "preset", "architecture", "attention"),
        *("start", "keep_case", "adapt", "assignments"),
    ),
    "Output": (
        *("output", "run_dir", "folder", "output_format", "as_json", "save_model", "trace"),
        *("save_scores", "sentence_scores", "per_sentence", "model_size", "kind"),
    ),
    "Resources": ("threads", "device", "fit_on", "shard", "seed"),
    "Messages and help": ("quiet", "verbose", "help", "_click_default_help", "help_all"),
}
#: Options that only --help-all shows.
RARE = {
    *("encoding_errors", "on_error", "start", "keep_case", "adapt", "model_size", "kind", "shard"),
    *("save_scores", "sentence_scores", "trace"),
}
#: What brief help leaves out of a text: all after the first sentence but the default, and ranges of numbers.
DETAILS = re.compile(r"(?<=[.!?]) (?! ).*?(?=  \[|$)|; [^;\]]*x[<>][^;\]]*|  \[(?!default)[^\]]*\]")
IN_FULL = "alignkit.help_in_full"  #: in the context of --help-all


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
    """A command of the program.

    Args:
        example: of a call.
        **attributes: those of ``click.Command``.
    """

    def __init__(self, *names: Any, example: str, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.example = example

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse and check all that can be checked without the work itself; raises click.UsageError."""
        with augment_usage_errors(ctx):
            rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            check_paths(ctx)
        return rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, in brief its first paragraph, and an example."""
        text = inspect.cleandoc(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text if ctx.meta.get(IN_FULL) else text.partition("\n\n")[0])
            formatter.write(f"\n  {self.example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options by groups; in brief, without the rare ones."""
        arguments = [
            (str(each.metavar).strip("[]."), each.explanation)
            for each in self.params
            if isinstance(each, ExplainedArgument)
        ]
        options = {
            str(each.name): each.get_help_record(ctx)
            for each in self.get_params(ctx)
            if isinstance(each, click.Option)
        }
        places = [name for names in GROUPS.values() for name in names]
        own = [name for name in options if name not in places]
        sections = {"Arguments": arguments}
        for title, names in {"Options": own, **GROUPS}.items():
            shown = [name for name in names if ctx.meta.get(IN_FULL) or name not in RARE]
            sections[title] = [record for name in shown if (record := options.get(name)) is not None]
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    brief = [(names, DETAILS.sub("", text)) for names, text in records]
                    formatter.write_dl(records if ctx.meta.get(IN_FULL) else brief)


def _show_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[IN_FULL] = True
        click.echo(ctx.get_help())
        ctx.exit()


def alignkit_command(name: str, example: str) -> Callable[[Callable[..., Any]], Command]:
    """The decorator that makes a function a command of the program."""
    help_all = click.option(
        "--help-all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show every option, and all about it.",
    )
    return lambda function: click.command(name, cls=Command, example=example)(help_all(function))


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator that gives a command an argument; ``help`` says what to give."""
    return click.argument(name, cls=ExplainedArgument, explanation=help, **attributes)
