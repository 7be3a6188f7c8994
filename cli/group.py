"""The group of all commands, which are imported only when they run."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from alignkit.errors import abbreviated
from alignkit.support.packages import __version__

#: The groups of commands in the help: command -> one line about it.
GROUPS = {
    "Align": {
        "align": "Align with the best aligner, or with a saved one.",
        "ibm1": "Align with IBM Model 1.",
        "diagonal": "Align with fast_align's model, which favours the diagonal.",
        "hmm": "Align with a hidden Markov model.",
    },
    "Links": {
        "show": "Draw aligned sentence pairs in the terminal.",
        "omissions": "Show what a translation leaves out, and what it adds.",
        "gold": "Write a page for aligning sentence pairs by hand.",
        "evaluate": "Score links against gold links: precision, recall, F1, AER.",
        "diagnose": "Estimate how good links are, and where they are bad, without gold links.",
        "symmetrize": "Combine the alignments of two directions.",
        "atools": "Combine, compare, invert or draw alignments, as fast_align's atools does.",
        "remap": "Move links between words, subwords and untokenized text.",
        "project": "Copy labels, spans and inline tags into a translation.",
        "serve": "Keep saved models in memory and answer requests in JSON.",
    },
    "Lexicons and phrases": {
        "lexicon": "Write the translation table of a saved model as text.",
        "cooc": "Count which words occur together.",
        "phrases": "Write the phrase table of a text, as Moses does.",
        "terms": "List the terms of several words and their translations.",
    },
    "Networks": {
        "train": "Train a neural aligner.",
        "classify": "Train classifiers on labelled text and compare what they learn.",
        "attention": "Save a Hugging Face model's attention to the source.",
        "heads": "Rank the heads of an attention file by how well they align.",
        "ablate": "Switch off the heads that align, and see what translations lose.",
    },
    "Analysis": {
        "compare": "Compare classical aligners, a network's attention and other systems.",
        "lab": "Measure what a network's attention agrees with.",
        "explain": "Test a classifier's attention as an explanation of its decisions.",
        "report": "Write one HTML page that shows what aligners see in a text.",
        "experiment": "Reproduce an experiment of the papers.",
    },
    "This machine": {
        "doctor": "Show what alignkit finds on this machine and what is missing.",
        "fetch": "Download a public data set that the benchmarks use.",
    },
}
#: All commands, with the line about each.
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
#: The modules of commands that have none of their own name. In its module, a command is called ``NAME_command``.
MODULES = {
    **dict.fromkeys(("ibm1", "diagonal", "hmm"), "align"),
    **dict.fromkeys(("atools", "remap"), "symmetrize"),
    **dict.fromkeys(("attention", "ablate"), "heads"),
    **dict.fromkeys(("omissions", "gold"), "show"),
    "diagnose": "evaluate",
    **dict.fromkeys(("cooc", "phrases", "terms"), "lexicon"),
}
IN_FULL = "alignkit.help_in_full"  #: in the context of --help-all


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for, so that help loads neither Numba nor torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"alignkit_cli.{MODULES.get(cmd_name, cmd_name)}"), f"{cmd_name}_command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was asked for.

        Raises:
            click.UsageError: there is none of that name; with the name that was probably meant.
        """
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"There is no command '{abbreviated(name)}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise SystemExit from error  # for the interrupt itself, click writes an empty line

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


def _help_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the help with every option, after that of the program that of all its commands, and exit."""
    if asked and not ctx.resilient_parsing:
        ctx.meta[IN_FULL] = True
        texts = [ctx.get_help()]
        for name in COMMANDS if ctx.command is cli else ():
            command = cli.get_command(ctx, name)
            texts.append(command.get_help(click.Context(command, parent=ctx, info_name=name)))
        click.echo("\n\n\n".join(texts))
        ctx.exit()


def help_all_option(help: str | None = None) -> Callable[[Any], Any]:
    """The decorator that gives a command, or the program, --help-all."""
    how: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _help_all}
    return click.option("--help-all", help=help, **how)


cli = LazyGroup(
    "cli",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND ...",
    help="""Word alignment, classical and neural side by side.

    To align two files with a sentence per line: alignkit align SRC TGT > links. For the options of a command:
    alignkit COMMAND --help; for those of all commands: alignkit --help-all.

    A text is two files, SRC and TGT, whose lines are translations of each other; or one file of lines "SRC |||
    TGT" or SRC<tab>TGT, JSON lines, CSV, Parquet, TMX or XLIFF. Files may be compressed (.gz, .xz, .zst, .bz2);
    "-" is standard input. Results go to standard output, everything else to standard error.
    """,
)
help_all_option("Show the help of every command, with all options.")(cli)
click.version_option(__version__, prog_name="alignkit")(cli)
