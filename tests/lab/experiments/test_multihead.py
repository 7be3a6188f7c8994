"""Networks with several heads are judged on sequences by which no head was chosen."""

from __future__ import annotations

import numpy as np
import pytest

from alignkit.lab.experiments import multihead as experiment
from alignkit.lab.experiments.copying import SequenceRun

SETTINGS = experiment.MultiheadSettings(
    heads=2, samples=3, good_heads=1, bad_heads=2, candidates=8, trials=2, length=4, hidden=4, steps=40
)


def test_no_stream_of_sequences_chooses_and_judges(monkeypatch):
    """Heads are tried in fours: of the planted accuracies, the first is good, the others bad."""
    calls, tried_heads = [], []

    def train(starts, seeds, draw, training, progress):
        calls.append(list(seeds))
        tried_heads.append([start.attention.queries[0].weight.flatten()[0].item() for start in starts])
        accuracy = [1.0 if len(calls) == 1 and k < SETTINGS.trials else 0.1 for k in range(len(starts))]
        measured = [np.array([0.1, 0.2, 0.3, 0.4, last]) for last in accuracy]
        return [SequenceRun(np.arange(0, 50, 10), each, np.zeros(5)) for each in measured]

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
    assert "'eight' in the names stands for 2" in result.remarks[-1]
    assert tried_heads[0][::2] == tried_heads[0][1::2]  # two trials of each head
    assert len(set(tried_heads[0])) == 4
    assert {*tried_heads[1], *tried_heads[2]} <= set(tried_heads[0])
    assert not set(tried_heads[3]) & set(tried_heads[0])
    table = result.table.set_index("heads")
    assert table.runs.tolist() == [8, 3, 3, 3]
    assert table.failed.tolist() == [6, 3, 3, 3]
    assert table["mean accuracy halfway"].tolist() == pytest.approx([0.3] * 4)
    assert table["mean accuracy"].tolist() == pytest.approx([(2 + 0.6) / 8, 0.1, 0.1, 0.1])
