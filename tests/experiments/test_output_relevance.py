"""The small classifier, what is read off it, and output relevance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from alignkit.errors import AlignkitError, InputError
from alignkit.experiments import classifier, output_relevance
from alignkit.experiments.protocol import Verdict
from alignkit.experiments.statistics import kendall
from alignkit.experiments.texts import Labelled, read_labelled
from alignkit.text.bitext import Corpus


@pytest.mark.parametrize("seed", range(4))
def test_kendall_is_scipys(seed):
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, 4, 9), rng.normal(size=9)
    assert kendall(u, v) == pytest.approx(kendalltau(u, v).statistic)
    assert np.isnan(kendall(np.ones(3), v[:3]))


def test_counts_of_the_example():
    counts = output_relevance.count_tables().set_index("input")
    assert counts.loc["film"].tolist() == [1, 1]
    assert counts.loc["großartig"].tolist() == [1, 0]
    assert counts.loc["schlecht"].tolist() == [0, 1]


@pytest.fixture(scope="module")
def planted():
    """Sentences of noise with one word that tells the label."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 500)
    words = [[f"w{i}" for i in rng.integers(0, 15, rng.integers(3, 9))] for _ in labels]
    for sentence, label in zip(words, labels, strict=True):
        sentence[rng.integers(len(sentence))] = ("bad", "good")[label]
    return Labelled(Corpus.from_sentences(words), labels.astype(np.int64), ("no", "yes"))


@pytest.fixture(scope="module")
def networks(planted):
    plan = classifier.ClassifierPlan(embedding=16, hidden=12, epochs=6, rate=5e-3)
    return [classifier.train_classifier(planted, np.arange(400), plan, 1, uniform=u) for u in (False, True)]


def test_attention_and_padding(planted, networks):
    """A sentence has the same attention, relevance and log-odds alone as in a batch."""
    for network, uniform in zip(networks, (False, True), strict=True):
        together = classifier.view(network, planted, np.arange(400, 430))
        for place in (0, 7, 29):
            alone = classifier.view(network, planted, np.array([400 + place]))
            assert alone.logit[0] == pytest.approx(together.logit[place], abs=1e-5)
            assert alone.alpha[0] == pytest.approx(together.alpha[place], abs=1e-6)
            assert alone.relevance[0] == pytest.approx(together.relevance[place], abs=1e-5)
            assert alone.alpha[0].sum() == pytest.approx(1, abs=1e-5)
            sign = 2 * planted.labels[400 + place] - 1
            whole = sign * (alone.alpha[0] @ alone.relevance[0]) + network.output.bias.item()
            assert whole == pytest.approx(alone.logit[0], abs=1e-4)  # the log-odds are the attended relevance
            if uniform:
                assert alone.alpha[0] == pytest.approx(np.full(len(alone.alpha[0]), 1 / len(alone.alpha[0])))


def test_leave_one_out_by_hand(planted, networks):
    network, sentence = networks[0], 410
    logit = classifier.view(network, planted, np.array([sentence])).logit
    found = classifier.influence(network, planted, np.array([sentence]), logit)[0]
    words = [planted.text.vocabulary[i] for i in planted.text[sentence]]
    y = planted.labels[sentence]

    def log_p(tokens):
        text = Corpus.from_sentences([tokens], planted.text.vocabulary)
        out = classifier.view(network, Labelled(text, np.array([y]), planted.names), np.array([0])).logit[0]
        return float(torch.nn.functional.logsigmoid(torch.tensor((2 * y - 1) * out, dtype=torch.float64)))

    expected = [log_p(words) - log_p(words[:k] + words[k + 1 :]) for k in range(len(words))]
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_telling_word_is_relevant_attended_and_influential(planted, networks):
    held = np.arange(400, 500)
    seen, plain = (classifier.view(network, planted, held) for network in networks)
    effects = classifier.influence(networks[0], planted, held, seen.logit)
    telling = {planted.text.vocabulary.ids[word] for word in ("bad", "good")}
    place = [[int(i) in telling for i in planted.text[m]].index(True) for m in held]
    for values in (seen.alpha, plain.relevance, effects):
        assert np.mean([int(np.argmax(row)) == k for row, k in zip(values, place, strict=True)]) > 0.9


def test_same_seed_same_network(planted, networks):
    plan = classifier.ClassifierPlan(embedding=16, hidden=12, epochs=6, rate=5e-3)
    again = classifier.train_classifier(planted, np.arange(400), plan, 1)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), networks[0].parameters(), strict=True))


def test_run_on_a_file(planted, tmp_path):
    path = tmp_path / "labelled.tsv"
    lines = [
        f"{planted.names[label]}\t{' '.join(planted.text.words(m))}\n" for m, label in enumerate(planted.labels)
    ]
    path.write_text("".join(lines))
    settings = output_relevance.Settings(
        labelled=str(path), embedding=16, hidden=12, epochs=6, rate=5e-3, seeds=1, minimum=1
    )
    result = output_relevance.run(settings)
    assert [claim.verdict for claim in result.claims] == [Verdict.HOLDS] * 4
    path.write_text("yes\tone\nno two\n")
    with pytest.raises(InputError, match="line 2: no tab"):
        read_labelled(str(path))
    path.write_text("a\tx\nb\ty\nc\tz\n" * 10)
    with pytest.raises(AlignkitError, match="two labels"):
        output_relevance.run(settings)
