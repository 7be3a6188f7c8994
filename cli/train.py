"""``alignkit train``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from alignkit.errors import InputError, counted
from alignkit.links.gold import read_links
from alignkit.links.links import Links, check_range
from alignkit.neural.settings import NETWORKS, PRESETS, Keep, RunSettings
from alignkit.support.packages import need
from alignkit.support.settings import assigned
from alignkit.text.pairs import LinePairs, read_training_pairs
from alignkit.text.tokenization import split_words
from alignkit_cli.options import (
    alignkit_command,
    choose_text,
    device_option,
    files_option,
    note,
    preset_option,
    quiet_option,
    reading_of,
    sample_option,
    seed_option,
    set_option,
    text_arguments,
)
from alignkit_cli.parameter_types import ATTENTION, NATURAL, PASSES, THREADS, InputPath, OutputFolder
from alignkit_cli.progress import ProgressBar


@alignkit_command("train", "alignkit train train.de train.en --valid val.de val.en -o runs/general")
@text_arguments
@sample_option
@files_option(
    "--valid",
    help="Validation text, which chooses the best network.  [default: the last 1,000 pairs of the text, or "
    "one in twenty if that is fewer]",
)
@click.option(
    "-o",
    "--output",
    "run_dir",
    type=OutputFolder("train"),
    metavar="RUN",
    required=True,
    help="The run directory.",
)
@preset_option(
    PRESETS,
    "Sizes and training: paper, 8.2 million parameters and 20 epochs; small, for about a thousand sentence pairs "
    "on a laptop.",
)
@click.option(
    "--architecture",
    type=click.Choice(list(NETWORKS)),
    help="The kind of network; one that is not the preset's has its own default sizes.  [default: the preset's]",
)
@click.option(
    "--attention",
    type=ATTENTION,
    help="A score function and a normalizer, such as additive+sparsemax, or uniform (the weights are 1/L). "
    "Without a normalizer it is softmax.  [default: the preset's]",
)
@click.option(
    "--guide",
    type=InputPath(),
    metavar="LINKS",
    help="Links of the text (Pharaoh), such as those of `alignkit align`, towards which training pulls the "
    "attention; training.guide_weight says how strongly.",
)
@set_option(
    "Any other setting, such as text.pieces=4000, network.heads=2 or training.bleu=never; a name that does not "
    "exist lists them all. May be given several times."
)
@click.option("--epochs", type=PASSES, help="The number of passes over the text.  [default: the preset's]")
@click.option("--steps", type=NATURAL, help="Stop after this number of batches.  [default: no limit]")
@click.option(
    "--keep",
    type=click.Choice(get_args(Keep)),
    help="Which networks to keep: that of every logged step, for `alignkit report`, or the best.  "
    "[default: the preset's]",
)
@seed_option("The seed of all random choices: weights, the order of batches, dropout.")
@device_option
@click.option(
    "--threads",
    type=THREADS,
    help="Number of threads; another number may change the last bits of the result.  [default: all cores]",
)
@quiet_option
def train_command(run_dir: str, quiet: bool, **options: Any) -> None:
    """Train a neural aligner, an encoder-decoder with attention, and save it in the directory RUN.

    The same command continues an interrupted run, and ends in the same network. Every option that takes a saved
    aligner takes RUN, too; it stands for the network with the lowest validation loss.
    """
    need("torch", "sacrebleu")
    text = choose_text(options["source"], options["target"], options["sample"], "train")
    valid = options["valid"]
    if valid is None and options["sample"]:
        valid = choose_text(None, None, True, "test")
    texts = read_training_pairs(text, valid, **reading_of(options))
    guide = None if options["guide"] is None else read_guide(options["guide"], texts, valid is None)
    settings = run_settings(options)
    # Imported only now: torch takes a second or two, which an error in the input need not wait for.
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.run_directory import TranslationRun
    from alignkit.neural.training.translation import train_translation

    set_threads(options["threads"])
    finished = TranslationRun(Path(run_dir)).finished
    with ProgressBar("training", quiet) as bar:
        best = train_translation(run_dir, *texts, settings, bar, options["device"], guide)
    note(f"{run_dir}: this run is finished; nothing was left to train", quiet or not finished)
    measured = ", ".join(f"{name} {best.metrics[name]:.3f}" for name in ("valid.loss", "valid.accuracy"))
    note(f"{run_dir}: best at step {best.step}, {measured}", quiet)


def read_guide(path: str, texts: tuple[LinePairs, LinePairs], held_out: bool) -> Links:
    """The links of the training text, whose last pairs may have been held out as validation text."""
    guide, count = read_links(path, base=0), len(texts[0].source)
    expected = count + (len(texts[1].source) if held_out else 0)
    if len(guide) != expected:
        raise InputError(path, f"has links for {counted(len(guide), 'pair')}, the text has {expected:,}")
    guide = guide.block(0, count)
    words = [[len(split_words(line)) for line in side] for side in (texts[0].target, texts[0].source)]
    check_range(path, guide, np.array(words).T)
    return guide


def run_settings(options: Mapping[str, Any]) -> RunSettings:
    """The preset with the options that were given."""
    network = {name: options[name] for name in ("architecture", "attention")}
    training = {name: options[name] for name in ("epochs", "steps", "keep", "seed")}
    preset = PRESETS[options["preset"]].change(network=network, training=training)
    return assigned(preset, options["assignments"])
