"""A head whose weights were set by hand: found first, with the score that it must have."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from alignkit_cli.main import run as run_program

WORDS = 10  # of each language; target word k translates source word k
WRONG = 7, 3  # this target word attends to that source word instead
PAIRS, LENGTH = 30, 5
LAYER, HEAD = 1, 2
SIZE = 24  # of a head; the first 2 * WORDS dimensions of the model are the words


def make_planted_model(folder, late):
    """Two layers of four heads without positions. Queries of the planted head are source words, its keys too.

    Args:
        late: the head sees the target word itself, and so aligns one step after its prediction; else it sees the
            word before the target word, its twin.
    """
    import tokenizers
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast

    kinds = [f"{kind}{k}" for kind in ("s", "t", "u") for k in range(WORDS)]
    vocabulary = {word: k for k, word in enumerate([*kinds, "=", "<pad>"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<pad>")
    heads, width = 4, 4 * SIZE
    config = GPTNeoXConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=heads,
        max_position_embeddings=64,
        rotary_pct=0.0,
        use_parallel_residual=True,
    )
    torch.manual_seed(0)
    model = GPTNeoXForCausalLM(config)
    with torch.no_grad():
        model.gpt_neox.embed_in.weight.copy_(10 * torch.eye(len(vocabulary), width))
        for layer in model.gpt_neox.layers:
            for part in (layer.attention.dense, layer.mlp.dense_4h_to_h):
                part.weight.zero_()
                part.bias.zero_()
        weight = model.gpt_neox.layers[LAYER].attention.query_key_value.weight.view(heads, 3, SIZE, width)[HEAD]
        weight[:2].zero_()
        for k in range(WORDS):
            wanted = WRONG[1] if k == WRONG[0] else k
            weight[0, wanted, (WORDS if late else 2 * WORDS) + k] = 10
            weight[1, k, k] = 10
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def text():
    """Source and target as permutations of the same words, with the wrong one's source word always there."""
    rng = np.random.default_rng(4)
    source, target, gold = [], [], []
    for _ in range(PAIRS):
        words = [WRONG[1], *rng.choice([k for k in range(WORDS) if k != WRONG[1]], LENGTH - 1, replace=False)]
        places, order = rng.permutation(LENGTH), rng.permutation(LENGTH)
        source.append([int(words[k]) for k in places])
        target.append([int(words[k]) for k in order])
        gold.append([(source[-1].index(k), t) for t, k in enumerate(target[-1])])
    return source, target, gold


@pytest.mark.parametrize("late", [True, False])
def test_it_is_found_first_with_its_exact_score(text, tmp_path, capsys, late):
    pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")
    source, target, gold = text
    make_planted_model(tmp_path / "model", late)
    if not late:  # before each target word its twin, which is no word of the text that is aligned
        target = [[k for k in line for _ in (0, 1)] for line in target]
        gold = [[(s, 2 * t + 1) for s, t in line] for line in gold]
    kinds = "tt" if late else "ut"
    named = [[f"{kinds[t % 2]}{k}" for t, k in enumerate(line)] for line in target]
    lines = {
        "src": [" ".join(f"s{k}" for k in line) for line in source],
        "tgt": [" ".join(line) for line in named],
        "gold": [" ".join(f"{s}-{t}" for s, t in line) for line in gold],
    }
    for name, each in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in each))
    files = [str(tmp_path / name) for name in ("src", "tgt")]
    heads = str(tmp_path / "h.npz")
    assert run_program(["attention", str(tmp_path / "model"), *files, "-o", heads, "-q"]) == 0
    assert run_program(["heads", heads, *files, "--gold", str(tmp_path / "gold"), "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    missed = sum(WRONG[0] in line for line in text[1])
    assert 0 < missed < PAIRS
    first, second = found["heads"][:2]
    assert (first["layer"], first["head"], first["shift"]) == (LAYER, HEAD, int(late))
    assert first["hits"] == pytest.approx(1 - missed / (PAIRS * LENGTH))
    assert first["count"] == PAIRS * LENGTH - missed
    assert second["hits"] < 0.5
    assert first["p_positions"] < 0.01
