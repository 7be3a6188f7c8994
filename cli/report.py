"""``alignkit report``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from alignkit.report.frames import FORMATS
from alignkit.report.inputs import ReportInputs, Sides
from alignkit.report.page_data import SHOWN_PAIRS
from alignkit_cli.analysis_options import call_of, device_option, ibm1_options, percent_option, seed_option
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import (
    by_name,
    choose_text,
    note,
    quiet_option,
    reading_options,
    sample_option,
    threads_option,
    write_output,
)
from alignkit_cli.parameter_types import (
    NATURAL,
    TEXT,
    InputPath,
    NamedInputPath,
    OutputFolder,
    OutputPath,
    ScoresPath,
)
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from alignkit.report.model import Report


@dataclass(frozen=True)
class ReportCall:
    """Options that are no inputs of the report: files to read first, and outputs."""

    text: tuple[str, str] | None
    training: tuple[str, str] | None
    scores: Sequence[tuple[str, str]]
    links: Sequence[tuple[str, str]]
    pieces: Sequence[tuple[str, str, str]]
    sample: bool
    output: str | None
    limit: int
    plots: str | None
    frames: str | None
    frame_format: str
    lowercase: bool
    encoding_errors: str
    quiet: bool


@alignkit_command("report")
@argument(
    "runs",
    metavar="[RUN]...",
    nargs=-1,
    type=InputPath(folder=True),
    help="Run directories of `alignkit train`; their network's attention and word knowledge are set beside IBM "
    "Model 1, fitted on the same training text.",
)
@click.option("-o", "--output", type=OutputPath(), help="The page to write, one HTML file.")
@click.option(
    "--text",
    nargs=2,
    type=TEXT,
    metavar="SRC TGT",
    help="The text to score.  [default: the run's validation text]",
)
@click.option(
    "--train",
    "training",
    nargs=2,
    type=TEXT,
    metavar="SRC TGT",
    help="Without a run: fit IBM Model 1 on this text.  [default: on the text that is scored]",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    type=InputPath(),
    help="Also show a saved aligner (`--save-model`). May be given several times, like the next three.",
)
@click.option(
    "--scores",
    multiple=True,
    type=NamedInputPath(ScoresPath()),
    help="Also show the scores of another system: .npz, .parquet, .csv, JSON lines, "
    "Marian's soft alignments, inseq's JSON or Pharaoh links; one of several heads as FILE:LAYER.HEAD.",
)
@click.option(
    "--links",
    multiple=True,
    type=NamedInputPath(),
    help="Also show the links of another system, as scores of 0 and 1.",
)
@click.option(
    "--pieces",
    multiple=True,
    nargs=3,
    type=(str, TEXT, TEXT),
    metavar="NAME SRC TGT",
    help="The subwords that the scores NAME belong to, a sentence per line; their scores are merged to words'.",
)
@click.option("--gold", type=TEXT, help="Gold links between whitespace words, which are shown as boxes.")
@click.option(
    "--proxy",
    is_flag=True,
    help="Also show the bag-of-words proxy of the run, which is trained if the run has none.",
)
@ibm1_options
@click.option(
    "--limit",
    type=NATURAL,
    default=SHOWN_PAIRS,
    show_default=True,
    help="Show only this number of sentence pairs one by one, the first ones; the figures count all.",
)
@click.option("--title", help="The title of the page.  [default: one that names what is shown]")
@click.option("--plots", type=OutputFolder(), help="Also write the figures as PNG and SVG (needs matplotlib).")
@click.option("--frames", type=OutputFolder(), help="Also write every number as tidy tables.")
@click.option(
    "--frame-format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="The format of --frames; Parquet needs pyarrow.",
)
@percent_option
@seed_option("The seed of the intervals and the proxy.")
@device_option
@sample_option
@reading_options
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Write one HTML page that shows what aligners see in a text.

    It shows how far they agree, how a network's attention was learned, every sentence pair, and where the
    attention goes. Without RUN, the aligners are IBM Model 1 and those of --model, --scores and --links, on the
    words of --text. The page is one file that a browser opens from disk, without the internet.
    """
    call = call_of(ReportCall, options)
    run_report(call, ReportInputs(**{name: value for name, value in options.items() if name not in vars(call)}))


def run_report(call: ReportCall, inputs: ReportInputs) -> None:
    """Build the report, write the page and the other outputs."""
    from alignkit.report.build import build_report

    if call.output is None and call.plots is None and call.frames is None:
        raise click.UsageError("Give -o FILE for the page, or --plots or --frames FOLDER.")
    if inputs.proxy and not inputs.runs:
        raise click.UsageError("--proxy is the proxy of a run; give RUN.")
    if inputs.runs and call.training is not None:
        raise click.UsageError("--train is for reports without a run; a run has its own training text.")
    inputs = with_texts(call, inputs)
    with progress_bar("checkpoints", call.quiet) as bar:
        report = build_report(inputs, bar)
    write_report(report, call)


def with_texts(call: ReportCall, inputs: ReportInputs) -> ReportInputs:
    """Read the texts and add them to the inputs."""
    from alignkit.text.pairs import read_line_pairs
    from alignkit.text.reading import read_lines

    def sides(files: tuple[str, str | None] | None) -> Sides | None:
        reading: dict[str, Any] = {"encoding_errors": call.encoding_errors, "lowercase": call.lowercase}
        return read_line_pairs(*files, **reading) if files is not None else None

    text: tuple[str, str | None] | None = call.text
    training: tuple[str, str | None] | None = call.training
    if call.sample:
        if text is not None:
            raise click.UsageError("Give --text SRC TGT or --sample, not both.")
        text = choose_text(None, None, True, "test")
        training = training if inputs.runs else choose_text(None, None, True)
    return replace(
        inputs,
        text=sides(text),
        training=sides(training),
        scores=by_name(call.scores, "--scores"),
        links=by_name(call.links, "--links"),
        pieces={name: (read_lines(source), read_lines(target)) for name, source, target in call.pieces},
    )


def write_report(report: Report, call: ReportCall) -> None:
    """Write the outputs."""
    if call.output is not None:
        from alignkit.report.page import build_page

        page = build_page(report, call.limit)
        write_output(page, call.output)
        shown = min(call.limit, len(report.bitext))
        size = f"{len(page) / 1e6:.1f} MB"
        note(f"{call.output}: {shown} of {len(report.bitext)} sentence pairs, {size}", call.quiet)
    if call.plots is not None:
        from alignkit.report.plots import save_plots

        for path in save_plots(report, call.plots):
            note(str(path), call.quiet)
    if call.frames is not None:
        from alignkit.report.frames import save_frames

        for path in save_frames(report, call.frames, call.frame_format):
            note(str(path), call.quiet)
