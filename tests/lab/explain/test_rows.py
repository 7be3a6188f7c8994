"""The rows of the explanation tests, of networks with random weights, against loops over texts."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import expit

from alignkit.lab.explain import trained
from alignkit.lab.explain.interventions import (
    adversarial_attention,
    adversary_rows,
    erasure_rows,
    order_rows,
    permutation_change,
    seeds_rows,
    uniform_change,
    uniform_rows,
)
from alignkit.lab.explain.registry import EXPLANATION_TESTS, UNTRAINED
from alignkit.lab.explain.subject import DIFFERENCES, SHARES, SIZES, decisions, explanation_table, mean_row
from alignkit.metrics.agreement import agreement
from alignkit.metrics.intervals import mean_interval
from alignkit.metrics.kendall import kendall
from alignkit.neural.devices import DeviceCorpus
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores
from alignkit.neural.settings import UNIFORM
from alignkit.neural.training.classification import (
    ClassificationTask,
    Judged,
    adversarial_loss,
    inattention_loss,
)
from alignkit.scores import Scores


def randomized(network, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) / 2)
    return network.eval()


@pytest.fixture
def subject(subject_of):
    found = subject_of(
        seed=3, limit=30, adversary_weights=(0.0, 0.1), avoid=("good", "w1"), avoid_weights=(0.0, 1.0)
    )
    randomized(found.network, 0)
    with torch.no_grad():  # so that decisions hang in the balance
        found.network.output.bias -= float(np.median(classifier_logits(found.network, found.text)))
    return found


@pytest.fixture
def made(subject, monkeypatch):
    """[(name, settings, task, best, own, network)]: a network with random weights is taken for a trained one."""
    found = []

    def train(name, settings, task=ClassificationTask, best=False, **own):
        changes = {"encoder": settings.network.encoder, "attention": settings.network.attention}
        network = randomized(Classifier(replace(subject.network.settings, **changes)), settings.training.seed)
        found.append((name, settings, task, best, own, network))
        return network

    monkeypatch.setattr(subject, "train", train)
    return found


def values_of(rows):
    """{test: (value, low, high, n)}."""
    assert len({row["test"] for row in rows}) == len(rows)
    return {row["test"]: tuple(row[name] for name in ("value", "low", "high", "n")) for row in rows}


def means(columns):
    """The same of values of texts, NaN where they have none; ends are those that such values can have."""
    found = {}
    for name, values in columns.items():
        bounds = DIFFERENCES if name.endswith("gain") else SIZES if name.endswith(", norm") else SHARES
        low, high = mean_interval(np.asarray(values)[~np.isnan(values)], *bounds)
        wanted = np.nanmean(values), low, high, np.sum(~np.isnan(values))
        found[name] = pytest.approx(wanted, rel=1e-4, abs=1e-6)
    return found


def judged_by(network, text):
    """What a network says of the first six texts."""
    texts = np.arange(6)
    words, lengths = DeviceCorpus(text.corpus, torch.device("cpu")).gather(texts)
    h, mask = network.encode(words, lengths)
    return Judged(texts, torch.from_numpy(text.labels[texts]).float(), *network.judge(h, mask), mask)


def right_by(logits, text):
    return np.array([(logit > 0) == (y == 1) for logit, y in zip(logits, text.labels, strict=True)], float)


def test_orders_are_compared_by_size(subject):
    kinds = {"attention": "alpha", "gradient": "delta", "leave-one-out": "loo"}
    sizes = {name: classifier_scores(subject.network, subject.text, kind) for name, kind in kinds.items()}
    sizes = {name: Scores(np.abs(each.values), each.offsets, each.shapes) for name, each in sizes.items()}
    rows = {row["test"]: row for row in order_rows(subject)}
    for name, (u, v) in {
        "gradient": ("attention", "gradient"),
        "leave-one-out": ("attention", "leave-one-out"),
        "gradient and leave-one-out": ("gradient", "leave-one-out"),
    }.items():
        tau, top = (measure(sizes[u], sizes[v], seed=3) for measure in (kendall, agreement))
        wanted = {"tau": (tau.tau, tau.low, tau.high, tau.rows)}
        wanted["top 5 %"] = (top.agreement, top.low, top.high, top.rows)
        for kind, each in wanted.items():
            row = rows.pop(f"{kind}, {name}")
            assert tuple(row[key] for key in ("value", "low", "high", "n")) == each
    assert not rows


def test_words_are_erased_in_each_order(subject):
    gradient = classifier_scores(subject.network, subject.text, "delta")
    draw, shares = np.random.default_rng([3, 1]), {}
    sizes = {
        "attention": lambda m, one: one.alpha,
        "gradient": lambda m, one: np.abs(gradient[m][0]),
        "attention x gradient": lambda m, one: one.alpha * np.abs(gradient[m][0]),
        "random": lambda m, one: -np.argsort(draw.permutation(len(one.alpha))),
    }
    for name, size in sizes.items():
        shares[name] = []
        for m, one in enumerate(decisions(subject.network, subject.text)):
            order, alpha = np.argsort(-size(m, one)), one.alpha.copy()
            shares[name].append(math.nan)
            for count, place in enumerate(order[:-1].tolist(), 1):
                alpha[place] = 0
                if (alpha @ one.strength / alpha.sum() + one.bias > 0) != (one.logit > 0):
                    shares[name][-1] = count / len(order)
                    break
    always = ~np.isnan([*shares.values()]).any(axis=0)
    assert 0 < always.sum() < len(always)
    wanted = {f"erased, {name}": np.where(always, each, math.nan) for name, each in shares.items()}
    wanted |= {f"flips, {name}": (~np.isnan(each)).astype(float) for name, each in shares.items()}
    assert values_of(erasure_rows(subject)) == means(wanted)


def test_uniform_permuted_and_furthest_attention(subject):
    each, rng = decisions(subject.network, subject.text), np.random.default_rng(3)
    changes = np.array([uniform_change(one) for one in each])
    wanted = {"uniform, change": changes[:, 0], "uniform, flips": changes[:, 1]}
    wanted["permuted, change"] = [permutation_change(one, rng, 100) for one in each]
    wanted["adversary, JSD"] = [adversarial_attention(one, 0.01)[0] / math.log(2) for one in each]
    assert values_of([*uniform_rows(subject), *adversary_rows(subject)]) == means(wanted)


@pytest.mark.parametrize("count", [1, 2])
def test_other_seeds_against_their_own_outputs(subject, count):
    networks = [randomized(Classifier(subject.network.settings), seed) for seed in range(1, count + 1)]
    subject.others = [replace(subject.classifier, network=network) for network in networks]
    text, found = subject.text, []
    p = expit(classifier_logits(subject.network, text))
    own = classifier_scores(subject.network, text, "alpha")
    for network in networks:
        q, alpha = expit(classifier_logits(network, text)), classifier_scores(network, text, "alpha")
        apart = [jensenshannon(own[m][0], alpha[m][0], 2) ** 2 for m in range(len(text))]
        found.append([apart, np.abs(p - q), (p > 0.5) == (q > 0.5)])
    names = ("seeds, JSD", "seeds, change", "seeds, same decision")
    rows = seeds_rows(subject)
    assert values_of(rows) == means(dict(zip(names, np.mean(np.array(found, float), axis=0), strict=True)))
    assert ("other seeds (2)" if count == 2 else "another seed") in rows[0]["meaning"]


def test_an_adversary_for_each_weight(subject, made):
    rows = values_of(trained.trained_adversary_rows(subject))
    own, text, wanted = classifier_scores(subject.network, subject.text, "alpha"), subject.text, {}
    p = expit(classifier_logits(subject.network, text))
    learned = classifier_scores(subject.network, subject.training, "alpha")
    teacher = classifier_logits(subject.network, subject.training), learned
    for number, (weight, (name, settings, task, best, more, network)) in enumerate(
        zip((0, 0.1), made, strict=True)
    ):
        judged = judged_by(network, subject.training)
        assert more["criterion"](judged) == adversarial_loss(*teacher, weight)(judged)
        fresh = randomized(Classifier(subject.network.settings), 9)
        more["prepare"](fresh)
        differ = {
            part.split(".")[0]
            for part, value in subject.network.state_dict().items()
            if not torch.equal(value, fresh.state_dict()[part])
        }
        assert differ == {"attention"}
        assert (name, settings.training.seed) == (f"adversary, lambda {weight:g}", 4000 + number)
        assert (task, best, settings.training.steps) == (ClassificationTask, False, 150)
        logits, alpha = classifier_logits(network, text), classifier_scores(network, text, "alpha")
        wanted |= {
            f"lambda {weight:g}, TVD": np.abs(p - expit(logits)),
            f"lambda {weight:g}, JSD": [jensenshannon(own[m][0], alpha[m][0], 2) ** 2 for m in range(len(text))],
            f"lambda {weight:g}, same decision": ((p > 0.5) == (logits > 0)).astype(float),
            f"lambda {weight:g}, accuracy": right_by(logits, text),
        }
    assert rows == means(wanted)


def test_guides_are_compared_with_uniform_attention(subject, made):
    rows, text = trained.guides_rows(subject), subject.text
    facts = [
        (name, s.training.seed, s.network.encoder, s.network.attention, best) for name, s, _, best, *_ in made
    ]
    learned = subject.network.settings.attention
    assert facts == [
        ("with recurrence, uniform", 4005, "lstm", UNIFORM, True),
        ("without recurrence, uniform", 4000, "words", UNIFORM, True),
        ("without recurrence, own", 4001, "words", learned, True),
        ("adversary, lambda 0.1", 4003, "lstm", learned, False),
        ("without recurrence, guided by classifier", 4002, "words", UNIFORM, True),
        ("without recurrence, guided by adversary", 4003, "words", UNIFORM, True),
    ]
    networks = [each[-1] for each in made]
    right = {
        name: right_by(classifier_logits(network, text), text)
        for name, network in (("own", networks[2]), ("uniform", networks[1]))
    }
    for name, guide, k in (("classifier", subject.network, 4), ("adversary", networks[3], 5)):
        guides = [classifier_scores(guide, each, "alpha") for each in (subject.training, text)]
        assert made[k][2] is trained.GuidedTask
        for given, each in zip(made[k][4]["guides"], guides, strict=True):
            np.testing.assert_array_equal(given.values, each.values)
        right[name] = right_by(classifier_logits(networks[k], text, guides[1]), text)
    recurrent = [right_by(classifier_logits(network, text), text) for network in (subject.network, networks[0])]
    wanted = {"recurrent, accuracy": recurrent[0], "recurrent, uniform": recurrent[1]}
    wanted["recurrent, gain"] = recurrent[0] - recurrent[1]
    wanted |= {f"{name}, accuracy": each for name, each in right.items()}
    wanted |= {f"{name}, gain": each - right["uniform"] for name, each in right.items() if name != "uniform"}
    assert values_of(rows) == means(wanted)


@pytest.mark.filterwarnings("error")
def test_what_words_leak(subject, made):
    """Attention is sparse and few words are left, so that some texts have none on those."""
    subject.settings = replace(subject.settings, avoid=("good", *(f"w{i}" for i in range(9))))
    changed = replace(subject.network.settings, attention="feed-forward+sparsemax")
    subject.classifier = replace(subject.classifier, network=randomized(Classifier(changed), 0))
    rows, text, wanted = trained.inattention_rows(subject), subject.text, {}
    names = [(name, weight) for name in ("recurrent", "embeddings") for weight in (0, 1)]
    words = [text.corpus.vocabulary.id(word) for word in subject.settings.avoid]
    avoided = [np.isin(each, words) for each in subject.training.corpus]
    for number, ((name, weight), (full, settings, _, best, more, network)) in enumerate(
        zip(names, made, strict=True)
    ):
        judged = judged_by(network, subject.training)
        assert more["criterion"](judged) == inattention_loss(avoided, weight)(judged)
        kind = {"recurrent": "lstm", "embeddings": "embeddings"}[name]
        assert (settings.training.seed, settings.network.encoder, best) == (4000 + number, kind, True)
        assert settings.network.attention == changed.attention
        name = f"{name}, lambda {weight}"
        assert full == f"inattentive, {name}"
        marks = [np.isin(each, words) for each in text.corpus]
        logits, columns = classifier_logits(network, text.without_words(marks)), []
        without = np.where(np.isnan(logits), network.output.bias.item(), logits)
        decided = decisions(network, text)
        for mark, one, each, gone, y in zip(marks, decided, text.corpus, without, text.labels, strict=True):
            h, _ = network.encode(torch.from_numpy(each.astype(np.int64))[:, None], np.array([len(each)]))
            norms, rest = h[0].detach().norm(dim=1).numpy(), np.where(mark, 0, one.alpha)
            by_norm, right = one.alpha * norms, (one.logit > 0) == y
            hidden = rest @ one.strength / rest.sum() + one.bias if rest.sum() else one.bias
            row = [one.alpha[mark].sum() / one.alpha.sum(), by_norm[mark].sum() / by_norm.sum()]
            row += [norms[mark].mean() / norms[~mark].mean() if mark.any() and not mark.all() else math.nan]
            row += [right, (hidden > 0) == y, (gone > 0) == y]
            columns.append([right, *np.where(mark.any() and not mark.all(), row, math.nan)])
        parts = ("accuracy", "mass", "mass by norm", "norm", "accuracy here", "hidden", "removed")
        wanted |= {
            f"{name}, {part}": column for part, column in zip(parts, np.array(columns, float).T, strict=True)
        }
    assert values_of(rows) == means(wanted)


def test_networks_that_must_not_attend_can_learn_to(subject, made):
    """Even if the classifier's own attention is fixed."""
    uniform = Classifier(replace(subject.network.settings, attention=UNIFORM))
    subject.classifier = replace(subject.classifier, network=uniform)
    trained.inattention_rows(subject)
    assert {settings.network.attention for _, settings, *_ in made} == {"feed-forward"}


def test_the_table_has_all_tests_in_order(subject, made):
    names = ("order", "uniform", "erasure", "adversary", "seeds", "trained-adversary", "guides", "inattention")
    subject.settings = replace(subject.settings, tests=names)
    found = explanation_table(subject)
    assert list(dict.fromkeys(found["group"])) == list(names) == list(EXPLANATION_TESTS)
    wanted = trained.guides_rows(subject)
    assert found[found["group"] == "guides"].drop(columns="group").to_dict("records") == wanted
    assert names[:5] == UNTRAINED


def test_the_network_of_the_last_step_or_of_the_best_one(subject, monkeypatch):
    tasks, steps = [], []

    class FakeTrainer:
        network = SimpleNamespace(eval=lambda: "last")

        def __init__(self, task):
            tasks.append(task)

        def run(self, progress):
            progress(3, 7, "")
            return SimpleNamespace(network="best")

    monkeypatch.setattr("alignkit.lab.explain.subject.Trainer", FakeTrainer)
    subject.progress = lambda *step: steps.append(step)
    settings = subject.run_settings(2, encoder="words")
    assert (subject.train("x", settings), subject.train("y", settings, best=True)) == ("last", "best")
    assert steps == [(3, 7, "x"), (3, 7, "y")]
    assert tasks[0].text is subject.training
    assert tasks[0].valid is subject.text
    assert tasks[0].settings.training == settings.training


def test_a_row_is_the_mean_of_what_is_defined():
    row = mean_row("x", [0.5, math.nan, 1.0], "y")
    assert (row["test"], row["value"], row["n"], row["meaning"]) == ("x", 0.75, 2, "y")
    empty = mean_row("x", [math.nan], "y")
    assert empty["n"] == 0
    assert all(math.isnan(empty[name]) for name in ("value", "low", "high"))


@pytest.mark.parametrize(
    ("bounds", "expected"), [((), (0, 1)), ((DIFFERENCES,), (-1, 1)), (((-9, 9),), (-5.853, 6.853))]
)
def test_the_interval_ends_where_values_end(bounds, expected):
    """Student's with one degree of freedom: 0.5 -+ 12.706 * 0.5."""
    row = mean_row("x", [0.0, 1.0], "y", *bounds)
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-3)
