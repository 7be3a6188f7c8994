"""locality: the task, gamma on planted readouts, and that an LSTM cannot see ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import locality
from alignkit.lab.experiments.protocol import Verdict

SETTINGS = locality.LocalitySettings(
    seeds=2, length=12, types=10, hidden=16, batch=32, steps=4, every=2, measured=20
)


def test_positive_sequences_hold_the_keyword_once():
    words, place, positive = locality.draw_sequences(np.random.default_rng(0), 500, SETTINGS)
    keyword = SETTINGS.types - 1
    assert ((words == keyword).sum(1) == positive).all()
    assert (words[positive, place[positive]] == keyword).all()
    assert (place.min(), place.max()) == (0, 11)
    assert 0.4 < positive.mean() < 0.6
    assert len(set(words[~positive].ravel())) == keyword


def test_gamma_is_the_mean_log_odds():
    """Of the second sequence, whose keyword is its last word, there is none after it."""
    log_odds = np.arange(16.0).reshape(2, 8)
    found = locality.gammas(log_odds, np.array([2, 7]))
    assert found == pytest.approx({"keyword": (2 + 15) / 2, "after": 3, "mean": 7.5, "last": (7 + 15) / 2})


def test_observation_3_is_found_where_all_its_parts_hold():
    columns = ["run", "step", "keyword", "after", "mean", "last"]
    held, low_mean, early = (2.0, 3.0, 1.9, 4.0), (2.0, 3.0, 0.9, 4.0), (2.0, 1.0, 0.1, 0.1)
    courses = {0: [early, held, held], 1: [early, low_mean, low_mean], 2: [early, low_mean, held]}
    rows = [(run, 5 * n, *values) for run, course in courses.items() for n, values in enumerate(course)]
    assert locality.spread_steps(pd.DataFrame(rows, columns=columns)).values.tolist() == [[0, 5], [2, 10]]


def test_readout_is_that_of_torchs_lstm():
    networks = locality.KeywordNetworks(SETTINGS, 1)
    words = np.random.default_rng(1).integers(0, 10, (1, 5, 12))
    found = networks.readout(words)
    p = {name: value.detach()[0] for name, value in networks.p.items()}
    lstm = torch.nn.LSTM(16, 16)
    order = [0, 1, 3, 2]  # ours has the candidate last

    def gates(value):
        return value.view(4, 16, *value.shape[1:])[order].flatten(0, 1)

    with torch.no_grad():
        lstm.weight_ih_l0.copy_(gates(p["input"].t()))
        lstm.weight_hh_l0.copy_(gates(p["state"].t()))
        lstm.bias_ih_l0.copy_(gates(p["bias"]))
        lstm.bias_hh_l0.zero_()
        h, _ = lstm(p["embedding"][torch.from_numpy(words[0]).t()])
    torch.testing.assert_close(found[0], (h @ p["weight"]).t(), atol=1e-5, rtol=1e-4)


def test_states_before_the_keyword_do_not_know_it():
    networks = locality.KeywordNetworks(SETTINGS, 1)
    words = np.random.default_rng(0).integers(0, 9, (1, 6, 12))
    marked = words.copy()
    marked[:, :, 5] = 9
    with torch.no_grad():
        plain, with_keyword = networks.readout(words), networks.readout(marked)
    assert torch.equal(plain[:, :, :5], with_keyword[:, :, :5])
    assert (plain[:, :, 5] != with_keyword[:, :, 5]).all()


def test_the_loss_is_binary_cross_entropy():
    networks = locality.KeywordNetworks(SETTINGS, 1)
    words, _, positive = locality.draw_sequences(np.random.default_rng(0), 9, SETTINGS)
    both, truth = words[None], positive[None]
    with torch.no_grad():
        z = (networks.readout(both).mean(2) + networks.p["offset"]).double().numpy()
        loss = networks.loss(both, truth).item()
    p = 1 / (1 + np.exp(-z))
    assert loss == pytest.approx(-np.log(np.where(truth, p, 1 - p)).mean(1).sum(), rel=1e-5)


def test_early_at_the_keyword_and_late_everywhere():
    settings = locality.LocalitySettings(
        seeds=2, length=16, types=16, hidden=32, batch=32, steps=160, measured=128
    )
    result = locality.run_locality(settings)
    assert all(claim.value > 0 for claim in (*result.claims[:2], *result.claims[3:5]))
    table = result.table.set_index("moment")
    known, end = table.loc["keyword known"], table.loc["end"]
    assert known["mean"] < known["after"] < known["keyword"]
    assert end["keyword"] < end["after"] < end["last"]
    assert end["accuracy"] > 0.9
    assert abs(table.loc["start", "keyword"]) < 0.2


def test_where_the_keyword_is_never_known_nothing_is_decided():
    result = locality.run_locality(replace(SETTINGS, known=100.0))
    assert result.rows["gamma"].equals(locality.run_locality(SETTINGS).rows["gamma"])
    assert [claim.verdict for claim in result.claims[:3]] == [Verdict.UNDECIDED] * 3
    assert "known in 0 of 2 runs" in result.remarks[0]


def test_too_short():
    with pytest.raises(AlignkitError, match="length of at least 2"):
        locality.LocalitySettings(length=1)
