"""Settings of networks and of training: their ranges, the plans that they make, and what is read from files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from alignkit.errors import AlignkitError
from alignkit.neural.settings import (
    CLASSIFIER_PRESETS,
    LIMIT,
    NETWORKS,
    PRESETS,
    ClassifierRunSettings,
    ClassifierSettings,
    ClassifierTraining,
    LstmSettings,
    Mechanism,
    Reading,
    RunSettings,
    TrainingSettings,
    TransformerSettings,
    differences,
    from_dict,
    logged_steps,
    parse_attention,
)


@pytest.mark.parametrize(
    ("kind", "name", "right", "wrong"),
    [
        (TrainingSettings, "batch", [1, LIMIT], [0, LIMIT + 1, True, 1.0, None, "1"]),
        (TrainingSettings, "epochs", [0, 2**63 - 1], [-1, 2**63]),
        (TrainingSettings, "steps", [None, 0], [-1, 1.5]),
        (TrainingSettings, "word_dropout", [0, 0.999], [1, -0.001, False]),
        (TrainingSettings, "label_smoothing", [0.0], [1.0]),
        (TrainingSettings, "guide_weight", [0, 1000], [-0.1, 1000.1]),
        (TrainingSettings, "learning_rate", [1e-30, 9e37], [0, 1e38, math.nan, None]),
        (TrainingSettings, "bleu", ["never"], ["always", None, ["end"]]),
        (LstmSettings, "layers", [1, 64], [0, 65]),
        (LstmSettings, "vocabulary", [0, LIMIT], [-1, LIMIT + 1]),
        (LstmSettings, "dropout", [0.0], [1]),
        (LstmSettings, "bidirectional", [True, False], [1, None]),
        (ClassifierSettings, "encoder", ["words"], ["gru"]),
        (Reading, "layer", [0, 65], [-1]),
        (Reading, "head", [0], [1.0]),
        (Reading, "shifted", [True], [1]),
    ],
)
def test_the_range_of_a_setting(kind, name, right, wrong):
    for value in right:
        assert getattr(kind(**{name: value}), name) == value
    for value in wrong:
        with pytest.raises(AlignkitError, match=f"setting {name} must be"):
            kind(**{name: value})


def test_settings_that_do_not_go_together():
    assert LstmSettings(heads=2, reading=Reading(1, 2)).encoding == 512
    assert TransformerSettings(reading=Reading(3, 4)).attention_layers == 3
    for changes, message in (
        ({"reading": Reading(2)}, "no layer 2 of 1 to read"),
        ({"heads": 2, "reading": Reading(head=3)}, "no head 3 of 2 to read"),
        ({"architecture": "gru"}, f"architecture must be one of {', '.join(NETWORKS)}, not 'gru'"),
        ({"architecture": "transformer", "heads": 3}, "3 heads cannot share an embedding of 256"),
    ):
        with pytest.raises(AlignkitError, match=message):
            RunSettings().change(network=changes)
    with pytest.raises(AlignkitError, match="cannot be trained alone"):
        ClassifierRunSettings().change(network={"attention": "uniform"}, training={"trained": "attention"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'architecture'"):
        LstmSettings(architecture="transformer")


def test_names_stand_for_mechanisms():
    assert parse_attention("network", "uniform") is None
    assert parse_attention("network", "additive") == Mechanism("additive", "softmax", None)
    assert parse_attention("network", "dot+entmax:1.3") == Mechanism("dot", "entmax", 1.3)
    assert parse_attention("network", "dot+entmax:1.01") == Mechanism("dot", "entmax", 1.01)
    assert parse_attention("network", "dot+entmax:4").parameter == 4
    assert parse_attention("network", "dot+gumbel") == Mechanism("dot", "gumbel", 1.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bahdanau", r"attention must be uniform, or a score function \(general, dot, .*, not 'bahdanau'"),
        ("dot+max", r"with a normalizer \(softmax, sparsemax, .*, not 'dot\+max'"),
        ("dot+", r"such as additive\+sparsemax, not 'dot\+'"),
        (["dot"], "attention must be uniform"),
        ("dot+softmax:2", "softmax takes no number"),
        ("dot+entmax:1", "the number of entmax must be at least 1.01 and at most 4, not '1'"),
        ("dot+entmax:4.1", "at most 4, not '4.1'"),
        ("dot+gumbel:nan", "the number of gumbel must be at least 0.01, not 'nan'"),
        ("dot+gumbel:inf", "must be at least 0.01, not 'inf'"),
        ("dot+entmax:", "not ''"),
    ],
)
def test_other_names_are_refused(name, message):
    for kind, owner in ((LstmSettings, "network"), (ClassifierSettings, "classifier")):
        with pytest.raises(AlignkitError, match=f"^{owner}: .*{message}"):
            kind(attention=name)


def test_logged_steps_end_with_the_last():
    assert logged_steps(4100) == [0, 50, 100, 500, 1000, 1500, 2000, 4000, 4100]
    assert logged_steps(0) == [0]
    assert logged_steps(200, "dense") == [0, 10, 20, 50, 100, 200]
    assert logged_steps(510, "classification") == [0, 10, 50, 100, 150, 200, 250, 500, 510]


def test_the_number_of_steps():
    plans = TrainingSettings(epochs=3), TrainingSettings(epochs=3, steps=10), TrainingSettings(epochs=3, steps=20)
    assert [plan.last_step(5) for plan in plans] == [15, 10, 15]
    assert ClassifierTraining(steps=7).last_step(5) == 7


def test_the_learning_rate_rises_and_falls():
    plan = TrainingSettings(learning_rate=0.4, rate_warmup=4, rate_decay="inverse-sqrt")
    expected = [0.1, 0.2, 0.3, 0.4, 0.4 * (4 / 5) ** 0.5]
    assert [plan.rate(step) for step in range(5)] == pytest.approx(expected)
    assert plan.rate(15) == pytest.approx(0.2)
    assert replace(plan, rate_warmup=0).rate(3) == pytest.approx(0.2)
    assert replace(plan, rate_warmup=0, rate_decay="none").rate(99) == 0.4


@pytest.mark.parametrize("settings", [*PRESETS.values(), *CLASSIFIER_PRESETS.values()])
def test_settings_survive_json(settings):
    assert from_dict(type(settings), json.loads(json.dumps(asdict(settings)))) == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"network": {"colour": 1}}, "LstmSettings: unknown field colour"),
        ({"network": {"attention": "none"}}, "attention must be uniform, or a score function"),
        ({"network": 3}, "not a set of fields"),
        *(({"network": {"architecture": value}}, "architecture must be one of") for value in ([], 3, None)),
    ],
)
def test_what_cannot_be_read(values, message):
    with pytest.raises(AlignkitError, match=message):
        from_dict(RunSettings, values)


def test_changes_and_differences():
    first = RunSettings().change(network={"hidden": 3, "layers": None, "architecture": "lstm"}, text={"pieces": 5})
    assert (first.network, first.text.pieces) == (LstmSettings(hidden=3), 5)
    other = first.change(network={"architecture": "transformer", "heads": 2}, training={"batch": 3})
    assert (other.network, other.text, other.training.batch) == (TransformerSettings(heads=2), first.text, 3)
    same, new = {"sha256": "1", "pairs": 3}, {"sha256": "2", "pairs": 3}
    old = {"text": same, "b": {"x": 1, "y": 2}, "c": 1}
    assert not [*differences(old, old)]
    found = [*differences(old, {"text": new, "b": {"x": 1, "y": 3, "z": None}, "d": 4})]
    assert found == [
        "b.y: 2 before, now 3",
        "c: 1 before, now None",
        "d: None before, now 4",
        "text: not the same as before",
    ]
    assert [*differences({"a": same, "b": 1}, {"a": same, "b": 2})] == ["b: 1 before, now 2"]


def test_settings_need_no_torch():
    program = "import sys, alignkit.neural.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
