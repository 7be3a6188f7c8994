"""``alignkit report``."""

from __future__ import annotations

from typing import Any

import click

from alignkit.lab.report.build import ReportInputs
from alignkit_cli import shared
from alignkit_cli.parameter_types import TEXT, InputPath, OutputPath, RunPath


@shared.command("report", "alignkit report runs/general -o report.html")
@shared.argument("runs", "[RUN]...", nargs=-1, type=RunPath("train"))
@click.option("-o", "--output", type=OutputPath(), required=True)
@shared.files_option("--text")
@shared.files_option("--train", "training")
@click.option("--model", "models", multiple=True, type=InputPath(folder=True))
@shared.scores_option("Also show the scores of another system")
@click.option("--gold", type=TEXT)
@click.option("--heads", type=InputPath())
@click.option("--proxy", is_flag=True)
@shared.device_option
@shared.sample_option
@shared.reading_options
@shared.work_options
def report_command(**options: Any) -> None:
    """Write one HTML page that shows what aligners see in a text.

    It shows how far they agree, how a network's attention was learned, every sentence pair, and where the
    attention goes. Without RUN, the page compares IBM Model 1, the aligners of --model (or an HMM) and those of
    --scores on the words of --text. It is one file, which a browser opens from disk, without the internet.

    Args:
        RUN: Run directories of `alignkit train`; their network's attention and lexical knowledge are compared with
            IBM Model 1, fitted on the same training text.
        --output: The page to write, one HTML file.
        --text: The text to score. [default: the run's validation text]
        --train: Without a run: fit IBM Model 1 on this text. [default: on the text that is scored]
        --model: Also show a saved aligner (`--save-model`). May be given several times.
        --gold: Gold links between whitespace words, shown as boxes.
        --heads: Also show the heads of a model, ranked on this text by `alignkit heads --json`, and the scores of
            the best one.
        --proxy: Also show the bag-of-words proxy of the run, which is trained if the run has none.
    """
    from alignkit.lab.report.build import build_report
    from alignkit.lab.report.page import SHOWN_PAIRS, build_page
    from alignkit.text.pairs import read_line_pairs

    if options["proxy"] and not options["runs"]:
        raise click.UsageError("--proxy is the proxy of a run; give RUN.")
    if options["runs"] and options["training"] is not None:
        raise click.UsageError("--train is for reports without a run; a run has its own training text.")
    files = {name: options[name] for name in ("text", "training")}
    if options["sample"]:
        if files["text"] is not None:
            raise click.UsageError("Give --text SRC TGT or --sample, not both.")
        files["text"] = shared.sample_files("test")
        files["training"] = files["training"] if options["runs"] else shared.sample_files("train")
    shared.needs("lowercase", "--text", any(files.values()))
    reading = shared.reading_of(options)
    texts = {name: read_line_pairs(*pair, **reading) if pair else None for name, pair in files.items()}
    inputs = shared.with_given(ReportInputs(), options, **texts)
    with shared.ProgressBar("checkpoints", options["quiet"]) as bar:
        report = build_report(inputs, bar)
    page = build_page(report)
    shared.write_output(page, options["output"])
    shown = min(SHOWN_PAIRS, len(report.bitext))
    size = f"{shown} of {len(report.bitext)} sentence pairs, {len(page) / 1e6:.1f} MB"
    shared.note(f"{options['output']}: {size}", options["quiet"])
