"""What a run had learned at each of its logged steps: agreement with a fixed set of scores, and performance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from alignkit.metrics.agreement import PERCENT, agreement
from alignkit.neural.aligners import NeuralAligner
from alignkit.neural.loading import load_checkpoint
from alignkit.neural.training.translation_run import TranslationRun
from alignkit.scores.scores import Scores
from alignkit.text.bitext import Bitext

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run", "step", "name", "value")


def learning_course(
    run: TranslationRun,
    bitext: Bitext,
    reference: Scores,
    percent: Any = PERCENT,
    device: str = "auto",
    progress: Callable[[int, int, str], None] | None = None,
    crop: Callable[[Scores], Scores] = lambda scores: scores,
) -> pd.DataFrame:
    """A(alpha(tau), reference) and A(beta(tau), reference) at every kept checkpoint, and the rows of the log.

    Args:
        run: its checkpoints are scored one after another; one that kept none has the rows of its log alone.
        bitext: M pairs in the run's tokens.
        reference: ``ibm1.beta`` of the pairs.
        percent: of the agreement.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: called with (checkpoints done, in all, message).
        crop: takes from scores of ``bitext`` what ``reference`` has.

    Returns:
        columns run, step, name, value; name is ``A(alpha(step), ibm1.beta)``, ``chance(alpha(step), ibm1.beta)``,
        the same of beta, or that of a row of the log.
    """
    import pandas as pd

    rows: list[tuple[str, int, str, float]] = []
    checkpoints = run.checkpoints
    for done, (step, path) in enumerate(checkpoints.items()):
        network = load_checkpoint(path, device)
        if not isinstance(network, NeuralAligner):
            continue
        for kind in ("alpha", "beta"):
            found = agreement(crop(network.score(bitext, kind)), reference, percent, resamples=0)
            for name, value in (("A", found.agreement), ("chance", found.chance)):
                rows.append((run.path.name, step, f"{name}({kind}(step), ibm1.beta)", value))
        if progress is not None:
            progress(done + 1, len(checkpoints), f"step {step}")
    rows += [(run.path.name, row.step, row.name, row.value) for row in run.log.rows]
    return pd.DataFrame(rows, columns=list(COLUMNS))
