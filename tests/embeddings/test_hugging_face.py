"""Encoders of Hugging Face's transformers as embeddings: a small random BERT, read by a loop of the test."""

from __future__ import annotations

import numpy as np
import pytest
from planted import bitext_of

import alignkit
from alignkit.embeddings.contextual import EVEN, ContextualEmbeddings, find_embeddings
from alignkit.embeddings.encoders import SHARE
from alignkit.embeddings.levels import likeness_levels

transformers = pytest.importorskip("transformers")
PAIRS = [(["das", "Haus"], ["the", "house"]), (["ein", "Haustier"], ["a", "pet"]), ([], ["x"]), (["das"], ["it"])]
LAYERS, LIMIT = 4, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    letters = sorted({letter for pair in PAIRS for side in pair for word in side for letter in word})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), "das", "Haus"]
    (path / "vocab.txt").write_text("\n".join([*words, "##tier", "the"]))
    tokenizer = transformers.BertTokenizerFast(
        str(path / "vocab.txt"), do_lower_case=False, model_max_length=LIMIT
    )
    tokenizer.save_pretrained(path)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": LAYERS}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words) + 2, **sizes)).save_pretrained(path)
    return str(path)


def test_levels_are_those_of_means_of_states(folder):
    import torch

    bitext = bitext_of(PAIRS)
    model, tokenizer = (
        kind.from_pretrained(folder) for kind in (transformers.AutoModel, transformers.AutoTokenizer)
    )
    sides = []
    for side in zip(*PAIRS, strict=True):
        vectors = []
        for words in filter(None, side):
            encoded = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
            with torch.inference_mode():
                states = model.eval()(**encoded, output_hidden_states=True).hidden_states[round(SHARE * LAYERS)][0]
            places = np.array([-1 if word is None else word for word in encoded.word_ids()])
            vectors += [states[places == n].mean(0).numpy() for n in range(len(words))]
        sides.append(np.array(vectors) - np.mean(vectors, axis=0))
    variance = np.mean([(side**2).mean(axis=0) for side in sides], axis=0)
    sides = [side / np.sqrt(variance + EVEN * np.median(variance)) for side in sides]
    sides = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides]
    found = find_embeddings(folder).levels(bitext, 2)
    wanted, starts = [], [0, 0]
    for pair in PAIRS:
        ends = [start + len(words) for start, words in zip(starts, pair, strict=True)]
        source, target = (side[low:high] for side, low, high in zip(sides, starts, ends, strict=True))
        wanted += likeness_levels(target.astype(np.float32), source.astype(np.float32)).ravel().tolist()
        starts = ends
    assert found == pytest.approx(np.array(wanted), abs=1)  # sums in another order fall beside a bound
    assert len(set(found.tolist())) > 2


def test_no_level_depends_on_threads_or_on_the_other_sentences_of_a_batch(folder):
    bitext = bitext_of(PAIRS * 200)
    inner = find_embeddings(folder).inner
    assert isinstance(inner, ContextualEmbeddings)
    assert (inner.levels(bitext, 1) == inner.levels(bitext, 3)).all()


def test_sentences_longer_than_the_encoder_reads_are_encoded_in_parts(folder):
    bitext = bitext_of([(["Haustier"] * 9, ["the"] * 20)])
    assert len(find_embeddings(folder).levels(bitext, 1)) == 180


def test_align_takes_a_folder(folder):
    aligned = alignkit.align(["das Haus", "das"], ["the house", "the"], embeddings=folder)
    assert aligned.links.to_strings()[1] == "0-0"
