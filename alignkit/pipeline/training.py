"""Train a network on a text: the front door of ``alignkit train``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from alignkit.errors import AlignkitError, InputError, counted, find_known, of_list
from alignkit.links.gold import read_links
from alignkit.links.links import Links, LinksLike, as_links, check_range
from alignkit.neural.settings import PRESETS, UNIFORM, Architecture, Keep, Preset
from alignkit.support.packages import need
from alignkit.support.settings import assigned
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs, Side, read_training_pairs
from alignkit.types import EncodingErrors, PathLike, Progress

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.neural.aligners import NeuralAligner

log = logging.getLogger("alignkit.pipeline")


def train(
    source: Bitext | Side | pd.DataFrame,
    target: Side | None = None,
    output: PathLike | None = None,
    *,
    valid: Bitext | Side | pd.DataFrame | tuple[Side, Side | None] | None = None,
    preset: Preset = "paper",
    architecture: Architecture | None = None,
    attention: str | None = None,
    guide: PathLike | LinksLike | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    keep: Keep | None = None,
    seed: int = 0,
    set: Iterable[str] = (),
    device: str = "auto",
    threads: int | None = None,
    encoding_errors: EncodingErrors = "strict",
    lowercase: bool = False,
    progress: Progress | None = None,
) -> NeuralAligner:
    """Train a network with attention, as ``alignkit train`` does, or continue an interrupted run.

    Args:
        source, target: the text, as of :func:`alignkit.align`.
        output: the run directory, which :func:`alignkit.load` reads. None: none is kept, only what is returned.
        valid: a validation text, which chooses the best network: a tuple (source, target), or what has both sides.
            None: the last 1,000 pairs of the text, or one in twenty if that is fewer.
        preset: sizes and training: ``paper``, or ``small``, for about a thousand sentence pairs.
        architecture: ``lstm`` or ``transformer``.
        attention: a score function and a normalizer, such as ``additive+sparsemax``, or ``uniform``.
        guide: links of the text, or their file, towards which training pulls the attention.
        epochs, steps, keep: passes over the text, the most batches, which networks to keep; None: the preset's.
        seed: of all random choices.
        set: other settings, such as ``["text.pieces=4000"]``.
        device: as :func:`alignkit.neural.devices.pick_device`.
        threads: None: all cores; another number may change the last bits of the result.
        encoding_errors, lowercase: as of :func:`alignkit.align`.
        progress: called after every step.

    Returns:
        the network with the lowest validation loss.

    Raises:
        AlignkitError: the text, a setting or the guide is not valid, or ``output`` holds something else.
    """
    need("torch", "sacrebleu")
    texts = read_training_pairs((source, target), valid, encoding_errors=encoding_errors, lowercase=lowercase)
    links = None if guide is None else read_guide(guide, texts, valid is None)
    network = {"architecture": architecture, "attention": attention}
    training = {"epochs": epochs, "steps": steps, "keep": keep, "seed": seed}
    settings = find_known(preset, PRESETS, "preset").change(network=network, training=training)
    settings = assigned(settings, set)
    own = settings.training
    if links is not None and (
        settings.network.attention == UNIFORM or not own.guide_weight or own.warmup >= own.epochs
    ):
        needs = "attention with scores, training.guide_weight above 0 and more epochs than training.warmup"
        raise AlignkitError(f"the guide would have no effect; it needs {needs}")
    # Imported only now: torch takes a second or two, which an error in the input need not wait for.
    from alignkit.neural.devices import set_threads
    from alignkit.neural.training.run_directory import TranslationRun
    from alignkit.neural.training.translation import train_translation

    set_threads(threads)
    if output is None:
        with TemporaryDirectory(prefix="alignkit-") as folder:
            return train_translation(folder, *texts, settings, progress, device, links)
    finished = TranslationRun(output).finished
    best = train_translation(output, *texts, settings, progress, device, links)
    if finished:
        log.info("%s: this run is finished; nothing was left to train", os.fspath(output))
    return best


def read_guide(guide: Any, texts: tuple[LinePairs, LinePairs], held_out: bool) -> Links:
    """The links of the training text, whose last pairs may have been held out as validation text."""
    is_file, count = isinstance(guide, str | os.PathLike), len(texts[0].source)
    name, links = (guide, read_links(guide, base=0)) if is_file else ("guide", as_links(guide))
    expected = count + (len(texts[1].source) if held_out else 0)
    if len(links) != expected:
        raise InputError(name, f"has links for {counted(len(links), 'pair')}, the text has {expected:,}")
    links = links.block(0, count)
    if not len(links.pairs):
        raise InputError(name, "has no links, so there is nothing to guide attention")
    with nullcontext() if is_file else of_list(name):
        check_range(name, links, texts[0].shapes)
    return links
