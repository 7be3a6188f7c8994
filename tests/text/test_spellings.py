"""Spellings of words: case, marks, and characters that Unicode writes in several ways."""

from unicodedata import normalize

import pytest

import alignkit
from alignkit.text.spellings import bare, base_letters, folded, spellings

VERSE = "וַיֹּ֥אמֶר אֶל בְּנֹתָ֖יו וְאַיּ֑וֹ"  # with vowels, and with the accents of the verse


@pytest.mark.parametrize(
    ("text", "as_compared"),
    [
        ("Haus", "haus"),
        ("ÉTÉ", "été"),
        (normalize("NFD", "Über été"), "über été"),
        (VERSE, "וַיֹּאמֶר אֶל בְּנֹתָיו וְאַיּוֹ"),
        ("Καὶ θεὸς ἦν τῇ", "καί θεός ἦν τῇ"),
        (normalize("NFD", "Καὶ θεὸς"), "καί θεός"),
        ("où é è", "où é è"),  # a grave accent of other scripts tells words apart
        ("ٱلْعَٰلَمِينَۖ", "ٱلْعَٰلَمِينَ"),
        ("ۖ", "ۖ"),  # a word of its own
    ],
)
def test_words_are_compared_without_case_and_marks_of_sentences(text, as_compared):
    assert folded(text) == normalize("NFC", as_compared)


@pytest.mark.parametrize(
    ("word", "those"),
    [
        ("word", "word"),
        ("šéf", "šéf"),
        (normalize("NFD", "šéf"), "šéf"),
        ("וַיֹּאמֶר", "ויאמר"),
        ("الْعَالَمِينَ", "العالمين"),
        ("ἀνθρώπους", "ανθρωπους"),
        ("phở", "phở"),
        ("\u05b7", "\u05b7"),  # nothing but a mark
    ],
)
def test_letters_of_a_word(word, those):
    assert base_letters(word) == those


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("word", ["word"]),
        ("été", ["été", "ete"]),
        (normalize("NFD", "été"), ["été", "ete"]),
        ("ἀρχῇ", ["ἀρχῇ", "αρχή", "αρχη"]),
        ("שָׁמַיִם", [normalize("NFC", "שָׁמַיִם"), "שמים"]),
        ("слово", ["слово"]),
        ("ۖ", ["ۖ"]),
    ],
)
def test_spellings_of_other_texts(word, found):
    assert spellings(word) == found
    assert bare(word) == found[-1]


def _links(source, target):
    return alignkit.align(source, target, embeddings="none").links.to_strings()


def test_decomposed_text_has_the_links_of_composed_text():
    text = alignkit.sample().bitext
    source, target = ([" ".join(side.words(m)) for m in range(200)] for side in (text.source, text.target))
    decomposed = [normalize("NFD", line) for line in source]
    assert decomposed != source
    assert _links(decomposed, target) == _links(source, target)


def test_accents_of_verses_make_no_words():
    words = ["וַיֹּאמֶר", "בְּנֹתָיו", "הָאִישׁ", "לָחֶם"]
    accented = [word[:1] + "\u0596" + word[1:] for word in words]
    source, target = [" ".join(words), " ".join(accented)], ["said daughters man bread"] * 2
    model = alignkit.align(source, target, embeddings="none").aligner
    assert list(model.source) == [folded(word) for word in words]
    assert model.translations(accented[0]) == model.translations(words[0]) != []
