"""When words are found, and what predicts it: against plain loops, planted orders, and one small run."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from planted import permuted_copy

from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.experiments import learning as experiment
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import SPECIALS


def test_one_network_is_followed_to_its_last_attention(monkeypatch):
    """It attends as IBM Model 1 does from step 5 on, but for a word that is found at the last step, 9."""
    pairs, _ = permuted_copy(3, pairs=60, types=9, longest=5)
    pairs += [([f"rare{i}"], [f"seldom{i}"]) for i in range(6)]
    lines = LinePairs(*([" ".join(pair[side]) for pair in pairs] for side in (0, 1)))
    held = LinePairs(lines.source[::-2], lines.target[::-2])
    plans = []

    def train(plan, text, progress, look, device):
        assert len(text.tokenizer.vocabulary) == len(SPECIALS) + 2 * 9  # without the rare words
        model = fit_ibm1(text.training, iterations=3, null=False)
        plans.append((plan, text.training, model))
        late = text.tokenizer.vocabulary.id("t3")

        def score(pairs, kind):
            assert (len(pairs), kind) == (25, "alpha")
            matrices = [matrix.copy() for matrix in model.score(pairs, "alpha")]
            for matrix, target in zip(matrices, pairs.target, strict=True):
                changed = target >= 0 if step == 0 else target == late if step == 5 else target < 0
                matrix[changed] = np.eye(matrix.shape[1])[0]  # the first token, BOS
            return Scores.from_matrices(matrices)

        for step in (0, 5, 9):
            look(SimpleNamespace(step=step, score=score))

    monkeypatch.setattr(experiment, "train_network", train)
    settings = experiment.WordOrderOfLearningSettings(steps=13, batch=16, scored=25, minimum=3, iterations=3)
    table, share = experiment.learn_and_find(lines, held, settings)
    assert share == 1
    plan, training, model = plans[0]
    assert (plan.text.tokens, plan.training.steps, plan.training.epochs) == ("words", 13, 3)
    steps = dict(zip(table.word, table.step, strict=True))
    assert steps == {f"t{i}": 9 if i == 3 else 5 for i in range(9)} | {"</s>": 0}
    counts = Counter(word for _, target in pairs for word in target)
    assert np.exp(-table.frequency[1:]).tolist() == pytest.approx([counts[word] for word in table.word[1:]])
    words = [training.target.vocabulary.id(word) for word in table.word]
    assert table["co-occurrence"].tolist() == experiment.alignment_entropy(training)[words].tolist()
    entropies = experiment.alignment_entropy(training, model.score(training, "alpha"))
    assert table["IBM 1"].tolist() == entropies[words].tolist()
    experiment.learn_and_find(lines, held, replace(settings, steps=0))
    assert (plans[1][0].training.steps, plans[1][0].training.epochs) == (None, 10)


def test_a_rank_correlation_needs_three_values_that_differ():
    assert experiment.rank_correlation(np.array([1, 2, 9]), np.array([3, 2, 1])) == -1
    for u, v in (([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 1, 1])):
        assert np.isnan(experiment.rank_correlation(np.array(u), np.array(v)))


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


def test_to_be_better_than_a_predictor_of_the_opposite_is_nothing():
    found = pd.DataFrame(0.0, index=range(8), columns=[*experiment.PREDICTORS, "fitted, other seeds"])
    found = found.assign(**{"fitted, other sizes": 0.0, experiment.OTHER_SEED: 0.0})
    found["IBM 1"] = [0.01, -0.02, 0.015, -0.01, 0.02, -0.015, 0.01, -0.01]
    for frequency, value in ((-0.2, 0), (0.2, -0.2)):
        *_, last = experiment.word_order_of_learning_claims(found.assign(frequency=frequency))
        assert last.value == pytest.approx(value)


def test_networks_that_have_not_learned_to_attend_do_not_count(monkeypatch):
    shares = {100: 0.1, 200: 0.25}

    def learned(text, held, settings, progress):
        words = pd.DataFrame({"word": list("abcd"), "step": [3, 1, 2, 1]})
        return words.assign(**dict.fromkeys(experiment.PREDICTORS, (1, 2, 3, 4))), shares[len(text.source)]

    monkeypatch.setattr(experiment, "learn_and_find", learned)
    settings = experiment.WordOrderOfLearningSettings(sizes=(100, 200), seeds=2)
    result = experiment.run_word_order_of_learning(settings)
    assert set(result.rows["words"]["size"]) == {200}
    assert result.rows["learned"].share.tolist() == [0.1, 0.1, 0.25, 0.25]
    assert "2 of 4 networks have learned attention" in result.remarks[-1]
    shares[200] = 0.2
    with pytest.raises(AlignkitError, match=r"no network has learned attention \(shares 0\.10, .* below 0\.25\)"):
        experiment.run_word_order_of_learning(settings)
    with pytest.raises(AlignkitError, match="the text has only 940 pairs"):
        experiment.run_word_order_of_learning(experiment.WordOrderOfLearningSettings(sizes=(940, 2000)))
