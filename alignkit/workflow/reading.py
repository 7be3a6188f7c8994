"""Texts as users have them, files or sentences, as bitexts of whitespace words."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence

from alignkit.classical import memory
from alignkit.errors import AlignkitError, InputError, check_list
from alignkit.text.bitext import Bitext
from alignkit.text.on_disk import read_bitext_to_disk, text_size
from alignkit.text.reading import read_bitext
from alignkit.text.tokenization import split_words
from alignkit.types import PathLike
from alignkit.workflow.settings import AlignSettings

log = logging.getLogger(__name__)

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


def read_within_memory(
    source: Bitext | Side, target: Side | None, settings: AlignSettings, threads: int
) -> tuple[Bitext, int | None]:
    """A text in memory or on disk, and the size of the blocks to lay it out in (None: as a whole).

    For co-occurrence tables and models that can work in blocks. Arguments as of :func:`read_text`.

    Raises:
        AlignkitError: it takes more memory than ``settings.max_memory``, however it is done; or it has to be done
            in blocks, and scores of it are wanted.
    """
    given = settings.max_memory
    limit = memory.usual_limit() if given is None else memory.parse_size(str(given))
    files = _files(source, target)
    size = 0 if files is None else text_size(*files, unknown=0 if given is None else limit)
    if files is not None and memory.TEXT * size > limit:
        log.info("a large text (about %s): its ids are kept on disk", memory.show_size(size))
        bitext = read_bitext_to_disk(
            *files,
            encoding_errors=settings.encoding_errors,
            lowercase=settings.lowercase,
            threads=threads,
            folder=settings.temp_folder,
        )
    else:
        bitext = read_text(source, target, settings, threads)
    both = settings.symmetrization is not None
    block = memory.block_tokens(bitext, limit, both=both, threads=threads, strict=given is not None)
    if block is not None and settings.scored:
        raise AlignkitError(f"scores need all of the text in memory, more than {memory.show_size(limit)}")
    return bitext, block


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
