"""The word pair of each element of a text's matrices, by naive lists; rows of more than 65,536 word pairs."""

import random

import numpy as np

from alignkit.classical.cooccurrence import IndexedBitext
from alignkit.classical.hmm import hmm
from alignkit.classical.hmm.hmm import fit_hmm, link_arrays
from alignkit.kernels.expected_links import SEGMENT_BITS
from alignkit.text.bitext import Bitext

TYPES = (1 << SEGMENT_BITS) + 3_000


def wide_text(pairs=1_500):
    """A text of which the row of one source word is long, with target words in the second segment."""
    draw = random.Random(3)
    words = [f"y{n}" for n in range(TYPES)]
    target = [words[n::pairs] for n in range(pairs)]
    source = [["often", *draw.sample(["a", "b", "c", "d"], draw.randrange(3))] for _ in target]
    return Bitext.from_sentences([*source, ["rare"], []], [*target, words[:3] + words[-3:], ["y1"]])


def numbers_of(links, bitext):
    """The word pair of each element, one list after another, as the codes say."""
    offsets, long_rows, segments = links.places
    found = []
    for m in range(len(bitext)):
        matrix = links.elements[links.offsets[m] : links.offsets[m + 1]].reshape(bitext.shapes[m])
        for t, y in enumerate(bitext.target[m]):
            for j, x in enumerate(bitext.source[m]):
                n = long_rows[x]
                start = offsets[x] if n < 0 else segments[n, y >> SEGMENT_BITS]
                found.append(int(start) + int(matrix[t, j]))
    return found


def test_the_codes_find_the_word_pair_of_every_element(monkeypatch):
    monkeypatch.setattr(hmm, "CODED_ELEMENTS", 50_000)
    bitext = wide_text()
    rows = IndexedBitext(bitext, 1).pairs()
    assert np.diff(rows.offsets).max() > 1 << SEGMENT_BITS
    number = {}
    for i in range(len(rows.offsets) - 1):
        for k in range(rows.offsets[i], rows.offsets[i + 1]):
            number[i, int(rows.columns[k])] = k
    evidence = np.zeros((len(rows.columns), 3), np.float32)
    expected = [
        number[int(x), int(y)] for m in range(len(bitext)) for y in bitext.target[m] for x in bitext.source[m]
    ]
    for threads in (1, 3):
        rows = IndexedBitext(bitext, threads).pairs()
        assert numbers_of(link_arrays(bitext, rows, evidence, threads), bitext) == expected


def test_the_words_of_a_long_row_keep_their_counts():
    """All pairs are of one word each, so that the counts of the only source word are frequencies."""
    words = [f"y{n}" for n in range(TYPES)]
    often = [5, 1 << SEGMENT_BITS, TYPES - 1]
    target = [[word] for word in words] + [[words[n]] for n in often]
    model = fit_hmm(Bitext.from_sentences([["x"]] * len(target), target), lexical_iterations=1, iterations=1)
    values = model.table.values
    assert len(values) == TYPES
    assert values[often].tolist() == [values[5]] * 3
    assert np.isclose(values[5], 2 * values[0], rtol=1e-4)
    assert len(set(np.delete(values, often).tolist())) == 1
    assert np.isclose(values.sum(dtype=np.float64), 1, rtol=1e-4)
