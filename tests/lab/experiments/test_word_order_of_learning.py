"""When words are found, and what predicts it: against plain loops, planted orders, and one small run."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import Verdict
from alignkit.lab.experiments import word_order_of_learning as experiment
from alignkit.text.bitext import Bitext


def test_entropies_against_a_loop():
    rng = np.random.default_rng(0)
    source = [[f"s{i}" for i in rng.integers(0, 6, rng.integers(0, 6))] for _ in range(30)]
    target = [[f"t{i}" for i in rng.integers(0, 5, rng.integers(0, 6))] for _ in range(30)]
    bitext = Bitext.from_sentences(source, target)
    scores = fit_ibm1(bitext, iterations=3, null=False).score(bitext, "alpha")
    for given in (None, scores):
        counts: dict[str, Counter] = {}
        for m, (x, y) in enumerate(zip(source, target, strict=True)):
            for t, word in enumerate(y):
                for at, other in enumerate(x):
                    more = 1 / len(x) if given is None else float(given[m][t, at])
                    counts.setdefault(word, Counter())[other] += more
        found = experiment.alignment_entropy(bitext, given)
        for word, row in counts.items():
            total = sum(row.values())
            expected = -sum(n / total * math.log(n / total) for n in row.values() if n > 0)
            assert found[bitext.target.vocabulary.id(word)] == pytest.approx(expected, abs=1e-6)
    empty = Bitext.from_sentences([[], ["a"]], [["x"], []])
    assert np.isnan(experiment.alignment_entropy(empty)).all()


def test_a_word_is_found_when_half_of_its_tokens_are_attended_as_in_the_end():
    words = np.array([7, 7, 7, 7, 9, 9, 9, 5])
    first = np.array(
        [[0, 0, 0, 1, 0, 0, 0, 3], [2, 0, 1, 1, 4, 0, 0, 3], [2, 2, 1, 1, 4, 4, 0, 3], [2, 2, 2, 2, 4, 4, 4, 3]]
    )
    # Of word 7, none, one, two and all four are right; of word 9, none, one and two of three; word 5 is rare.
    assert experiment.found_steps([0, 10, 50, 100], first, words, 3) == {7: 50, 9: 50}
    assert experiment.found_steps([0, 10, 50, 100], first, words, 1)[5] == 0
    # By chance it was there before, and left again.
    first[0, :4] = 2
    assert experiment.found_steps([0, 10, 50, 100], first, words, 3) == {7: 50, 9: 50}


def planted(seeds=4, noise=0.1):
    """Steps that follow the entropy of IBM 1, and nothing else."""
    frames = []
    for size in (100, 200):
        for seed in range(seeds):
            rng = np.random.default_rng([size, seed])
            values = {name: rng.random(60) for name in experiment.PREDICTORS}
            steps = np.round(1000 * (values["IBM 1"] + noise * rng.random(60)), -1)
            words = [f"w{i}" for i in range(60)]
            frames.append(pd.DataFrame({"word": words, "step": steps, **values, "size": size, "seed": seed}))
    return pd.concat(frames, ignore_index=True)


def test_correlations_and_held_out_fits():
    raw = planted()
    found = experiment.correlations(raw)
    assert len(found) == 8
    own = raw[(raw["size"] == 100) & (raw.seed == 2)]
    row = found[(found["size"] == 100) & (found.seed == 2)].iloc[0]
    for name in experiment.PREDICTORS:
        assert row[name] == pytest.approx(spearmanr(own[name], own.step).statistic)
    for name in ("fitted, other seeds", "fitted, other sizes"):
        assert (found[name] > 0.9).all()
    assert abs(found["another seed"].mean()) < 0.3  # the words' entropies differ between these seeds
    verdicts = [each.verdict for each in experiment.word_order_of_learning_claims(found)]
    assert verdicts[1:4] == [Verdict.HOLDS] * 3
    assert verdicts[4] is not Verdict.HOLDS  # the seeds do not agree
    assert verdicts[5] is Verdict.HOLDS
    # What is fitted where the order is the opposite predicts the opposite.
    turned = raw.assign(step=np.where(raw["size"] == 200, -raw.step, raw.step))
    other = experiment.correlations(turned)
    assert (other["fitted, other sizes"] < -0.9).all()
    assert (other["fitted, other seeds"] > 0.9).all()


def test_to_be_better_than_a_predictor_of_the_opposite_is_nothing():
    found = experiment.correlations(planted())
    found["IBM 1"] = [0.01, -0.02, 0.015, -0.01, 0.02, -0.015, 0.01, -0.01]
    found["frequency"] = -0.2
    assert list(experiment.word_order_of_learning_claims(found))[-1].verdict is Verdict.UNDECIDED
    found["frequency"] = 0.2
    assert list(experiment.word_order_of_learning_claims(found))[-1].verdict is Verdict.FAILS


def test_networks_that_have_not_learned_to_attend_do_not_count(monkeypatch):
    shares = {100: 0.1, 200: 0.3}

    def learned(text, held, settings, progress):
        frame = planted(1).query("size == 100").drop(columns=["size", "seed"])
        return frame, shares[len(text.source)]

    monkeypatch.setattr(experiment, "learn_and_find", learned)
    settings = experiment.WordOrderOfLearningSettings(sizes=(100, 200), seeds=2)
    result = experiment.run_word_order_of_learning(settings)
    assert set(result.rows["words"]["size"]) == {200}
    assert result.rows["learned"].share.tolist() == [0.1, 0.1, 0.3, 0.3]
    assert "2 of 4 networks have learned attention" in result.remarks[-1]
    shares[200] = 0.2
    with pytest.raises(AlignkitError, match=r"no network has learned attention \(shares 0\.10, .* below 0\.25\)"):
        experiment.run_word_order_of_learning(settings)
    with pytest.raises(AlignkitError, match="the text has only 940 pairs"):
        experiment.run_word_order_of_learning(experiment.WordOrderOfLearningSettings(sizes=(940, 2000)))


def test_as_many_steps_whatever_the_size():
    torch.set_num_threads(1)
    lines, held = experiment.WordOrderOfLearningSettings().lines()
    text = type(lines)(lines.source[:70], lines.target[:70])
    for steps in (3, 7):
        settings = experiment.WordOrderOfLearningSettings(steps=steps, batch=16, scored=5, minimum=1)
        told = []
        experiment.learn_and_find(text, held, settings, lambda done, total, _: told.append((done, total)))  # noqa: B023
        assert told[-1] == (steps, steps)


def test_a_small_run():
    torch.set_num_threads(1)
    settings = experiment.WordOrderOfLearningSettings(
        sizes=(48, 96), seeds=2, scored=120, steps=0, epochs=1, minimum=2, learned=0.0
    )
    told = []
    result = experiment.run_word_order_of_learning(settings, lambda *what: told.append(what[:2]))
    raw = result.rows["words"]
    assert raw.groupby(["size", "seed"]).ngroups == 4
    assert "<unk>" not in set(raw.word)
    assert set(raw.step) <= {0, 2, 3}
    assert told[-1][0] == told[-1][1]
    assert list(result.table["size"]) == [48, 96]
    first = raw[(raw["size"] == 48) & (raw.seed == 0)].set_index("word")
    other = raw[(raw["size"] == 48) & (raw.seed == 1)].set_index("word")
    assert np.allclose(first["IBM 1"], other["IBM 1"][first.index])  # of the text, not of the network
