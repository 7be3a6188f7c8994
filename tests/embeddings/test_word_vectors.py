"""Word vectors from files as evidence for links."""

import gzip

import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm.joint import fit_joint
from alignkit.embeddings.levels import UNKNOWN, likeness_levels
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


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"2 2\na 1 2\nb 3 4\n", {"a": [1, 2], "b": [3, 4]}),
        (b"a 1 2 \r\nb 3 4\r\n", {"a": [1, 2], "b": [3, 4]}),
        (b"a 1 2\na 3 4", {"a": [1, 2]}),  # the first counts
        (b"a 1 2\na b 3 4\n", {"a": [1, 2]}),  # a word with a space
        (b"a 1\n5 3\n", {"a": [1], "5": [3]}),
        (b"5 1.5 2\na 3 4\n", {"5": [1.5, 2], "a": [3, 4]}),  # no header
        (b"haus 1 2\nRot 3 4\nrot 5 6\n", {"Haus": [1, 2], "haus": [1, 2], "Rot": [3, 4], "rot": [5, 6]}),
    ],
)
def test_words_get_their_vectors_or_those_of_their_lower_case_forms(tmp_path, data, wanted):
    (tmp_path / "v").write_bytes(data)
    words = ["a", "b", "5", "Haus", "haus", "Rot", "rot"]
    none = [0] * len(next(iter(wanted.values())))
    vectors = vectors_of(tmp_path / "v", Vocabulary.from_tokens(words))
    assert vectors.dtype == np.float32
    found = vectors.tolist()
    assert dict(zip(words, found, strict=True)) == {word: none for word in words} | wanted


def test_levels_are_of_vectors_from_the_mean_of_the_tokens_of_a_text(tmp_path):
    """Each occurrence of a word that is known counts; about other words, nothing is known."""
    draw = np.random.default_rng(2)
    files, vectors, sides = [], [], []
    for side in "xy":
        words = {f"{side}{n}": draw.normal(size=3).round(3) for n in range(5)} | {
            f"{side}5": np.array([1.0, 0, 0])
        }
        files.append(write_vectors(tmp_path / side, words))
        vectors.append({word: numbers.astype(np.float32) for word, numbers in words.items()})
        sizes = draw.integers(0, 6, 12)
        sides.append([[f"{side}{min(draw.geometric(0.3), 8)}" for _ in range(size)] for size in sizes])
    moved = []
    for known, side in zip(vectors, sides, strict=True):
        centre = np.mean([known[word] for sentence in side for word in sentence if word in known], axis=0)
        far = {word: numbers - centre for word, numbers in known.items()}
        moved.append({word: numbers / np.linalg.norm(numbers) for word, numbers in far.items()})
    wanted, none, steps = [], np.zeros(3), []
    for x, y in zip(*sides, strict=True):
        own = [[known.get(word, none) for word in words] for known, words in zip(moved, (x, y), strict=True)]
        source, target = (np.array(rows, np.float32).reshape(-1, 3) for rows in own)
        wanted.append(likeness_levels(target, source).ravel())
    bitext = bitext_of(list(zip(*sides, strict=True)))
    found = WordVectors(*files).levels(bitext, 1, lambda *step: steps.append(step))
    assert (found != np.concatenate(wanted)).mean() < 0.01  # where rounding decides
    assert UNKNOWN in found
    assert steps == [(0, 12, "reading word vectors")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1 x\n", "line 2: must be a word and numbers"),
        ("a 1 2\nb 1 inf\n", "line 2: must be a word and numbers"),
        ("a 1 2\nb 1\n", "line 2: has 1 numbers after its word, not 2"),
        ("2 3\na 1 2\n", "line 2: has 2 numbers after its word, not 3"),
        ("a\n", "line 1: must be a word and numbers"),
        ("", "is empty"),
        ("a  1 2\nc 1 2\nd 1 2\n", "line 1: must be a word and numbers"),
        ("3 2\na  1 2\n", "has none of the text's words"),  # two spaces: as if it were a word with one
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
