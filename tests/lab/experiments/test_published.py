"""The published results are those of the code: the settings of a run, and what follows from its rows."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from alignkit.lab.experiments import (
    EXPERIMENTS,
    classifiers,
    copying,
    initial_gradient,
    interventions,
    learning,
    locality,
    multihead,
    optimal_attention,
    topic_words,
)
from alignkit.metrics.agreement import Agreement

FOLDER = Path(__file__).parents[3] / "benchmarks" / "results" / "experiments"


def published(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def rows(name, part):
    return pd.read_csv(FOLDER / f"{name}-{part}.csv", dtype={"lambda": str}, keep_default_na=False, na_values=[""])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_default_settings_are_those_of_the_published_run(name):
    """But for files, and what the run's size says was set for it."""
    found = published(name)
    changed = {part.split("=")[0] for part in found["size"].partition("with ")[2].split(", ")}
    defaults = json.loads(json.dumps(asdict(EXPERIMENTS[name].settings())))
    shared = {setting for setting in defaults if setting in found["settings"]} - changed
    assert len(shared) > 2
    assert {each: defaults[each] for each in shared} == {each: found["settings"][each] for each in shared}


def test_the_published_grid_and_its_predictions_are_those_of_the_settings():
    raw = rows("emergence-law", "cells")
    cells = initial_gradient.grid_cells(initial_gradient.EmergenceLawSettings())
    pd.testing.assert_frame_equal(cells.round(5), raw[raw.part != "text"][list(cells)], check_dtype=False)
    for outcome in initial_gradient.OUTCOMES:
        found = initial_gradient.predictions(raw, raw[outcome])[0].add_prefix(f"{outcome}: ")
        pd.testing.assert_frame_equal(found, raw[list(found)], rtol=1e-3)


def sequence_runs(part, names, **more):
    """Training runs from rows of them; their networks are called by what they are."""
    runs = {}
    for key, course in part.groupby([*names, "run"], sort=False):
        columns = {name: course[name].to_numpy() for name in ("accuracy", "loss", *more.get("columns", ()))}
        kind = copying.AttentionRun if "outside" in columns else copying.SequenceRun
        runs.setdefault(key[:-1], []).append(kind(steps=course.step.to_numpy(), network=key, **columns))
    return runs


def written_lexicon_claims(rows):
    """Conditions with runs whose attention emerges at the published steps."""
    settings, at, conditions = interventions.WrittenLexiconSettings(), np.arange(0, 310, 10), []
    for name, part in rows("seeds").groupby("condition", sort=False):
        shares = [(at >= step).astype(float) for step in part.emerged]
        runs = [copying.SequenceRun(at, share, share, share) for share in shares]
        dose = re.search(r"(?:of|written,) (\d+)", name)
        conditions.append(interventions.Condition(name, float(dose[1]) if dose else 0, part.known, runs))
    return interventions.written_lexicon_claims(conditions[:-4], conditions[-4:], settings)


def multihead_claims(rows):
    groups = {name: runs for (name,), runs in sequence_runs(rows("accuracy"), ["heads"]).items()}
    alone = groups.pop("one, tried")
    return multihead.multihead_claims(alone, groups, multihead.MultiheadSettings())


def optimal_attention_claims(rows):
    table = {(row.pop("u"), row.pop("v")): Agreement(**row) for row in published("optimal-attention")["table"]}
    return optimal_attention.optimal_attention_claims((2.0, 4.0, 1.0), table)


#: experiments whose rows are all that their claims, or the last of them, are made from
CLAIMS = {
    "attention-without-lexicon": lambda rows: interventions.attention_without_lexicon_claims(rows("seeds"), 300),
    "deceptive-attention": lambda rows: classifiers.deceptive_attention_claims(rows("sentences")),
    "emergence-law": lambda rows: initial_gradient.law_claims(rows("cells"), initial_gradient.OUTCOMES[1]),
    "initial-gradient": lambda rows: initial_gradient.initial_gradient_claims(rows("draws")),
    "multihead": multihead_claims,
    "optimal-attention": optimal_attention_claims,
    "output-relevance": lambda rows: classifiers.output_relevance_claims(rows("sentences"), rows("counts")),
    "topic-words": lambda rows: topic_words.real_claims(rows("words")),
    "written-lexicon": written_lexicon_claims,
}
MORE, LESS = (0.0, None), (None, 0.0)
#: (above, below) of the claims: a change of any of them is a change of what is claimed
BOUNDS = {
    "attention-without-lexicon": [*[LESS] * 8, (0.5, None), *[LESS] * 4, (-30.0, None), LESS],
    "copying": [MORE, (0.25, 0.75), (None, 0.2), (None, 0.2), MORE],
    "copying-mechanisms": [MORE] * 5,
    "deceptive-attention": [MORE, *[MORE, (-0.03, None), MORE, LESS] * 6],
    "emergence-law": [(0.9, None), (None, 0.2), LESS, LESS, LESS, MORE],
    "gated-classifier": [MORE, (None, 0.5)],
    "gold-links": [LESS] * 4,
    "initial-gradient": [(0.9, None), *[(0.95, 1.05)] * 3, (0.9, 1.1), (-0.55, -0.45)],
    "locality": [MORE, MORE, (-0.2, 0.2), MORE, MORE, (-0.2, 0.2), (0.5, None)],
    "multihead": [LESS] * 3,
    "optimal-attention": [(None, 1e-3), MORE, (0.17155, None), (None, 0.95), *[(0.43, 0.63)] * 10, LESS],
    "output-relevance": [(None, 1e-9), *[MORE] * 3],
    "permutation-function": [(0.8, None), (None, 1 / 3), (None, 1e-12), (-0.05, 0.05)],
    "topic-words": [(0.5, None), (0.8, 1.2), (None, 1.0), MORE],
    "word-order-of-learning": [MORE] * 6,
    "written-lexicon": [*[LESS] * 6, (None, 0.2), LESS],
}


def assert_published(name, found, bounds):
    for claim, expected in zip(found, published(name)["claims"][-len(found) :], strict=True):
        assert claim.verdict == expected["verdict"], claim.text
        numbers = [expected[end] for end in ("value", "low", "high")]
        assert [claim.value, claim.low, claim.high] == pytest.approx(numbers, abs=2e-4, nan_ok=True), claim.text
    wanted = pytest.approx(np.array(BOUNDS[name], float), abs=1e-5, rel=1e-5, nan_ok=True)
    assert np.array(bounds, float) == wanted


@pytest.mark.parametrize("name", CLAIMS)
def test_published_claims_follow_from_the_published_rows(name, bounds):
    assert_published(name, list(CLAIMS[name](lambda part: rows(name, part))), bounds)


def replay_copying(monkeypatch, rows):
    runs = sequence_runs(rows("accuracy"), ["kind"])
    monkeypatch.setattr(copying, "train_networks", lambda sequences, *given, **more: runs[(sequences.kind,)])


def replay_mechanisms(monkeypatch, rows):
    runs = sequence_runs(rows("accuracy"), ["mechanism"], columns=("outside", "support"))
    monkeypatch.setattr(copying, "train_mechanism", lambda name, seed, settings: runs[(name,)][seed])


def replay_permutation_function(monkeypatch, rows):
    runs, known = sequence_runs(rows("accuracy"), ["task", "attention"]), rows("known")

    def task(sequences):
        return "copy" if sequences.order is None else "reorder"

    def train(sequences, plan, seeds, told, *, attention):
        return runs[task(sequences), attention]

    def known_words(sequences, networks, pairs):
        assert {key[1] for key in networks} == {"uniform"}
        assert len(pairs) == 50
        return known[known.task == task(sequences)].known.to_numpy()

    monkeypatch.setattr(copying, "train_networks", train)
    monkeypatch.setattr(copying, "known_words", known_words)


def replay_locality(monkeypatch, rows):
    gamma = rows("gamma")

    def train(settings, seed, told):
        return gamma[gamma.run == seed].to_dict("records")

    monkeypatch.setattr(locality, "train_keyword_network", train)


def replay_gated_classifier(monkeypatch, rows):
    steps = rows("steps")
    monkeypatch.setattr(classifiers, "read_split", lambda settings: SimpleNamespace(training=[], valid=[]))
    monkeypatch.setattr(
        classifiers, "relevance_and_attention", lambda split, settings, seed, told: steps[steps.seed == seed]
    )


def replay_gold_links(monkeypatch, rows):
    steps = rows("steps")
    text = SimpleNamespace(source=[])
    sets = [SimpleNamespace(name=name, lines=text, gold=[]) for name in steps["set"].unique()]

    def measured(each, unit, settings, told):
        own = steps[(steps["set"] == each.name) & (steps.unit == unit) & (steps.seed == settings.seed)]
        return own.to_dict("records")

    monkeypatch.setattr(learning, "read_sets", lambda settings: sets)
    monkeypatch.setattr(learning, "measured_run", measured)


def replay_word_order_of_learning(monkeypatch, rows):
    words, learned = rows("words"), rows("learned").set_index(["size", "seed"]).share
    text = SimpleNamespace(source=range(29000), target=range(29000))

    def learn(text, held, settings, told):
        size, seed = len(text.source), settings.seed
        own = words[(words["size"] == size) & (words.seed == seed)].drop(columns=["size", "seed"])
        return own.reset_index(drop=True), learned[size, seed]

    monkeypatch.setattr(learning.WordOrderOfLearningSettings, "lines", lambda self: (text, text))
    monkeypatch.setattr(learning, "learn_and_find", learn)


REPLAYS = {
    "copying": replay_copying,
    "copying-mechanisms": replay_mechanisms,
    "permutation-function": replay_permutation_function,
    "locality": replay_locality,
    "gated-classifier": replay_gated_classifier,
    "gold-links": replay_gold_links,
    "word-order-of-learning": replay_word_order_of_learning,
}


LEGENDS = {
    "permutation-function": ["copy, attention", "copy, uniform", "reorder, attention", "reorder, uniform"],
    "word-order-of-learning": ["16000 pairs", "29000 pairs", "8000 pairs"],
}


@pytest.mark.parametrize("name", REPLAYS)
def test_the_published_table_follows_from_the_published_rows(name, monkeypatch, bounds):
    """Everything but the training is run again."""
    experiment = EXPERIMENTS[name]
    REPLAYS[name](monkeypatch, lambda part: rows(name, part))
    defaults = experiment.settings()
    settings = {key: each for key, each in published(name)["settings"].items() if hasattr(defaults, key)}
    settings = {key: tuple(each) if isinstance(each, list) else each for key, each in settings.items()}
    result = experiment.run(replace(defaults, **settings))
    frames = [(result.table, pd.DataFrame(published(name)["table"]))]
    frames += [(frame, rows(name, part)) for part, frame in result.rows.items()]
    for found, expected in frames:
        pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-3, atol=1e-3)
    assert_published(name, list(result.claims), bounds)
    result.draw(figure := Figure())
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert name not in LEGENDS or sorted(labels) == LEGENDS[name]
