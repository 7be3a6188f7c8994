"""copying, permutation-function and multihead: counting and choosing exactly, training by its direction."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.experiments import copying, multihead
from alignkit.lab.experiments.copying import SequenceRun, failures, known_words
from alignkit.scores import Scores

TINY = {"hidden": 8, "batch": 4, "steps": 4, "every": 2}


def member(*accuracy):
    return SequenceRun(np.arange(len(accuracy)) * 10, np.array(accuracy), np.ones(len(accuracy)))


def test_failures_are_counted_at_the_last_step():
    runs = [member(0, 0.95, 0.2), member(0, 0.9), member(0.3), member(0.8, 0.95), member(0.9, 1.0)]
    assert failures(runs, 0.9) == 2
    found = copying.summary(runs, 0.9)
    assert (found["runs"], found["failed"], found["share"]) == (5, 2, 0.4)
    assert found["mean accuracy"] == pytest.approx((0.2 + 0.9 + 0.3 + 0.95 + 1) / 5)
    assert found["median step learned"] == 10  # of those that have not failed: 10, 10 and 0
    assert np.isnan(copying.summary(runs[:1], 0.9)["median step learned"])
    assert [copying.color_of(run, copying.SequencePlan()) for run in runs[:2]] == ["tab:red", "tab:blue"]


def test_both_tasks_have_one_table_of_counts():
    settings = copying.PermutationFunctionSettings(length=5, types=7)
    tasks = copying.tasks(settings)
    assert sorted(tasks["reorder"].order) == list(range(5))
    assert copying.count_difference(tasks, settings) == 0
    repeated = tasks | {"reorder": replace(tasks["copy"], kind="independent")}
    assert copying.count_difference(repeated, settings) > 1
    other = {"copy": tasks["copy"], "more": replace(tasks["copy"], types=8)}
    with pytest.raises(ValueError):  # tables of other shapes: the check does compare
        copying.count_difference(other, settings)


def test_known_words_are_those_where_beta_is_largest_at_the_translation(monkeypatch):
    settings = copying.PermutationFunctionSettings(length=4, types=6)
    sequences = copying.tasks(settings)["reorder"]
    matrix = np.full((5, 5), 0.1, np.float32)
    matrix[[0, 1, 2], sequences.order[:3]] = 0.9  # three of four words, and not the end
    matrix[3, (sequences.order[3] + 1) % 4] = 0.9
    planted = Scores(np.tile(matrix.ravel(), 3), np.arange(4) * 25, np.full((3, 2), 5, np.int32))
    other = Scores(1 - planted.values, planted.offsets, planted.shapes)
    scores = {("one", "beta"): planted, ("other", "beta"): other}
    monkeypatch.setattr(copying, "network_scores", lambda network, pairs, kind: scores[network, kind])
    pairs = sequences.bitext(np.random.default_rng(0), 3)
    assert known_words(sequences, ["one", "other"], pairs) == pytest.approx([0.75, 0])


def test_heads_are_kept_by_what_they_do_alone():
    settings = multihead.MultiheadSettings(learned=0.9, bad=0.6)
    trials = [(0.95, 0.9), (0.95, 0.7), (0.2, 0.5), (0.2, 0.6)]
    kinds = [multihead.kind_of_head([member(0.95, a) for a in each], settings) for each in trials]
    assert kinds == ["good", "neither", "bad", "neither"]


def test_mixes_hold_the_heads_that_they_name():
    settings = multihead.MultiheadSettings(heads=3, candidates=10)
    heads = {number: multihead.random_head(8, number) for number in range(20)}
    found = {"good": [heads[1]], "bad": [heads[number] for number in range(2, 7)]}
    choose, numbers = np.random.default_rng(0), []

    def head(number):
        numbers.append(number)
        return heads[number]

    def count(some, pool):
        return sum(any(each is other for other in pool) for each in some)

    mixes = {mix: multihead.choose_heads(mix, found, head, choose, 2, settings) for mix in multihead.MIXES}
    assert {mix: (count(h, found["good"]), count(h, found["bad"]), len(h)) for mix, h in mixes.items()} == {
        "eight bad": (0, 3, 3),
        "one good": (1, 2, 3),
        "eight random": (0, 0, 3),
    }
    found["good"].append(heads[19])
    more = [multihead.choose_heads("one good", found, head, choose, 0, settings) for _ in range(8)]
    assert all(len({id(each) for each in some}) == 3 for some in [mixes["eight bad"], *more])  # none twice
    assert {id(some[-1]) for some in more} == {id(each) for each in found["good"]}
    assert numbers == [16, 17, 18]  # none of the candidates, and of the third network


def test_contexts_of_heads_are_added():
    """Two heads that look alike are one head whose projection is the sum of theirs."""
    start = copying.random_network(12, 8, 1)
    query, other = start.attention.score.query, multihead.random_head(8, 2)[1]
    two = multihead.with_heads(start, [(query, start.context), (query, other)])
    summed = deepcopy(start)
    with torch.no_grad():
        summed.context.weight += other.weight
        summed.context.bias += other.bias
    source, previous = torch.randint(12, (7, 5)), torch.randint(12, (6, 5))
    with torch.no_grad():
        one, found = (
            net.decode(previous, encoding := net.encode(source, np.full(5, 7)), encoding.start)
            for net in (summed, two)
        )
    torch.testing.assert_close(found.features, one.features, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.weights, one.weights)


def test_networks_differ_in_their_heads_only():
    start = copying.random_network(12, 8, 1)
    heads = [multihead.random_head(8, seed) for seed in (3, 4)]
    one, other = (multihead.with_heads(start, [head]).state_dict() for head in heads)
    for name, value in one.items():
        assert torch.equal(value, other[name]) == (name.split(".")[0] != "attention"), name
    assert torch.equal(one["attention.queries.0.weight"], heads[0][0].weight)
    assert multihead.with_heads(start, heads).attention.queries[0] is not heads[0][0]
    assert torch.equal(other["attention.projections.0.weight"], heads[1][1].weight)


def test_too_few_heads_are_an_error(monkeypatch):
    monkeypatch.setattr(multihead, "AT_ONCE", 1)
    settings = multihead.MultiheadSettings(candidates=3, trials=1, length=4, **TINY)
    with pytest.raises(AlignkitError, match="of 3 heads 0 are good"):
        multihead.run_multihead(settings)
