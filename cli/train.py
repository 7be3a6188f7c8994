"""``alignkit train``."""

from __future__ import annotations

from typing import Any, get_args

import click

from alignkit.neural.settings import NETWORKS, PRESETS, Keep
from alignkit.pipeline.training import train
from alignkit_cli import shared
from alignkit_cli.parameter_types import ATTENTION, NATURAL, PASSES, THREADS, InputPath, OutputFolder


@shared.command("train", "alignkit train train.de train.en --valid val.de val.en -o runs/general")
@shared.text_arguments
@shared.files_option("--valid")
@click.option("-o", "--output", "run_dir", type=OutputFolder("train"), metavar="RUN", required=True)
@shared.choice_option("--preset", choices=PRESETS)
@click.option("--architecture", type=click.Choice(list(NETWORKS)))
@click.option("--attention", type=ATTENTION)
@click.option("--guide", type=InputPath(), metavar="LINKS")
@shared.set_option
@click.option("--epochs", type=PASSES)
@click.option("--steps", type=NATURAL)
@click.option("--keep", type=click.Choice(get_args(Keep)))
@shared.seed_option()
@shared.device_option
@click.option("--threads", type=THREADS)
@shared.quiet_option
def train_command(run_dir: str, quiet: bool, **options: Any) -> None:
    """Train a neural aligner, an encoder-decoder with attention, and save it in the directory RUN.

    The same command continues an interrupted run, and ends in the same network. Every option that takes a saved
    aligner takes RUN, too; it stands for the network with the lowest validation loss.

    Args:
        --valid: Validation text, which chooses the best network. [default: the last 1,000 pairs of the text, or
            one in twenty if that is fewer]
        --output: The run directory.
        --preset: Sizes and training: paper, 8.2 million parameters and 20 epochs; small, for about a thousand
            sentence pairs on a laptop.
        --architecture: The kind of network; one that is not the preset's has its own default sizes. [default: the
            preset's]
        --attention: A score function and a normalizer, such as additive+sparsemax, or uniform (the weights are
            1/L). Without a normalizer it is softmax. [default: the preset's]
        --guide: Links of the text (Pharaoh), such as those of `alignkit align`, towards which training pulls the
            attention; training.guide_weight says how strongly.
        --set: Any other setting, such as text.pieces=4000, network.heads=2 or training.bleu=never; a name that
            does not exist lists them all. May be given several times.
        --epochs: The number of passes over the text. [default: the preset's]
        --steps: Stop after this number of batches. [default: no limit]
        --keep: Which networks to keep: that of every logged step, for `alignkit report`, or the best. [default:
            the preset's]
        --seed: The seed of all random choices: weights, the order of batches, dropout.
        --threads: Number of threads; another number may change the last bits of the result. [default: all cores]
    """
    options["source"], options["target"] = shared.choose_text(options, "train")
    if options.pop("sample"):
        options["valid"] = options["valid"] or shared.sample_files("test")
    with shared.ProgressBar("training", quiet) as bar:
        best = train(output=run_dir, set=options.pop("assignments"), progress=bar, **options)
    measured = ", ".join(f"{name} {best.metrics[name]:.3f}" for name in ("valid.loss", "valid.accuracy"))
    shared.note(f"{run_dir}: best at step {best.step}, {measured}", quiet)
