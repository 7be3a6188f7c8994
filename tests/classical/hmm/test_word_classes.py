import naive_hmm as naive
import numpy as np
import pytest
from planted import bitext_of

from alignkit.classical.hmm.word_classes import BackOff, affix_classes
from alignkit.kernels.inverted_index import TableRows
from alignkit.text.vocabulary import Vocabulary


def test_affix_classes_partition_the_words():
    vocabulary = Vocabulary.from_tokens(["über", "üben", "haus", "maus", "us", "ha"])
    first, last = affix_classes(vocabulary, slice(2)), affix_classes(vocabulary, slice(-2, None))
    assert first.of.tolist() == [0, 0, 1, 2, 3, 1]
    assert last.of.tolist() == [0, 1, 2, 2, 2, 3]
    assert last.members.tolist() == [0, 1, 2, 3, 4, 5]
    assert last.first.tolist() == [0, 1, 2, 5, 6]
    assert affix_classes(Vocabulary.from_tokens([]), slice(-3, None)).first.tolist() == [0]


@pytest.mark.parametrize("threads", [1, 3])
def test_back_off_is_what_other_words_of_the_classes_say(threads):
    pairs = [(["abcx", "abcy", "zzz"], ["defx", "defy", "qq"]), (["abcy", "zzz"], ["defy", "qr", "defz"])] * 2
    bitext = bitext_of(pairs)
    sides = bitext.source, bitext.target
    met = sorted({(sides[0].vocabulary.id(i), sides[1].vocabulary.id(o)) for x, y in pairs for i in x for o in y})
    values = np.random.default_rng(3).random(len(met)).astype(np.float32)
    i, o = np.array(met).T
    offsets = np.searchsorted(i, np.arange(len(sides[0].vocabulary) + 1))
    totals = np.bincount(i, values), np.bincount(o, values)
    frequencies = [np.bincount(side.tokens) for side in sides]
    found, rows = np.zeros((len(met), 3), np.float32), TableRows(offsets, o.astype(np.int32), values)
    for affix in (slice(3), slice(-3, None)):
        source, target = (affix_classes(side.vocabulary, affix) for side in sides)
        BackOff((source, target), 1.0, frequencies).add(rows, totals, found, threads)
    words = [(sides[0].vocabulary[a], sides[1].vocabulary[b]) for a, b in met]
    counts = dict(zip(words, values.tolist(), strict=True))
    frequency = [
        {word: int((side.tokens == side.vocabulary.id(word)).sum()) for word in side.vocabulary} for side in sides
    ]
    expected = np.zeros((len(met), 2))
    for cut in (slice(3), slice(-3, None)):
        classes = [{word: word[cut] for word in side} for side in frequency]
        forward = naive.back_off(counts, *classes, *frequency, 1.0)
        reversed_counts = {(b, a): n for (a, b), n in counts.items()}
        reverse = naive.back_off(reversed_counts, *classes[::-1], *frequency[::-1], 1.0)
        expected += [[forward[a, b], reverse[b, a]] for a, b in words]
    assert expected.max() > 0.1
    assert np.allclose(found[:, 1:], expected, atol=1e-5)
