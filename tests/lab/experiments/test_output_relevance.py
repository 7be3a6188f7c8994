"""Output relevance on sentences with one planted word that tells the label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import classifiers as experiment
from alignkit.lab.experiments.classifiers import ClassifierPlan, classifier_settings, read_split, train_in_memory
from alignkit.support.stages import no_progress

SMALL = {"embedding": 16, "hidden": 12, "epochs": 6, "rate": 5e-3}


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
    assert not np.array_equal(scores["r"].values, scores["r uniform"].values)


def test_the_absolute_value_of_relevance(split):
    """Of an untrained network, for which words speak against the label, too."""
    fresh = train_in_memory(split, classifier_settings(ClassifierPlan(**SMALL), split, 1, 0), no_progress)
    scores = experiment.held_out_scores(fresh, fresh, split)
    assert (scores["r uniform"].values < 0).any()
    assert np.array_equal(scores["|r| uniform"].values, np.abs(scores["r uniform"].values))


def test_same_seed_same_network(split, networks):
    again = train(split, ClassifierPlan(**SMALL))
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), networks[0].parameters(), strict=True))
    steps = classifier_settings(ClassifierPlan(), split, 0, 3).training.steps
    assert steps == 3 * 15  # 450 sentences in batches of 32


def test_every_network_has_a_seed_of_its_own(one_telling_word, monkeypatch):
    """Two networks that start alike agree more than what they learn accounts for."""
    made = []

    def recorded(split, settings, progress, **more):
        made.append((settings.network.attention, settings.training.seed))
        return train_in_memory(split, settings, progress, **more)

    monkeypatch.setattr(experiment, "train_in_memory", recorded)
    few = SMALL | {"epochs": 1}
    settings = ClassifierPlan(labelled=one_telling_word, seeds=3, minimum=1, **few)
    experiment.run_output_relevance(settings)
    assert [attention for attention, _ in made] == ["feed-forward", "uniform"] * 3
    assert len({seed for _, seed in made}) == 6


def test_every_claim_holds_on_planted_words(one_telling_word):
    told = []
    settings = ClassifierPlan(labelled=one_telling_word, seeds=1, minimum=1, **SMALL)
    result = experiment.run_output_relevance(settings, lambda *what: told.append(what[:2]))
    assert [claim.verdict for claim in result.claims] == [Verdict.HOLDS] * 4
    assert told == [(step, 180) for step in range(1, 181)]
    table = result.table.set_index(["u", "v"])
    rows = result.rows["sentences"]
    mean = rows[(rows.u == "alpha") & (rows.v == "influence")].tau.mean()
    assert table.loc[("alpha", "influence"), "tau"] == pytest.approx(mean, abs=1e-5)
    assert table.loc[("r uniform", "alpha"), "agreement"] > 0.8 > table.loc[("r uniform", "alpha"), "chance"]
