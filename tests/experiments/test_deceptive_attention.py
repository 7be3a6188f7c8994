"""The objective of deceptive attention, and its direction on a planted text."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from alignkit.experiments import classifier
from alignkit.experiments import deceptive_attention as experiment
from alignkit.experiments.protocol import Verdict
from alignkit.experiments.texts import Labelled
from alignkit.text.bitext import Corpus


def test_divergences():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4)), np.array([0.5, 0.5, 0, 0])
    assert experiment.jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q) ** 2)
    assert experiment.jensen_shannon(p, p) == 0
    assert experiment.jensen_shannon(q, q[::-1]) == pytest.approx(math.log(2))
    rows = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    other = torch.tensor([[0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    kl = experiment.divergence(rows, other, mask)
    assert kl.tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3), 0], abs=1e-6)


@pytest.fixture(scope="module")
def planted():
    """Noise with two words that tell the label, so that either one will do."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 500)
    words = [[f"w{i}" for i in rng.integers(0, 15, rng.integers(4, 9))] for _ in labels]
    for sentence, label in zip(words, labels, strict=True):
        first, second = rng.permutation(len(sentence))[:2]
        sentence[first], sentence[second] = ("bad", "good")[label], ("awful", "fine")[label]
    return Labelled(Corpus.from_sentences(words), labels.astype(np.int64), ("no", "yes"))


def test_the_loss_by_hand(planted):
    plan = classifier.ClassifierPlan(embedding=8, hidden=6, epochs=1)
    P = classifier.train_classifier(planted, np.arange(50), plan, 0)
    Q = classifier.train_classifier(planted, np.arange(50), plan, 1)
    some = np.array([3, 17, 20])
    teacher = experiment.outputs(P, planted, some)
    logit, alpha, _ = Q(classifier.pad(planted.text, planted.labels, some))
    batch = classifier.pad(planted.text, planted.labels, some)
    found = experiment.deceptive_loss(teacher, 0.3)(batch, some, logit, alpha).item()
    total = 0.0
    for m in some:
        p, q = (classifier.view(network, planted, np.array([m])) for network in (P, Q))
        distance = abs(1 / (1 + np.exp(-p.logit[0])) - 1 / (1 + np.exp(-q.logit[0])))
        total += distance - 0.3 * (p.alpha[0] * np.log(p.alpha[0] / q.alpha[0])).sum()
    assert found == pytest.approx(total / 3, abs=1e-5)


def test_same_predictions_other_attention(planted, tmp_path):
    path = tmp_path / "labelled.tsv"
    rows = [f"{planted.names[y]}\t{' '.join(planted.text.words(m))}\n" for m, y in enumerate(planted.labels)]
    path.write_text("".join(rows))
    settings = experiment.DeceptiveAttentionSettings(
        labelled=str(path),
        embedding=16,
        hidden=12,
        epochs=6,
        copy_epochs=10,
        rate=5e-3,
        seeds=1,
        weights=(0.0, 0.02),
    )
    result = experiment.run(settings)
    table = result.table.set_index("lambda")
    assert table.loc["P", "right"] > 0.95
    assert table.loc["P", ["TVD", "JSD"]].tolist() == [0, 0]
    assert table.loc["0.02", "same"] > 0.95
    assert table.loc["0.02", "JSD"] > table.loc["0", "JSD"] + 0.1
    assert table.loc["0.02", "tau P"] < table.loc["0", "tau P"]


def test_q_starts_from_p_but_for_its_attention(planted):
    plan = classifier.ClassifierPlan(embedding=8, hidden=6, epochs=1)
    P = classifier.train_classifier(planted, np.arange(50), plan, 0)
    still = classifier.ClassifierPlan(embedding=8, hidden=6, epochs=0)
    Q = classifier.train_classifier(planted, np.arange(50), still, 1, first=P)
    fresh = classifier.train_classifier(planted, np.arange(50), still, 1)
    for name, weight in Q.state_dict().items():
        own = name.startswith(("query", "score"))
        assert torch.equal(weight, (fresh if own else P).state_dict()[name])


def test_the_first_claim_can_fail():
    """Lambda is chosen by every other sentence; on the rest its Q may keep fewer predictions than the copy."""
    import pandas as pd

    def rows(name: str, same: np.ndarray) -> pd.DataFrame:
        other = {"JSD": 0.1, "tau influence": 0.0}
        return pd.DataFrame({"lambda": name, "sentence": np.arange(40), "same": same, **other})

    first = np.arange(40) % 2 == 0
    raw = pd.concat([rows("P", np.ones(40)), rows("0", np.ones(40)), rows("0.1", first.astype(float))])
    found = experiment._claims(raw)[0]
    assert "lambda 0.1 " in found.statistic
    assert (found.value, found.verdict) == (-1, Verdict.FAILS)


def test_the_claims_are_never_about_the_plain_copy():
    import pandas as pd

    def rows(name: str, same: float) -> pd.DataFrame:
        return pd.DataFrame({"lambda": name, "sentence": np.arange(40), "same": same})

    raw = [rows("P", 1.0), rows("0", 0.9), rows("0.1", 0.5), rows("0.2", 0.4)]
    assert experiment.chosen(pd.concat(raw)) == ("0.1", "0")
    assert experiment.chosen(pd.concat([*raw, rows("0.3", 0.89), rows("0.4", 0.3)])) == ("0.3", "0")
