"""``alignkit train``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from alignkit.neural.networks.registry import ATTENTIONS, NETWORKS
from alignkit.neural.settings import PRESETS, Keep, NetworkSettings, Tokens, When
from alignkit_cli.options import (
    choose_text,
    note,
    quiet_option,
    reading_options,
    sample_option,
)
from alignkit_cli.progress import progress_bar

HELD_OUT = 1000  # pairs that become the validation text where none is given, but at most one in twenty


@click.command("train")
@click.argument("source", metavar="SRC", required=False)
@click.argument("target", metavar="TGT", required=False)
@reading_options
@sample_option
@click.option(
    "--valid",
    nargs=2,
    metavar="SRC TGT",
    help="Held-out text, which says when the network is best.  [default: the last 1,000 pairs of the text, "
    "or one in twenty if that is fewer]",
)
@click.option("-o", "--output", "run_dir", metavar="RUN", required=True, help="Directory of the run.")
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="paper",
    show_default=True,
    help="Sizes and training: paper, 8.2 million parameters and 20 epochs; small, for about a thousand "
    "sentence pairs on a laptop.",
)
@click.option(
    "--architecture",
    type=click.Choice(list(NETWORKS)),
    help="Kind of network; another than the preset's has its own default sizes.  [default: the preset's]",
)
@click.option(
    "--attention",
    type=click.Choice(list(ATTENTIONS)),
    default=NetworkSettings.attention,
    show_default=True,
    help="How the decoder's state s scores an encoder state h: general, h·(W s + b); dot, h·s; uniform, not at "
    "all: the weights are 1/L.",
)
@click.option("--tokens", type=click.Choice(get_args(Tokens)), help="What a token is.  [default: subwords]")
@click.option("--pieces", type=click.IntRange(min=1), help="Number of subwords.  [default: the preset's]")
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    help="Passes over the text; a finished run goes on for more of them.  [default: the preset's]",
)
@click.option("--steps", type=click.IntRange(min=0), help="Stop after so many batches.  [default: no limit]")
@click.option("--batch", type=click.IntRange(min=1), help="Sentence pairs in a batch.  [default: the preset's]")
@click.option(
    "--bleu",
    type=click.Choice(get_args(When)),
    help="When to translate the validation text and log BLEU.  [default: the preset's]",
)
@click.option(
    "--keep",
    type=click.Choice(get_args(Keep)),
    help="Which networks to keep: that of every logged step, for `alignkit report`, or the best.  "
    "[default: the preset's]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of every random choice.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="cpu, cuda, cuda:1, ...; auto takes a GPU where there is one.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Threads to use; another number may change the last bits of the result.  [default: all cores]",
)
@quiet_option
def command(**options: Any) -> None:
    """Train a neural aligner, an LSTM encoder-decoder with one attention head, into the directory RUN.

    The same command goes on where an interrupted one stopped, and ends in the same network. RUN can then be
    given wherever a saved aligner is asked for: it stands for the network with the lowest validation loss.
    """
    run(**options)


def run(
    source: str | None,
    target: str | None,
    *,
    lowercase: bool,
    encoding_errors: str,
    sample: bool,
    valid: tuple[str, str] | None,
    run_dir: str,
    preset: str,
    architecture: str | None,
    attention: str,
    tokens: str | None,
    pieces: int | None,
    epochs: int | None,
    steps: int | None,
    batch: int | None,
    bleu: str | None,
    keep: str | None,
    seed: int,
    device: str,
    threads: int | None,
    quiet: bool,
) -> None:
    """Reads, trains (or goes on), says where the network is and how good."""
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.translation_run import LinePairs, TranslationRun, train_translation
    from alignkit.text.reading import read_line_pairs

    def read(one: str, other: str | None) -> tuple[list[str], list[str]]:
        return read_line_pairs(one, other, encoding_errors=encoding_errors, lowercase=lowercase)

    lines = read(*choose_text(source, target, sample))
    if valid is None and sample:
        valid = sample_validation()
    if valid is not None:
        held = read(*valid)
    else:
        lines, held = hold_out(lines)
        note(f"no --valid: the last {len(held[0])} pairs are held out to judge the network by", quiet)
    check_words(lines, "train on")
    check_words(held, "judge the network by (--valid)")
    settings = PRESETS[preset].change(
        text={"tokens": tokens, "pieces": pieces},
        network={"architecture": architecture, "attention": attention},
        training={
            "epochs": epochs,
            "steps": steps,
            "batch": batch,
            "bleu": bleu,
            "keep": keep,
            "seed": seed,
        },
    )
    # Only now: torch takes a second or two, which an error in the input need not wait for.
    set_threads(threads)

    run = TranslationRun(Path(run_dir))
    before = run.log if run.finished else None
    with progress_bar("training", quiet) as bar:
        best = train_translation(run_dir, LinePairs(*lines), LinePairs(*held), settings, bar, device)
    if before is not None:
        finished, longer = "this run is finished; nothing was left to train", "a finished run, which went on"
        note(f"{run_dir}: {finished if before == run.log else longer}", quiet)
    measured = ", ".join(f"{name} {best.metrics[name]:.3f}" for name in ("valid.loss", "valid.accuracy"))
    note(f"{run_dir}: best at step {best.step}, {measured}", quiet)


def check_words(lines: Sides, purpose: str) -> None:
    """Raises AlignkitError if no pair has words on both sides; a run of blanks would still have figures."""
    from alignkit.errors import AlignkitError

    if not any(x.strip() and y.strip() for x, y in zip(*lines, strict=True)):
        raise AlignkitError(f"no pair with words on both sides to {purpose}; give another text")


def sample_validation() -> tuple[str, str]:
    """The held-out part of the embedded sample."""
    source, target = choose_text(None, None, True, "test")
    assert target is not None
    return source, target


Sides = tuple[list[str], list[str]]


def hold_out(lines: Sides) -> tuple[Sides, Sides]:
    """Splits off the last 1,000 pairs, but at most one in twenty (and at least one) as validation text."""
    source, target = lines
    size = max(1, min(HELD_OUT, len(source) // 20))
    return (source[:-size], target[:-size]), (source[-size:], target[-size:])
