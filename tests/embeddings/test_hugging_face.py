"""Encoders of Hugging Face's transformers as embeddings: small random models, read by a loop of the test."""

from __future__ import annotations

import os

import numpy as np
import pytest
from planted import bitext_of

import alignkit
from alignkit.embeddings.contextual import EVEN, ContextualEmbeddings, find_embeddings
from alignkit.embeddings.encoders import SHARE
from alignkit.embeddings.levels import likeness_levels

torch, transformers = (pytest.importorskip(package) for package in ("torch", "transformers"))
PAIRS = [(["das", "Haus"], ["the", "house"]), (["ein", "Haustier"], ["a", "pet"]), ([], ["x"]), (["das"], ["it"])]
LAYERS, LIMIT = 3, 8


WIDTHS = {"hidden_size": 16, "intermediate_size": 16}
SIZES = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 64}
SMALL = WIDTHS | {"num_hidden_layers": LAYERS, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
MODELS = {
    "bert": lambda size: transformers.BertModel(
        transformers.BertConfig(vocab_size=size, num_hidden_layers=LAYERS, num_attention_heads=2, **WIDTHS)
    ),
    "convbert": lambda size: transformers.ConvBertModel(  # its convolutions reach into padding
        transformers.ConvBertConfig(
            vocab_size=size, num_hidden_layers=LAYERS, num_attention_heads=2, embedding_size=16, **WIDTHS
        )
    ),
    "fnet": lambda size: transformers.FNetModel(  # without a mask
        transformers.FNetConfig(vocab_size=size, num_hidden_layers=LAYERS, **WIDTHS)
    ),
    "mt5": lambda size: transformers.MT5ForConditionalGeneration(
        transformers.MT5Config(vocab_size=size, d_model=16, d_kv=8, d_ff=16, num_layers=LAYERS, num_heads=2)
    ),
    "t5gemma": lambda size: transformers.T5GemmaForConditionalGeneration(
        transformers.T5GemmaConfig(encoder=SMALL, decoder=SMALL, vocab_size=size)
    ),
    "nllb": lambda size: transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(vocab_size=size, encoder_layers=LAYERS, decoder_layers=2, **SIZES)
    ),
}
LANGUAGES = ("deu_Latn", "eng_Latn")


@pytest.fixture(scope="module", params=MODELS)
def name(request, tmp_path_factory):
    """What ``--embeddings`` takes for a small random model, of which only NLLB's marks languages."""
    path, kind = tmp_path_factory.mktemp(request.param), request.param
    letters = sorted({letter for pair in PAIRS for side in pair for word in side for letter in word})
    if kind == "nllb":
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *letters, "\u2581"]
        tokenizer = transformers.NllbTokenizer(
            vocab={piece: n for n, piece in enumerate(pieces)},
            extra_special_tokens=[*LANGUAGES],
            model_max_length=2 * LIMIT,  # every letter is a piece
        )
    else:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
        (path / "vocab.txt").write_text("\n".join([*words, "das", "Haus", "##tier", "the"]))
        tokenizer = transformers.BertTokenizerFast(
            str(path / "vocab.txt"), do_lower_case=False, model_max_length=LIMIT
        )
    tokenizer.save_pretrained(path)
    model = MODELS[kind](len(tokenizer))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)  # so that layers and languages matter
    model.save_pretrained(path)
    return f"{path}:{','.join(LANGUAGES)}" if kind == "nllb" else str(path)


def test_levels_are_those_of_means_of_states(name):
    bitext = bitext_of(PAIRS)
    folder, _, languages = name.partition(":")
    model, tokenizer = (
        kind.from_pretrained(folder) for kind in (transformers.AutoModel, transformers.AutoTokenizer)
    )
    model, layer = (model.get_encoder(), -1) if model.config.is_encoder_decoder else (model, round(SHARE * LAYERS))
    sides = []
    for n, side in enumerate(zip(*PAIRS, strict=True)):
        vectors = []
        if languages:
            tokenizer.src_lang = languages.split(",")[n]
        for words in filter(None, side):
            encoded = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
            with torch.inference_mode():
                states = model.eval()(**encoded, output_hidden_states=True).hidden_states[layer][0]
            places = np.array([-1 if word is None else word for word in encoded.word_ids()])
            vectors += [states[places == word].mean(0).numpy() for word in range(len(words))]
        sides.append(np.array(vectors) - np.mean(vectors, axis=0))
    variance = np.mean([(side**2).mean(axis=0) for side in sides], axis=0)
    sides = [side / np.sqrt(variance + EVEN * np.median(variance)) for side in sides]
    sides = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides]
    embeddings = find_embeddings(name)
    assert embeddings.inner.encoder.pieces("\0")[-1] == tokenizer.unk_token_id
    found = embeddings.levels(bitext, 2)
    wanted, starts = [], [0, 0]
    for pair in PAIRS:
        ends = [start + len(words) for start, words in zip(starts, pair, strict=True)]
        source, target = (side[low:high] for side, low, high in zip(sides, starts, ends, strict=True))
        wanted += likeness_levels(target.astype(np.float32), source.astype(np.float32)).ravel().tolist()
        starts = ends
    assert found == pytest.approx(np.array(wanted), abs=1)  # sums in another order fall beside a bound
    assert len(set(found.tolist())) > 2


def test_no_level_depends_on_threads_or_on_the_other_sentences_of_a_batch(name):
    bitext = bitext_of(PAIRS * 200)
    inner = find_embeddings(name).inner
    assert isinstance(inner, ContextualEmbeddings)
    assert (inner.levels(bitext, 1) == inner.levels(bitext, 3)).all()


def test_sentences_longer_than_the_encoder_reads_are_encoded_in_parts(name):
    """As those are equal, what is found of their words repeats."""
    levels = find_embeddings(name).levels(bitext_of([(["Haustier"] * 9, ["the"] * 20)]), 1).reshape(20, 9)
    assert levels[:, :6] == pytest.approx(levels[:, 3:], abs=1)
    assert levels[:12] == pytest.approx(levels[6:18], abs=1)
    assert np.ptp(levels) > 2


def test_what_is_kept_depends_on_the_languages_the_files_and_the_versions(name, monkeypatch):
    folder, _, languages = name.partition(":")
    others = [f"{folder}:{','.join(reversed(languages.split(',')))}"] * bool(languages)
    known = [find_embeddings(each).about for each in (name, *others)]
    os.utime(f"{folder}/config.json", (0, 0))
    known.append(find_embeddings(name).about)
    monkeypatch.setattr("alignkit.embeddings.encoders.installed", lambda packages: {})
    assert len({*known, find_embeddings(name).about}) == len(others) + 3


def test_align_takes_a_folder(name):
    aligned = alignkit.align(["das Haus", "das"], ["the house", "the"], embeddings=name)
    assert aligned.links.to_strings()[1] == "0-0"


@pytest.mark.parametrize("name", ["nllb"], indirect=True)
@pytest.mark.parametrize(
    ("languages", "problem"),
    [("", "name those of source and target"), (":deu_Latn,xx", "does not know the language xx")],
)
def test_languages_that_are_missing_or_not_known(name, languages, problem):
    with pytest.raises(alignkit.AlignkitError, match=problem):
        find_embeddings(f"{name.partition(':')[0]}{languages}")


@pytest.mark.parametrize("name", ["bert"], indirect=True)
def test_a_model_that_marks_no_languages(name):
    with pytest.raises(alignkit.AlignkitError, match="marks no languages"):
        find_embeddings(f"{name}:de,en")
