"""``alignkit compare``."""

from __future__ import annotations

import tempfile
import textwrap
from typing import TYPE_CHECKING, Any

import click

from alignkit.lab.comparison import ALSO, BEST_HEADS, CompareSettings
from alignkit.lab.report.tables import NONE, align_columns, metric_matrix, records, to_json
from alignkit.metrics.protocol import as_number
from alignkit.metrics.registry import MAIN, METRICS, SCORE_METRICS
from alignkit.support.packages import need
from alignkit.text.pairs import check_has_words
from alignkit_cli import shared
from alignkit_cli.parameter_types import PASSES, PERCENT, InputPath
from alignkit_cli.show import beside, chosen_pairs, draw, picture

if TYPE_CHECKING:
    from alignkit.aligner import Aligner
    from alignkit.lab.comparison import Comparison

PICTURES = 2  #: pairs of the sample that are drawn
FAINTEST = 0.1  #: weights below this are not drawn


@shared.command(
    "compare",
    "alignkit compare --neural runs/general --uniform runs/uniform",
    metrics="; ".join(f"{one.name}: {one.describe(CompareSettings())}" for one in SCORE_METRICS),
    also="; ".join(f"{name}, {what}" for name, what in ALSO.items()),
    best_heads=BEST_HEADS,
)
@shared.side_arguments("[SRC]")
@shared.run_option("--neural", checkpoint=True)
@shared.run_option("--uniform", checkpoint=True)
@shared.files_option("--train", "training")
@shared.setting_option(CompareSettings, "metric", type=click.Choice([metric.name for metric in SCORE_METRICS]))
@shared.setting_option(CompareSettings, "also", multiple=True, show_default=False, type=click.Choice(list(ALSO)))
@shared.setting_option(CompareSettings, "iterations", type=PASSES)
@shared.setting_option(CompareSettings, "percent", type=PERCENT)
@shared.scores_option("Also compare the alpha scores of another system on the scored pairs")
@click.option("--heads", type=InputPath(scores=True))
@click.option("--beta", type=InputPath())
@shared.device_option
@shared.json_option
@shared.sample_option
@shared.reading_options
@shared.work_options
def compare_command(**options: Any) -> None:
    """Compare classical aligners, a network's attention and other systems.

    The table shows A(u, v): the share of target tokens whose best source token by u is among the top 5 % by v,
    with the chance level in brackets.

    With SRC and TGT alone, no network is needed: IBM Model 1 and the aligner of `alignkit align` are fitted on
    this text (or that of --train) and compared with each other and with --scores, between words.

    With --neural, IBM Model 1 and a bag-of-words proxy are fitted on the text that the network was trained on,
    with the same tokens; then all of them score the same sentence pairs.

    With --heads, a second table shows for each head u how far A(u, v) exceeds A(u, w), each above its chance
    level, where w is the diagonal or the aligner of `alignkit align`, with 95 % intervals over sentence pairs.

    Without arguments, a small network is first trained on the German-English sample that comes with alignkit
    (about a minute), and some sentence pairs are drawn above the table.

    Args:
        SRC: The source text, a sentence per line; or, without TGT, one file of both sides (SRC ||| TGT, TSV, CSV,
            JSON lines, Parquet, TMX, XLIFF); or "-". Words are separated by spaces. Fields of records are src and
            tgt, or those of FILE:SOURCE,TARGET; those of TMX are languages. "-" is standard input. [default with
            --neural: the validation text of the run]
        --neural: A network: a run directory of `alignkit train`, or one of its checkpoints (.pt).
        --uniform: A second network, trained with --attention uniform, for uniform.beta.
        --train: The text to fit on, instead of SRC and TGT; with --neural, the text that the network was trained
            on, if the run directory has lost it.
        --metric: What the table shows. $metrics.
        --also: Also compare these scores: $also. May be given several times.
        --iterations: Number of EM iterations of IBM Model 1.
        --heads: Also compare attention heads of the scored pairs, from a file of `alignkit attention`: the
            $best_heads with most hits on the links of `alignkit align`, or that of FILE:LAYER.HEAD; and say what
            agrees with a head more than the diagonal does, and more than this aligner.
        --beta: With --heads: another quantity of the same heads, as of `alignkit attention --quantity ov`.
        --json: Print JSON with counts and intervals.
    """
    if options["sample"]:
        options["source"], options["target"] = shared.choose_text(options)
    neural, quiet = options["neural"], options["quiet"]
    settings = shared.with_given(CompareSettings(), options)
    is_neural = neural is not None or options["source"] is None
    if not is_neural:
        for name in ("uniform", "device"):
            shared.needs(name, "--neural", there=False)
        for name in set(settings.also) - {"ibm1.alpha"}:
            raise click.UsageError(f"--also {name} goes only with --neural.")
    elif neural is None and any(options[name] is not None for name in ("uniform", "training")):
        raise click.UsageError("Give --neural RUN, or SRC and TGT; or no arguments, for the embedded sample.")
    given = options["source"] is not None or options["training"] is not None
    shared.needs("lowercase", "SRC and TGT, or --train", given)
    shared.needs("beta", "--heads", there=options["heads"] is not None)
    shared.needs(
        "percent", f"--metric {MAIN.name} or --heads", settings.metric == MAIN.name or options["heads"] is not None
    )
    if options["heads"] is not None and neural is None and options["source"] is None:
        raise click.UsageError("--heads needs the text that the heads are of: SRC and TGT, or --neural RUN.")
    if is_neural:
        need("torch", "sacrebleu")
        from alignkit.neural.devices import set_threads

        # The sample's network is so small that threads would cost more than they give.
        set_threads(1 if neural is None and settings.threads is None else settings.threads)
    from alignkit.lab.comparison import compare_classical, compare_networks
    from alignkit.text.pairs import read_line_pairs

    training, pairs = None, None
    if options["training"] is not None:
        training = read_line_pairs(*options["training"], **shared.reading_of(options))
        check_has_words(training, "fit on (--train)")
    if options["source"] is not None:
        pairs = read_line_pairs(options["source"], options["target"], **shared.reading_of(options))
        check_has_words(pairs, "score")

    more: dict[str, Any] = {name: options[name] for name in ("heads", "beta")}
    more |= {"pairs": pairs, "training": training, "others": options["scores"], "settings": settings}
    if pairs is not None and not is_neural:
        with shared.ProgressBar("align", quiet) as bar:
            found = compare_classical(progress=bar, **more)
    else:
        with tempfile.TemporaryDirectory(prefix="alignkit-") as folder:
            if neural is None:
                train_on_sample(folder, settings, quiet)
            with shared.ProgressBar("proxy", quiet) as bar:
                found = compare_networks(neural or folder, options["uniform"], progress=bar, **more)
    if found.network is not None and neural is None and not options["as_json"]:
        draw(sample_pictures(found.network))
    shared.write_output(render_comparison(found, settings, options["as_json"]))


def train_on_sample(folder: str, settings: CompareSettings, quiet: bool) -> None:
    """Train the small preset on the embedded sample."""
    from alignkit.pipeline.training import train

    shared.note("training a small network on the bundled sample (it is not kept; see `alignkit train`) ...", quiet)
    how: dict[str, Any] = {"preset": "small", "seed": settings.seed, "device": settings.device}
    how |= {"valid": shared.sample_files("test"), "threads": settings.threads or 1}
    with shared.ProgressBar("network", quiet) as bar:
        train(*shared.sample_files("train"), folder, progress=bar, **how)


def sample_pictures(network: Aligner) -> list[str]:
    """Pictures of some of the sample's pairs: IBM Model 1, which counts, beside the attention of a network."""
    from alignkit.pipeline.align import align
    from alignkit.text.pairs import read_text

    counting = align(*shared.sample_files("train"), method="ibm1", threads=1).aligner
    bitext = read_text(*shared.sample_files("test"))
    counts, attention = counting.score(bitext, "alpha"), network.on_words().score(bitext, "alpha")
    lines = []
    for m in chosen_pairs(bitext.shapes.tolist(), (0, PICTURES)):
        left, right = (
            picture(each[m] * (each[m] >= FAINTEST), bitext.source.words(m), bitext.target.words(m))
            for each in (counts, attention)
        )
        lines += [*beside(["counting (IBM Model 1)", *left], ["attention (a small network)", *right]), ""]
    return lines


def render_comparison(found: Comparison, settings: CompareSettings, as_json: bool) -> str:
    """The table as text or JSON."""
    network, training, pairs = found.network, found.training, found.pairs
    if as_json:
        facts: dict[str, Any] = {
            "percent": as_number(settings.percent),
            "ibm1": {"iterations": settings.iterations, "null": False},
            "training_pairs": len(training),
            "scored_pairs": len(pairs),
            "fingerprint": training.fingerprint() if network is None else network.fingerprint,
        }
        if network is not None:
            facts["network"] = {"step": network.step, "attention": network.settings.network.attention}
        if found.differences is not None:
            facts["differences"] = records(found.differences)
        return to_json(found.table, settings.metric, facts)
    metric = METRICS[settings.metric]
    rows = f"{int(found.table['rows'].max())} target tokens ({len(pairs)} pairs)"
    chance = f"; in brackets, {metric.chance}" if metric.chance else ""
    what = f"{metric.symbol}(u, v): {metric.describe(settings, rows)}{chance}."
    lines = [
        textwrap.fill(what, 90),
        f"Fitted on {len(training)} pairs; IBM 1: {settings.iterations} iterations, without NULL"
        f"{f'; network: step {network.step}' if network else ''}.",
        "",
        metric_matrix(found.table, metric),
    ]
    if found.differences is not None:
        what = f"{metric.symbol}(u, v) minus {metric.symbol}(u, w), each above chance, with 95 % intervals:"
        grid = [["u", "v", "w", "difference", "interval"]]
        for row in records(found.differences):
            values = (row[name] for name in ("difference", "low", "high"))
            value, low, high = (NONE if each is None else metric.text(each) for each in values)
            grid.append([row["u"], row["v"], row["w"], value, f"({low} to {high})"])
        lines += ["", what, "", align_columns(grid)]
    return "\n".join(lines)
