"""Topic words: the flow against autograd, equation (1) where it is exact, and the task as it is drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignkit.lab.experiments import topic_words as experiment
from alignkit.support.stages import no_progress
from alignkit.text.bitext import Corpus
from alignkit.text.labelled import LabelledText
from alignkit.text.tokenization import learn_words


@pytest.fixture
def text():
    settings = experiment.TopicWordsSettings(topics=3, per_topic=2, others=4, dictionary=12, sentences=24)
    drawn = experiment.draw_sentences(settings, range(2))
    mask = drawn.mask.clone()
    mask[:, ::3, -1] = False  # some sentences are shorter
    return experiment.Sentences(drawn.words, mask, drawn.labels, drawn.types, drawn.topics)


def test_the_task(text):
    assert text.words.shape == (2, 24, 5)
    assert (text.words[:, :, 0] < 6).all()
    assert text.words[:, :, 1:].unique().tolist() == [*range(6, 18)]
    assert torch.equal(text.labels, text.words[:, :, 0] // 2)
    for seed in range(2):
        assert np.bincount(text.words[seed, :, 0]).tolist() == [4] * 6
    assert not torch.equal(text.words[0], text.words[1])


def test_models_are_drawn_from_their_seeds():
    model = experiment.initial_model(50, 3, 4, 2.0, "two-layer", range(7, 9), hidden=9)
    for place, seed in enumerate((7, 8)):
        generator = torch.Generator().manual_seed(seed)
        parts = [torch.randn(*shape, generator=generator) for shape in ((50, 4), (9, 4), (3, 9))]
        torch.testing.assert_close(model.v[place], parts[0])  # of norm 2, with 4 numbers
        torch.testing.assert_close(model.weights[0][place], parts[1] / 2)
        torch.testing.assert_close(model.weights[1][place], parts[2] / 3)
    kinds = [experiment.initial_model(5, 3, 4, 1.0, name, range(1)) for name in experiment.CLASSIFIERS]
    assert [each.trained for each in kinds] == [False, True, True]
    assert [len(each.weights) for each in kinds] == [1, 1, 2]


@pytest.mark.parametrize("classifier", experiment.CLASSIFIERS)
def test_the_flow_is_minus_the_gradient(text, classifier):
    model = experiment.initial_model(text.types, 3, 5, 1.0, classifier, range(2), hidden=4)
    generator = torch.Generator().manual_seed(0)
    model = experiment.Model(
        model.v.double(),
        torch.randn(model.s.shape, generator=generator, dtype=torch.float64),
        tuple(w.double() for w in model.weights),
        model.trained,
    )
    change, losses = experiment.derivatives(model, text, query=2.0)
    leaves = [part.clone().requires_grad_() for part in (model.v, model.s, *model.weights)]
    total = []
    for k in range(2):  # sentence by sentence, straight from the definition
        for n in range(24):
            words = text.words[k, n][text.mask[k, n]]
            a = torch.softmax(leaves[1][k, words], 0)
            out = leaves[2][k] @ (a @ leaves[0][k, words])
            if classifier == "two-layer":
                out = leaves[3][k] @ torch.relu(out)
            total.append(-torch.log_softmax(out, 0)[text.labels[k, n]] / 24)
    sum(total).backward()
    assert torch.allclose(losses.sum(), sum(total).detach())
    assert torch.allclose(change.v, -leaves[0].grad)
    assert torch.allclose(change.s, -2.0 * leaves[1].grad)
    for w, leaf in zip(change.weights, leaves[2:], strict=True):
        assert torch.allclose(w, -leaf.grad if model.trained else torch.zeros_like(w))


def test_predicted_scores_solve_equation_1():
    norms = np.array([[0.3, 0.1], [0.2, 2.0], [5.0, 20.0]])
    s = experiment.predicted_scores(norms, 7, 1.5)
    assert s[0] == pytest.approx([0, 0], abs=1e-12)
    assert s + np.exp(s) / 7 - 1.5 * norms == pytest.approx(np.broadcast_to(1 / 7 - 1.5 * norms[0], (3, 2)))


def test_topicality_by_hand():
    sentences = [["a", "b", "b"], ["a"], ["c", "a"], ["c", "d"]]
    text = LabelledText(Corpus.from_sentences(sentences), np.array([0, 0, 1, 1], np.int32), ("x", "y"))
    tells, number, around = experiment.topicality(text)
    assert number.tolist() == [3, 1, 2, 1]
    assert around == pytest.approx([1, 2, 1, 1])
    for word, counts in enumerate([(2, 1), (1, 0), (0, 2), (0, 1)]):
        p = (np.array(counts) + 0.5) / (sum(counts) + 1)
        assert tells[word] == pytest.approx((p * np.log(2 * p)).sum())
    sentences = experiment.as_sentences(text, 2)
    assert sentences.mask.sum(2).tolist() == [[3, 1, 2, 2]] * 2
    assert sentences.words[1][sentences.mask[1]].tolist() == text.corpus.tokens.tolist()


def test_topicality_of_unequal_labels():
    """One pseudo-sentence, divided as the labels are: of three sentences x and one y, 3/4 and 1/4."""
    sentences = [["a"], ["a"], ["b"], ["c"]]
    text = LabelledText(Corpus.from_sentences(sentences), np.array([0, 0, 0, 1], np.int32), ("x", "y"))
    prior = np.array([0.75, 0.25])
    for word, counts in enumerate([(2, 0), (1, 0), (0, 1)]):
        p = (np.array(counts) + prior) / (sum(counts) + 1)
        assert experiment.topicality(text)[0][word] == pytest.approx((p * np.log(p / prior)).sum())


SMALL = experiment.TopicWordsSettings(
    topics=3,
    per_topic=2,
    others=6,
    dictionary=40,
    sentences=24,
    width=5,
    scale=0.5,
    query=1.5,
    rate=0.8,
    growth=1.02,
    steps=4,
    seeds=2,
    real_sentences=30,
    real_steps=3,
    longest=7,
    minimum=3,
)


@pytest.mark.parametrize(("classifier", "moves"), [("fixed", (1.0, 0.0)), ("linear", (0.5, 2.0))])
def test_a_trajectory_is_that_of_eulers_method(classifier, moves, monkeypatch):
    monkeypatch.setattr(experiment, "kept_steps", lambda steps, most: np.array([0, 2, 4]))
    course = experiment.trajectory(SMALL, "x", classifier, moves)
    text = experiment.draw_sentences(SMALL, range(2))
    model = experiment.initial_model(text.types, 3, 5, 0.5, classifier, range(2))
    first, time = model, 0.0
    for step in range(5):
        change, losses = experiment.derivatives(model, text, 1.5)
        rows = course[course.step == step].set_index(["seed", "word"])
        assert rows.time.to_numpy() == pytest.approx(time)
        for (seed, word), row in rows.iterrows():
            half = float((model.v[seed, word] ** 2).sum()) / 2
            start = float((first.v[seed, word] ** 2).sum()) / 2
            assert row.score == pytest.approx(float(model.s[seed, word]), abs=1e-6)
            assert row["half norm"] == pytest.approx(half, rel=1e-4)
            assert row.attention == pytest.approx(np.exp(row.score) / (np.exp(row.score) + 6), rel=1e-4)
            assert row.predicted + np.exp(row.predicted) / 6 == pytest.approx(
                1 / 6 + 1.5 * (half - start), abs=1e-4
            )
            assert row.loss == pytest.approx(float(losses[seed]))
            if classifier == "fixed":  # U_topic minus the mean of all, in the direction of the embedding
                U = first.weights[0][seed]
                pull = float(first.v[seed, word] @ (U[word // 2] - U.mean(0)))
                assert row["first pull"] == pytest.approx(pull, abs=1e-5)
        size = 0.8 * 1.02**step
        weights = tuple(w + size * d for w, d in zip(model.weights, change.weights, strict=True))
        v, s = model.v + size * moves[0] * change.v, model.s + size * moves[1] * change.s
        model, time = experiment.Model(v, s, weights, model.trained), time + size
    assert set(course.step) == {0, 2, 4}
    assert model.trained == (classifier == "linear")


def test_steps_that_are_kept_are_spread_over_all():
    assert experiment.kept_steps(9, 4).tolist() == [0, 3, 6, 9]
    assert experiment.kept_steps(3, 99).tolist() == [0, 1, 2, 3]


def test_real_words_are_those_of_a_linear_classifier(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "labelled.tsv"
    lines = [f"{'ab'[i % 2]}\t{' '.join(rng.choice(list('uvwxyz'), 9))}\n" for i in range(40)]
    path.write_text("".join([*lines, "a\tsolo\nb\tsolo\n" * 20]))
    texts = experiment.labelled_lines(str(path), 30, 7)
    text = texts.encode(learn_words(texts.texts), texts.names)
    sentences = experiment.as_sentences(text, 2)
    model = experiment.initial_model(sentences.types, 2, 5, 0.5, "linear", range(2))
    *_, (last, _) = experiment.gradient_flow(model, sentences, 0.8, 3, 1.5)
    topical, number, others = experiment.topicality(text)
    least = int(np.sort([number[text.corpus.vocabulary.id(letter)] for letter in "uvwxyz"])[1])
    found = experiment.real_words(replace(SMALL, labelled=str(path), minimum=least), no_progress)
    wanted = {text.corpus.vocabulary[i] for i in range(len(number)) if number[i] >= least} - {"solo"}
    assert set(found.word) == wanted
    assert number[text.corpus.vocabulary.id("solo")] >= least
    for row in found.itertuples():
        i = text.corpus.vocabulary.id(row.word)
        halves = [float((each.v[row.seed, i] ** 2).sum()) / 2 for each in (model, last)]
        assert (row.sentences, row.topicality) == (number[i], topical[i])
        assert row.score == pytest.approx(float(last.s[row.seed, i]), abs=1e-6)
        assert row._6 == pytest.approx(halves[1] - halves[0], abs=1e-5)
        wanted = 1 / others[i] + 1.5 * (halves[1] - halves[0])
        assert row.predicted + np.exp(row.predicted) / others[i] == pytest.approx(wanted, abs=1e-4)


def test_courses_and_their_claims(monkeypatch, bounds):
    """Planted courses: each of four words, in two seeds, has its own last attention, score and loss."""
    asked = []

    def planted(settings, name, classifier, moves, progress=None):
        asked.append((name, classifier, moves, settings.seeds, settings.steps))
        level = {"fixed": 8, "linear": 6, "two-layer": 4, "scores frozen": 2, "embeddings frozen": 1, "early": 5}[
            name
        ]
        seed, word, step = (part.ravel() for part in np.indices((2, 4, 6)))
        score = level * step * (1 + word) * (1 + seed) / 10
        values = {"score": score, "predicted": score + (word == 3) * step * (1 + seed) / 100, "half norm": score}
        values |= {"attention": level * (9 - word) / 100, "loss": 9.0 - level + seed}
        if name == "early":  # the first word falls in both, the next two in one of them; the last points its way
            values |= {"score": np.where(word < 2, -step, step), "half norm": np.where(word % 2, step, -step)}
            values |= {"first pull": word - 2.5}
        return pd.DataFrame({"course": name, "seed": seed, "word": word, "step": step, "time": step, **values})

    words = pd.DataFrame({"seed": np.repeat([0, 1], 8), "word": list("abcdefgh") * 2, "sentences": 5})
    words = words.assign(topicality=[*range(8)] * 2, predicted=np.arange(16) % 8 + 1.0)
    words["score"] = words.predicted + [0.4, 0.2, 0, 0, 0, 0, -0.1, -0.05] * 2
    monkeypatch.setattr(experiment, "trajectory", planted)
    monkeypatch.setattr(experiment, "real_words", lambda settings, progress: words)
    result = experiment.run_topic_words(replace(SMALL, steps=50))
    assert asked == [
        *((name, name, (1.0, 1.0), 2, 50) for name in ("fixed", "linear", "two-layer")),
        ("scores frozen", "fixed", (1.0, 0.0), 2, 50),
        ("embeddings frozen", "fixed", (0.0, 1.0), 2, 50),
        ("early", "fixed", (1.0, 1.0), 20, 5),
    ]
    table = result.table.set_index("course")
    assert table["last score"].tolist() == pytest.approx([5 * 0.375 * level for level in (8, 6, 4, 2, 1)])
    assert table["last attention"]["linear"] == pytest.approx(6 * 7.5 / 100)
    assert table["last loss"]["fixed"] == 1.5
    assert set(result.rows["courses"].step) == {0, 1, 3, 4, 5}  # 40 of 0 to 50
    # The largest gap is 0.05 in one seed and 0.1 in the other, of the largest score, 2 and 4 times the level.
    errors = [0.05 / (2 * level) for level in (8, 6, 4)]
    assert table.error[:3].tolist() == pytest.approx(errors)
    values = [claim.value for claim in result.claims]
    assert values[:3] == pytest.approx(errors)
    assert values[3:6] == pytest.approx([0.48, 0.15, 0.15])
    assert values[6] == 4 / 8
    assert "6 of 8 point away" in result.claims[6].statistic
    assert values[7:9] == pytest.approx([1 / 8, np.mean([1 / 7, 2 / 8])])
    one = words[words.seed == 0]
    assert values[9] == pytest.approx(np.corrcoef(one.score, one.predicted)[0, 1])
    assert values[10] == pytest.approx(np.polyfit(one.predicted, one.score, 1)[0])
    assert values[11:] == pytest.approx([0.25, 1])
    more, less = (0.0, None), (None, 1.0)
    assert bounds[:9] == [*[(None, 0.1)] * 3, (0.9, None), more, more, (0.75, None), less, less]
    assert "8 words in at least 3 sentences" in result.remarks[1]
