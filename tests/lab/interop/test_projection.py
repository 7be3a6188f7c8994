"""Projection: scores of other tokens come out between the tokens of the bitext, or the error names the line."""

import numpy as np
import pytest

from alignkit.errors import InputError
from alignkit.lab.interop.other_systems import (
    ExternalScores,
    is_between_tokens,
    project_scores,
    read_scores,
    scores_without_specials,
    without_specials,
    word_bitext,
    word_shapes,
)
from alignkit.scores import Scores
from alignkit.text.bitext import Bitext


def same(found, wanted):
    return np.array_equal(found.shapes, wanted.shapes) and np.array_equal(found.values, wanted.values)


def subword_bitext():
    """Words 'ab c' / 'd efg' in the subwords of a network."""
    return Bitext.from_sentences(
        [["<s>", "▁a", "b", "▁c", "</s>"], ["<s>", "▁c", "</s>"]], [["▁d", "▁e", "fg", "</s>"], ["▁d", "</s>"]]
    )


def test_a_word_of_no_letters_is_unknown():
    words = word_bitext(Bitext.from_sentences([["<s>", "▁ab", "c", "▁", "</s>"]], [["▁", "▁<unk>", "</s>"]]))
    assert (words.source.words(0), words.target.words(0)) == (["abc", "<unk>"], ["<unk>", "<unk>"])


def test_scores_of_other_subwords_go_through_words():
    """Planted scores between BPE subwords come out between those of the bitext, word by word."""
    bitext = subword_bitext()
    theirs = ExternalScores(
        "x",
        Scores.from_matrices([np.array([[0.7, 0.3], [0.2, 0.8], [0.4, 0.6]]), np.array([[1.0]])]),
        (("ab", "c"), ("c",)),
        (("d", "ef@@", "g"), ("d",)),
    )
    found = project_scores(theirs, bitext)
    assert not is_between_tokens(theirs, bitext)
    assert np.allclose(
        found[0],
        [[0, 0.35, 0.35, 0.3, 0], [0, 0.15, 0.15, 0.7, 0], [0, 0.15, 0.15, 0.7, 0], [0, 0, 0, 0, 0]],
    )
    inner = scores_without_specials(found, bitext)
    assert inner.shapes.tolist() == [[3, 3], [1, 1]]
    assert without_specials(bitext).source.words(0) == ["▁a", "b", "▁c"]
    assert np.array_equal(without_specials(bitext).shapes, inner.shapes)
    assert word_shapes(bitext).tolist() == [[2, 2], [1, 1]]
    assert word_shapes(bitext, specials=False, marked=False).tolist() == bitext.shapes.tolist()


def test_scores_of_our_own_tokens_stay():
    bitext = subword_bitext()
    own = Scores.from_matrices([np.random.default_rng(0).random(shape) for shape in bitext.shapes])
    assert same(project_scores(ExternalScores("x", own), bitext), own)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"source": ["ab", "c"], "target": ["cd", "e"]}, True),
        ({"source": ["ab", "c"], "target": ["cd", "c"]}, False),
        ({"source": ["ab", "b"], "target": ["cd", "e"]}, False),
        ({"source": ["ab", "c"], "target": ["cd"]}, False),
        ({"source": ["ab", "c"]}, True),
        ({"words": ([(np.zeros(2, np.int64), 1)], [(np.zeros(2, np.int64), 1)])}, False),
        ({"shapes": [(2, 2)]}, False),
        ({"shapes": [(2, 2), (1, 2)]}, False),
    ],
)
def test_scores_between_our_own_tokens(changes, wanted):
    """Between the letters of two pairs."""
    bitext = Bitext.from_sentences([["a", "b"], ["c"]], [["c", "d"], ["e"]])
    shapes = changes.pop("shapes", bitext.shapes)
    tokens = {side: tuple(map(tuple, each)) for side, each in changes.items() if side != "words"}
    found = ExternalScores(
        "x", Scores.from_matrices([np.ones(shape) for shape in shapes]), **{**changes, **tokens}
    )
    assert is_between_tokens(found, bitext) is wanted


def test_scores_of_words_if_no_tokens_are_given():
    bitext = subword_bitext()
    words = Scores.from_matrices([np.array([[1.0, 0], [0, 1]]), np.array([[1.0]])])
    assert np.allclose(project_scores(ExternalScores("x", words), bitext)[0][0], [0, 0.5, 0.5, 0, 0])


def test_errors_name_the_line():
    bitext = subword_bitext()
    words = [np.eye(2), np.eye(1)]
    with pytest.raises(InputError, match="1 pair, the text has 2"):
        project_scores(ExternalScores("x", Scores.from_matrices(words[:1])), bitext)
    wrong = ExternalScores("x", Scores.from_matrices([words[0], np.zeros((2, 5))]))
    with pytest.raises(InputError, match=r"line 2: a matrix of 2 by 5 for 1 .* 1 source words.*; scores between"):
        project_scores(wrong, bitext)
    tokens = ([["ab", "c"], ["d"]], [["d", "efg"], ["d"]])
    with pytest.raises(InputError, match="line 2: its subwords make the word 'd' where the text has 'c'"):
        project_scores(ExternalScores("x", Scores.from_matrices(words), *tokens), bitext)
    larger = Scores.from_matrices([np.ones((3, 2)), words[1]])
    with pytest.raises(InputError, match="line 1: a matrix of 3 by 2 for 2 target and 2 source subwords"):
        project_scores(ExternalScores("x", larger, *tokens), bitext)
    fewer = ([["abc"], ["c"]], [["d", "efg"], ["d"]])
    with pytest.raises(InputError, match="line 1: number of words: 1 from its subwords, 2 in the text"):
        project_scores(ExternalScores("x", Scores.from_matrices([np.ones((2, 1)), words[1]]), *fewer), bitext)


def test_rows_and_columns_exchanged():
    bitext = Bitext.from_sentences([["a", "b", "c"]], [["d", "e"]])
    with pytest.raises(InputError, match="seem to be source tokens"):
        project_scores(ExternalScores("x", Scores.from_matrices([np.zeros((3, 2))])), bitext, specials=False)


def test_words_that_look_like_subwords_stay_words():
    """A hashtag is not a continuing WordPiece in a text of words."""
    bitext = Bitext.from_sentences([["a", "##tag"]], [["<s>"]])
    scores = Scores.from_matrices([np.array([[0.25, 0.75]])])
    assert same(project_scores(ExternalScores("x", scores), bitext, specials=False), scores)


def test_empty_sides(tmp_path):
    (tmp_path / "a").write_text("\n0.5,0.5\n")
    bitext = Bitext.from_sentences([["a", "b"], ["a", "b"]], [[], ["c"]])
    found = project_scores(read_scores(tmp_path / "a"), bitext, specials=False)
    assert found.shapes.tolist() == [[0, 2], [1, 2]]
