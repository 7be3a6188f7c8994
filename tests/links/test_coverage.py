"""Words without counterpart, from planted probabilities."""

from __future__ import annotations

from math import exp, isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alignkit
from alignkit.links.coverage import Coverage, gaps, without_counterpart
from alignkit.links.links import AlignedPair
from alignkit.scores import Scores


def by_hand(matrix, s):
    """The probability that column s has no counterpart, as the module describes it."""
    hold = max([p[s] ** 2 / sum(p) for p in matrix if p[s] > 0], default=0)
    hold = min(max(hold, 0.001), 0.999)
    return 1 / (1 + exp(2.5 + 0.75 * log(hold / (1 - hold))))


def test_probabilities_are_those_of_the_formula():
    draw = np.random.default_rng(0)
    matrices = [draw.random(shape) * (draw.random(shape) > 0.4) for shape in ((3, 4), (1, 5), (0, 2), (6, 1))]
    source, target = without_counterpart(Scores.from_matrices([each.astype(np.float32) for each in matrices]))
    rows = [each.tolist() for each in matrices]
    columns = [each.T.tolist() for each in matrices]
    assert source.tolist() == pytest.approx(
        [by_hand(each, s) for each, of in zip(rows, matrices, strict=True) for s in range(of.shape[1])], abs=1e-5
    )
    assert target.tolist() == pytest.approx(
        [by_hand(each, t) for each, of in zip(columns, matrices, strict=True) for t in range(of.shape[0])],
        abs=1e-5,
    )
    assert source.dtype == target.dtype == np.float32
    empty = without_counterpart(Scores.from_matrices([]))
    assert [each.size for each in empty] == [0, 0]


def test_a_word_with_a_partner_of_its_own_has_a_counterpart():
    shared = np.array([[1.0, 0.8, 0.0], [0.0, 0.0, 1.0]], np.float32)
    source, target = without_counterpart(Scores.from_matrices([shared]))
    assert source[1] > 0.1 > source[0] > source[2]
    assert (target < 0.01).all()


@pytest.mark.parametrize(
    ("words", "probabilities", "found"),
    [
        ("a large house", (0.1, 0.3, 0.9), [(1, 3, 0.6, "large house")]),
        ("a large house", (0.1, 0.2999, 0.9), [(2, 3, 0.9, "house")]),
        ("a large house", (0.4, 0.4, 0.1), [(0, 2, 0.4, "a large")]),
        ("in the house", (0.9, 0.1, 0.1), []),
        ("the cat", (0.9, 0.1), []),
        ("in an hour", (0.9, 0.9, 0.1), [(0, 2, 0.9, "in an")]),
        (", cats , dogs , and", (0.9, 0.6, 0.1, 0.8, 0.9, 0.1), [(1, 4, 0.7, "cats , dogs")]),
        ("1984 , 猫 犬 猫", (0.5, 0.9, 0.2, 0.5, 0.7), [(0, 1, 0.5, "1984"), (3, 5, 0.6, "犬 猫")]),
        ("", (), []),
    ],
)
def test_stretches_of_words_are_gaps(words, probabilities, found):
    shown = gaps(words.split(), probabilities, 0.3)
    assert [(gap.start, gap.end, gap.text) for gap in shown] == [(low, high, text) for low, high, _, text in found]
    assert [gap.probability for gap in shown] == pytest.approx([p for _, _, p, _ in found])


@given(
    st.lists(st.tuples(st.sampled_from(["a", "the", ",", "Haus", "«", "日本"]), st.floats(0, 1))), st.floats(0, 1)
)
def test_gaps_are_disjoint_and_have_only_such_words(words, least):
    tokens, probabilities = [w for w, _ in words], [p for _, p in words]
    end = 0
    for gap in gaps(tokens, probabilities, least):
        assert end <= gap.start < gap.end
        inside = [(w, p) for w, p in words[gap.start : gap.end] if w not in ",«"]
        assert all(p >= least for _, p in inside)
        assert {tokens[gap.start], tokens[gap.end - 1]}.isdisjoint(",«")
        end = gap.end
    longest = [n for n, (w, p) in enumerate(words) if p >= least and w in ("Haus", "日本")]
    found = {n for gap in gaps(tokens, probabilities, least) for n in range(gap.start, gap.end)}
    assert set(longest) <= found


def test_a_pair_has_a_share_of_letters_without_counterpart():
    pair = Coverage(("the", "Haus", "."), ("家",), (0.5, 0.1, 1.0), (0.25,))
    assert pair.share == pytest.approx((3 * 0.5 + 4 * 0.1 + 2 * 0.25) / 9)
    assert isnan(Coverage((".",), (), (0.5,), ()).share)
    assert Coverage((".",), (), (0.5,), ()).as_record()["share"] is None


def test_what_is_deleted_and_added_is_found():
    sources = ["haus baum katze", "baum haus vogel", "katze vogel haus", "vogel katze baum"] * 30
    pupils = dict(zip(("haus", "baum", "katze", "vogel"), ("house", "tree", "kitten", "bird"), strict=True))
    targets = [" ".join(pupils[word] for word in line.split()) for line in sources]
    text = [*sources, "haus vogel baum", "baum katze"], [*targets, "house tree", "tree bird kitten"]
    aligned = alignkit.align(*([line.split() for line in side] for side in text), embeddings="none", threads=1)
    less, more = aligned[-2].coverage, aligned[-1].coverage
    assert aligned.coverage(-2) == aligned.coverage(len(aligned) - 2) == less
    assert [gap.text for gap in less.omissions(0.3)] == ["vogel"]
    assert [gap.text for gap in more.additions(0.3)] == ["bird"]
    assert less.additions(0.3) == more.omissions(0.3) == []
    assert aligned[0].coverage.share < less.share
    assert less.as_record(0.3) == {
        "share": round(less.share, 4),
        "source": ["haus", "vogel", "baum"],
        "target": ["house", "tree"],
        "source_probabilities": [round(p, 4) for p in less.source_probabilities],
        "target_probabilities": [round(p, 4) for p in less.target_probabilities],
        "omissions": [gap._asdict() | {"probability": round(gap.probability, 4)} for gap in less.omissions(0.3)],
        "additions": [],
    }
    source, target = without_counterpart(Scores.from_matrices([aligned.score()[-2]]))
    assert less.source_probabilities == source.tolist()
    assert less.target_probabilities == target.tolist()


def test_links_alone_do_not_tell():
    with pytest.raises(alignkit.AlignkitError, match="align the text"):
        _ = AlignedPair(("a",), ("b",), ()).coverage
