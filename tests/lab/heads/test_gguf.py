"""Models in GGUF files: small random ones, written here as llama.cpp's converter writes them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alignkit.errors import AlignkitError
from alignkit.lab.heads.hugging_face import load_pretrained, translation_attention
from alignkit.support import packages
from alignkit_cli.main import run as run_program

from .test_hugging_face import SOURCE, TARGET
from .test_language_models import make_language_model

gguf = pytest.importorskip("gguf", reason="gguf is an optional library, and is not installed")
pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_language_model("Llama", tmp_path_factory.mktemp("llama"))


def write(path, folder, *, architecture="llama", leave_out=(), quantized=None, scaling=None):
    """A Llama of a folder as GGUF: with rows of queries and keys in llama.cpp's order."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer, config = json.loads((folder / "tokenizer.json").read_text()), model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("small")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if scaling == "llama3":  # what the frequencies are divided by
        rotary = model.model.rotary_emb
        plain = 1 / config.rope_parameters["rope_theta"] ** (
            np.arange(len(rotary.inv_freq)) / len(rotary.inv_freq)
        )
        writer.add_tensor("rope_freqs.weight", (plain / rotary.inv_freq.numpy()).astype(np.float32))
    elif scaling is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling))
        writer.add_rope_scaling_factor(4.0)
    writer.add_tokenizer_model("gpt2")
    vocabulary = tokenizer["model"]["vocab"]
    writer.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(vocabulary["<s>"])
    writer.add_eos_token_id(vocabulary["</s>"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        values = tensor.float().numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(
            name.split(".")[-2]
        )
        if heads is not None:
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        kind = quantized if quantized is not None and values.ndim == 2 else gguf.GGMLQuantizationType.F32
        if name not in leave_out:
            packed = gguf.quantize(np.ascontiguousarray(values), kind)
            writer.add_tensor(names.get_name(name, (".weight",)), packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_is_the_model_of_its_folder(folder, tmp_path, monkeypatch):
    """The same weights, tokens and attention; with quantized weights nearly so."""
    wanted, tokenizer = load_pretrained(folder)
    monkeypatch.setattr("alignkit.lab.heads.hugging_face.GGUF_ROWS", 7)
    path = write(tmp_path / "model.gguf", folder)
    model, own = load_pretrained(path)
    found = model.state_dict()
    assert all(np.array_equal(found[name], value) for name, value in wanted.state_dict().items())
    ids = own("a man", add_special_tokens=False)["input_ids"]
    assert ids == tokenizer("a man", add_special_tokens=False)["input_ids"]
    heads = translation_attention(wanted, tokenizer, SOURCE, TARGET)
    assert np.array_equal(translation_attention(model, tokenizer, SOURCE, TARGET).values, heads.values)
    model.save_pretrained(tmp_path / "saved")
    near = load_pretrained(write(tmp_path / "quantized", folder, quantized=gguf.GGMLQuantizationType.Q8_0))[0]
    errors = {name: (near.state_dict()[name] - found[name]).abs().max() for name in found}
    assert 0 < max(errors.values()) < 0.02


@pytest.mark.parametrize("scaling", ["llama3", "linear"])
def test_positions_are_scaled(folder, tmp_path, scaling):
    """Of which transformers reads nothing from such a file."""
    wanted, tokenizer = load_pretrained(folder)
    plain = translation_attention(wanted, tokenizer, SOURCE, TARGET)
    more = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    wanted.config.rope_parameters |= {"rope_type": scaling, "factor": 4.0, **(more if scaling == "llama3" else {})}
    wanted.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    path = write(tmp_path / "model.gguf", tmp_path, scaling=scaling)
    heads = translation_attention(*load_pretrained(tmp_path), SOURCE, TARGET).values
    assert np.abs(heads - plain.values).max() > 0.01
    assert np.allclose(translation_attention(*load_pretrained(path), SOURCE, TARGET).values, heads, atol=1e-6)
    with pytest.raises(AlignkitError, match="scales positions in a way that alignkit does not read"):
        load_pretrained(write(tmp_path / "yarn.gguf", tmp_path, scaling="yarn"))


def test_the_command_reads_files(folder, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("model.gguf", folder)
    for name, side in (("s", SOURCE), ("t", TARGET)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side))
    assert run_program(["attention", "model.gguf", "s", "t", "-o", "a.npz", "--device", "cpu"]) == 0
    assert capfd.readouterr().err == "a.npz: 5 sentence pairs, layers 0 to 1, heads 0 to 3, as LAYER.HEAD\n"
    assert run_program(["attention", "other.gguf", "s", "t", "-o", "b.npz", "--device", "cpu"]) == 2
    assert capfd.readouterr().err.startswith("alignkit: error: other.gguf: is neither a file nor a folder with")


def test_damaged_and_unknown_files_are_one_line(folder, tmp_path):
    data = write(tmp_path / "model.gguf", folder).read_bytes()
    damaged = {size: data[:size] for size in (0, 3, 10, 30, 200, 5000, len(data) // 2, len(data) - 100)}
    damaged["noise"] = b"GGUF\3\0\0\0" + np.random.default_rng(1).bytes(300)
    for name, content in damaged.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(content)
        with pytest.raises(AlignkitError, match=r"\.gguf: cannot be loaded .*; give a folder") as caught:
            load_pretrained(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(AlignkitError, match="architecture clip is not supported"):
        load_pretrained(write(tmp_path / "clip.gguf", folder, architecture="clip"))
    missing = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(AlignkitError, match=rf"has no weights {missing}"):
        load_pretrained(write(tmp_path / "part.gguf", folder, leave_out={missing}))


def test_without_gguf(folder, tmp_path, monkeypatch):
    path = write(tmp_path / "model.gguf", folder)
    monkeypatch.setattr(packages, "is_here", lambda name: name != "gguf")
    with pytest.raises(AlignkitError, match=r"GGUF files need gguf, which is not installed: pip install .*trans"):
        load_pretrained(path)
