"""Networks with several heads are judged on sequences by which no head was chosen."""

from __future__ import annotations

import numpy as np

from alignkit.lab.experiments import multihead as experiment
from alignkit.lab.experiments.copying import SequenceRun

SETTINGS = experiment.MultiheadSettings(
    heads=2, samples=3, good_heads=1, bad_heads=2, candidates=8, trials=2, length=4, hidden=4, steps=10
)


def test_no_stream_of_sequences_chooses_and_judges(monkeypatch):
    """Heads are tried in fours: of the planted accuracies, the first is good, the others bad."""
    calls = []

    def train(starts, seeds, draw, training, progress):
        calls.append(list(seeds))
        steps = np.array([0, 10])
        accuracy = [1.0 if len(calls) == 1 and k < SETTINGS.trials else 0.1 for k in range(len(starts))]
        return [SequenceRun(steps, np.array([0.1, last]), np.zeros(2)) for last in accuracy]

    monkeypatch.setattr(experiment.copying, "train_on_sequences", train)
    result = experiment.run_multihead(SETTINGS)
    tried, *judged = calls
    assert len(set(tried)) == SETTINGS.trials
    assert len(judged) == len(experiment.MIXES)
    for seeds in judged:
        assert len(set(seeds)) == SETTINGS.samples
        assert not set(seeds) & set(tried)
    assert judged[0] == judged[1] == judged[2]  # all mixes on the same sequences
    assert "4 heads tried alone: 1 good, 3 bad" in result.remarks[0]
