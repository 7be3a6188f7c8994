"""The classifier and its scores against the same written out for one text at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from alignkit.aligner import load_aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import ClassifierAligner
from alignkit.neural.networks.classifier import Classifier
from alignkit.neural.scoring.classifier import classifier_logits, classifier_scores, judge_logits
from alignkit.neural.settings import ClassifierRunSettings, ClassifierSettings
from alignkit.neural.training.classification import read_vectors
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.labelled import LabelledLines, LabelledText
from alignkit.text.tokenization import learn_words

from ..conftest import WORDS, parameter_count, random_lines
from ..naive import lstm, sigmoid

NAMES = ("bad", "good")
KINDS = ("alpha", "beta", "delta", "loo", "relevance")


def small_classifier(attention="feed-forward", dtype=torch.float32, encoder="lstm", layers=1):
    torch.manual_seed(5)
    settings = ClassifierSettings(
        vocabulary=24,
        embedding=5,
        hidden=6,
        attention_hidden=7,
        attention=attention,
        encoder=encoder,
        layers=layers,
    )
    network = Classifier(settings).to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return network.eval()


@pytest.fixture
def text():
    """20 texts of 0 to 8 words."""
    lines = random_lines(20, 1)
    return LabelledLines(lines, [NAMES[i % 3 == 0] for i in range(20)]).encode(learn_words(WORDS), NAMES)


class Naive:
    """The classifier in numpy, float64, one text and one step at a time."""

    def __init__(self, network):
        self.w = {name: value.detach().double().numpy() for name, value in network.state_dict().items()}
        self.uniform = network.attention is None
        self.kind, self.size = network.settings.encoder, network.settings.hidden
        self.depth = 0 if self.kind == "embeddings" else network.settings.layers

    def part(self, name):
        return {k.removeprefix(f"{name}."): v for k, v in self.w.items() if k.startswith(f"{name}.")}

    def __call__(self, ids, omega=None):
        """Logit, alpha (L,), the logit of each state alone (L,)."""
        w = self.w
        x = w["embedding.weight"][ids] * (np.ones(len(ids)) if omega is None else omega)[:, None]
        h = x
        for layer in range(self.depth):
            if self.kind == "lstm":
                start = [np.zeros(self.size)] * 2
                one = lstm(h, self.part(f"encoder.forwards.{layer}"), "l0", *start)[0]
                other = lstm(h[::-1], self.part(f"encoder.backwards.{layer}"), "l0", *start)[0]
                h = np.concatenate([one, other[::-1]], 1)
            else:
                h = np.tanh(h @ w[f"encoder.maps.{layer}.weight"].T + w[f"encoder.maps.{layer}.bias"])
        alpha = np.full(len(ids), 1 / len(ids)) if len(ids) else np.zeros(0)
        if not self.uniform:
            hidden = np.maximum(0, h @ w["attention.score.query.weight"].T + w["attention.score.query.bias"])
            scores = hidden @ w["attention.score.value.weight"][0] + w["attention.score.value.bias"]
            alpha = np.exp(scores) / np.exp(scores).sum()
        weight, bias = w["output.weight"][0], w["output.bias"][0]
        return float(alpha @ h @ weight + bias), alpha, h @ weight + bias


def log_right(logit, y):
    return -math.log1p(math.exp(-logit if y else logit))


def test_the_papers_classifier_has_the_papers_size():
    network = Classifier(ClassifierSettings(vocabulary=1000))
    assert parameter_count(network) - parameter_count(network.embedding) == 1_274_882


@pytest.mark.parametrize(
    ("attention", "encoder", "layers"),
    [
        ("feed-forward", "lstm", 1),
        ("uniform", "lstm", 1),
        ("feed-forward", "lstm", 2),
        ("feed-forward", "words", 1),
        ("feed-forward", "words", 2),
        ("feed-forward", "embeddings", 1),
    ],
)
def test_scores_equal_the_naive_ones(text, attention, encoder, layers):
    network = small_classifier(attention, encoder=encoder, layers=layers)
    naive = Naive(network)
    found = {kind: classifier_scores(network, text, kind) for kind in KINDS}
    logits = classifier_logits(network, text)
    for m, (ids, y) in enumerate(zip(text.corpus, text.labels, strict=True)):
        if not len(ids):
            assert np.isnan(logits[m])
            continue
        logit, alpha, alone = naive(ids)
        assert logits[m] == pytest.approx(logit, abs=1e-4)
        np.testing.assert_allclose(found["alpha"][m][0], alpha, atol=1e-5)
        np.testing.assert_allclose(found["beta"][m][0], (2 * y - 1) * alone, atol=1e-4)
        relevance = (2 * y - 1) * (alone - naive.w["output.bias"][0])
        np.testing.assert_allclose(found["relevance"][m][0], relevance, atol=1e-4)
        for i in range(len(ids)):
            step = np.zeros(len(ids))
            step[i] = 1e-5
            ends = [log_right(naive(ids, 1 + sign * step)[0], y) for sign in (1, -1)]
            assert found["delta"][m][0, i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=2e-4)
            rest = np.delete(ids, i)
            less = naive(rest)[0] if len(rest) else naive.w["output.bias"][0]
            omitted = log_right(logit, y) - log_right(less, y)
            assert found["loo"][m][0, i] == pytest.approx(omitted, abs=1e-4)
    assert np.abs(found["delta"].values).max() > 0.1
    assert np.ptp(found["beta"].values) > 0.3


def test_accuracy_and_loss():
    loss, accuracy = judge_logits(np.array([2.0, -1.0, np.nan, 0.0]), np.array([1, 1, 1, 0]))
    wanted = -(math.log(sigmoid(np.array(2.0))) + math.log(sigmoid(np.array(-1.0))) + math.log(0.5)) / 3
    assert loss == pytest.approx(wanted)
    assert accuracy == pytest.approx(2 / 3)
    assert judge_logits(np.array([1000.0]), np.array([0])) == (1000.0, 0.0)


def aligner(network):
    settings = ClassifierRunSettings(network=network.settings)
    return ClassifierAligner(network, learn_words(WORDS), settings, 7, {"valid.accuracy": 0.5}, "mark", NAMES)


def test_a_saved_classifier_is_the_same(text, tmp_path):
    first = aligner(small_classifier())
    first.save(tmp_path / "c.pt")
    again = load_aligner(tmp_path / "c.pt")
    assert isinstance(again, ClassifierAligner)
    assert (again.labels, again.step, again.metrics, again.settings) == (NAMES, 7, first.metrics, first.settings)
    for kind in first.kinds:
        assert np.array_equal(first.score(text.bitext, kind).values, again.score(text.bitext, kind).values)


def test_labels_and_words_are_matched_by_name(text):
    ours = aligner(small_classifier())
    wanted = ours.score(text.bitext, "beta")
    turned = LabelledText(text.corpus, (1 - text.labels).astype(np.int32), NAMES[::-1])
    assert np.array_equal(ours.score(turned.bitext, "beta").values, wanted.values)
    own_words = Corpus.from_sentences([text.corpus.words(m) for m in range(len(text))])
    assert np.array_equal(ours.score(Bitext(own_words, text.bitext.target), "beta").values, wanted.values)
    strange = LabelledText(text.corpus, text.labels, ("bad", "ugly"))
    with pytest.raises(AlignkitError, match="label 'ugly' is not one of the classifier's: bad, good"):
        ours.score(strange.bitext, "beta")
    with pytest.raises(AlignkitError, match="has no gamma scores"):
        ours.score(text.bitext, "gamma")


def test_vectors(tmp_path):
    tokenizer = learn_words(["w1 w2 w3 a b"])
    path = tmp_path / "v.txt"
    path.write_text("5 2\nw2 1.5 -2\nnone 1 2\na b 3 4\nw1 0.5 1e-3\nw2 9 9\n")
    ids, values = read_vectors(path, tokenizer.vocabulary, 2)
    assert [tokenizer.vocabulary[i] for i in ids] == ["w1", "w2"]
    np.testing.assert_allclose(values, [[0.5, 1e-3], [1.5, -2]])
    with pytest.raises(InputError, match=r"has 2 numbers a word where 3 are needed; .* network.embedding=2"):
        read_vectors(path, tokenizer.vocabulary, 3)
