"""Training a classifier: what it learns, the same bits every time, what a run directory holds and refuses."""

from __future__ import annotations

import hashlib
from itertools import cycle

import numpy as np
import pytest
import torch
from scipy.special import expit, rel_entr

from alignkit.errors import AlignkitError, InputError
from alignkit.neural.settings import (
    NORMALIZERS,
    SCORE_FUNCTIONS,
    ClassifierRunSettings,
    ClassifierSettings,
    ClassifierTraining,
    TextSettings,
)
from alignkit.neural.training.classification import (
    SMALLEST,
    ClassificationTask,
    Judged,
    adversarial_loss,
    copy_but_attention,
    divergence,
    inattention_loss,
    label_loss,
    train_classifier,
)
from alignkit.neural.training.run_directory import ClassifierRun, find_run
from alignkit.neural.training.trainer import Trainer
from alignkit.scores import Scores
from alignkit.text.labelled import LabelledLines
from alignkit.text.tokenization import learn_words

from ..conftest import at_one_thread_and_two, check_gradients
from .test_translation import Stopped, contents

NAMES = ("n", "y")


def planted(count, seed):
    """Texts of noise with one word that decides the label: good or fine, bad or poor."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        words = list(rng.choice([f"w{i}" for i in range(10)], rng.integers(1, 9)))
        y = int(rng.integers(2))
        words.insert(int(rng.integers(len(words) + 1)), str(rng.choice([["bad", "poor"], ["good", "fine"]][y])))
        texts.append(" ".join(words))
        labels.append(NAMES[y])
    return LabelledLines(texts, labels)


TEXT, VALID = planted(120, 1), planted(40, 2)
SMALL = ClassifierRunSettings(
    TextSettings("words"),
    ClassifierSettings(embedding=8, hidden=8, attention_hidden=8),
    ClassifierTraining(batch=8, learning_rate=1e-2, steps=60),
)


def start(path, settings=SMALL, **kwargs):
    return train_classifier(path, TEXT, VALID, NAMES, settings, device="cpu", **kwargs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a finished run, which no test changes."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "run"
    start(folder)
    return folder


def stop_at(step):
    def progress(done, total, message):
        assert total == 60
        assert message.startswith(f"epoch {(done - 1) // 15 + 1}, validation accuracy 0.")
        if done == step:
            raise Stopped

    return progress


def test_it_learns_the_word_that_decides(tmp_path):
    best = start(tmp_path / "run", SMALL.change(training={"steps": 150}))
    assert best.metrics["valid.accuracy"] > 0.95
    valid = ClassifierRun(tmp_path / "run").valid
    keys = {valid.corpus.vocabulary.id(word) for word in ("good", "fine", "bad", "poor")}
    for kind in ("alpha", "beta", "delta", "loo"):
        scores = best.score(valid.bitext, kind)
        right = [int(valid.corpus[m][scores[m][0].argmax()]) in keys for m in range(len(valid))]
        assert np.mean(right) > 0.7, kind  # one in five or so by chance; states know of their neighbours, too


@pytest.mark.parametrize("moment", [1, 10, 33])
def test_a_stopped_run_ends_in_the_same_bits(tmp_path, whole, moment):
    with pytest.raises(Stopped):
        start(tmp_path, progress=stop_at(moment))
    start(tmp_path)
    assert contents(tmp_path) == contents(whole)


def test_the_number_of_threads_changes_no_bit():
    """At the paper's sizes, where torch does share the work."""
    text = LabelledLines([" ".join(TEXT.texts[i : i + 4]) for i in range(64)], TEXT.labels[:64])
    tokenizer = learn_words(text.texts)
    encoded, few = (part.encode(tokenizer, NAMES) for part in (text, text.take(range(4))))
    settings = ClassifierRunSettings(training=ClassifierTraining(steps=1))

    def trained():
        loop = Trainer(ClassificationTask(encoded, few, settings, tokenizer, device="cpu"))
        loop.run()
        scores = [loop.snapshot().score(encoded.bitext, kind).values for kind in ("alpha", "beta")]
        return [*(p.detach().numpy().tobytes() for p in loop.network.parameters()), *map(bytes, scores)]

    one, two = at_one_thread_and_two(trained)
    assert one == two


def test_frozen_training_moves_attention_alone(tmp_path, whole):
    start(tmp_path, SMALL.change(training={"trained": "attention"}))
    run = ClassifierRun(tmp_path)
    ends = [run.load(step, "cpu").network.state_dict() for step in (0, 60)]
    moved = {name for name, value in ends[0].items() if not torch.equal(value, ends[1][name])}
    assert moved
    assert all(name.startswith("attention.") for name in moved)
    beta = [run.load(step, "cpu").score(run.valid.bitext, "beta").values for step in (0, 60)]
    assert np.array_equal(*beta)
    # All runs of a seed start from the same weights.
    other = ClassifierRun(whole).load(0, "cpu").network.state_dict()
    assert all(torch.equal(value, other[name]) for name, value in ends[0].items())


def test_what_a_run_holds_and_refuses(tmp_path, whole):
    best, run = start(whole), ClassifierRun(whole)
    assert run.settings == SMALL
    accuracy = dict(run.log.series("valid.accuracy"))
    assert list(run.checkpoints) == list(accuracy) == [0, 10, 50, 60]
    assert best.metrics["valid.accuracy"] == max(accuracy.values())
    assert run.load(10).metrics["valid.accuracy"] == accuracy[10]
    assert run.train.bitext.fingerprint() == best.fingerprint
    with pytest.raises(InputError, match="step 11"):
        run.load(11)
    with pytest.raises(AlignkitError, match=r"settings.training.batch: 8 before, now 9"):
        start(whole, SMALL.change(training={"batch": 9}))
    with pytest.raises(AlignkitError, match=r"text\.training: not the same as before"):
        train_classifier(whole, VALID, VALID, NAMES, SMALL)
    found = find_run(whole)
    assert found is not None
    with pytest.raises(InputError, match=r"holds .*classifier-run, not "):
        _ = found.config
    with pytest.raises(AlignkitError, match="label 'n' is none of"):
        train_classifier(tmp_path, TEXT, VALID, ("y", "z"), SMALL)
    one = TEXT.take([i for i, label in enumerate(TEXT.labels) if label == "y"])
    with pytest.raises(AlignkitError, match="the same label"):
        train_classifier(tmp_path, one, VALID, NAMES, SMALL)
    with pytest.raises(AlignkitError, match="no text with words"):
        train_classifier(tmp_path, TEXT, LabelledLines([" "], ["y"]), NAMES, SMALL)
    assert not ClassifierRun(tmp_path).begun  # so another text may be tried there


def test_vectors_are_where_embeddings_begin(tmp_path):
    vectors = tmp_path / "v.txt"
    vectors.write_text("good 1 2 3 4 5 6 7 8\n")
    start(tmp_path / "run", vectors=vectors)
    first = ClassifierRun(tmp_path / "run").load(0, "cpu")
    place = first.tokenizer.vocabulary.id("good")
    assert first.network.embedding.weight[place].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    content = np.array([place], "<i8").tobytes() + np.arange(1, 9, dtype="<f4").tobytes()
    described = {"words": 1, "sha256": hashlib.sha256(content).hexdigest()}
    assert ClassifierRun(tmp_path / "run").config["vectors"] == described
    start(tmp_path / "run", vectors=vectors)
    with pytest.raises(AlignkitError, match="vectors"):
        start(tmp_path / "run")


def test_training_starts_from_prepared_weights():
    tokenizer = learn_words(TEXT.texts)
    text = TEXT.encode(tokenizer, NAMES)
    first = Trainer(ClassificationTask(text, text, SMALL, tokenizer, device="cpu")).network
    settings = SMALL.change(training={"seed": 5})
    fresh, started = (
        Trainer(ClassificationTask(text, text, settings, tokenizer, prepare=prepare, device="cpu")).network
        for prepare in (None, copy_but_attention(first))
    )
    for name, value in started.state_dict().items():
        other = fresh if name.startswith("attention.") else first
        assert torch.equal(value, other.state_dict()[name]), name


MECHANISMS = [{"attention": "+".join(pair)} for pair in zip(cycle(SCORE_FUNCTIONS), NORMALIZERS, strict=False)]
ENCODERS = [{"encoder": "words", "layers": 2}, {"encoder": "embeddings"}]


@pytest.mark.parametrize(
    "changes", [*MECHANISMS, *ENCODERS], ids=lambda changes: " ".join(map(str, changes.values()))
)
def test_the_loss_reaches_every_parameter(changes):
    settings, tokenizer = SMALL.change(network=changes), learn_words(TEXT.texts)
    text, name = TEXT.encode(tokenizer, NAMES), settings.network.attention

    def precise(judged):
        assert judged.texts is words
        assert np.array_equal(judged.labels, text.labels[words])
        assert np.array_equal(judged.mask.sum(1), text.corpus.lengths[words])
        assert (judged.alpha * ~judged.mask).sum() == 0
        return label_loss(judged._replace(labels=judged.labels.double()))

    task = ClassificationTask(text, text, settings, tokenizer, criterion=precise, device="cpu")
    torch.manual_seed(1)
    network, words = task.new_network().double().train(), np.arange(16)
    smooth = not name.endswith(("straight-through", "reinforce", "gumbel"))
    # A constant that is added to all scores changes no weights that sum to 1.
    constants = {"additive": ["value"], "feed-forward": ["value"], "convolution": ["keys"]}
    constant = [] if name.endswith("sigmoid") else constants.get(name.split("+")[0], [])
    idle = [f"attention.score.{part}.bias" for part in constant]
    check_gradients(network, lambda: task.loss(network, words, 0), idle, smooth)


def cross_entropy(judged):
    """Its mean with the labels, nats."""
    signs = 2 * judged.labels.numpy() - 1
    return float(np.mean(np.logaddexp(0, -signs * judged.logits.numpy())))


@pytest.fixture
def judged():
    """Three of five texts, of unlike lengths; the last one gives no attention to its first words."""
    draw, texts, lengths = np.random.default_rng(3), np.array([4, 0, 2]), [4, 2, 3]
    alpha = np.zeros((3, 4))
    for row, length in zip(alpha, lengths, strict=True):
        row[:length] = draw.dirichlet(np.ones(length))
    alpha[2, :3] = 0, 0, 1
    logits, mask = torch.from_numpy(draw.normal(size=3)), torch.arange(4) < torch.tensor(lengths)[:, None]
    return Judged(texts, torch.tensor([1.0, 0.0, 1.0]).double(), logits, torch.from_numpy(alpha), mask)


def test_an_adversary_is_near_in_its_outputs_and_far_in_its_attention(judged):
    draw = np.random.default_rng(4)
    logits, rows = draw.normal(size=5), [draw.dirichlet(np.ones(length)) for length in (2, 6, 3, 1, 4)]
    rows[0][:] = 0, 1
    loss = adversarial_loss(logits, Scores.from_matrices([row[None] for row in rows]), 0.3)
    parts = []
    for m, z, own in zip(judged.texts, judged.logits, judged.alpha, strict=True):
        apart = rel_entr(rows[m], np.maximum(own[: len(rows[m])].numpy(), SMALLEST)).sum()
        parts.append(abs(expit(float(z)) - expit(logits[m])) - 0.3 * apart)
    assert loss(judged).item() == pytest.approx(np.mean(parts), rel=1e-5)


def test_attention_to_words_to_avoid_costs(judged):
    marks = [np.arange(length) % 2 == 0 for length in (2, 6, 3, 1, 4)]
    marks[2][:] = True  # all attention is on them
    rest = [row[: len(marks[m])][~marks[m]].sum() for m, row in zip(judged.texts, judged.alpha, strict=True)]
    wanted = cross_entropy(judged) - 0.2 * np.mean(np.log(np.maximum(rest, SMALLEST)))
    assert rest[2] == 0 < min(rest[:2])
    assert inattention_loss(marks, 0.2)(judged).item() == pytest.approx(wanted)
    assert label_loss(judged).item() == pytest.approx(cross_entropy(judged))


def test_divergence_is_over_the_places_of_the_mask():
    p, q = np.random.default_rng(5).dirichlet(np.ones(4), (2, 3))
    mask = np.array([[True] * 4, [False, True, True, False], [False] * 4])
    found = divergence(*map(torch.from_numpy, (p, q, mask)))
    np.testing.assert_allclose(found, np.where(mask, rel_entr(p, q), 0).sum(axis=1))


def test_the_best_step_has_the_highest_accuracy_and_then_the_lowest_loss():
    measured = [(0.7, 0.1), (0.8, 0.6), (0.8, 0.5), (0.75, 0.2)]
    metrics = [{"valid.accuracy": accuracy, "valid.loss": loss} for accuracy, loss in measured]
    assert min(metrics, key=lambda each: ClassificationTask.rank(None, each)) == metrics[2]
