"""Output relevance on sentences with one planted word that tells the label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import classifiers as experiment
from alignkit.lab.experiments.classifiers import ClassifierPlan, classifier_settings, read_split, train_in_memory
from alignkit.metrics.agreement import agreement
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.support.stages import no_progress
from alignkit.text.labelled import LabelledText

SMALL = {"embedding": 16, "hidden": 12, "epochs": 3, "rate": 1e-2}


def train(split, plan, attention="feed-forward"):
    return train_in_memory(split, classifier_settings(plan, split, 1, plan.epochs, attention), no_progress)


@pytest.fixture(scope="module")
def split(one_telling_word):
    return read_split(ClassifierPlan(labelled=one_telling_word))


@pytest.fixture(scope="module")
def networks(split):
    return [train(split, ClassifierPlan(**SMALL), attention) for attention in ("feed-forward", "uniform")]


def test_counts_of_the_example():
    counts = experiment.count_tables().set_index("input")
    assert list(counts.columns) == ["this", "movie", "is", "great", "bad"]
    for word in ("dieser", "film", "ist"):
        assert counts.loc[word].tolist() == [2, 2, 2, 1, 1]
    assert counts.loc["großartig"].tolist() == [1, 1, 1, 1, 0]
    assert counts.loc["schlecht"].tolist() == [1, 1, 1, 0, 1]


def test_the_telling_word_is_relevant_attended_and_influential(split, networks):
    scores = experiment.held_out_scores(*networks, split)
    ids = split.tokenizer.vocabulary.ids
    places = [int(np.isin(words, [ids["bad"], ids["good"]]).argmax()) for words in split.valid.corpus]
    for name in ("alpha", "r uniform", "influence"):
        found = [int(row[0].argmax()) for row in scores[name]]
        assert np.mean(np.array(found) == places) > 0.9, name
    usual, uniform = networks
    for name, network, kind in (("alpha", usual, "alpha"), ("r", usual, "relevance"), ("influence", usual, "loo")):
        assert np.array_equal(scores[name].values, classifier_scores(network, split.valid, kind).values)
    plain = classifier_scores(uniform, split.valid, "relevance").values
    assert np.array_equal(scores["r uniform"].values, plain)
    assert np.array_equal(scores["|r| uniform"].values, np.abs(plain))


def test_a_plan_has_so_many_epochs(split):
    training = classifier_settings(ClassifierPlan(), split, 7, 3).training
    assert (training.steps, training.seed) == (3 * 15, 7)  # 450 sentences in batches of 32


def test_every_claim_holds_on_planted_words(one_telling_word, split, networks, monkeypatch):
    """Every network has a seed of its own: two that start alike agree more than what they learn accounts for."""
    made = []

    def recorded(split, settings, progress):
        attention = settings.network.attention
        made.append((attention, settings.training.seed))
        return networks[attention == "uniform"]

    monkeypatch.setattr(experiment, "train_in_memory", recorded)
    result = experiment.run_output_relevance(ClassifierPlan(labelled=one_telling_word, seeds=2, held=20, **SMALL))
    assert [attention for attention, _ in made] == ["feed-forward", "uniform"] * 2
    assert len({seed for _, seed in made}) == 4
    assert [claim.verdict for claim in result.claims] == [Verdict.HOLDS] * 4
    table = result.table.set_index(["u", "v"])
    rows = result.rows["sentences"]
    few = replace(split, valid=LabelledText.from_bitext(split.valid.bitext.take(np.arange(20))))
    scores = experiment.held_out_scores(*networks, few)
    for u, v in experiment.PAIRS:
        expected = agreement(scores[u], scores[v], resamples=0)
        row = table.loc[(u, v)]
        assert (row.agreement, row.chance) == (pytest.approx(expected.agreement), pytest.approx(expected.chance))
        assert row.tau == pytest.approx(rows[(rows.u == u) & (rows.v == v)].tau.mean(), abs=1e-5)
    result.draw(figure := Figure())
    assert np.isfinite(np.concatenate([line.get_ydata() for line in figure.axes[0].lines])).all()
    accuracies = [(classifier_logits(each, few.valid) > 0) == (few.valid.labels == 1) for each in networks]
    one, other = (f"{right.mean():.3f}" for right in accuracies)
    assert f"accuracy {one} with attention, {other} with uniform attention" in result.remarks[0]


def test_taus_of_a_sentence_are_means_over_seeds():
    raw = pd.DataFrame({"seed": [0, 0, 1, 1], "sentence": [0, 1, 0, 1], "u": "a", "v": "b", "tau": [0, 1, 1, 0.5]})
    other = raw.assign(u="c", tau=9)
    assert experiment.per_sentence(pd.concat([raw, other]), "a", "b").tolist() == [0.5, 0.75]


def test_the_counts_of_the_example_are_judged_together():
    """How far the counts of film, großartig and schlecht are from 0, 1 and -1."""
    raw = pd.DataFrame({"seed": 0, "sentence": range(3), "u": "alpha", "v": "influence", "tau": 0.5})
    counts = experiment.count_tables().set_index("input").astype(float)
    counts.loc[["film", "großartig", "schlecht"], "great"] += [0.1, 0.2, 0.4]
    first = next(experiment.output_relevance_claims(raw, counts.reset_index()))
    assert first.value == pytest.approx(0.7)
