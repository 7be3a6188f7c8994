"""Saved networks and proxies: what is read is what was written, and nothing in a file is ever run."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from alignkit.aligner import Aligner, load_aligner
from alignkit.errors import AlignkitError, InputError
from alignkit.neural.aligners import NETWORK, NeuralAligner, load_payload, save_payload
from alignkit.neural.proxy import fit_proxy
from alignkit.neural.settings import ProxySettings
from alignkit.neural.training.run_directory import ClassifierRun
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.tokenization import encode_bitext, learn_words
from alignkit.text.vocabulary import Vocabulary

from .conftest import WORDS, random_lines, untrained_aligner


@pytest.fixture
def aligner(bitext, tokenizer):
    return untrained_aligner(tokenizer, bitext)


def payload(path):
    return torch.load(path, weights_only=True)


def test_a_network_comes_back_as_it_was(aligner, bitext, tmp_path):
    aligner.save(tmp_path / "one.pt")
    aligner.save(tmp_path / "two.pt")
    assert (tmp_path / "one.pt").read_bytes() == (tmp_path / "two.pt").read_bytes()
    loaded = load_aligner(tmp_path / "one.pt")
    assert isinstance(loaded, NeuralAligner)
    assert isinstance(loaded, Aligner)
    assert (loaded.name, loaded.kinds, loaded.step) == ("lstm", ("alpha", "beta", "delta", "loo"), aligner.step)
    assert loaded.settings == aligner.settings
    assert loaded.fingerprint == bitext.fingerprint()
    for kind in loaded.kinds:
        assert np.array_equal(loaded.score(bitext, kind).values, aligner.score(bitext, kind).values)
    with pytest.raises(AlignkitError, match="no gamma scores; it has alpha, beta, delta, loo"):
        loaded.score(bitext, "gamma")
    with pytest.raises(AlignkitError, match=r"must end in \.pt"):
        aligner.save(tmp_path / "model.bin")


def test_a_flipped_bit_changes_no_weight(tmp_path):
    path, weights = tmp_path / "x.pt", torch.arange(100.0)
    save_payload(path, NETWORK, {"weights": weights})
    content, draw, refused = path.read_bytes(), np.random.default_rng(0), 0
    places = [content.index(weights.numpy().tobytes()) + 7, *draw.integers(len(content), size=60).tolist()]
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            found = load_payload(path, NETWORK)
        except InputError:
            refused += 1
        else:
            assert torch.equal(found["weights"], weights)
    assert refused > 10


def test_a_proxy_comes_back_as_it_was(bitext, tmp_path):
    proxy = fit_proxy(bitext, bitext, ProxySettings(embedding=4, epochs=1), device="cpu")
    proxy.save(tmp_path / "proxy.pt")
    loaded = load_aligner(tmp_path / "proxy.pt")
    assert isinstance(loaded, Aligner)
    assert (loaded.name, loaded.kinds) == ("proxy", ("beta",))
    assert np.array_equal(loaded.score(bitext).values, proxy.score(bitext, "beta").values)
    with pytest.raises(AlignkitError, match=r"not words: give it the text that .*encode_bitext"):
        loaded.score(Bitext.from_sentences([["w1"]], [["w2"]]))


def test_the_uniform_network_is_called_so(bitext, tokenizer):
    assert untrained_aligner(tokenizer, bitext, attention="uniform").name == "uniform"


def test_another_vocabulary_is_translated(aligner, bitext):
    tokens = list(bitext.source.vocabulary)
    order = np.random.default_rng(0).permutation(len(tokens))
    shuffled = Vocabulary.from_tokens(tokens[i] for i in order)
    table = np.argsort(order).astype(np.int32)
    other = Bitext(*(Corpus(table[c.tokens], c.offsets, shuffled) for c in (bitext.source, bitext.target)))
    assert np.array_equal(aligner.score(other, "beta").values, aligner.score(bitext, "beta").values)


def test_a_text_of_words_is_encoded(aligner):
    lines = [random_lines(8, seed) for seed in (3, 4)]
    words = Bitext.from_sentences(*([line.split() for line in side] for side in lines))
    encoded = encode_bitext(aligner.tokenizer, *lines)
    for kind in ("alpha", "beta"):
        found, whole = aligner.score(words, kind), aligner.score(encoded, kind)
        assert np.array_equal(found.shapes, words.shapes)
        for m, matrix in enumerate(found):  # every token is a word; BOS and EOS have none
            assert matrix == pytest.approx(whole[m][:-1, 1:-1], rel=1e-5)
    assert np.array_equal(aligner.log_probabilities(words), aligner.log_probabilities(encoded))
    assert aligner.score(words) == aligner.score(words, "alpha")
    with pytest.raises(AlignkitError, match=r"no delta scores of words, .*encode_bitext\(aligner\.tokenizer"):
        aligner.score(words, "delta")


def test_unknown_words_are_unk_but_not_all_of_them(aligner):
    text = Bitext.from_sentences([["w1", "never", "w2"]], [["w3", "seen"]])
    unk = Bitext.from_sentences([["w1", "<unk>", "w2"]], [["w3", "<unk>"]])
    assert np.array_equal(aligner.score(text, "beta").values, aligner.score(unk, "beta").values)
    foreign = [[f"\u2581piece{i}" for i in range(40)]]
    with pytest.raises(AlignkitError, match="vocabulary has 0 of the 40 distinct tokens"):
        aligner.score(Bitext.from_sentences(foreign, foreign), "alpha")
    # an alien sentence or two of a text is no reason to refuse it
    lines = random_lines(5, 9)
    other = learn_words([*lines, "alien words"])
    assert len(WORDS) >= 20
    aligner.score(encode_bitext(other, ["alien words", *lines], [*lines, "alien"]), "alpha")


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_file_is_not_run(aligner, tmp_path, legacy):
    aligner.save(tmp_path / "good.pt")
    content = {**payload(tmp_path / "good.pt"), "metrics": Bomb(tmp_path / "exploded")}
    torch.save(content, tmp_path / "bad.pt", _use_new_zipfile_serialization=not legacy)
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    for name in ("bad.pt", "pickle.pt"):
        with pytest.raises(InputError, match=rf"^[^\n]*{name}.*nothing in it was run; give a checkpoint[^\n]*$"):
            load_aligner(tmp_path / name)
    assert not (tmp_path / "exploded").exists()
    # the bomb is a live one: an unsafe reader would have set it off
    pickle.loads((tmp_path / "pickle.pt").read_bytes())
    assert (tmp_path / "exploded").exists()


def test_damaged_files_are_refused(aligner, tmp_path):
    place = tmp_path / "a.pt"
    aligner.save(place)
    whole = place.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [b"", b"PK", b"hello", whole[: len(whole) // 2], whole[:-10], rng.bytes(1000)]
    for data in damaged:
        place.write_bytes(data)
        with pytest.raises(InputError, match=r"^[^\n]*a\.pt[^\n]*$"):
            load_aligner(place)


def change(content, *keys, to):
    """A copy with the value under the path of keys replaced."""
    copy = dict(content)
    copy[keys[0]] = change(copy[keys[0]], *keys[1:], to=to) if len(keys) > 1 else to
    return copy


@pytest.mark.parametrize(
    ("keys", "value", "problem"),
    [
        (("header", "kind"), "alignkit.other", "holds alignkit.other"),
        (("header", "version"), 99, "format version 99"),
        (("header",), 3, "not a checkpoint that alignkit wrote"),
        (("settings", "network", "hidden"), 7, "damaged"),
        (("settings", "network", "hidden"), 1 << 40, "damaged"),
        (("settings", "network", "layers"), 1 << 20, "damaged"),
        (("settings", "network", "vocabulary"), 5, "damaged"),
        (("settings", "network", "attention"), "psychic", "damaged"),
        (("settings", "colour"), {}, "damaged"),
        (("settings",), None, "damaged"),
        (("tokenizer",), {"tokens": "subwords", "model": b"nonsense"}, "damaged"),
        (("tokenizer",), {}, "damaged"),
        (("weights", "output.bias"), torch.full((24,), float("nan")), "not finite"),
        (("weights", "output.bias"), torch.zeros(24, dtype=torch.int64), "float32"),
        (("weights", "output.bias"), "text", "damaged"),
        (("weights",), {}, "damaged"),
        (("metrics",), {"valid.loss": "high"}, "damaged"),
        (("step",), "many", "damaged"),
    ],
)
def test_impossible_contents_are_refused(aligner, tmp_path, keys, value, problem):
    aligner.save(tmp_path / "good.pt")
    torch.save(change(payload(tmp_path / "good.pt"), *keys, to=value), tmp_path / "bad.pt")
    with pytest.raises(InputError, match=rf"^[^\n]*bad\.pt.*{problem}[^\n]*$"):
        load_aligner(tmp_path / "bad.pt")


def test_a_folder_that_is_no_run(aligner, tmp_path):
    with pytest.raises(InputError, match=r"has no best\.pt.*; give a run directory"):
        load_aligner(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        load_aligner(tmp_path / "nothing.pt")
    aligner.save(tmp_path / "best.pt")
    with pytest.raises(InputError, match="holds a lstm; give a run of `alignkit classify`"):
        ClassifierRun(tmp_path).load(device="cpu")
