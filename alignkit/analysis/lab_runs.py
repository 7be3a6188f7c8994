"""The runs of a lab, opened and checked, and the network of a run that counts."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.analysis.networks import open_run
from alignkit.analysis.settings import BestBy
from alignkit.errors import AlignkitError
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.training.translation_run import TranslationRun
from alignkit.types import PathLike

PERFORMANCES = {"accuracy": "valid.accuracy", "bleu": "valid.bleu"}  #: name in the table -> in the log


@dataclass(frozen=True)
class LabRuns:
    """Runs of one text that belong together.

    Attributes:
        main: with attention.
        network: its best network.
        other: with attention, of another seed, or None.
        uniform: with uniform attention, or None.
    """

    main: TranslationRun
    network: NeuralAligner
    other: TranslationRun | None
    uniform: TranslationRun | None

    def notes(self) -> list[str]:
        """Remarks on runs that are missing, unfinished or of one seed."""
        found = []
        if self.other is not None and self.other.settings.training.seed == self.main.settings.training.seed:
            found.append("the two runs have the same seed, so xi compares a network with itself")
        runs = [run for run in (self.main, self.other, self.uniform) if run is not None]
        found += [f"{run.path} is not finished" for run in runs if not run.finished]
        if self.uniform is None:
            found.append("without a uniform run (--uniform RUN), there is no uniform.beta")
        if self.other is None:
            found.append("without a run of another seed (--other RUN), there is no xi")
        return found


def best_network(run: TranslationRun, by: BestBy, device: str) -> NeuralAligner:
    """The network of a run with the lowest validation loss, or of the logged step with the best performance.

    Args:
        run: with checkpoints of its logged steps, unless ``by`` is ``loss``.
        by: ``loss``; or ``accuracy`` or ``bleu``, as logged; the first step among equals.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: no step that was kept has that performance in the log.
    """
    if by == "loss":
        return run.load(device=device)
    known = dict(run.log.series(PERFORMANCES[by]))
    steps = [step for step in run.checkpoints if step in known]
    if not steps:
        how = "; train with --bleu logged" if by == "bleu" and run.checkpoints else "; train with --keep logged"
        raise AlignkitError(f"{run.path} has no logged step with {by} whose network was kept{how}")
    return run.load(max(steps, key=lambda step: known[step]), device)


def open_lab_runs(
    run: PathLike, other: PathLike | None, uniform: PathLike | None, device: str, by: BestBy = "loss"
) -> LabRuns:
    """Open the runs of a lab and check that they belong together.

    Args:
        run, other, uniform: run directories.
        device: as :func:`alignkit.neural.devices.pick_device`.
        by: as of :func:`best_network`, which chooses the network of ``run``.

    Raises:
        AlignkitError: a directory is no run, runs are of unlike texts, or have the wrong kind of attention.
    """
    main = open_run(run)
    opened = [open_run(path) if path is not None else None for path in (other, uniform)]
    network = best_network(main, by, device)
    if network.name != "lstm":
        raise AlignkitError(f"{main.path} was trained with uniform attention; give it as --uniform")
    for found, name, option in zip(opened, ("lstm", "uniform"), ("--other", "--uniform"), strict=True):
        if found is None:
            continue
        second = found.load(device="cpu")
        if second.name != name:
            wanted = "attention" if name == "lstm" else "uniform attention"
            raise AlignkitError(f"{found.path} was not trained with {wanted}, which {option} needs")
        same = second.tokenizer.vocabulary == network.tokenizer.vocabulary
        if second.fingerprint != network.fingerprint or not same:
            raise AlignkitError(f"{found.path} was not trained on the text of {main.path}")
    if opened[0] is not None and opened[0].path.resolve() == main.path.resolve():
        raise AlignkitError("the second run must be another one, trained with another seed")
    return LabRuns(main, network, *opened)
