"""The row for classification on a small planted text: who agrees with whom, and what goes on from where."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from alignkit.aligner import load_aligner
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.errors import AlignkitError
from alignkit.lab.classification import (
    ClassifySettings,
    accuracies,
    classifier_time_courses,
    classify,
    rise_and_fall,
    row_table,
)
from alignkit.metrics.agreement import AGREEMENT, agreement
from alignkit.metrics.intervals import ratio
from alignkit.neural.settings import (
    ClassifierRunSettings,
    ClassifierSettings,
    ClassifierTraining,
    ProxySettings,
    TextSettings,
)
from alignkit.neural.training.classification import train_classifier
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit.scores import Scores
from alignkit.text.bitext import Corpus
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import BOS, EOS
from tests.neural.training.test_classification import planted

NAMES = ("n", "y")


TEXT, VALID = planted(140, 1), planted(60, 2)
SETTINGS = ClassifySettings(
    ClassifierRunSettings(
        TextSettings("words"),
        ClassifierSettings(embedding=8, hidden=8, attention_hidden=8),
        ClassifierTraining(batch=10, learning_rate=2e-2, steps=100),
    ),
    ProxySettings(embedding=16, learning_rate=1e-2, epochs=10),
    loo=True,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("classify")


@pytest.fixture(scope="module")
def found(folder):
    return classify(folder, TEXT, VALID, NAMES, SETTINGS, device="cpu")


def test_every_score_is_that_of_its_network(found, folder):
    """alpha, beta, delta and loo of the standard network, alpha_2 of the second, alpha_fr of the frozen one."""
    wanted = {name: ("standard", name) for name in ("alpha", "beta", "delta", "loo")}
    wanted |= {"alpha_2": ("second", "alpha")}
    bitext = found.text.bitext
    for name, (run, kind) in wanted.items():
        best = load_aligner(folder / run).score(bitext, kind)
        assert np.array_equal(found.scores[name].values, best.values), name
    others = [load_aligner(folder / run).score(bitext, "delta").values for run in ("uniform", "second")]
    assert not any(np.array_equal(found.scores["delta"].values, other) for other in others)
    ibm1 = fit_ibm1(ClassifierRun(folder / "standard").train.bitext, iterations=5, null=False)
    assert np.array_equal(found.scores["beta_ibm1"].values, ibm1.score(bitext, "beta").values)


@pytest.mark.parametrize(("name", "score"), [("uniform", "beta_uf"), ("frozen", "alpha_fr")])
def test_scores_are_those_of_the_logged_step_that_agrees_most(found, folder, name, score):
    """A.6 gives the frozen network the same chance as A.7 gives the uniform one."""
    run, kind = ClassifierRun(folder / name), score.split("_")[0]
    scores = {step: run.load(step, "cpu").score(found.text.bitext, kind) for step in run.checkpoints}
    values = {step: agreement(found.scores["alpha"], each).agreement for step, each in scores.items()}
    chosen, course = getattr(found, f"{name}_step"), found.time_courses[name]
    assert list(values) == [0, 10, 50, 100]
    assert dict(zip(course.step, course.agreement, strict=True)) == values
    assert np.array_equal(found.scores[score].values, scores[chosen].values)
    assert (
        values[chosen] == max(values.values()) == found.row.set_index("quantity").agreement[f"A(alpha, {score})"]
    )


def test_beta_count_is_the_label_share_of_a_words_cooccurrences(found):
    counts = {name: Counter[str]() for name in NAMES}
    for text, label in zip(TEXT.texts, TEXT.labels, strict=True):
        for word in text.split():
            counts[label][word] += 1 / len(text.split())
    for m, (text, label) in enumerate(zip(VALID.texts, VALID.labels, strict=True)):
        wanted = [counts[label][word] / (counts["n"][word] + counts["y"][word]) for word in text.split()]
        assert found.scores["beta_count"][m][0].tolist() == pytest.approx(wanted, rel=1e-5)


def test_courses_of_two_seeds_and_of_the_regression(found, folder):
    seeds, logistic = found.time_courses["seeds"], found.time_courses["logistic"]
    assert list(seeds.step) == list(logistic.step) == [0, 10, 50, 100]
    one, other = (ClassifierRun(folder / name).load(100, "cpu") for name in ("standard", "second"))
    expected = agreement(*(each.score(found.text.bitext, "alpha") for each in (one, other))).agreement
    assert seeds.set_index("step").agreement[100] == expected
    beta = ClassifierRun(folder / "uniform").load(50, "cpu").score(found.text.bitext, "beta")
    assert logistic.set_index("step").agreement[50] == agreement(found.scores["beta_log"], beta).agreement


def test_of_one_text_no_rise_is_judged(found, folder):
    text, alpha = found.text, found.scores["alpha"]
    first = LabelledText(text.corpus.block(0, 1), text.labels[:1], text.names)
    judged = rise_and_fall(
        ClassifierRun(folder / "uniform"), Scores.from_matrices([alpha[0]]), "beta", first, "cpu"
    )
    assert np.isnan([judged.peak, *judged.rise, *judged.fall]).all()


def test_a_peak_is_chosen_on_half_of_the_texts_and_judged_on_the_others(found, folder):
    run, u = ClassifierRun(folder / "uniform"), found.scores["alpha"]
    judged = rise_and_fall(run, u, "beta", found.text, "cpu")
    assert judged == found.rise_and_fall
    hits = {}
    for step in run.checkpoints:
        v = run.load(step, "cpu").score(found.text.bitext, "beta")
        hits[step] = np.array([b[0].argmax() == a[0].argmax() for a, b in zip(u, v, strict=True)])
    assert judged.step == max(hits, key=lambda step: hits[step][::2].sum())
    held = {step: each[1::2].mean() for step, each in hits.items()}
    assert judged.peak == pytest.approx(held[judged.step])
    assert judged.rise[0] == pytest.approx(held[judged.step] - held[0])
    assert judged.fall[0] == pytest.approx(held[judged.step] - held[100])
    assert judged.fall[1] <= judged.fall[0] <= judged.fall[2]


def test_texts_that_judge_a_peak_do_not_choose_it():
    """Texts with even numbers agree most at step 10, the others, and all together, at step 20."""
    agreeing = {0: [0] * 6, 10: [1, 0, 1, 0, 1, 0], 20: [1, 1, 0, 1, 1, 1]}

    class Planted:
        checkpoints = dict.fromkeys(agreeing)

        def load(self, step, device):
            scores = Scores.from_matrices([np.array([[hit, 0.5]]) for hit in agreeing[step]])
            return SimpleNamespace(score=lambda bitext, kind: scores)

    text = LabelledText(Corpus.from_sentences([["a", "b"]] * 6), np.array([0, 1] * 3, np.int32), NAMES)
    u = Scores.from_matrices([np.array([[1.0, 0.0]])] * 6)
    judged = rise_and_fall(Planted(), u, "beta", text)
    assert (judged.step, judged.peak, judged.last) == (10, 0, 1)


def test_texts_may_begin_with_bos_and_end_with_eos(tmp_path):
    settings = dataclasses.replace(SETTINGS.runs.change(training={"steps": 2}), ends=True)
    own = train_classifier(tmp_path / "ends", TEXT, VALID, NAMES, settings, device="cpu")
    run = ClassifierRun(tmp_path / "ends")
    without = VALID.encode(own.tokenizer, NAMES)
    for one, other in zip(run.valid.corpus, without.corpus, strict=True):
        assert one.tolist() == [BOS, *other.tolist(), EOS]


def test_time_courses_have_what_contextualised_agreement_needs(found, folder):
    course = found.time_courses["second"]
    run = ClassifierRun(folder / "second")
    assert list(course.step) == list(run.checkpoints)
    assert dict(run.log.series("valid.accuracy")) == dict(zip(course.step, course.accuracy, strict=True))
    last = run.load(100, "cpu").score(found.text.bitext, "alpha")
    assert course.agreement.iloc[-1] == agreement(found.scores["alpha"], last).agreement
    # xi by hand: the accuracy at the first step that agrees better.
    for row in found.row.itertuples():
        later = course[course.agreement > row.agreement]
        assert (np.isnan(row.xi) and not len(later)) or row.xi == later.accuracy.iloc[0]
    assert found.row.xi.notna().any()
    fixed = {name: found.scores[name] for name in ("alpha", "beta_px")}
    own = classifier_time_courses(ClassifierRun(folder / "standard"), fixed, "alpha", found.text, SETTINGS)
    assert own["alpha"].agreement.max() == 1  # at its own best step
    assert own["beta_px"].agreement.max() < 1


def test_accuracy_is_that_of_the_validation_text(found, folder):
    table = found.accuracy.set_index("model")
    for name in ("standard", "uniform", "frozen", "second"):
        best = ClassifierRun(folder / name).load(device="cpu")
        assert table.accuracy[name] == pytest.approx(best.metrics["valid.accuracy"])
        assert table.step[name] == best.step
        assert table.low[name] <= table.accuracy[name] <= table.high[name]
    assert table.accuracy["proxy"] > 0.8  # half by chance
    assert list(table.index[-3:]) == ["proxy", "logistic", "majority"]
    assert table.accuracy["majority"] == max(VALID.labels.count(name) for name in NAMES) / len(VALID)
    marks = [np.full(len(found.text.corpus[m]), y == 0) for m, y in enumerate(found.text.labels)]
    blank = found.text.without_words(marks)
    last = accuracies({}, load_aligner(folder / "proxy.pt"), None, blank, 0).iloc[-1]
    assert (last.accuracy, last.texts) == (1, VALID.labels.count(NAMES[1]))


def test_a_second_call_trains_nothing_and_finds_the_same(found, folder):
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    again = classify(folder, TEXT, VALID, NAMES, SETTINGS, device="cpu")
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == before
    assert again.row.equals(found.row)
    assert again.accuracy.equals(found.accuracy)
    with pytest.raises(AlignkitError, match="other settings or text"):
        classify(folder, TEXT, VALID, NAMES, ClassifySettings(), device="cpu")


@dataclass(frozen=True)
class Same:
    """In how many texts u and v rank the same word first."""

    rows: np.ndarray
    hits: np.ndarray


def count_same(u, v, settings):
    hits = [float(a.argmax() == b.argmax()) for a, b in zip(u, v, strict=True)]
    return Same(np.ones(len(hits)), np.array(hits))


def test_another_metric_fills_the_same_row(found):
    """A metric is a record: the interval and the columns come by themselves."""
    same = dataclasses.replace(
        AGREEMENT,
        name="same",
        count=count_same,
        values=lambda sums: {"same": ratio(sums.hits, sums.rows), "rows": sums.rows},
    )
    table = row_table(found.scores, same, SETTINGS)
    assert list(table.columns) == ["quantity", "u", "v", "same", "low", "high", "rows", "question"]
    assert list(table.quantity) == list(found.row.quantity)
    assert ((table.low <= table.same) & (table.same <= table.high)).all()
    for m, row in enumerate(found.row.itertuples()):
        if m < 3:  # tau by scipy
            u, v = found.scores[row.u], found.scores[row.v]
            values = [kendalltau(a[0], b[0]).statistic for a, b in zip(u, v, strict=True)]
            assert row.tau == pytest.approx(np.nanmean(values), abs=1e-6)
            assert row.tau_low <= row.tau <= row.tau_high
    # In texts of fewer than 20 words the top 5 % is the first place alone.
    no_ties = found.row.ties == 0
    np.testing.assert_allclose(table.same[no_ties], found.row.agreement[no_ties])


def test_beta_px_orders_words_as_the_proxys_probabilities_do(found, folder):
    proxy = load_aligner(folder / "proxy.pt").score(found.text.bitext, "beta")
    odds = np.log(proxy.values.astype(np.float64)) - np.log1p(-proxy.values.astype(np.float64))
    clear = np.abs(odds) < 8  # beyond, float32 rounds the probability
    assert clear.any()
    np.testing.assert_allclose(found.scores["beta_px"].values[clear], odds[clear], rtol=1e-2, atol=1e-2)


def test_the_penalties_hold_the_chosen_one(found):
    chosen = found.penalties.set_index("strength").loc[found.logistic.strength]
    best = found.penalties[found.penalties.accuracy == found.penalties.accuracy.max()]
    assert chosen.accuracy == best.accuracy.max()
    assert chosen.loss == best.loss.min()
    assert chosen.agreement == found.row.set_index("quantity").agreement["A(beta_uf, beta_log)"]
    assert len(found.penalties) == 9
    assert "tried" not in repr(found.logistic)


def test_every_run_has_a_seed_of_its_own(folder, found):
    seeds = {name: ClassifierRun(folder / name).settings.training.seed for name in SETTINGS.variants}
    assert len(set(seeds.values())) == 4


def test_the_standard_run_must_be_standard(tmp_path):
    uniform = ClassifySettings(SETTINGS.runs.change(network={"attention": "uniform"}))
    with pytest.raises(AlignkitError, match="learns its attention"):
        classify(tmp_path / "x", TEXT, VALID, NAMES, uniform)
    assert not (tmp_path / "x").exists()


def test_scores_of_the_training_text(folder, found):
    settings = dataclasses.replace(SETTINGS, scored="train", loo=False)
    other = classify(folder, TEXT, VALID, NAMES, settings, device="cpu")
    assert len(other.text) == 140
    assert (other.row.rows == 140).all()
    assert other.accuracy.equals(found.accuracy)
