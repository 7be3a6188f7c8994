"""What is alike in the spellings of a word: its case, its marks, and what Unicode writes in several ways."""

from __future__ import annotations

import re
from functools import cache
from unicodedata import combining, normalize

GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
#: Marks that depend on the sentence: accents of Hebrew verses, pauses of Arabic ones, and grave accents of Greek.
_OF_SENTENCES = re.compile("[\u0591-\u05af\u05bd\u06d6-\u06dc\u1f00-\u1fff]")
_GRAVE, _ACUTE = "\u0300", "\u0301"
#: From ancient to modern Greek: one accent, neither breathings nor an iota below.
_MODERN = {0x300: 0x301, 0x342: 0x301, 0x313: None, 0x314: None, 0x345: None}


def folded(text: str) -> str:
    """Text as words are compared: in lower case, each letter with its marks as one (NFC), and without marks that
    depend on the sentence. Greek grave accents are acute ones, as which they stand before other words."""
    text = text.lower()
    if text.isascii():
        return text
    return _OF_SENTENCES.sub(lambda found: _of_word(found[0]), normalize("NFC", text)) or text


@cache
def _of_word(mark: str) -> str:
    if GREEK.match(mark):
        return normalize("NFC", normalize("NFD", mark).replace(_GRAVE, _ACUTE))
    return ""


def base_letters(word: str) -> str:
    """A word's letters without marks that are characters of their own, such as vowels of Hebrew and Arabic, and
    Greek ones without accents, which move within the forms of a word."""
    return word if word.isascii() else "".join(map(_base, normalize("NFC", word))) or word


@cache
def _base(letter: str) -> str:
    if combining(letter):
        return ""
    return bare(letter) if GREEK.match(letter) else letter


def bare(word: str) -> str:
    """A word without marks, if it has more than these."""
    return normalize("NFC", "".join(c for c in normalize("NFD", word) if not combining(c))) or word


def spellings(word: str) -> list[str]:
    """How other texts may spell a word: as it is (NFC), in Greek as today, and without marks."""
    if word.isascii():
        return [word]
    modern = [normalize("NFC", normalize("NFD", word).translate(_MODERN))] if GREEK.search(word) else []
    return [*dict.fromkeys([normalize("NFC", word), *modern, bare(word)])]
