"""What encoder heads do: planted heads, a naive count, and the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.heads.self_attention import (
    ROLES,
    RoleCounts,
    attention_rollout,
    head_report,
    input_attention,
    sentence_heads,
    token_facts,
)
from alignkit.neural.settings import LstmSettings, RunSettings, TextSettings, TrainingSettings, TransformerSettings
from alignkit.neural.training.translation import train_translation, translation_trainer
from alignkit.scores import Scores
from alignkit.text.pairs import LinePairs
from alignkit.text.tokenization import encode_bitext, encode_lines, train_subwords
from alignkit_cli.main import run

RNG = np.random.default_rng(8)
LINES = [" ".join(RNG.choice(["a", "bca", "cab", "abc", "bb"], RNG.integers(1, 7))) for _ in range(30)]
SMALL = RunSettings(
    TextSettings(pieces=12),
    TransformerSettings(embedding=8, hidden=8, heads=2, layers=2),
    TrainingSettings(batch=8, epochs=1, bleu="never"),
)
LSTM = replace(SMALL, network=LstmSettings(embedding=8, hidden=8, layers=1))


def facts_of(length, rng):
    words = np.array([-1, *np.sort(rng.integers(0, length - 2, length - 2)), -1])
    words[1:-1] = np.unique(words[1:-1], return_inverse=True)[1]
    tokens = ["<s>", *rng.choice(["\u2581ab", "c", ",", "\u2581.", "\u2581"], length - 2), "</s>"]
    return token_facts(tokens, words, rng.integers(1, 9, length)), tokens


def naive_roles(i, facts, tokens):
    """role -> the tokens that token i would attend to."""
    inside = [j for j, word in enumerate(facts.words) if word >= 0]
    least = min(facts.counts[j] for j in inside)
    return {
        "previous token": {i - 1} if i else set(),
        "next token": {i + 1} if i + 1 < len(tokens) else set(),
        "itself": {i},
        "same word": {j for j in inside if j != i and facts.words[j] == facts.words[i]},
        "rarest word": {j for j in inside if facts.counts[j] == least},
        "punctuation": {j for j in inside if tokens[j].strip("\u2581") in (",", ".")},
        "begin or end": {0, len(tokens) - 1},
    }


def test_roles_are_counted_as_in_a_loop():
    rng = np.random.default_rng(0)
    counts, sums = RoleCounts(), np.zeros((2, 3, len(ROLES), 4))
    for length in rng.integers(3, 9, 12):
        facts, tokens = facts_of(length, rng)
        weights = rng.dirichlet(np.ones(length), (2, 3, length))
        counts.add(weights, facts)
        for layer, head, i in np.ndindex(2, 3, int(length)):
            row = weights[layer, head, i]
            for n, (name, own) in enumerate(naive_roles(i, facts, tokens).items()):
                assert name == list(ROLES)[n]
                if own:
                    sums[layer, head, n] += [row.argmax() in own, len(own) / length, sum(row[j] for j in own), 1]
    table = counts.table()
    for row in table.to_dict(orient="records"):
        hits, chance, weight, rows = sums[row["layer"] - 1, row["head"] - 1, list(ROLES).index(row["role"])]
        found = [row["share"], row["chance"], row["weight"]]
        np.testing.assert_allclose(found, [hits / rows, chance / rows, weight / rows])
        assert row["low"] <= row["share"] <= row["high"]


def test_a_planted_head_is_certain_and_a_random_one_is_at_chance():
    rng = np.random.default_rng(1)
    counts = RoleCounts()
    for length in rng.integers(6, 12, 60):
        facts, _ = facts_of(length, rng)
        previous = np.eye(length, k=-1)
        previous[0, 0] = 1
        counts.add(np.stack([previous, rng.dirichlet(np.ones(length), length)])[None], facts)
    table = counts.table().set_index(["head", "role"])
    planted, noise = table.loc[(1, "previous token")], table.loc[(2, "previous token")]
    assert planted.share == 1
    assert planted.certain
    assert noise.low < noise.chance < noise.high


@pytest.fixture(scope="module")
def aligner():
    tokenizer = train_subwords(LINES * 5, 12)
    bitext = encode_bitext(tokenizer, LINES, LINES)
    return translation_trainer(bitext, bitext, SMALL, tokenizer, device="cpu").run()


def test_weights_and_values_give_what_the_layer_adds(aligner):
    """The heads' weights times their values, and the bias, are the output of the layer's self-attention."""
    corpus = encode_lines(aligner.tokenizer, LINES, bos=True, eos=True)
    found = {each.sentence: each for each in sentence_heads(aligner, corpus)}
    assert sorted(found) == list(range(len(LINES)))
    added = []
    attention = aligner.network.encoder[0].attention
    hook = attention.register_forward_hook(lambda module, given, out: added.append(out[0]))
    with torch.inference_mode():
        for m in (0, 3):
            ids = torch.from_numpy(corpus[m].astype(np.int64))[:, None]
            aligner.network.encode(ids, np.array([len(ids)]))
            expected = added.pop()[0].numpy() - attention.out.bias.numpy()
            sums = np.einsum("kij,kje->ie", found[m].weights[0], found[m].values[0])
            np.testing.assert_allclose(sums, expected, atol=1e-5)
    hook.remove()


def test_rollout_between_words_adds_up_columns(aligner):
    corpus = encode_lines(aligner.tokenizer, LINES, bos=True, eos=True)
    found = input_attention(aligner, LINES)
    for each in sentence_heads(aligner, corpus):
        tokens = np.array(aligner.tokenizer.words(LINES[each.sentence]))
        inner = attention_rollout(each.weights)[1:-1, 1:-1]
        for i, j in np.ndindex(*found[each.sentence].shape):
            part = inner[tokens == i][:, tokens == j]
            assert found[each.sentence][i, j] == pytest.approx(part.sum(1).mean(), abs=1e-6)
    with pytest.raises(AlignkitError, match="must be one of rollout, flow"):
        input_attention(aligner, LINES, "path")


def test_identifiability_by_length(aligner):
    """Heads of 4 numbers: sentences of more than 4 tokens have weights without effect."""
    found = head_report(aligner, LINES).identifiability
    lengths = encode_lines(aligner.tokenizer, LINES, bos=True, eos=True).lengths
    np.testing.assert_allclose(found["hidden"], np.maximum(lengths - 4, 0).mean())
    np.testing.assert_allclose(found["affected"], (lengths > 4).mean())
    assert found["share"].between(0.2, 1).all()


def test_the_command(tmp_path, capsys):
    text = LinePairs(LINES, LINES)
    train_translation(tmp_path / "run", text, text, SMALL, device="cpu")
    train_translation(tmp_path / "lstm", text, text, LSTM, device="cpu")
    (tmp_path / "x").write_text("\n".join([*LINES[:5], ""]) + "\n")
    call = ["self-attention", str(tmp_path / "run"), str(tmp_path / "x"), "--device", "cpu", "-q"]
    outputs = ["--rollout", str(tmp_path / "r.npz"), "--flow", str(tmp_path / "f.npz")]
    assert run([*call, *outputs]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[1:5]] == ["1.1", "1.2", "2.1", "2.2"]
    for name in ("r", "f"):
        scores = Scores.load(tmp_path / f"{name}.npz")
        sizes = [len(line.split()) for line in (*LINES[:5], "")]
        assert [matrix.shape for matrix in scores] == [(n, n) for n in sizes]
    assert run([*call, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["roles"]) == 4 * len(ROLES)
    assert len(found["identifiability"]) == 4
    assert run(["self-attention", str(tmp_path / "lstm"), *call[2:]]) == 2
    assert "lstm has no self-attention" in capsys.readouterr().err
