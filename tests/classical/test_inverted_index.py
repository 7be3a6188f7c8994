import os
from collections import Counter

import naive
import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.classical.cooccurrence import IndexedBitext, bags_of, token_index
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.kernels.inverted_index import Tokens, first_positions
from alignkit.text.bitext import Corpus
from alignkit.text.vocabulary import Vocabulary

THREADS = pytest.mark.parametrize("threads", [1, 2, 3, 8])


@pytest.fixture(scope="module")
def pairs():
    return [*random_pairs(1, pairs=150), (["s0"] * 50, ["t1", "t2"] * 40)]


@pytest.fixture(scope="module")
def bitext(pairs):
    return bitext_of(pairs)


@THREADS
def test_bags_hold_each_distinct_word_once(pairs, bitext, threads):
    corpus = bitext.target
    bags = bags_of(corpus, threads, keep=False)
    first = np.empty(len(bags.words), np.int32)
    first_positions(
        0,
        len(pairs),
        Tokens(corpus.tokens, corpus.offsets),
        bags,
        np.empty(len(corpus.vocabulary), np.int32),
        first,
    )
    for m, (_, y) in enumerate(pairs):
        low, high = bags.offsets[m : m + 2]
        words = [corpus.vocabulary[i] for i in bags.words[low:high]]
        assert bags.words[low:high].tolist() == sorted({corpus.vocabulary.id(word) for word in y})
        assert dict(zip(words, bags.counts[low:high].tolist(), strict=True)) == Counter(y)
        assert first[low:high].tolist() == [y.index(word) for word in words]
    assert np.diff(bags.offsets).tolist() == [len(set(y)) for _, y in pairs]
    assert bags.offsets[-1] == len(bags.words) == len(bags.counts)


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1, 70_000])
def test_sentences_too_long_for_two_bytes(size):
    tokens = np.concatenate([np.arange(size), [0, 1, size - 1], [5]]).astype(np.int32)
    offsets = np.array([0, size + 3, size + 4])
    vocabulary = Vocabulary.from_tokens([str(i) for i in range(size)])
    bags, first = bags_of(Corpus(tokens, offsets, vocabulary), 1), np.empty(size + 1, np.int32)
    assert bags.offsets.tolist() == [0, size, size + 1]
    assert bags.words.tolist() == [*range(size), 5]
    assert bags.counts.dtype == (np.uint16 if size + 3 < 2**16 else np.int32)
    first_positions(0, 2, Tokens(tokens, offsets), bags, np.empty(size, np.int32), first)
    np.testing.assert_array_equal(first, [*range(size), 0])
    assert bags.counts[[0, 1, 2, size - 1]].tolist() == [2, 2, 1, 2]
    repeated = Corpus(np.zeros(size, np.int32), np.array([0, size]), vocabulary)
    assert bags_of(repeated, 1).counts.tolist() == [size]


def test_bags_of_a_text_are_made_once(bitext):
    source = bags_of(bitext.source, 1)
    assert bags_of(bitext.source, 2) is source
    assert bags_of(bitext.reversed.target, 1) is source
    copy = bitext.take(np.arange(len(bitext)))
    assert bags_of(copy.source, 1, keep=False) is not source
    assert bags_of(copy.source, 1) is bags_of(copy.source, 1)


def test_the_token_index_has_every_occurrence_in_text_order(pairs, bitext):
    starts, sentences, positions = token_index(bitext.source)
    for i, word in enumerate(bitext.source.vocabulary):
        found = list(zip(*(a[starts[i] : starts[i + 1]].tolist() for a in (sentences, positions)), strict=True))
        assert found == [(m, s) for m, (x, _) in enumerate(pairs) for s, w in enumerate(x) if w == word]


@THREADS
@pytest.mark.parametrize("room", [1, 40, 1 << 18])
def test_rows_are_whole_however_little_room_there_is(pairs, bitext, threads, room):
    """A buffer smaller than a row is made large enough for it; several rows take several buffers."""
    indexed = IndexedBitext(bitext, threads)
    weights = np.repeat(1 / np.arange(1, len(bitext) + 1), np.diff(indexed.target.offsets)).astype(np.float32)
    offsets, columns, values = indexed.pairs(weights, room)
    expected = Counter()
    for m, (x, y) in enumerate(pairs):
        for i in x:
            for o in set(y):
                expected[i, o] += 1 / (m + 1)
    found = {}
    for i, word in enumerate(bitext.source.vocabulary):
        row = slice(offsets[i], offsets[i + 1])
        assert (np.diff(columns[row]) > 0).all()
        words = [bitext.target.vocabulary[o] for o in columns[row]]
        found |= {(word, o): v for o, v in zip(words, values[row].tolist(), strict=True)}
    assert found == pytest.approx(dict(expected), rel=1e-5)
    pairs = indexed.pairs()
    assert (pairs.offsets.tobytes(), pairs.columns.tobytes()) == (offsets.tobytes(), columns.tobytes())


@pytest.mark.skipif(not os.environ.get("ALIGNKIT_DATA"), reason="ALIGNKIT_DATA names no folder of real texts")
def test_a_real_text_in_double_precision_gives_the_same_links():
    """Plain IBM Model 1 as fast_align -I 5 makes it (four steps, p0 = 0.08), on all of Multi30k."""
    from alignkit.text.pairs import read_bitext

    folder = os.path.join(os.environ["ALIGNKIT_DATA"], "multi30k")
    bitext = read_bitext(os.path.join(folder, "train.de"), os.path.join(folder, "train.en"))
    found = fit_ibm1(bitext, iterations=4, null_probability=0.08).links(bitext).to_pharaoh().decode().splitlines()
    lines = naive.ibm1_links_in_double(bitext.source, bitext.target, 4, 0.08)
    different = [m for m, (a, b) in enumerate(zip(found, lines, strict=True)) if a != b]
    assert len(different) <= 3, different
