"""Marks of subwords: which word each subword belongs to."""

import pytest

from alignkit.text.tokenization import join_words, style_of, word_groups

STYLED = {
    "sentencepiece": ["<s>", "▁Don", "au", "▁", "dampf", "▁.", "</s>"],
    "bpe": ["<s>", "Don@@", "au", "dam@@", "pf", ".", "</s>"],
    "wordpiece": ["[CLS]", "Don", "##au", "dam", "##pf", ".", "[SEP]", "[PAD]"],
}


@pytest.mark.parametrize("style", STYLED)
def test_marks_of_subwords(style):
    tokens = STYLED[style]
    assert style_of([tokens]) == style
    groups = word_groups(tokens, style)
    assert join_words(tokens, groups) == ["Donau", "dampf", "."]
    assert groups[0] == -1
    assert all(groups[len([t for t in tokens if t not in ("</s>", "[SEP]", "[PAD]")]) :] == -1)


def test_specials_in_the_middle_are_words():
    assert word_groups(["a", "</s>", "b"], "words").tolist() == [0, 1, 2]
    assert word_groups(["<s>", "a"], "words", specials=False).tolist() == [0, 1]
