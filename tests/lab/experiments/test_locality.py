"""locality: the task, gamma on planted readouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict, locality

SETTINGS = locality.LocalitySettings(
    seeds=2, length=12, types=10, hidden=16, batch=32, steps=5, every=2, measured=20, learning_rate=1e-2
)


def test_positive_sequences_hold_the_keyword_once():
    words, place, positive = locality.draw_sequences(np.random.default_rng(0), 500, SETTINGS)
    keyword = SETTINGS.types - 1
    assert ((words == keyword).sum(1) == positive).all()
    assert (words[positive, place[positive]] == keyword).all()
    assert (place.min(), place.max()) == (0, 11)
    assert locality.draw_sequences(np.random.default_rng(0), 20000, SETTINGS)[2].mean() == pytest.approx(
        0.5, abs=0.02
    )
    assert len(set(words[~positive].ravel())) == keyword


def test_gamma_is_the_mean_log_odds():
    """Of the second sequence, whose keyword is its last word, there is none after it."""
    log_odds = np.arange(24.0).reshape(3, 8)
    found = locality.gammas(log_odds, np.array([6, 7, 0]))
    assert found == pytest.approx({"keyword": (6 + 15 + 16) / 3, "after": (7 + 17) / 2, "mean": 11.5, "last": 15})


def test_observation_3_is_found_where_all_its_parts_hold():
    columns = ["run", "step", "keyword", "after", "mean", "last"]
    held, low_mean, early = (2.0, 3.0, 1.9, 4.0), (2.0, 3.0, 0.9, 4.0), (2.0, 1.0, 0.1, 0.1)
    larger = (4.0, 3.8, 3.21, 3.9)  # the keyword's, by a fifth of which the mean may differ
    courses = {
        0: [early, held, held],
        1: [early, low_mean, low_mean],
        2: [early, low_mean, held],
        3: [early, larger],
    }
    rows = [(run, 5 * n, *values) for run, course in courses.items() for n, values in enumerate(course)]
    assert locality.spread_steps(pd.DataFrame(rows, columns=columns)).values.tolist() == [[0, 5], [2, 10], [3, 5]]


def new_network():
    torch.manual_seed(1)
    return locality.KeywordNetwork(SETTINGS)


def test_the_first_weights_are_torchs_with_two_gates_exchanged():
    own, _ = new_network().lstm, torch.manual_seed(1)
    torch.nn.Embedding(10, 16)
    drawn = torch.nn.LSTM(16, 16, batch_first=True)

    def exchanged(weight):
        return torch.cat([weight[:32], weight[48:], weight[32:48]])

    assert torch.equal(own.weight_ih_l0, exchanged(drawn.weight_ih_l0))
    assert torch.equal(own.weight_hh_l0, exchanged(drawn.weight_hh_l0))
    assert torch.equal(own.bias_ih_l0, exchanged(drawn.bias_ih_l0 + drawn.bias_hh_l0))


def test_the_log_odds_are_those_of_an_lstm_with_one_bias():
    network, words = new_network(), torch.from_numpy(np.random.default_rng(1).integers(0, 10, (5, 12)))
    p = {name: value.detach() for name, value in network.lstm.named_parameters()}
    h, c, expected = torch.zeros(5, 16), torch.zeros(5, 16), []
    with torch.no_grad():
        for x in network.embedding(words).unbind(1):
            gates = x @ p["weight_ih_l0"].T + h @ p["weight_hh_l0"].T + p["bias_ih_l0"]
            i, f, u, o = gates.chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * u.tanh()
            h = o.sigmoid() * c.tanh()
            expected.append(h @ network.output.weight[0] + network.output.bias)
        torch.testing.assert_close(network(words), torch.stack(expected, 1), atol=1e-5, rtol=1e-4)
    assert [name for name, value in network.named_parameters() if not value.requires_grad] == ["lstm.bias_hh_l0"]


def test_training_is_that_of_a_plain_loop():
    network, stream = new_network(), np.random.default_rng([1, 0])
    adam = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], SETTINGS.learning_rate)
    for _ in range(SETTINGS.steps):
        words, _, positive = locality.draw_sequences(stream, SETTINGS.batch, SETTINGS)
        p = torch.sigmoid(network(torch.from_numpy(words)).mean(1))
        adam.zero_grad()
        (-torch.log(torch.where(torch.from_numpy(positive), p, 1 - p)).mean()).backward()
        adam.step()
    words, place, positive = locality.draw_sequences(np.random.default_rng([1, 1]), SETTINGS.measured, SETTINGS)
    with torch.no_grad():
        found = network(torch.from_numpy(words)).double().numpy()
    expected = locality.gammas(found[positive], place[positive])
    p = 1 / (1 + np.exp(-found.mean(1)))
    expected["loss"] = -np.log(np.where(positive, p, 1 - p)).mean()
    expected["accuracy"] = ((p > 0.5) == positive).mean()
    *_, last = rows = locality.train_keyword_network(SETTINGS, 1)
    assert [row["step"] for row in rows] == [0, 2, 4, 5]
    assert {name: last[name] for name in expected} == pytest.approx(expected, abs=1e-4)


def test_where_the_keyword_is_never_known_nothing_is_decided():
    result = locality.run_locality(replace(SETTINGS, known=100.0))
    assert result.rows["gamma"].equals(locality.run_locality(SETTINGS).rows["gamma"])
    assert [claim.verdict for claim in result.claims[:3]] == [Verdict.UNDECIDED] * 3
    assert "known in 0 of 2 runs" in result.remarks[0]


def test_differences_keep_their_sign_where_gammas_are_negative():
    """As shares of the larger of two gammas, by their size."""
    rows = pd.DataFrame({"keyword": [-0.1, 0.5], "last": [-0.2, 0.1], "after": [-0.1, 0.2], "mean": [0.0, 0.0]})
    claims = {each.text: each.value for each in locality.locality_claims(rows, rows, 2, 2)}
    late = next(value for text, value in claims.items() if text.startswith("observation 3, late: the last"))
    assert late == pytest.approx(((-0.2 + 0.1) / 0.2 + (0.1 - 0.2) / 0.5) / 2)


def test_too_short():
    with pytest.raises(AlignkitError, match="length of at least 2"):
        locality.LocalitySettings(length=1)
    with pytest.raises(AlignkitError, match="at least 2 types"):
        locality.LocalitySettings(types=1)
    assert locality.LocalitySettings(length=2, types=2).length == 2
