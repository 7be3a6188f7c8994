"""The ``alignkit`` program: a group whose commands are imported only when they run."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

import click

from alignkit.errors import AlignkitError
from alignkit.version import __version__

#: command -> (module, one line for the list of commands)
COMMANDS = {
    "align": ("alignkit_cli.align", "Align with the best aligner, or with a saved one."),
    "ibm1": ("alignkit_cli.ibm1", "Align with IBM Model 1."),
    "diagonal": ("alignkit_cli.diagonal", "Align with fast_align's model, which favours the diagonal."),
    "hmm": ("alignkit_cli.hmm", "Align with a hidden Markov model."),
    "symmetrize": ("alignkit_cli.symmetrize", "Combine the alignments of two directions."),
    "evaluate": ("alignkit_cli.evaluate", "Score links against gold links: precision, recall, F1, AER."),
    "lexicon": ("alignkit_cli.lexicon", "Write the translation table of a saved model as text."),
    "cooc": ("alignkit_cli.cooc", "Count which words occur together."),
    "train": ("alignkit_cli.train", "Train a neural aligner."),
    "compare": ("alignkit_cli.compare", "Score classical and neural aligners against each other."),
    "lab": ("alignkit_cli.lab", "Measure what a network's attention agrees with."),
    "classify": ("alignkit_cli.classify", "Train classifiers on labelled text and compare what they learn."),
    "report": ("alignkit_cli.report", "Write one HTML page that shows what aligners see in a text."),
    "fetch": ("alignkit_cli.fetch", "Download a public data set that the benchmarks use."),
    "experiment": ("alignkit_cli.experiment", "Reproduce an experiment of the papers."),
}


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for, so that help loads neither Numba nor torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(COMMANDS[cmd_name][0]).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="alignkit")
def cli() -> None:
    """Word alignment, classical and neural side by side.

    SRC and TGT are two files with a sentence per line; or give one file whose lines are "SRC ||| TGT" or
    SRC<tab>TGT. Files may be .gz, .xz, .zst or .bz2; "-" is standard input. Results go to standard output,
    everything else to standard error.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit: 0 done, 2 usage or input error (one line on standard error), 130 interrupted."""
    for name in ("SIGTERM", "SIGHUP"):
        # By default Python would leave half-written files behind. A signal that is ignored, as under nohup, stays
        # ignored.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)
    sys.exit(run(arguments))


def _stop(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def run(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    try:
        cli.main(args=arguments, prog_name="alignkit", standalone_mode=False)
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            click.echo(error.format_message(), err=True)  # its message is the whole help
            return 2
        command = error.ctx.command_path if error.ctx is not None else "alignkit"
        return _fail(f"{error.format_message()} See '{command} --help'.", command)
    except click.ClickException as error:
        return _fail(error.format_message())
    except AlignkitError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted")
        return 130
    except MemoryError:
        return _fail("out of memory; give less text at a time")
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}")
    return 0


def _fail(message: str, command: str = "alignkit") -> int:
    # File names may hold anything; the message stays on one line.
    line = " ".join(message.split())
    click.echo(f"{command}: error: {line}", err=True)
    return 2


if __name__ == "__main__":
    main()
