"""Attention of small untrained decoder-only models of transformers, made here."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.heads.hugging_face import (
    TEMPLATE,
    alignment_mask,
    load_pretrained,
    prompt,
    translation_attention,
)

from .test_hugging_face import SOURCE, TARGET, make_bart

pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")
LAYERS, HEADS = 2, 4
SHAPE = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": LAYERS}
SHAPE |= {"num_attention_heads": HEADS, "max_position_embeddings": 128}
GEMMA = {"num_key_value_heads": 1, "head_dim": 8}
#: family -> its settings; of the grouped ones two heads share keys and values
FAMILIES = {
    "Llama": {"num_key_value_heads": 2},
    "Qwen2": {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "Gemma": GEMMA,
    "Gemma3": {**GEMMA, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "GPTNeoX": {"rotary_pct": 0.5},
    "Llama4": {"num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2, "intermediate_size_mlp": 32},
    "NemotronH": {"num_key_value_heads": 2, "head_dim": 8, "layers_block_type": ["attention"] * LAYERS},
    "Phi": {},  # its last norm has a name of its own
    "GPT2": {"n_inner": 32},  # its matrices are transposed
    "GPTNeo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},  # an attention within another
}


@pytest.fixture(scope="module", params=FAMILIES)
def loaded(request, tmp_path_factory):
    return load_pretrained(make_language_model(request.param, tmp_path_factory.mktemp(request.param)))


def make_language_model(family, place):
    """A folder with a small random model and its tokenizer."""
    import transformers
    from transformers.utils import logging

    logging.disable_progress_bar()
    _, tokenizer = make_bart(place)
    kind = f"{family}Text" if family in ("Gemma3", "Llama4") else family
    config = getattr(transformers, f"{kind}Config")(**SHAPE, **FAMILIES[family])
    torch.manual_seed(3)
    model = getattr(transformers, f"{family}{'LMHeadModel' if family == 'GPT2' else 'ForCausalLM'}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def test_attention_is_the_models(loaded):
    """Row t is the model's own map at the place before token t; columns are all up to the end of the source."""
    model, tokenizer = loaded
    template = "Deutsch: {source} English: {target} ."
    heads = translation_attention(model, tokenizer, SOURCE, TARGET, template=template, batch_size=3)
    assert len(heads.heads) == LAYERS * HEADS
    assert [m for m in range(len(heads)) if heads.pair(m).size == 0] == [1, 3]
    for m in (0, 2, 4):
        words = SOURCE[m].split(), TARGET[m].split()
        text = template.format(source=" ".join(words[0]), target=" ".join(words[1]))
        encoded = tokenizer(text, return_offsets_mapping=True)
        spans = [(text.index(" ".join(side)), " ".join(side)) for side in words]
        ends = [b - 1 if a < b else -1 for a, b in encoded["offset_mapping"]]
        places = [[k for k, end in enumerate(ends) if low <= end < low + len(side)] for low, side in spans]
        with torch.inference_mode():
            maps = model(torch.tensor([encoded["input_ids"]]), output_attentions=True).attentions
        wanted = torch.cat(maps)[:, :, [places[1][0] - 1, *places[1]], : places[0][-1] + 1].flatten(0, 1)
        assert np.allclose(heads.pair(m), wanted.numpy(), atol=1e-5)


def test_tokens_are_of_the_words_that_they_cover(loaded):
    tokenizer = loaded[1]
    found = prompt(tokenizer, TEMPLATE, "  ein  Mann", "a man")
    assert found.columns[0] == -1  # <s>
    assert sorted(set(found.columns.tolist())) == [-1, 0, 1]
    assert found.rows[-1] == -1
    assert sorted(set(found.rows[:-1].tolist())) == [0, 1]
    pieces = {side: "" for side in range(2)}
    for token, word in zip(found.ids[found.first :], found.rows, strict=False):
        if word >= 0:
            pieces[int(word)] += tokenizer.decode([token])
    assert [pieces[side].strip(" \u0120") for side in range(2)] == ["a", "man"]


def test_the_mask_of_a_head_that_aligns(loaded):
    """Every token of a target word to every token of its source words, at its own place or the one before."""
    one = prompt(loaded[1], TEMPLATE, "ein Mann rennt", "a man runs")
    links = np.array([[0, 1], [2, 1], [1, 0]])
    for shifted in (False, True):
        mask = alignment_mask(one, links, shifted=shifted)
        wanted = np.zeros_like(mask)
        for k, target in enumerate(one.rows):
            for column, source in enumerate(one.columns):
                if [source, target] in links.tolist():
                    wanted[one.first - 1 + shifted + k, column] = 1
        assert np.array_equal(mask, wanted)
        assert mask.sum() > 2
        assert not np.triu(mask, 1).any()  # a place sees what is before it


def test_no_logits_are_computed(loaded, monkeypatch):
    """Those of a batch over a large vocabulary would take more memory than the model's weights."""
    model, tokenizer = loaded
    monkeypatch.setattr(model.get_output_embeddings(), "forward", lambda _: pytest.fail("the output layer ran"))
    assert len(translation_attention(model, tokenizer, SOURCE, TARGET)) == len(SOURCE)


def test_layers_are_chosen_and_kept_on_disk(loaded, tmp_path):
    every = translation_attention(*loaded, SOURCE, TARGET)
    one = translation_attention(*loaded, SOURCE, TARGET, layers=[1], folder=tmp_path)
    assert isinstance(one.values, np.memmap)
    assert one.heads == tuple((1, head) for head in range(HEADS))
    assert np.allclose(one.pair(0), every.pair(0)[HEADS:], atol=1e-6)


@pytest.mark.parametrize("template", ["{source}", "{target} {source}", "{source} {target} {target}", ""])
def test_templates_without_a_side_are_errors(loaded, template):
    with pytest.raises(AlignkitError, match=r"the template must have \{source\} and then \{target\}"):
        prompt(loaded[1], template, "ein Mann", "a man")


def test_a_model_that_hides_its_attention_is_an_error(loaded, monkeypatch):
    model, tokenizer = loaded
    monkeypatch.setattr("alignkit.lab.heads.hugging_face.attention_layers", lambda _: [])
    with pytest.raises(AlignkitError, match="does not return its attention"):
        translation_attention(model, tokenizer, SOURCE[:1], TARGET[:1])


def test_layers_with_other_numbers_of_heads_are_read_apart(tmp_path):
    from transformers import LagunaConfig, LagunaForCausalLM

    numbers = {"num_attention_heads_per_layer": [HEADS, 2 * HEADS], "num_key_value_heads": 2, "head_dim": 8}
    model = LagunaForCausalLM(LagunaConfig(**SHAPE, **numbers, mlp_layer_types=["dense"] * LAYERS))
    loaded, options = (model, make_bart(tmp_path)[1]), {"device": "cpu"}
    with pytest.raises(AlignkitError, match="layers have 4 and 8 heads; choose layers that have as many"):
        translation_attention(*loaded, SOURCE, TARGET, **options)
    found = translation_attention(*loaded, SOURCE, TARGET, layers=[1], **options)
    assert list(found.heads) == [(1, head) for head in range(2 * HEADS)]
