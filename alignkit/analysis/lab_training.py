"""Training of the three runs that the lab compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alignkit.neural.settings import RunSettings
from alignkit.neural.training.translation_run import train_translation
from alignkit.text.line_pairs import LinePairs
from alignkit.types import PathLike, Progress, named_progress
from alignkit.workflow.training import Files, read_training_pairs

#: name in the folder -> attention, and what is added to the seed
RUNS = {"general-0": ("general", 0), "general-1": ("general", 1), "uniform-0": ("uniform", 0)}


def train_lab_runs(
    folder: PathLike,
    training: LinePairs,
    valid: LinePairs,
    settings: RunSettings,
    progress: Progress | None = None,
    device: str = "auto",
) -> dict[str, Path]:
    """Train two networks with attention and one with uniform attention, or continue interrupted training.

    A checkpoint is kept at every logged step, whatever the settings say.

    Args:
        folder: gets the run directories ``general-0``, ``general-1`` (the next seed) and ``uniform-0``.
        training: raw text.
        valid: raw held-out text.
        settings: of all three; the kind of attention is filled in.
        progress: called with (steps done, steps of a run, message).
        device: as :func:`alignkit.neural.devices.pick_device`.

    Returns:
        name -> run directory.

    Raises:
        AlignkitError: as :func:`alignkit.neural.training.translation_run.train_translation`.
    """
    paths = {name: Path(folder) / name for name in RUNS}
    for name, (attention, more) in RUNS.items():
        own = settings.change(
            network={"attention": attention},
            training={"seed": settings.training.seed + more, "keep": "logged"},
        )
        report = named_progress(progress, name) if progress is not None else None
        train_translation(paths[name], training, valid, own, report, device)
    return paths


def train_lab_files(
    folder: PathLike,
    training: Files,
    valid: Files | None,
    settings: RunSettings,
    progress: Progress | None = None,
    device: str = "auto",
    **reading: Any,
) -> dict[str, Path]:
    """Train the three runs on the text of files; see :func:`train_lab_runs`.

    Args:
        training, valid, **reading: as of :func:`alignkit.workflow.training.read_training_pairs`.
        folder, settings, progress, device: as of :func:`train_lab_runs`.
    """
    pairs = read_training_pairs(training, valid, **reading)
    return train_lab_runs(folder, *pairs, settings, progress, device)


def find_lab_runs(folder: PathLike) -> dict[str, Path]:
    """The runs of :func:`train_lab_runs` that a folder holds, by name; empty if it holds none."""
    paths = {name: Path(folder) / name for name in RUNS}
    return {name: path for name, path in paths.items() if path.is_dir()}
