"""Views that vote on links, against the aligner that averages them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from alignkit.classical.hmm import views as windows
from alignkit.classical.hmm.joint import fit_joint, fit_view, settings_of_view
from alignkit.classical.hmm.model import posteriors
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import View, ViewedText
from alignkit.errors import AlignkitError
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE
from alignkit.scores import Scores
from alignkit.uses.diagnose.evidence import ViewVotes, agreement_of_directions, vote

VIEWS = (View(), View(letters=2), View(letters=3))


def f1(a, b):
    return 2 * (a & b).sum() / (a.sum() + b.sum())


def test_the_mean_is_that_of_the_aligner_of_views(messy_bitext):
    found = vote(messy_bitext, views=VIEWS, threads=1)
    expected = fit_joint(
        messy_bitext, JOINT_SETTINGS, views=VIEWS, threads=1, co_training=0.0
    ).fitted_probabilities
    np.testing.assert_allclose(found.probabilities.values, expected.values, atol=1e-6)
    np.testing.assert_array_equal(found.pairs, np.arange(len(messy_bitext)))


def test_votes_are_those_of_each_view(messy_bitext):
    found = vote(messy_bitext, views=VIEWS, threads=1)
    alone = [vote(messy_bitext, views=(view,), threads=1) for view in VIEWS]
    each = []
    for view in VIEWS:  # which have a unit for each word
        text = ViewedText(view, messy_bitext)
        settings = settings_of_view(replace(JOINT_SETTINGS, least_own=0.0), view)
        each.append(fit_view(text, settings, 1)[1].values >= 0)
    np.testing.assert_array_equal(found.votes, sum(x.astype(int) for x in each))
    np.testing.assert_array_equal(found.unanimous, each[0] & each[1] & each[2])
    pairs = [(each[a], each[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    pooled = f1(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    assert found.agreement_of_views == pytest.approx(pooled, rel=1e-12)
    assert np.isnan(alone[0].agreement_of_views)


def test_views_of_subwords_weigh_as_much_as_all_others(messy_bitext):
    views = (*VIEWS[:2], View(subwords=40, types=1))
    support, *alone = (
        vote(messy_bitext, views=each, threads=1).support.values for each in (views, *((view,) for view in views))
    )
    np.testing.assert_allclose(support, alone[0] / 4 + alone[1] / 4 + alone[2] / 2, atol=1e-6)


def test_agreement_of_views_by_hand(messy_bitext):
    """Two views agree on 100 links and a third one has another: pooled, not the mean of 1, 0 and 0."""
    votes = np.array([2] * 100 + [1] + [0] * 9, np.uint8)
    nothing = Scores.zeros(messy_bitext.shapes[:0])
    found = ViewVotes(np.zeros(0, np.int64), messy_bitext.block(0, 0), nothing, nothing, votes, 3, np.nan)
    assert found.agreement_of_views == pytest.approx(2 * 100 / (200 + 101 + 101))
    assert np.isnan(replace(found, votes=0 * votes).agreement_of_views)


def test_agreement_of_directions_is_that_of_their_links(messy_bitext):
    model, _ = fit_view(ViewedText(View(), messy_bitext), settings_of_view(JOINT_SETTINGS, View()), 1)
    forward, reverse = (
        {
            (m, *place)
            for m, matrix in enumerate(posteriors(messy_bitext, model, direction, 1)[0])
            for place in np.argwhere(matrix >= 0.5).tolist()
        }
        for direction in (FORWARD, REVERSE)
    )
    wanted = 2 * len(forward & reverse) / (len(forward) + len(reverse))
    assert 0.1 < wanted < 0.95
    assert agreement_of_directions(model, messy_bitext, 1) == pytest.approx(wanted, rel=1e-12)
    assert vote(messy_bitext, views=VIEWS, threads=1).agreement_of_directions == pytest.approx(wanted, rel=1e-12)


def test_first_pairs_are_judged_by_the_whole_text(messy_bitext):
    whole, first = (vote(messy_bitext, count, views=VIEWS, threads=1) for count in (None, 7))
    assert len(first.bitext) == len(first.probabilities) == 7
    for m in range(7):
        np.testing.assert_array_equal(first.probabilities[m], whole.probabilities[m])


def test_more_pairs_than_there_are_are_all_pairs(messy_bitext):
    found = vote(messy_bitext, len(messy_bitext) + 5, views=VIEWS[:1], threads=1)
    np.testing.assert_array_equal(found.pairs, np.arange(len(messy_bitext)))
    assert len(found.bitext) == len(messy_bitext)


def test_any_number_of_threads(messy_bitext):
    one, three = (vote(messy_bitext, views=VIEWS, threads=threads) for threads in (1, 3))
    assert one.probabilities.values.tobytes() == three.probabilities.values.tobytes()
    assert one.votes.tobytes() == three.votes.tobytes()
    assert one.agreement_of_directions == three.agreement_of_directions


def test_long_pairs_are_left_out(messy_bitext, monkeypatch):
    monkeypatch.setattr(windows, "LARGEST_PAIR", 20)
    found = vote(messy_bitext, 30, views=VIEWS, threads=1)
    short = messy_bitext.shapes[:30].prod(axis=1) <= 20
    assert 0 < short.sum() < 30
    np.testing.assert_array_equal(found.pairs, np.flatnonzero(short))
    assert len(found.probabilities) == short.sum()
    monkeypatch.setattr(windows, "LARGEST_PAIR", 0)
    with pytest.raises(AlignkitError, match="too long"):
        vote(messy_bitext, 1, views=VIEWS, threads=1)
