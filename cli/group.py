"""The group of all commands, which are imported only when they run."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

import click

from alignkit.errors import abbreviated
from alignkit.version import __version__

#: command -> (module, one line for the list of commands)
COMMANDS = {
    "align": ("alignkit_cli.align", "Align with the best aligner, or with a saved one."),
    "ibm1": ("alignkit_cli.ibm1", "Align with IBM Model 1."),
    "diagonal": ("alignkit_cli.diagonal", "Align with fast_align's model, which favours the diagonal."),
    "hmm": ("alignkit_cli.hmm", "Align with a hidden Markov model."),
    "show": ("alignkit_cli.show", "Draw aligned sentence pairs in the terminal."),
    "symmetrize": ("alignkit_cli.symmetrize", "Combine the alignments of two directions."),
    "remap": ("alignkit_cli.remap", "Move links between words, subwords and untokenized text."),
    "evaluate": ("alignkit_cli.evaluate", "Score links against gold links: precision, recall, F1, AER."),
    "diagnose": ("alignkit_cli.diagnose", "Estimate how good links are, and where they are bad, without gold."),
    "lexicon": ("alignkit_cli.lexicon", "Write the translation table of a saved model as text."),
    "cooc": ("alignkit_cli.cooc", "Count which words occur together."),
    "train": ("alignkit_cli.train", "Train a neural aligner."),
    "compare": ("alignkit_cli.compare", "Score classical and neural aligners against each other."),
    "attention": ("alignkit_cli.attention", "Save the cross-attention of a Hugging Face model."),
    "heads": ("alignkit_cli.heads", "Rank the heads of an attention file by how well they align."),
    "lab": ("alignkit_cli.lab", "Measure what a network's attention agrees with."),
    "classify": ("alignkit_cli.classify", "Train classifiers on labelled text and compare what they learn."),
    "explain": ("alignkit_cli.explain", "Test a classifier's attention as an explanation of its decisions."),
    "report": ("alignkit_cli.report", "Write one HTML page that shows what aligners see in a text."),
    "fetch": ("alignkit_cli.fetch", "Download a public data set that the benchmarks use."),
    "experiment": ("alignkit_cli.experiment", "Reproduce an experiment of the papers."),
    "doctor": ("alignkit_cli.doctor", "Show what alignkit finds on this machine and what is missing."),
}
#: The groups of commands in the help.
GROUPS = {
    "Align": "align ibm1 diagonal hmm",
    "Links": "show evaluate diagnose symmetrize remap",
    "Lexicons": "lexicon cooc",
    "Networks": "train classify attention heads",
    "Analysis": "compare lab explain report experiment",
    "This machine": "doctor fetch",
}


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for, so that help loads neither Numba nor torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(COMMANDS[cmd_name][0]).command

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names.split()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND ...",
)
@click.version_option(__version__, prog_name="alignkit")
def cli() -> None:
    """Word alignment, classical and neural side by side.

    To align two files with a sentence per line: alignkit align SRC TGT > links. To see what each command takes:
    alignkit COMMAND --help.

    A text is given as two files, SRC and TGT, whose lines are translations of each other; or as one file of lines
    "SRC ||| TGT" or SRC<tab>TGT, JSON lines, CSV or Parquet. Files may be compressed (.gz, .xz, .zst, .bz2); "-"
    is standard input. Results go to standard output, everything else to standard error.
    """
