"""``alignkit compare``."""

from __future__ import annotations

import tempfile
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from alignkit.comparison import CompareSettings
from alignkit.metrics.registry import SCORE_METRICS, find_metric
from alignkit.packages import need
from alignkit.text.pairs import LinePairs, check_has_words
from alignkit_cli.analysis_options import (
    call_of,
    csv_option,
    device_option,
    ibm1_options,
    json_option,
    percent_option,
    proxy_epochs_option,
    seed_option,
)
from alignkit_cli.command import alignkit_command, argument
from alignkit_cli.options import (
    by_name,
    choose_text,
    needs,
    note,
    quiet_option,
    reading_options,
    setting_option,
    threads_option,
    with_given,
    write_output,
)
from alignkit_cli.parameter_types import TEXT, InputPath, NamedInputPath, ScoresPath
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from alignkit.comparison import Comparison


@dataclass(frozen=True)
class CompareCall:
    """Options that are no settings."""

    source: str | None
    target: str | None
    neural: str | None
    uniform: str | None
    training: tuple[str, str] | None
    scores: tuple[tuple[str, str], ...]
    as_json: bool
    csv: str | None
    lowercase: bool
    encoding_errors: str
    quiet: bool

    def read(self, purpose: str, source: str, target: str | None) -> LinePairs:
        """Read a text for this purpose; raises AlignkitError if no pair has words on both sides."""
        from alignkit.text.pairs import read_line_pairs

        reading: dict[str, Any] = {"lowercase": self.lowercase, "encoding_errors": self.encoding_errors}
        pairs = read_line_pairs(source, target, **reading)
        check_has_words(pairs, purpose)
        return pairs


@alignkit_command("compare")
@argument(
    "source",
    metavar="[SRC]",
    required=False,
    type=TEXT,
    help='The source text to score; or, without TGT, lines "source ||| target".  [default with --neural: the '
    "validation text of the run]",
)
@argument("target", metavar="[TGT]", required=False, type=TEXT, help="The target text to score.")
@click.option(
    "--neural",
    type=InputPath(folder=True),
    metavar="RUN",
    help="A network: a run directory of `alignkit train`, or one of its checkpoints (.pt).",
)
@click.option(
    "--uniform",
    type=InputPath(folder=True),
    metavar="RUN",
    help="A second network, trained with --attention uniform, for uniform.beta.",
)
@click.option(
    "--train",
    "training",
    nargs=2,
    type=TEXT,
    metavar="SRC TGT",
    help="The text to fit on: without --neural, instead of SRC and TGT; with it, the text that the network was "
    "trained on, if the run directory has lost it.",
)
@setting_option(
    CompareSettings,
    "metric",
    type=click.Choice([metric.name for metric in SCORE_METRICS]),
    help="What the table shows: the top-5 % agreement, or Kendall's tau.",
)
@click.option("--ibm-alpha", is_flag=True, help="Also compare IBM Model 1's posterior, ibm1.alpha.")
@click.option("--delta", is_flag=True, help="Also compare the network's saliency, lstm.delta.")
@click.option(
    "--ov", is_flag=True, help="Also compare the lexicon of a transformer's attention heads, transformer.ov."
)
@ibm1_options
@proxy_epochs_option
@percent_option
@click.option(
    "--scores",
    multiple=True,
    type=NamedInputPath(ScoresPath()),
    help="Also compare the alpha scores of another system on the scored pairs: .npz, .parquet, .csv, JSON lines, "
    "Marian's soft alignments, inseq's JSON or Pharaoh links; one of several heads as FILE:LAYER.HEAD. May be "
    "given several times.",
)
@seed_option("The seed of the proxy and the bootstrap.")
@device_option
@json_option("Print JSON with counts and intervals.")
@csv_option
@reading_options
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Compare classical aligners, a network's attention and other systems.

    The table shows A(u, v): the share of target tokens whose best source token by u is among the top 5 % by v; in
    brackets, chance.

    With SRC and TGT alone, no network is needed: IBM Model 1 and the aligner of `alignkit align` are fitted on
    this text (or that of --train) and compared with each other and with --scores, between words.

    With --neural, IBM Model 1 and a bag-of-words proxy are fitted on the text that the network was trained on,
    with the same tokens; then all of them score the same sentence pairs.

    Without arguments, a small network is trained first on the German-English sample that comes with the program
    (about a minute).
    """
    run_compare(call_of(CompareCall, options), with_given(CompareSettings(), options))


def run_compare(call: CompareCall, settings: CompareSettings) -> None:
    """Compare, print the table."""
    alone = call.neural is None and call.source is not None
    found = without_network(call, settings) if alone else with_network(call, settings)
    if call.csv is not None:
        write_output(found.table.to_csv(index=False, lineterminator="\n").encode(), call.csv)
    write_output(f"{render_comparison(found, settings, call.as_json)}\n".encode(), None)


def without_network(call: CompareCall, settings: CompareSettings) -> Comparison:
    """Compare classical aligners and the scores of other systems."""
    from alignkit.comparison import compare_classical

    for name in ("uniform", "delta", "ov", "proxy_epochs", "device"):
        needs(name, "--neural", there=False)
    assert call.source is not None
    training = call.read("fit on (--train)", *call.training) if call.training is not None else None
    with progress_bar("align", call.quiet) as bar:
        return compare_classical(
            call.read("score", call.source, call.target),
            by_name(call.scores, "--scores"),
            training=training,
            settings=settings,
            progress=bar,
        )


def with_network(call: CompareCall, settings: CompareSettings) -> Comparison:
    """Load or train the network, fit the rest."""
    if call.neural is None and any(given is not None for given in (call.uniform, call.training)):
        raise click.UsageError("Give --neural RUN, or SRC and TGT; or no arguments, for the embedded sample.")
    need("torch", "sacrebleu")
    from alignkit.comparison import compare_networks
    from alignkit.neural.devices import set_threads

    # The sample's network is so small that threads would cost more than they give.
    set_threads(1 if call.neural is None and settings.threads is None else settings.threads)
    pairs = call.read("score", call.source, call.target) if call.source is not None else None
    training = call.read("fit on (--train)", *call.training) if call.training is not None else None
    with tempfile.TemporaryDirectory(prefix="alignkit-") as folder, progress_bar("proxy", call.quiet) as bar:
        return compare_networks(
            call.neural or train_on_sample(folder, settings.seed, settings.device, call.quiet),
            call.uniform,
            pairs=pairs,
            training=training,
            others=by_name(call.scores, "--scores"),
            settings=settings,
            progress=bar,
        )


def train_on_sample(folder: str, seed: int, device: str, quiet: bool) -> str:
    """Train the small preset on the embedded sample; returns the run directory."""
    from alignkit.neural.settings import PRESETS
    from alignkit.neural.training.translation_run import train_translation
    from alignkit.text.pairs import read_line_pairs

    texts = [read_line_pairs(*choose_text(None, None, True, part)) for part in ("train", "test")]
    note("training a small network on the embedded sample (it is not kept; see `alignkit train`) ...", quiet)
    with progress_bar("network", quiet) as bar:
        settings = PRESETS["small"].change(training={"seed": seed})
        train_translation(folder, texts[0], texts[1], settings, bar, device)
    return folder


def render_comparison(found: Comparison, settings: CompareSettings, as_json: bool) -> str:
    """The table as text or JSON."""
    from alignkit.report.tables import metric_matrix, to_json

    network, training, pairs = found.network, found.training, found.pairs
    if as_json:
        facts: dict[str, Any] = {
            "percent": float(settings.percent),
            "ibm1": {"iterations": settings.iterations, "null": settings.null},
            "training_pairs": len(training),
            "scored_pairs": len(pairs),
            "fingerprint": training.fingerprint() if network is None else network.fingerprint,
        }
        if network is not None:
            facts["network"] = {"step": network.step, "attention": network.settings.network.attention}
        return to_json(found.table, settings.metric, facts)
    metric = find_metric(settings.metric)
    rows = f"{int(found.table['rows'].max())} target tokens ({len(pairs)} pairs)"
    chance = f"; in brackets, {metric.chance}" if metric.chance else ""
    what = f"{metric.symbol}(u, v): {metric.describe(settings, rows)}{chance}."
    lines = [
        textwrap.fill(what, 90),
        f"Fitted on {len(training)} pairs; IBM 1: {settings.iterations} iterations, "
        f"{'with' if settings.null else 'without'} NULL{f'; network: step {network.step}' if network else ''}.",
        "",
        metric_matrix(found.table, metric),
    ]
    return "\n".join(lines)
