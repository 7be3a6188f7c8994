"""The law of emergence: its closed forms against counts, its fit, and the verdicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import initial_gradient as experiment
from alignkit.lab.experiments.copying import SequenceRun, Sequences, contrast, exact_count_table

SMALL = experiment.EmergenceLawSettings(
    contrasts=(2.0, 3.0),
    lengths=(6, 8),
    widths=(32,),
    rates=(1e-2,),
    batches=(16,),
    seeds=2,
    travel=24.0,
    text_lengths=(12,),
    text_words=(5, 10),
)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(experiment, "RESAMPLES", 60)


NEVER = SequenceRun(np.arange(3), *[np.full(3, 0.1)] * 3)


def test_gain_and_contrast_are_those_of_the_table():
    for types, length in ((4, 3), (5, 2)):
        table = exact_count_table(Sequences("subset", types, length))
        centred = table - table.mean(1, keepdims=True)
        wanted = (types - 1) / (length - 1)
        (cell,) = experiment.grid_cells(replace(SMALL, contrasts=(wanted,), lengths=(length,))).itertuples()
        assert (cell.types, cell.contrast) == (types, pytest.approx(contrast(table)))
        assert cell.gain == pytest.approx(centred[0, 0] - centred[0, 1])
    assert experiment.grid_cells(replace(SMALL, contrasts=(1.0,))).eval("types - length").tolist() == [1, 1]


def test_gain_counted_is_its_closed_form():
    for cell in experiment.grid_cells(replace(SMALL, contrasts=(1.2, 2.0, 5.0), lengths=(4, 9))).itertuples():
        sequences = Sequences("subset", cell.types, cell.length)
        sources = sequences.sources(np.random.default_rng(0), 20000)
        assert experiment.gain(sources, cell.types) == pytest.approx(cell.gain, rel=0.03)
        few = [experiment.gain(sources[at : at + 4000], cell.types) for at in range(0, 20000, 4000)]
        assert np.mean(few) == pytest.approx(cell.gain, rel=0.03)  # no bias of few
        assert contrast(sequences.counts(np.random.default_rng(0), 5000)) == pytest.approx(cell.contrast, rel=0.03)
    short = Sequences("independent", 3, 1).sources(np.random.default_rng(0), 20000)
    assert experiment.gain(short, 3) == pytest.approx(1 / 3, rel=0.03)


def test_drifts_in_closed_form():
    one, seven = pd.Series([1.0]), pd.Series([7.0])
    assert experiment.drift(one / 7, one).tolist() == pytest.approx([7**-0.5])  # one pair: |E g| / sqrt(E |g|^2)
    assert experiment.drift(one, seven).tolist() == [1]  # no noise
    assert experiment.drift(one / 7, seven).tolist() == pytest.approx([(7 / 13) ** 0.5])


def test_the_outcomes_are_medians_over_networks():
    shares = ([0.1, 0.13, 0.2, 0.1, 0.3], [0.1, 0.1, 0.1, 0.13, 0.2], [0.1, 0.1, 0.1, 0.1, 0.1])
    runs = [SequenceRun(np.arange(5), np.zeros(5), np.zeros(5), np.array(share)) for share in shares]
    assert list(experiment.median_steps(runs).values()) == [4, 3]
    assert list(experiment.median_steps(runs[1:]).values()) == [np.inf, np.inf]


def test_a_run_fits_one_half_of_the_grid_and_predicts_the_other_and_the_texts(monkeypatch):
    """Networks whose attention emerges as the law says, but for the cells that are not fitted: e times as late."""
    trained, told = [], []

    def train(sequences, plan, seeds, progress):
        trained.append((sequences, plan, seeds))
        assert (plan.every, plan.solved, plan.attended) == (1, 2.0, 4.0)
        if sequences.kind == "text":
            q = experiment.gain(sequences.sentences, sequences.types)
        else:
            q = (1 - (sequences.length - 1) / (sequences.types - 1)) / sequences.types
        r = (plan.batch * q / (1 + (plan.batch - 1) * q)) ** 0.5
        step = 3 + 2 * sequences.length**0.5 / (plan.learning_rate * plan.hidden**1.5 * r)
        steps = np.append(0.0, np.array([1, np.e]) * step * (1 if len(trained) < 4 else np.e))
        share = np.array([0.1, 0.125, 0.2])
        return [SequenceRun(steps, share, share, share)] * seeds

    monkeypatch.setattr(experiment.copying, "train_networks", train)
    settings = replace(SMALL, widths=(32, 64, 128), batches=(16, 48), rates=(1e-2, 2e-2), contrasts=(2.0,))
    result = experiment.run_emergence_law(settings, lambda *what: told.append(what[:2]))
    cells = result.rows["cells"]
    assert cells.part.tolist() == ["fit"] * 3 + ["test"] * 3 + ["text"] * 2
    assert cells.types[6:].tolist() == [6, 11]
    assert cells[["width", "rate", "batch"]][6:].to_numpy().tolist() == [[64, 0.01, 48]] * 2
    for (sequences, plan, seeds), cell in zip(trained, cells.itertuples(), strict=True):
        assert (sequences.types, sequences.length, seeds) == (cell.types, cell.length, 2)
        assert (plan.hidden, plan.batch, plan.learning_rate) == (cell.width, cell.batch, cell.rate)
        assert plan.steps == round(24 / (cell.rate * cell.width))
        sentences = sequences.sentences
        assert sentences is None or (sentences.shape[1] == 12 and sentences.max() == sequences.types - 1)
    for outcome, factor in zip(experiment.OUTCOMES, (np.e, 1), strict=True):
        expected = factor * (3 + 2 * cells.time)
        assert cells[f"{outcome}: law"].to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-3)
        errors = result.table[result.table.step == outcome].set_index("error of").loc["law"]
        assert errors[["fit", "test", "text"]].tolist() == pytest.approx([0, 1, 1], abs=1e-3)
    assert [each.text for each in result.claims[:6]] == [each.text for each in result.claims[6:]]
    assert result.remarks[1].startswith("1.25 times, first: T_0 = 3.00, A = 2.000; never in 0 cells")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text_lengths": (999,)}, "text_lengths: 0 sentences of 999 words are too few to count K"),
        ({"text_lengths": (8,)}, "text_lengths: 56 sentences of 8 words are too few"),
        ({}, "attention emerged in fewer than two cells to fit; set a larger travel"),
    ],
)
def test_what_it_refuses(changes, message, monkeypatch):
    monkeypatch.setattr(experiment.copying, "train_networks", lambda *given: [NEVER])
    with pytest.raises(AlignkitError, match=message):
        experiment.run_emergence_law(replace(SMALL, **changes))
