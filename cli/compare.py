"""``alignkit compare``."""

from __future__ import annotations

import tempfile
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from alignkit.text.line_pairs import check_has_words
from alignkit_cli.options import (
    choose_text,
    named,
    note,
    quiet_option,
    reading_options,
    threads_option,
    write_output,
)
from alignkit_cli.progress import progress_bar

if TYPE_CHECKING:
    from alignkit.analysis.compare import CompareSettings, Comparison
    from alignkit.neural.training.translation_run import LinePairs


@click.command("compare")
@click.argument("source", metavar="[SRC", required=False)
@click.argument("target", metavar="TGT]", required=False)
@click.option("--neural", metavar="CKPT", help="A checkpoint (.pt) or run directory of `alignkit train`.")
@click.option("--uniform", metavar="CKPT", help="A second network, trained with --attention uniform.")
@click.option("--train", "training", nargs=2, metavar="SRC TGT", help="The training text, if the run has lost it.")
@click.option("--ibm-alpha", is_flag=True, help="Also compare IBM Model 1's posterior, ibm1.alpha.")
@click.option("--delta", is_flag=True, help="Also compare the network's saliency, lstm.delta.")
@click.option("--iterations", type=click.IntRange(min=1), default=5, show_default=True, help="Of IBM 1's EM.")
@click.option("--null/--no-null", default=False, show_default=True, help="NULL in IBM 1.")
@click.option("--proxy-epochs", type=click.IntRange(min=1), help="Epochs of the proxy.  [default: its preset's]")
@click.option("--percent", default="5", show_default=True, help="What counts as the top of a row, in per cent.")
@click.option(
    "--scores",
    multiple=True,
    metavar="NAME=FILE",
    help="Also the alpha scores of another system on the scored pairs: .npz, .parquet, .csv, JSON lines, Marian's "
    "soft alignments or Pharaoh links.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of proxy and bootstrap.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with counts and intervals.")
@click.option("--csv", "csv", metavar="FILE", help="Also write the table as CSV.")
@reading_options
@threads_option
@quiet_option
def command(**options: Any) -> None:
    """Score IBM Model 1, the proxy and a network against each other.

    IBM Model 1 and the bag-of-words proxy are fitted on the text that the network was trained on, with the same
    tokens; then all of them score the run's validation pairs, or SRC and TGT if given. The table shows A(u, v):
    the share of target tokens whose best source token by u is among the top 5 % by v; in brackets, chance.

    Without arguments: trains a small network on the embedded German-English sample first (about a minute).
    """
    run(**options)


def run(
    source: str | None,
    target: str | None,
    *,
    neural: str | None,
    uniform: str | None,
    training: tuple[str, str] | None,
    proxy_epochs: int | None,
    scores: tuple[str, ...],
    seed: int,
    device: str,
    as_json: bool,
    csv: str | None,
    lowercase: bool,
    encoding_errors: str,
    threads: int | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Loads or trains the network, fits the rest, prints the table."""
    if neural is None and (source is not None or uniform is not None or training is not None):
        raise click.UsageError("Give --neural CKPT; or no arguments at all, for the embedded sample.")
    from alignkit.analysis.compare import CompareSettings, compare_networks
    from alignkit.neural.devices import set_threads

    lines = partial(read_lines, lowercase=lowercase, encoding_errors=encoding_errors)
    options = CompareSettings(**settings, seed=seed, threads=threads)
    # The sample's network is so small that threads would cost more than they give.
    set_threads(1 if neural is None and threads is None else threads)
    with tempfile.TemporaryDirectory(prefix="alignkit-") as folder, progress_bar("proxy", quiet) as bar:
        if neural is None:
            neural = train_on_sample(folder, seed, device, quiet)
        found = compare_networks(
            neural,
            uniform,
            pairs=lines("score", source, target) if source is not None else None,
            training=lines("fit on (--train)", *training) if training is not None else None,
            settings=options,
            proxy_epochs=proxy_epochs,
            device=device,
            progress=bar,
            others=named(scores, "--scores"),
        )
    if csv is not None:
        write_output(found.table.to_csv(index=False, lineterminator="\n").encode(), csv)
    write_output(f"{render(found, options, as_json)}\n".encode(), None)


def read_lines(purpose: str, source: str, target: str | None, **reading: Any) -> LinePairs:
    """A text for this purpose; raises AlignkitError if no pair has words on both sides."""
    from alignkit.neural.training.translation_run import LinePairs
    from alignkit.text.reading import read_line_pairs

    sides = read_line_pairs(source, target, **reading)
    check_has_words(sides, purpose)
    return LinePairs(*sides)


def train_on_sample(folder: str, seed: int, device: str, quiet: bool) -> str:
    """Trains the small preset on the embedded sample; returns the run directory."""
    from alignkit.neural.settings import PRESETS
    from alignkit.neural.training.translation_run import LinePairs, train_translation
    from alignkit.text.reading import read_line_pairs

    texts = [LinePairs(*read_line_pairs(*choose_text(None, None, True, part))) for part in ("train", "test")]
    note("training a small network on the embedded sample (kept nowhere; see `alignkit train`) ...", quiet)
    with progress_bar("network", quiet) as bar:
        settings = PRESETS["small"].change(training={"seed": seed})
        train_translation(folder, texts[0], texts[1], settings, bar, device)
    return folder


def render(found: Comparison, settings: CompareSettings, as_json: bool) -> str:
    """The table as text or JSON."""
    from alignkit.report.tables import agreement_matrix, to_json

    network, training, pairs = found.network, found.training, found.pairs
    facts = {
        "percent": float(settings.percent),
        "ibm1": {"iterations": settings.iterations, "null": settings.null},
        "network": {"step": network.step, "attention": network.settings.network.attention},
        "training_pairs": len(training),
        "scored_pairs": len(pairs),
        "fingerprint": network.fingerprint,
    }
    if as_json:
        return to_json(found.table, "agreement", facts)
    rows = int(found.table["rows"].max())
    lines = [
        f"A(u, v): per cent of {rows} target tokens ({len(pairs)} pairs) whose best source token by u is among",
        f"the top {settings.percent} % by v; in brackets, what a source token drawn at random would reach.",
        f"Fitted on {len(training)} pairs; IBM 1: {settings.iterations} iterations, "
        f"{'with' if settings.null else 'without'} NULL; network: step {network.step}.",
        "",
        agreement_matrix(found.table),
    ]
    return "\n".join(lines)
