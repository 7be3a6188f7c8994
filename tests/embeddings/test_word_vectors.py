"""Word vectors from files as evidence for links."""

import gzip

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm.joint import fit_joint
from alignkit.embeddings.levels import UNKNOWN
from alignkit.embeddings.word_vectors import WordVectors, vectors_of
from alignkit.errors import AlignkitError, InputError
from alignkit.text.vocabulary import Vocabulary


def write_vectors(path, vectors, header=True):
    lines = [f"{len(vectors)} {len(next(iter(vectors.values())))}"] if header else []
    lines += [f"{word} {' '.join(map(str, numbers))}" for word, numbers in vectors.items()]
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def planted(tmp_path):
    """(bitext, links, files): words that occur once, and vectors of both sides that are the same but for noise,
    in a space that has been rotated."""
    rng, pairs, links = np.random.default_rng(1), [], []
    rotation = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    source, target = {}, {}
    for m in range(15):
        size = int(rng.integers(2, 10))
        order = rng.permutation(size)
        pairs.append(([f"Wort{m}.{j}" for j in range(size)], [f"mot{m}.{t}" for t in range(size)]))
        meanings = rng.normal(size=(size, 20)) + 2.0
        source |= dict(zip(pairs[-1][0], (meanings @ rotation).round(4).tolist(), strict=True))
        near = (meanings[order] + 0.2 * rng.normal(size=(size, 20))) @ rotation
        target |= dict(zip(pairs[-1][1], near.round(4).tolist(), strict=True))
        links.append({(int(order[t]), t) for t in range(size)})
    files = write_vectors(tmp_path / "s.vec", source), write_vectors(tmp_path / "t.vec.gz", target, header=False)
    return bitext_of(pairs), links, files


def linked(aligner):
    return [set(map(tuple, pairs.tolist())) for pairs in aligner.fitted_links]


def test_vectors_find_the_links_of_words_that_occur_once(planted, tmp_path):
    bitext, links, files = planted
    assert linked(fit_joint(bitext, embeddings=WordVectors(*files))) == links
    assert linked(fit_joint(bitext)) != links
    both = tmp_path / "both.vec"
    both.write_bytes(gzip.decompress(files[1].read_bytes()) + files[0].read_bytes().split(b"\n", 1)[1])
    assert linked(fit_joint(bitext, embeddings=WordVectors(both))) == links


@pytest.mark.parametrize("threads", [1, 4])
def test_a_text_of_one_pair_will_do(planted, threads):
    bitext, links, files = planted
    for m in (0, 3):
        fitted = fit_joint(bitext.block(m, m + 1), embeddings=WordVectors(*files), threads=threads)
        assert linked(fitted) == [links[m]]


def test_a_word_has_the_vector_of_its_lower_case_form_unless_it_has_its_own(tmp_path):
    path = write_vectors(
        tmp_path / "v", {"haus": [1.0, 2.0], "Rot": [3.0, 4.0], "rot": [5.0, 6.0], "haus ": [9, 9]}
    )
    words = Vocabulary.from_tokens(["Haus", "haus", "Rot", "rot", "weg"])
    with pytest.raises(InputError, match="has none of the text's words"):  # two spaces
        vectors_of(write_vectors(tmp_path / "v", {"a": [1.0, 1], "b": [2, 2], "c": [3, 3], "weg ": [9, 9]}), words)
    path = write_vectors(tmp_path / "v", {"haus": [1.0, 2.0], "Rot": [3.0, 4.0], "rot": [5.0, 6.0]})
    assert vectors_of(path, words).tolist() == [[1, 2], [1, 2], [3, 4], [5, 6], [0, 0]]


def test_unknown_words_have_no_level(tmp_path):
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    path = write_vectors(tmp_path / "v", vectors)
    levels = WordVectors(path).levels(bitext_of([(["a", "b", "?"], ["b", "c"])]), 1).reshape(2, 3)
    assert (levels[:, 2] == UNKNOWN).all()
    assert (levels[:, :2] < UNKNOWN).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1 x\n", "line 2: must be a word and numbers"),
        ("a 1 2\nb 1 inf\n", "line 2: must be a word and numbers"),
        ("a 1 2\nb 1\n", "line 2: has 1 numbers after its word, not 2"),
        ("2 3\na 1 2\n", "line 2: has 2 numbers after its word, not 3"),
        ("a\n", "line 1: must be a word and numbers"),
        ("", "is empty"),
        ("x 1 2\n", "has none of the text's words; is it of the other language?"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, message):
    path = tmp_path / "v"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        vectors_of(path, Vocabulary.from_tokens(["a", "b"]))
    assert message in str(caught.value)


def test_the_spaces_of_both_sides_must_have_as_many_dimensions(tmp_path):
    files = write_vectors(tmp_path / "s", {"a": [1.0]}), write_vectors(tmp_path / "t", {"x": [1.0, 2.0]})
    with pytest.raises(AlignkitError, match="equally long, not of 1 and 2 numbers"):
        WordVectors(*files).levels(bitext_of([(["a"], ["x"])]), 1)
    with pytest.raises(InputError, match="no such file"):
        WordVectors(tmp_path / "none")
