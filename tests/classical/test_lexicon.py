"""Translation tables as text."""

from __future__ import annotations

import numpy as np
import pytest
from planted import bitext_of, random_pairs

from alignkit.aligner import Symmetrized
from alignkit.classical.cooccurrence import PairTable
from alignkit.classical.hmm.hmm import fit_hmm
from alignkit.classical.hmm.joint import fit_joint
from alignkit.classical.ibm1 import fit_ibm1
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.lexicon import lexicon_of, moses, reverse_lexicon_of, tsv
from alignkit.errors import AlignkitError
from alignkit.text.vocabulary import Vocabulary


def small(source, target, rows, null=None):
    """A model from {source id: {target id: probability}}."""
    offsets, columns, values = [0], [], []
    for i in range(len(source)):
        for o, p in sorted(rows.get(i, {}).items()):
            columns.append(o)
            values.append(p)
        offsets.append(len(columns))
    table = PairTable(np.array(offsets), np.array(columns, np.int32), np.array(values, np.float32), len(target))
    words = Vocabulary.from_tokens(source), Vocabulary.from_tokens(target)
    return LexicalModel(*words, table, null=None if null is None else np.array(null, np.float32))


EXAMPLE = small(
    ["haus", "das", "Ä"],
    ["the", "house", "a"],
    {0: {1: 0.75, 0: 0.125, 2: 0.125}, 1: {0: 0.9, 1: 0.0}, 2: {2: 1e-9}},
    null=[0.25, 0.0, 0.75],
)


def text(parts):
    return b"".join(parts).decode()


def test_words_in_order_of_bytes_translations_by_probability_equals_by_bytes():
    assert text(tsv(EXAMPLE)) == (
        "das\tthe\t0.9\nhaus\thouse\t0.75\nhaus\ta\t0.125\nhaus\tthe\t0.125\nÄ\ta\t1e-09\n"
    )


def test_the_best_alone():
    assert text(tsv(EXAMPLE, best=1)) == "das\tthe\t0.9\nhaus\thouse\t0.75\nÄ\ta\t1e-09\n"


def test_both_directions():
    reverse = small(["house", "the"], ["haus", "das"], {0: {0: 1.0}, 1: {1: 0.5, 0: 0.25}})
    assert text(tsv(EXAMPLE, reverse)) == (
        "das\tthe\t0.9\t0.5\nhaus\thouse\t0.75\t1\nhaus\ta\t0.125\t0\nhaus\tthe\t0.125\t0.25\nÄ\ta\t1e-09\t0\n"
    )


def test_moses_has_the_target_first_and_null_last():
    assert text(moses(EXAMPLE)) == (
        "the das 0.9000000\nhouse haus 0.7500000\na haus 0.1250000\nthe haus 0.1250000\n"
        "a NULL 0.7500000\nthe NULL 0.2500000\n"
    )
    assert "NULL" not in text(moses(EXAMPLE, null=False))
    assert "NULL" not in text(moses(small(["x"], ["y"], {0: {0: 1.0}})))


def test_words_that_other_programs_would_cut_or_mistake_are_left_out_of_moses_files():
    odd = small(["a\vb", "NULL", "x\u00a0y"], ["c\rd", "ok"], {i: {0: 0.5, 1: 0.5} for i in range(3)})
    assert text(moses(odd)) == "ok x\u00a0y 0.5000000\n"
    assert text(tsv(odd)).count("\n") == 6


def test_a_model_from_end_to_end():
    """Every probability of the table is in the text, once, and every cut of it is that of a plain sort."""
    bitext = bitext_of(random_pairs(4, pairs=200, source_types=60, target_types=60))
    model = fit_ibm1(bitext, iterations=3)
    lexicon = lexicon_of(model)
    rows = [line.split("\t") for line in text(tsv(lexicon)).splitlines()]
    assert len(rows) == int((model.table.values > 5e-30).sum())
    expected = {}
    for i, source in enumerate(model.source):
        columns, values = model.table.row(i)
        order = sorted(
            zip(values.tolist(), columns.tolist(), strict=True), key=lambda p: (-p[0], model.target[p[1]])
        )
        expected[source] = [(model.target[o], p) for p, o in order]
    found = {}
    for source, target, p in rows:
        found.setdefault(source, []).append((target, pytest.approx(float(p), rel=1e-5)))
    assert list(found) == sorted(expected, key=str.encode)
    assert {source: [(t, p) for t, p in row] for source, row in expected.items()} == found
    for best in (1, 2, 3, 7):
        cut = [line.split("\t")[:2] for line in text(tsv(lexicon, best=best)).splitlines()]
        assert cut == [[s, t] for s in found for t, _ in expected[s][:best]]


def test_what_has_no_table():
    class Network:
        name = "lstm"

    with pytest.raises(AlignkitError, match="lstm has no translation table"):
        lexicon_of(Network())


def test_the_reverse_table_of_one_model_of_both_directions(messy_bitext):
    sides = messy_bitext, messy_bitext.reversed
    both = Symmetrized(*(fit_ibm1(side) for side in sides))
    assert reverse_lexicon_of(both) is both.reverse
    joint = fit_joint(messy_bitext)
    turned, joint = reverse_lexicon_of(joint), joint.words
    for i in range(len(joint.source)):
        columns, _ = joint.table.row(i)
        start = joint.table.offsets[i]
        for k, o in enumerate(columns.tolist()):
            assert turned.table.value(o, i) == joint.reverse.emission[start + k]
    assert len(turned.table.values) == len(joint.table.values)
    assert (turned.source, turned.target) == (joint.target, joint.source)
    for one_way in (fit_ibm1(messy_bitext), fit_hmm(messy_bitext)):
        with pytest.raises(AlignkitError, match="one direction only"):
            reverse_lexicon_of(one_way)
