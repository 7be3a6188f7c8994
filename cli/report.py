"""``alignkit report``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from alignkit_cli.options import (
    choose_text,
    named,
    note,
    quiet_option,
    reading_options,
    sample_option,
    threads_option,
    write_output,
)
from alignkit_cli.progress import progress_bar


@click.command("report")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="The page, one HTML file.")
@click.option("--text", nargs=2, metavar="SRC TGT", help="Score this text.  [default: the run's validation text]")
@click.option(
    "--train",
    "training",
    nargs=2,
    metavar="SRC TGT",
    help="Without a run: fit IBM Model 1 on this text.  [default: on the text that is scored]",
)
@click.option("--model", "models", multiple=True, metavar="FILE", help="Also the scores of a saved aligner.")
@click.option(
    "--scores",
    multiple=True,
    metavar="NAME=FILE",
    help="Also the scores of another system: .npz, .parquet, .csv, JSON lines, "
    "Marian's soft alignments or Pharaoh links.",
)
@click.option(
    "--links", multiple=True, metavar="NAME=FILE", help="Also links of another system, as scores 0 and 1."
)
@click.option(
    "--pieces",
    multiple=True,
    nargs=3,
    metavar="NAME SRC TGT",
    help="The subwords that the scores NAME are of, a sentence per line; they are merged to words.",
)
@click.option("--gold", metavar="FILE", help="Links that people made, to be boxed; between whitespace words.")
@click.option("--proxy", is_flag=True, help="Also the bag-of-words model of the run, trained if it is not there.")
@click.option("--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="Of IBM 1's EM.")
@click.option("--null/--no-null", default=False, show_default=True, help="NULL in IBM 1.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    help="How many sentence pairs, the first ones, the page shows one by one; the figures count all.",
)
@click.option("--title", help="Of the page.")
@click.option("--plots", metavar="FOLDER", help="Also write the figures as PNG and SVG (needs matplotlib).")
@click.option("--frames", metavar="FOLDER", help="Also write every number as tidy tables.")
@click.option(
    "--frame-format",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="Of --frames; Parquet needs pyarrow.",
)
@click.option("--percent", default="5", show_default=True, help="What counts as the top of a row, in per cent.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of intervals and proxy.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@sample_option
@reading_options
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """One page that shows what aligners see in a text: agreement, learning, every sentence, where the mass goes.

    RUN is a directory of `alignkit train`; its network's attention and word knowledge are set beside IBM Model 1,
    fitted on the same training text. Without RUN, the aligners are IBM Model 1 and whatever --model, --scores and
    --links bring, on the words of --text. The page needs no network and opens from disk.
    """
    run(**options)


def run(
    runs: tuple[str, ...],
    *,
    output: str | None,
    text: tuple[str, str] | None,
    training: tuple[str, str] | None,
    scores: Sequence[str],
    links: Sequence[str],
    pieces: Sequence[tuple[str, str, str]],
    sample: bool,
    limit: int,
    plots: str | None,
    frames: str | None,
    frame_format: str,
    lowercase: bool,
    encoding_errors: str,
    quiet: bool,
    **settings: Any,
) -> None:
    """Gathers, writes the page and what else was asked for."""
    from alignkit.report.build import Sources, gather
    from alignkit.text.reading import read_line_pairs, read_lines

    if output is None and plots is None and frames is None:
        raise click.UsageError("Give -o FILE for the page, or --plots or --frames FOLDER.")
    if settings["proxy"] and not runs:
        raise click.UsageError("--proxy is the proxy of a run; give RUN.")
    if runs and training is not None:
        raise click.UsageError("--train is for reports without a run; a run has its own training text.")
    if sample:
        text = sample_text(runs, text)
        training = training if runs else choose_text(None, None, True)  # type: ignore[assignment]
    reading = {"encoding_errors": encoding_errors, "lowercase": lowercase}
    lines = [read_line_pairs(*sides, **reading) if sides is not None else None for sides in (text, training)]
    sources = Sources(
        runs=runs,
        text=lines[0],
        training=lines[1],
        scores=named(scores, "--scores"),
        links=named(links, "--links"),
        pieces={name: (read_lines(source), read_lines(target)) for name, source, target in pieces},
        **settings,
    )
    with progress_bar("checkpoints", quiet) as bar:
        report = gather(sources, bar)
    write(report, output, limit, plots, frames, frame_format, quiet)


def sample_text(runs: Sequence[str], text: tuple[str, str] | None) -> tuple[str, str]:
    """The held-out part of the embedded sample."""
    if text is not None:
        raise click.UsageError("Give --text SRC TGT or --sample, not both.")
    source, target = choose_text(None, None, True, "test")
    assert target is not None
    return source, target


def write(
    report: Any, output: str | None, limit: int, plots: str | None, frames: str | None, form: str, quiet: bool
) -> None:
    """Writes what was asked for."""
    if output is not None:
        from alignkit.report.page import build_page

        page = build_page(report, limit)
        write_output(page, output)
        shown = min(limit, len(report.bitext))
        note(f"{output}: {shown} of {len(report.bitext)} sentence pairs, {len(page) / 1e6:.1f} MB", quiet)
    if plots is not None:
        from alignkit.report.plots import save_plots

        for path in save_plots(report, plots):
            note(str(path), quiet)
    if frames is not None:
        from alignkit.report.frames import save_frames

        for path in save_frames(report, frames, form):
            note(str(path), quiet)
