"""What a head's values do, against loops over the model's own layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignkit.errors import AlignkitError
from alignkit.lab.heads.hugging_face import (
    TEMPLATE,
    cross_attention,
    load_pretrained,
    output_matrix,
    prompt,
    translation_attention,
)

from .test_hugging_face import FAMILIES as PAIR_FAMILIES
from .test_hugging_face import SIZES, SOURCE, SPECIAL_IDS, TARGET
from .test_language_models import FAMILIES, GEMMA, SHAPE, make_language_model

pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")
HEADS = 4
CHOSEN = (0, 2, 4)  # pairs without a blank side


def make_bigbird(place):
    """Whose last norm has the name of another one."""
    from transformers import BigBirdPegasusConfig, BigBirdPegasusForConditionalGeneration

    config = BigBirdPegasusConfig(vocab_size=400, attention_type="original_full", **SPECIAL_IDS, **SIZES)
    return BigBirdPegasusForConditionalGeneration(config), PAIR_FAMILIES["bart"](place)[1]


PAIRS = {**PAIR_FAMILIES, "bigbird": make_bigbird}


@pytest.fixture(scope="module", params=[*(name for name in FAMILIES if name != "GPTNeo"), *PAIRS])
def loaded(request, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    if request.param in FAMILIES:
        return load_pretrained(make_language_model(request.param, place))
    torch.manual_seed(1)
    model, tokenizer = PAIRS[request.param](place)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval(), tokenizer


def read(loaded, quantity):
    is_pair = loaded[0].config.is_encoder_decoder
    return (cross_attention if is_pair else translation_attention)(
        *loaded, SOURCE, TARGET, quantity=quantity, batch_size=2, device="cpu"
    )


def attending(model):
    """The attention modules between target and source, from the first layer on."""
    names = ("encoder_attn", "EncDecAttention", "self_attn", "attention", "attn", "mixer")
    if model.config.is_encoder_decoder:
        names = names[:2]
    return [part for name, part in model.named_modules() if name.rpartition(".")[2] in names]


def captured(loaded, m):
    """Of pair m: per layer the values (L, H * d) of each source token, and the ids that the rows predict."""
    model, tokenizer = loaded
    found, hooks = [], []

    def keep(module, given, output):
        found.append(output[0].detach())

    for part in attending(model):
        names = ("v_proj", "v", "query_key_value", "c_attn")
        inner = next(getattr(part, name) for name in names if hasattr(part, name))
        hooks.append(inner.register_forward_hook(keep))
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            ids = tokenizer(" ".join(SOURCE[m].split()), return_tensors="pt")["input_ids"]
            labels = tokenizer(text_target=" ".join(TARGET[m].split()), return_tensors="pt")["input_ids"]
            model(input_ids=ids, labels=labels)
            targets = labels[0]
        else:
            one = prompt(tokenizer, TEMPLATE, SOURCE[m], TARGET[m])
            model(torch.tensor([one.ids]))
            targets = torch.tensor(one.ids)[one.first :][: len(one.rows) - 1]
            found = [each[: len(one.columns)] for each in found]
    for hook in hooks:
        hook.remove()
    return found, targets


def vectors(model, layer, values, h, heads):
    """(L, D): what each source token adds by head h, in a loop over tokens."""
    part = attending(model)[layer]
    names = ("o_proj", "out_proj", "dense", "o", "c_proj")
    matrix = next(getattr(part, name) for name in names if hasattr(part, name)).weight
    if hasattr(part, "c_attn"):
        matrix, values = matrix.T, values[:, 2 * len(matrix) :]
    size = matrix.shape[1] // heads
    if hasattr(part, "query_key_value"):
        own = values.reshape(len(values), heads, 3, size)[:, h, 2]
    else:
        shared = heads // (values.shape[1] // size)  # heads that have one value
        own = values[:, h // shared * size :][:, :size]
    return torch.stack([matrix[:, h * size : (h + 1) * size] @ value for value in own])


def cases(loaded, heads):
    for m in CHOSEN:
        values, targets = captured(loaded, m)
        for k, (layer, h) in enumerate(heads.heads):
            count = max(head for _, head in heads.heads) + 1
            yield heads.pair(m)[k], m, k, vectors(loaded[0], layer, values[layer], h, count), targets


def test_norms_are_weights_times_the_length_of_what_is_added(loaded):
    plain, norms = read(loaded, "weights"), read(loaded, "norms")
    for found, m, k, added, _ in cases(loaded, norms):
        lengths = np.sqrt((added.detach().numpy() ** 2).sum(axis=1))
        assert np.allclose(found, plain.pair(m)[k] * lengths, rtol=1e-3, atol=1e-4)
    again = read(loaded, "weights")
    assert np.array_equal(again.values, plain.values)  # the model is as it was


def test_ov_is_the_probability_of_the_target_token(loaded):
    model = loaded[0]
    norm = {
        "gpt_neox": lambda x: model.gpt_neox.final_layer_norm(x),
        "gpt2": lambda x: model.transformer.ln_f(x),
        "nemotron_h": lambda x: model.model.norm_f(x),
        "phi": lambda x: model.model.final_layernorm(x),
        "t5": lambda x: model.decoder.final_layer_norm(x) * model.config.d_model**-0.5,  # as its weights are tied
        "marian": lambda x: x,
        "bart": lambda x: x,
        "bigbird_pegasus": lambda x: model.model.decoder.layernorm_embedding(x),
        "m2m_100": lambda x: model.model.decoder.layer_norm(x),
    }.get(model.config.model_type, lambda x: model.model.norm(x))
    output, bias = model.get_output_embeddings(), getattr(model, "final_logits_bias", 0)
    for found, _, _, added, targets in cases(loaded, read(loaded, "ov")):
        with torch.no_grad():
            chances = torch.cat([(output(norm(x)) + bias).reshape(1, -1).softmax(-1) for x in added])
        for t, token in enumerate(targets.tolist()):
            assert np.allclose(found[t], chances[:, token].numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("quantity", ["norms", "ov"])
def test_a_model_that_also_sees_gives_what_its_text_part_gives(tmp_path, quantity):
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    text, tokenizer = load_pretrained(make_language_model("Gemma3", tmp_path))
    sight = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28}
    model = Gemma3ForConditionalGeneration(Gemma3Config(text_config=text.config, vision_config=sight))
    model.model.language_model, model.lm_head = text.model, text.lm_head
    wanted = read((text, tokenizer), quantity).values
    assert np.array_equal(read((model.eval(), tokenizer), quantity).values, wanted)


def test_vectors_of_zeros_leave_all_tokens_equally_likely(tmp_path):
    """In Gemma 4, whose decoder gives more than others do."""
    from transformers import Gemma4ForCausalLM, Gemma4TextConfig

    small = {"global_head_dim": 8, "vocab_size_per_layer_input": 400, "hidden_size_per_layer_input": 8}
    model = Gemma4ForCausalLM(Gemma4TextConfig(**SHAPE, **GEMMA, **small, num_kv_shared_layers=0))
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
    found = read((model.eval(), PAIR_FAMILIES["bart"](tmp_path)[1]), "ov")
    assert np.allclose(found.values, 1 / SHAPE["vocab_size"])


def test_heads_that_are_changed_before_the_output_matrix_are_refused(loaded):
    """As by a gate (Qwen3-Next) or a norm (BitNet): what a column adds is then not its value times the matrix."""
    matrix = output_matrix(attending(loaded[0])[0])
    hook = matrix.register_forward_pre_hook(lambda _, given: (given[0] * 2, *given[1:]))
    for quantity in ("norms", "ov"):
        with pytest.raises(AlignkitError, match="changes what its heads give before its output matrix"):
            read(loaded, quantity)
    hook.remove()


def test_an_unknown_quantity_is_refused(loaded):
    with pytest.raises(AlignkitError, match="unknown quantity of heads 'x'; choose from weights, norms, ov"):
        read(loaded, "x")


def test_a_model_whose_attention_gives_weights_only_is_refused(tmp_path):
    loaded = load_pretrained(make_language_model("GPTNeo", tmp_path))
    with pytest.raises(AlignkitError, match="the attention of GPTNeoForCausalLM gives its weights, but no norms"):
        read(loaded, "norms")


def test_an_attention_of_another_make_is_refused(loaded, monkeypatch):
    from alignkit.lab.heads import hugging_face

    monkeypatch.setattr(hugging_face, "_OUTPUT_MATRICES", ())
    with pytest.raises(AlignkitError, match="has no output matrix that alignkit recognizes"):
        read(loaded, "norms")
