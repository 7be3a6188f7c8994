"""Attention of small untrained models of transformers, made here: Marian, T5 and BART."""

from __future__ import annotations

import io
import json
import logging
import socket
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import alignkit_data
from alignkit.errors import AlignkitError
from alignkit.lab.heads import hugging_face
from alignkit.lab.heads.hugging_face import (
    batches,
    check_lengths,
    cross_attention,
    encode_side,
    load_pretrained,
    pairs_of_cross_attentions,
)
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.lab.interop.other_systems import read_heads
from alignkit_cli.main import run as run_program

LAYERS, HEADS = 2, 2
SOURCE = ["ein Mann mit Hut", "", "zwei  Hunde rennen", "x", "der Mann sieht den kleinen Hund im Park"]
TARGET = ["a man with a hat", "nobody", "two dogs run", " ", "the man sees the small dog in the park"]
SIZES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": LAYERS, "max_position_embeddings": 64}
SIZES |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
SIZES |= {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
SPECIAL_IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}


def text():
    return [line for side in ("de", "en") for line in alignkit_data.path(f"train.{side}").open(encoding="utf-8")]


def make_marian(folder):
    """A model whose tokenizer is SentencePiece's own, which does not tell the words of its pieces."""
    import sentencepiece
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    stream = io.BytesIO()
    options = {"vocab_size": 300, "minloglevel": 2, "num_threads": 1}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text()), model_writer=stream, **options)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    (folder / "s.spm").write_bytes(stream.getvalue())
    vocabulary = {pieces.id_to_piece(k): k for k in range(300)} | {"<pad>": 300, ">>eng<<": 301}
    (folder / "v.json").write_text(json.dumps(vocabulary))
    files = [str(folder / name) for name in ("s.spm", "s.spm", "v.json")]
    special = {"pad_token_id": 300, "eos_token_id": vocabulary["</s>"], "decoder_start_token_id": 300}
    config = MarianConfig(vocab_size=302, **special, forced_eos_token_id=vocabulary["</s>"], **SIZES)
    return MarianMTModel(config), MarianTokenizer(*files)


def fast_tokenizer(model, trainer, pre_tokenizer, **special):
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizer
    made.train_from_iterator(text(), trainer)
    start = f"{special['bos_token']} " if "bos_token" in special else ""
    known = [(token, made.token_to_id(token)) for token in ("<s>", "</s>") if made.token_to_id(token) is not None]
    made.post_processor = tokenizers.processors.TemplateProcessing(f"{start}$A </s>", special_tokens=known)
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def make_t5(folder):
    from tokenizers import models, pre_tokenizers, trainers
    from transformers import T5Config, T5ForConditionalGeneration

    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=[*special.values()], unk_token="<unk>", show_progress=False
    )
    tokenizer = fast_tokenizer(models.Unigram(), trainer, pre_tokenizers.Metaspace(), **special)
    config = T5Config(
        vocab_size=400, d_model=16, d_kv=8, d_ff=16, num_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0
    )
    return T5ForConditionalGeneration(config), tokenizer


def make_bart(folder):
    """Byte-level BPE, and <s> before each sentence."""
    from tokenizers import models, pre_tokenizers, trainers
    from transformers import BartConfig, BartForConditionalGeneration

    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"}
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=[*special.values()], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer = fast_tokenizer(models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False), **special)
    config = BartConfig(vocab_size=400, forced_eos_token_id=2, **SPECIAL_IDS, **SIZES)
    return BartForConditionalGeneration(config), tokenizer


def make_m2m100(folder):
    """NLLB's architecture too."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    config = M2M100Config(vocab_size=400, scale_embedding=False, **SPECIAL_IDS, **SIZES)
    return M2M100ForConditionalGeneration(config), make_bart(folder)[1]


FAMILIES = {"marian": make_marian, "t5": make_t5, "bart": make_bart, "m2m100": make_m2m100}


@pytest.fixture(scope="module", params=FAMILIES.values(), ids=FAMILIES)
def folder(request, tmp_path_factory):
    pytest.importorskip("transformers", reason="transformers is an optional library, and is not installed")
    from transformers.utils import logging

    logging.disable_progress_bar()
    place = tmp_path_factory.mktemp("model")
    torch.manual_seed(3)
    model, tokenizer = request.param(place)
    with torch.no_grad():
        for parameter in model.parameters():
            # attention that is far from even, but not so sharp that rounding shows; T5 does not scale its products
            parameter.copy_(torch.randn_like(parameter) * (0.3 if request.param is make_t5 else 1))
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def loaded(folder):
    return load_pretrained(folder)


@pytest.fixture(scope="module")
def heads(loaded):
    return cross_attention(*loaded, SOURCE, TARGET, batch_size=2, device="cpu")


def forward(loaded, source, target):
    """The attention (layers, heads, T, L) of one pair, by the library alone, and the ids of its tokens."""
    model, tokenizer = loaded
    ids = tokenizer(" ".join(source.split()), return_tensors="pt")["input_ids"]
    labels = tokenizer(text_target=" ".join(target.split()), return_tensors="pt")["input_ids"]
    with torch.no_grad():
        found = model(input_ids=ids, labels=labels, output_attentions=True)
    return torch.stack(found.cross_attentions, dim=1)[0].numpy(), ids[0].tolist(), labels[0].tolist()


def test_the_target_is_read(tmp_path):
    """By FSMT too, which takes its labels for no input, but the source."""
    from transformers import FSMTConfig, FSMTForConditionalGeneration

    config = FSMTConfig(src_vocab_size=400, tgt_vocab_size=400, **SPECIAL_IDS, **SIZES)
    model, tokenizer = FSMTForConditionalGeneration(config).eval(), make_bart(tmp_path)[1]
    heads = cross_attention(model, tokenizer, SOURCE, TARGET, device="cpu")
    for m in (0, 2, 4):
        ids, target = ([tokenizer(" ".join(side[m].split()))["input_ids"]] for side in (SOURCE, TARGET))
        given = {"input_ids": torch.tensor(ids), "decoder_input_ids": torch.tensor([[2, *target[0][:-1]]])}
        with torch.no_grad():
            output = model(**given, output_attentions=True, use_cache=False)
        assert np.allclose(heads.pair(m), torch.cat(output.cross_attentions).flatten(0, 1), atol=1e-6)


def test_shorter_pairs_are_read_first():
    lengths, steps = {0: 5, 3: 2, 4: 9, 7: 2, 8: 4}, []
    assert [*batches(lengths, 2, lambda *step: steps.append(step))] == [[3, 7], [8, 0], [4]]
    assert steps == [(2, 5, "attention"), (4, 5, "attention"), (5, 5, "attention")]
    with pytest.raises(AlignkitError, match="at least 1, not 0"):
        next(batches(lengths, 0, None))


def test_lines_may_be_as_long_as_the_model_reads():
    """Those that also see have the limit among the settings of text."""
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=3))
    check_lengths(SimpleNamespace(config=config), "source", {0: [1, 2, 3]})
    without = SimpleNamespace(get_text_config=lambda: None, max_position_embeddings=3)
    check_lengths(SimpleNamespace(config=without), "source", {0: [1] * 1000})
    endless = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=-1))  # as XLNet's
    check_lengths(SimpleNamespace(config=endless), "source", {0: [1] * 1000})
    with pytest.raises(AlignkitError, match="line 6: its source has 4 tokens, the model reads at most 3"):
        check_lengths(SimpleNamespace(config=config), "source", {0: [1], 5: [1, 2, 3, 4]})


def test_attention_that_does_not_fit_is_refused():
    layers, tokens = [torch.rand(1, HEADS, 4, 5)] * LAYERS, [range(5)]
    for attention in (None, (None, None)):
        with pytest.raises(AlignkitError, match="output_attentions"):
            pairs_of_cross_attentions(attention, tokens, tokens)
    with pytest.raises(AlignkitError, match="4 by 5 for 5 target and 5 source"):
        pairs_of_cross_attentions(layers, tokens, tokens)
    for factor in (np.nan, -1):  # ProphetNet gives what is below the softmax
        with pytest.raises(AlignkitError, match="NaN"):
            pairs_of_cross_attentions([layer * factor for layer in layers], tokens, [range(4)])
    with pytest.raises(AlignkitError, match="no layer 2"):
        pairs_of_cross_attentions(layers, tokens, [range(4)], layers=[2])


@pytest.mark.parametrize("m", [0, 2, 4])
def test_attention_is_the_models(loaded, heads, m):
    """In batches with padding, as of each pair by itself."""
    wanted, ids, labels = forward(loaded, SOURCE[m], TARGET[m])
    assert heads.shapes[m].tolist() == [len(labels), len(ids)]
    found = heads.pair(m).reshape(LAYERS, HEADS, len(labels), len(ids))
    assert np.allclose(found, wanted, atol=1e-4)
    assert np.ptp(wanted) > 0.05


def test_words_of_the_tokens(loaded, heads):
    """The pieces of each word, put together, are the word; special tokens are of none."""
    tokenizer = loaded[1]
    for m in (0, 2, 4):
        _, *ids = forward(loaded, SOURCE[m], TARGET[m])
        for tokens, grouping, line in zip(ids, heads.words, (SOURCE[m], TARGET[m]), strict=True):
            groups, count = grouping[m]
            assert count == len(line.split())
            special = [token in tokenizer.all_special_ids for token in tokens]
            assert (groups == -1).tolist() == special
            for k, word in enumerate(line.split()):
                pieces = [token for token, group in zip(tokens, groups, strict=True) if group == k]
                assert "".join(tokenizer.convert_ids_to_tokens(pieces)).strip("▁Ġ") == word


def test_blank_pairs_are_empty(heads):
    assert heads.shapes[[1, 3]].tolist() == [[0, 0]] * 2
    assert heads.on_words.shapes.tolist() == [[5, 4], [0, 0], [3, 3], [0, 0], [9, 8]]


def test_one_layer_is_kept_on_disk(loaded, heads, tmp_path):
    found = cross_attention(*loaded, SOURCE, TARGET, layers=[1], device="cpu", folder=tmp_path)
    assert isinstance(found.values, np.memmap)
    assert found.heads == ((1, 0), (1, 1))
    assert np.allclose(found.values, heads.values[2:], atol=1e-4)


def test_a_prefix_is_no_word(loaded):
    plain = encode_side(loaded[1], ["ein Mann"])
    prefixed = encode_side(loaded[1], ["ein Mann"], prefix=">>eng<<")
    assert len(prefixed.ids[0]) > len(plain.ids[0])
    assert prefixed.words[0][1] == 2
    inner = [[word for word in side.words[0][0].tolist() if word >= 0] for side in (plain, prefixed)]
    assert set(inner[0]) == set(inner[1]) == {0, 1}


def test_what_is_refused(loaded):
    with pytest.raises(AlignkitError, match="1 source and 2 target lines"):
        cross_attention(*loaded, ["a"], ["a", "b"])
    if hasattr(loaded[0].config, "max_position_embeddings"):
        with pytest.raises(AlignkitError, match=r"line 2: its target has .* at most 64"):
            cross_attention(*loaded, ["a", "b"], ["a", "xyz " * 70], device="cpu")


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(loaded, monkeypatch):
    plain = hugging_face.encode_side

    def shifted(*arguments, **options):
        side = plain(*arguments, **options)
        return hugging_face.EncodedSide([[100_000] * len(ids) for ids in side.ids], side.words)

    monkeypatch.setattr(hugging_face, "encode_side", shifted)
    with pytest.raises(AlignkitError, match="cannot read this text: index out of range"):
        hugging_face.cross_attention(*loaded, ["a"], ["b"], device="cpu")


def test_the_command(folder, heads, tmp_path, capfd):
    for name, side in (("s", SOURCE), ("t", TARGET)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side))
    output = tmp_path / "a.npz"
    arguments = ["attention", str(folder), str(tmp_path / "s"), str(tmp_path / "t"), "-o", str(output)]
    assert run_program([*arguments, "--device", "cpu", "--layer", "1", "-q"]) == 0
    assert read_heads(output).heads == ((1, 0), (1, 1))
    assert run_program([*arguments, "--device", "cpu"]) == 0
    assert capfd.readouterr().err == f"{output}: 5 sentence pairs, {heads.described}\n"
    found = read_heads(output)
    assert isinstance(found, AttentionHeads)
    assert np.allclose(found.values, heads.values, atol=1e-4)
    assert np.array_equal(found.on_words.shapes, heads.on_words.shapes)
    assert run_program(["attention", str(tmp_path / "nothing"), *arguments[2:4], "-o", str(tmp_path / "b")]) == 2
    captured = capfd.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert not (tmp_path / "b").exists()


def test_a_path_without_a_folder(monkeypatch, tmp_path):
    """transformers itself would say that it is no name of a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("./nope", "/nope", "nope/", "nope.gguf", "a/b/c", tmp_path / "nope", "folder"):
        problem = r"neither a file nor a folder with a config\.json; give a folder .* or the name of a model"
        with pytest.raises(AlignkitError, match=problem):
            load_pretrained(name)
    (tmp_path / "folder" / "config.json").write_bytes(b"{}")
    with pytest.raises(
        AlignkitError, match=r"folder: cannot be loaded .*; give a folder .* or the name of a model"
    ):
        load_pretrained("folder")


def test_without_a_network_the_retries_are_not_shown(monkeypatch):
    import transformers

    logger = logging.getLogger("huggingface_hub")
    monkeypatch.setattr(hugging_face, "_answers", lambda _: True)  # the network goes away later
    monkeypatch.setattr(logger, "level", logging.WARNING)
    shown = []

    def fail(*_, **options):
        shown.append(logger.isEnabledFor(logging.WARNING))
        raise OSError("no network.")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(AlignkitError, match="that translates: no network; give a folder"):
        hugging_face.load_pretrained("org/name")
    assert shown == [False]


def test_without_a_network_only_what_is_here_is_looked_for(monkeypatch, folder):
    import transformers

    def nowhere(address, timeout):
        assert address == ("huggingface.co", 443)
        assert timeout <= 5
        raise TimeoutError

    load, asked = transformers.AutoTokenizer.from_pretrained, []

    def noted(model, **options):
        asked.append(options)
        return load(model)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", noted)
    monkeypatch.setattr(socket, "create_connection", nowhere)
    monkeypatch.setattr(hugging_face, "getproxies", dict)
    problem = (
        "org/no-such-model: is neither a folder nor a .* before, and https://huggingface.co does not answer; give"
    )
    with pytest.raises(AlignkitError, match=problem):
        hugging_face.load_pretrained("org/no-such-model")
    hugging_face.load_pretrained(folder)
    monkeypatch.setattr(hugging_face, "getproxies", lambda: {"https": "a proxy"})
    assert hugging_face._answers("https://huggingface.co")  # as far as is known
    assert asked == [{"local_files_only": True}, {}]


def test_languages_are_those_that_the_tokenizer_marks(folder, tmp_path):
    from transformers import NllbTokenizer

    pieces = {piece: n for n, piece in enumerate(("<s>", "<pad>", "</s>", "<unk>", "a", "\u2581"))}
    NllbTokenizer(vocab=pieces, extra_special_tokens=["deu_Latn", "eng_Latn"]).save_pretrained(tmp_path)
    make_m2m100(folder)[0].save_pretrained(tmp_path)
    tokenizer = load_pretrained(tmp_path, source_language="deu_Latn", target_language="eng_Latn")[1]
    sides = (encode_side(tokenizer, ["a"], is_target=is_target).ids[0][0] for is_target in (False, True))
    assert tokenizer.convert_ids_to_tokens([*sides]) == ["deu_Latn", "eng_Latn"]
    for place, codes, problem in (
        (tmp_path, {"source": "deu_Latn", "target": "de"}, "does not know the languages deu_Latn, de"),
        (tmp_path, {"source": "deu_Latn"}, "name those of source and target"),
        (tmp_path, {}, "name those of source and target"),
        (folder, {"source": "deu_Latn", "target": "eng_Latn"}, "its tokenizer marks no languages"),
    ):
        with pytest.raises(AlignkitError, match=problem):
            load_pretrained(place, **{f"{side}_language": code for side, code in codes.items()})


def test_without_transformers(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(AlignkitError, match=r"models of Hugging Face need transformers, .*: pip install"):
        load_pretrained("org/name")
