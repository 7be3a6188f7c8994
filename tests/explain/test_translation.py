"""The explanation tests of translation networks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import permuted_copy
from scipy.spatial.distance import jensenshannon

from alignkit.errors import AlignkitError
from alignkit.explain.registry import ExplanationSettings
from alignkit.explain.translation import explain_translation, uniform_translation
from alignkit.metrics.kendall import kendall
from alignkit.neural.networks.base import new_network
from alignkit.neural.settings import PRESETS
from alignkit.neural.training.translation import TranslationRun, train_translation
from alignkit.scores import Scores
from alignkit.text.pairs import LinePairs
from alignkit_cli.main import run


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two runs of other seeds on a permuted-copy text."""
    folder = tmp_path_factory.mktemp("translation")
    pairs, _ = permuted_copy(3, pairs=300, types=12, longest=5)
    lines = [" ".join(x) for x, _ in pairs], [" ".join(y) for _, y in pairs]
    train, valid = (LinePairs(*(side[part] for side in lines)) for part in (slice(60), slice(60, 75)))
    for seed in (0, 1):
        settings = PRESETS["small"].change(
            text={"tokens": "words"},
            network={"embedding": 8, "hidden": 8},
            training={"epochs": 1, "seed": seed, "bleu": "never"},
        )
        train_translation(folder / str(seed), train, valid, settings, device="cpu")
    return folder


def test_uniform_attention_word_by_word(pair):
    own = TranslationRun(pair / "0")
    network, text = own.load(device="cpu").network, own.valid
    found = uniform_translation(network, text)
    for m in (0, 4, 9):
        source = torch.from_numpy(text.source[m].astype(np.int64))[:, None]
        target = torch.from_numpy(text.target[m].astype(np.int64))[:, None]
        previous = torch.cat([torch.ones(1, 1, dtype=torch.long), target[:-1]])
        lengths = np.array([len(source)])
        p, q = (
            torch.softmax(network.output(network(source, lengths, previous, uniform))[0], 1).detach().numpy()
            for uniform in (False, True)
        )
        right = np.arange(len(target)), target[:, 0].numpy()
        assert found[0][m] == pytest.approx(np.abs(p - q).sum(1).mean() / 2, abs=1e-5)
        assert found[1][m] == pytest.approx(np.mean(p.argmax(1) != q.argmax(1)))
        assert found[2][m] == pytest.approx(np.mean(np.log(p[right] / q[right])), abs=1e-4)


def test_the_distance_of_a_seed_is_scipys(pair):
    runs = [TranslationRun(pair / str(seed)) for seed in (0, 1)]
    networks = [each.load(device="cpu") for each in runs]
    text = runs[0].valid
    table = explain_translation(networks[0], text, networks[1:]).set_index("test")
    one, other = (network.score(text, "alpha") for network in networks)
    delta = networks[0].score(text, "delta")
    wanted = [
        np.mean([jensenshannon(u, v, base=2) ** 2 for u, v in zip(a, b, strict=True)])
        for a, b in zip(one, other, strict=True)
    ]
    assert table.value["seeds, JSD"] == pytest.approx(np.mean(wanted), abs=1e-5)
    assert set(table.group) == {"order", "uniform", "seeds"}
    assert table.n["seeds, JSD"] == table.n["uniform, change"] == len(text)
    assert table.n["tau, gradient"] == kendall(one, Scores(np.abs(delta.values), delta.offsets, delta.shapes)).rows
    assert len(text) < table.n["tau, gradient"] <= len(text.target.tokens)
    erasure = ExplanationSettings(tests=("erasure",))
    with pytest.raises(AlignkitError, match="erasure is for classifiers; translation networks have order"):
        explain_translation(networks[0], text, settings=erasure)


def test_attention_of_sigmoids_has_no_distance(pair):
    """A divergence is of distributions: pairs in which a row of any network does not sum to 1 are left out."""
    run_ = TranslationRun(pair / "0")
    own, text = run_.load(device="cpu"), run_.valid
    sigmoid = new_network(replace(own.network.settings, attention="general+sigmoid")).eval()
    strange = replace(own, network=sigmoid)
    seeds = ExplanationSettings(tests=("seeds",))
    for one, others in ((strange, [own]), (own, [strange]), (own, [own, strange])):
        assert explain_translation(one, text, others, seeds).empty
    assert explain_translation(own, text, [own], seeds).value.tolist() == [0]


def test_the_command_takes_translation_runs(pair, capsys):
    assert run(["explain", str(pair / "0"), "--other", str(pair / "1"), "--json"]) == 0
    found = {row["test"] for row in json.loads(capsys.readouterr().out)["explanation"]}
    assert {"tau, gradient", "uniform, loss", "seeds, JSD"} <= found
    for options, message in (
        (["--html", "x.html"], "alignkit report"),
        (["--test", "seeds"], "--test seeds needs --other RUN"),
        (["--avoid", "x"], "--avoid goes only with the test inattention"),
    ):
        assert run(["explain", str(pair / "0"), *options]) == 2
        assert message in capsys.readouterr().err
