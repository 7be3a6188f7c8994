"""Views that vote on links, against the aligner that averages them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm import views as windows
from alignkit.classical.hmm.inference import posteriors
from alignkit.classical.hmm.joint import fit_view, settings_of_view
from alignkit.classical.hmm.link_probabilities import Attachment, PhraseEdges, chances, into_probabilities, raised
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.views import View, ViewedText, trained_views
from alignkit.errors import AlignkitError
from alignkit.kernels.hmm_e_step import FORWARD, REVERSE
from alignkit.scores import Scores
from alignkit.uses.diagnose import evidence
from alignkit.uses.diagnose.evidence import ViewVotes, agreement_of_directions, vote

VIEWS = (View(), View(letters=3), View(letters=2))


def f1(a, b):
    return 2 * (a & b).sum() / (a.sum() + b.sum())


@pytest.fixture(scope="module")
def articles():
    """A text in which one side has an article before most nouns, which is attached to the noun's link."""
    draw, text = np.random.default_rng(1), []
    for _ in range(120):
        nouns = draw.choice(30, draw.integers(2, 6), replace=False).tolist()
        source = [word for k in nouns for word in (["the"] if draw.random() < 0.7 else []) + [f"n{37 * k:04}"]]
        text.append((source, [f"w{37 * k:04}" for k in nouns]))
    return bitext_of(text)


class Alike:
    """Embeddings by which tokens with the same number are alike."""

    def levels(self, bitext, threads, progress=None):
        pairs = [(bitext.source.words(m), bitext.target.words(m)) for m in range(len(bitext))]
        return np.array([0 if x[1:] == y[1:] else 9 for X, Y in pairs for y in Y for x in X], np.uint8)


@pytest.mark.parametrize("embeddings", [None, Alike()])
@pytest.mark.parametrize("views", [VIEWS, (*VIEWS[:2], View(subwords=20, types=1))])
def test_votes_and_support_are_those_of_each_view(articles, views, embeddings):
    """The views of subwords count for as much in the support as all others together."""
    found = vote(articles, views=views, embeddings=embeddings, threads=1)
    settings, each = replace(JOINT_SETTINGS, least_own=0.0), []
    for view in trained_views(views, articles):
        text = ViewedText(view, articles)
        levels = None if embeddings is None else text.levels(embeddings.levels(articles, 1), 1)
        log_odds = fit_view(text, settings_of_view(settings, view), 1, levels=levels)[1]
        each.append(text.of_words(Scores(log_odds.values.copy(), log_odds.offsets, text.bitext.shapes), 1).values)
        if view == View():
            cohesion = PhraseEdges.of_text(articles).cohesion(articles)
            sure = into_probabilities(log_odds, 1, cohesion)
            attachment = Attachment.of_links(articles, sure, 1)
    np.testing.assert_array_equal(found.votes, np.sum([own >= 0 for own in each], axis=0))
    np.testing.assert_array_equal(found.unanimous, np.all([own >= 0 for own in each], axis=0))
    mean = Scores(np.mean(each, axis=0), found.probabilities.offsets, articles.shapes)
    together = into_probabilities(mean, 1, cohesion)
    attached = attachment.apply(articles, together, 1)
    np.testing.assert_allclose(found.probabilities.values, together.values, atol=1e-5)
    weights = (0.25, 0.25, 0.5) if views[2].subwords else (1 / 3, 1 / 3, 1 / 3)
    support = sum(weight * chances(own) for weight, own in zip(weights, each, strict=True))
    assert embeddings is not None or len(attached)  # otherwise articles have links
    support[attached] = raised(support[attached])
    np.testing.assert_allclose(found.support.values, support, atol=1e-6)
    pairs = [(each[a] >= 0, each[b] >= 0) for a, b in ((0, 1), (0, 2), (1, 2))]
    pooled = f1(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    assert found.agreement_of_views == pytest.approx(pooled, rel=1e-12)


def test_agreement_of_views_by_hand(messy_bitext):
    """Two views agree on 100 links and a third one has another: pooled, not the mean of 1, 0 and 0."""
    votes = np.array([2] * 100 + [1] + [0] * 9, np.uint8)
    nothing = Scores.zeros(messy_bitext.shapes[:0])
    found = ViewVotes(np.zeros(0, np.int64), messy_bitext.block(0, 0), nothing, nothing, votes, 3, np.nan)
    assert found.agreement_of_views == pytest.approx(2 * 100 / (200 + 101 + 101))
    assert np.isnan(replace(found, votes=0 * votes).agreement_of_views)
    assert np.isnan(replace(found, views=1).agreement_of_views)


def test_agreement_of_directions_is_that_of_their_links(messy_bitext, monkeypatch):
    monkeypatch.setattr(evidence, "_BLOCK", 7)
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
    steps = []
    found = vote(messy_bitext, views=VIEWS, threads=1, progress=lambda *step: steps.append(step))
    assert found.agreement_of_directions == pytest.approx(wanted, rel=1e-12)
    assert (steps[0][2][:6], steps[-1][2][:6]) == ("view 1", "view 3")
    assert np.isnan(agreement_of_directions(model, messy_bitext.block(0, 0), 1))


def test_first_pairs_are_judged_by_the_whole_text(messy_bitext):
    every = len(messy_bitext)
    whole, more, first = (vote(messy_bitext, count, views=VIEWS, threads=1) for count in (None, every + 5, 7))
    np.testing.assert_array_equal(more.pairs, np.arange(every))
    np.testing.assert_array_equal(more.probabilities.values, whole.probabilities.values)
    assert len(first.bitext) == len(first.probabilities) == 7
    for m in range(7):
        np.testing.assert_array_equal(first.probabilities[m], whole.probabilities[m])


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
