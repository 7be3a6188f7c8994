"""Texts as users have them, files or sentences, as bitexts of whitespace words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from alignkit.errors import AlignkitError, InputError, check_list
from alignkit.text.bitext import Bitext
from alignkit.text.reading import read_bitext
from alignkit.text.tokenization import split_words
from alignkit.types import PathLike
from alignkit.workflow.settings import AlignSettings

#: One side of a text: a file, or sentences as strings or as lists of words.
Side = PathLike | Iterable[str | Sequence[str]]


def read_text(source: Bitext | Side, target: Side | None, settings: AlignSettings, threads: int = 2) -> Bitext:
    """A text in memory.

    Args:
        source, target: a bitext; two files, or one whose lines are ``source ||| target`` or source TAB target; or
            two equally long sequences of sentences, strings of words with spaces between them or lists of words.
        settings: ``encoding_errors`` and ``lowercase`` say how to read.
        threads: with more than one, both sides are read at the same time.

    Raises:
        InputError: a file cannot be read, or is damaged or invalid.
        AlignkitError: the sides differ in length, or in what they are.
    """
    if isinstance(source, Bitext):
        if target is not None:
            raise AlignkitError("a bitext has both sides already; give no target")
        return source
    files = _files(source, target)
    if files is not None:
        encoding, lowercase = settings.encoding_errors, settings.lowercase
        return read_bitext(*files, encoding_errors=encoding, lowercase=lowercase, threads=threads)
    if target is None or isinstance(source, str | os.PathLike) or isinstance(target, str | os.PathLike):
        raise AlignkitError("give two files, one file with both sides, or two sequences of sentences")
    sides = [[_words(sentence, settings.lowercase) for sentence in side] for side in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise AlignkitError(f"there are {len(sides[0])} source and {len(sides[1])} target sentences")
    return Bitext.from_sentences(*sides)


def _files(source: object, target: object) -> tuple[PathLike, PathLike | None] | None:
    """The two files, or the one with both sides; None if these are no files.

    Raises:
        InputError: a string is a sentence, not the path of a file.
    """
    if not isinstance(source, str | os.PathLike) or not (target is None or isinstance(target, str | os.PathLike)):
        return None
    for path in (source, target):
        if isinstance(path, str) and len(path.split()) > 1 and not os.path.exists(path):
            raise InputError(path, "cannot be read: No such file or directory", remedy="sentences go into a list")
    return source, target


def _words(sentence: str | Sequence[str], lowercase: bool) -> list[str]:
    if not isinstance(sentence, str):
        check_list(sentence, "a sentence must be text or a list of words")
    words = split_words(sentence) if isinstance(sentence, str) else list(sentence)
    return [word.lower() for word in words] if lowercase else words
