"""Whole texts of sentence pairs: from files, from what a caller has in memory, or to train a network on."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, InputError, abbreviated, check_list, check_type, counted, of_file
from alignkit.support.stages import Stage
from alignkit.text.bitext import Bitext, Corpus, lines_of
from alignkit.text.pair_formats import NAMES, TAB, json_fields, record_lines, separator_of, split_fields
from alignkit.text.raw_text import tokenized_text, warn_of_raw_text
from alignkit.text.reading import BOM, encode_text, file_parts, split_lines, valid_text
from alignkit.text.tokenization import split_words
from alignkit.text.translators import has_units
from alignkit.types import PathLike

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

#: Without a validation text, the last pairs of the training text become one: at most this many, and at most one
#: in HELD_OUT_SHARE.
MOST_HELD_OUT, HELD_OUT_SHARE = 1000, 20
#: Two files, or one with both sides and None.
Files = tuple[PathLike, PathLike | None]
#: One side of a text: a file; or sentences as strings or as lists of words, also the lines of an open file.
Side = PathLike | Iterable[str | bytes | Sequence[str]]


class LinePairs(NamedTuple):
    """Raw text: line m of ``source`` and line m of ``target`` are a sentence pair."""

    source: Sequence[str]
    target: Sequence[str]

    @property
    def shapes(self) -> np.ndarray:
        """int64 (M, 2): the numbers of target and of source words of each pair."""
        words = [[len(split_words(line)) for line in side] for side in (self.target, self.source)]
        return np.array(words, np.int64).T


class PairFiles:
    """Sentence pairs in files, plain or compressed (gzip, xz, bzip2, zstd), and how to read them.

    What reads them raises InputError for unreadable, empty, damaged or invalid input, with file and line, and
    AlignkitError for unequal numbers of lines, or for what is no path.

    Args:
        source, target: two files with a sentence per line; or one whose lines are ``source ||| target`` or source
            TAB target; or one of :func:`alignkit.text.pair_formats.record_lines`. "-" is standard input.
        encoding_errors: "strict" or "replace" (invalid UTF-8 becomes U+FFFD).
        lowercase: lower-case both sides (full Unicode).
        tokenize: find the words of raw text (:mod:`alignkit.text.raw_text`).
    """

    def __init__(
        self,
        source: PathLike,
        target: PathLike | None = None,
        encoding_errors: str = "strict",
        lowercase: bool = False,
        tokenize: bool = False,
    ) -> None:
        self.source, self.target = source, target
        self.encoding_errors, self.lowercase, self.tokenize = encoding_errors, lowercase, tokenize
        self.lowered = lowercase and not tokenize  # as it is read; raw text is when its words are found
        self.paths = (source,) if target is None else (source, target)
        for path in self.paths:
            check_type(
                path, str | os.PathLike, "a text must be the path of a file; Bitext.from_sentences takes sentences"
            )

    def side(self, path: PathLike, lines: bytes | None = None, first: int = 1) -> bytes:
        """One of two files, or whole lines of it from the line of that number on, as valid UTF-8."""
        if lines is None:
            if [os.fspath(each) for each in self.paths] == ["-", "-"]:
                raise AlignkitError("standard input cannot be both sides; give it one SOURCE ||| TARGET text")
            lines = b"".join(file_parts(path, -1))
        begin = re.search(rb"[^\n]+", lines) if first == 1 else None
        is_json = begin and begin[0].lstrip().startswith(b"{") and json_fields(begin[0])
        if is_json or (begin and has_units(lines)):
            remedy = "give one file with both sides in its fields, or two with a sentence per line"
            raise InputError(path, f"has {'JSON lines' if is_json else 'XML'}, not sentences", remedy=remedy)
        return valid_text(path, lines, self.encoding_errors, self.lowered, first)

    def both_sides(self) -> tuple[bytes, bytes]:
        """Both sides of the one file, as valid UTF-8."""
        text = b"".join(file_parts(split_fields(self.source)[0], -1))
        records = record_lines(self.source, [text], self.encoding_errors)
        form = separator_of([text]) if records is None else TAB
        text = text if records is None else b"".join(records)
        return form.sides(self.source, text, self.encoding_errors, self.lowered)

    def corpus(self, text: bytes) -> Corpus:
        """The corpus of valid text of a side."""
        return tokenized_text(text, self.lowercase) if self.tokenize else encode_text(text)

    def bitext(self, threads: int = 2) -> Bitext:
        """The whole text; with more than one thread, both sides are read at the same time."""
        with Stage("reading"), ThreadPoolExecutor(min(threads, 2)) as pool:
            if self.target is None:
                corpora = pool.map(self.corpus, self.both_sides())
            else:
                corpora = pool.map(lambda path: self.corpus(self.side(path)), self.paths)
            source, target = corpora
        self.check_counts(len(source), len(target))
        return Bitext(source, target)

    def check_counts(self, source: int, target: int) -> None:
        """Raise AlignkitError unless two files have equally many lines."""
        if source != target:
            first, second = (InputError(path, "").path for path in self.paths)
            raise AlignkitError(
                f"{first} has {counted(source, 'line')}, {second} has {target:,}; "
                "line n of one must belong to line n of the other"
            )


def read_bitext(
    source: PathLike,
    target: PathLike | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    tokenize: bool = False,
    threads: int = 2,
) -> Bitext:
    """Read a bitext of whitespace tokens, or of the words of raw text, each side with its own vocabulary.

    Arguments and errors as :class:`PairFiles`; with more than one thread, both sides are read at the same time.
    """
    bitext = PairFiles(source, target, encoding_errors, lowercase, tokenize).bitext(threads)
    warn_of_raw_text(bitext)
    return bitext


def read_line_pairs(
    source: Bitext | Side | pd.DataFrame,
    target: Side | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
) -> LinePairs:
    """The lines of both sides of a text, equal in number; arguments and errors as :func:`read_text`."""
    if not isinstance(source, str | os.PathLike) or not isinstance(target, str | os.PathLike | None):
        return LinePairs(*lines_of(read_text(source, target, lowercase=lowercase, as_words=False)))
    files = PairFiles(source, target, encoding_errors, lowercase)
    texts = files.both_sides() if target is None else map(files.side, files.paths)
    lines = LinePairs(*map(split_lines, texts))
    files.check_counts(len(lines.source), len(lines.target))
    return lines


def sides_of(pairs: Any) -> tuple[Iterable[Any], Iterable[Any]]:
    """The source and the target of a frame's two columns, by :data:`NAMES` or in order, or of a list of pairs.

    Raises:
        AlignkitError: it is neither; or its pairs have two single words each, as sentences of two words have.
    """
    columns = getattr(pairs, "columns", None)
    if columns is not None:
        if len(set(columns)) != 2 or len(columns) != 2:
            names = abbreviated(", ".join(map(str, columns)))
            raise AlignkitError(f"a frame must have two columns, source and target, not {len(columns)}: {names}")
        order = next((each for each in NAMES if {*each} == {*columns}), columns)
        return pairs[order[0]], pairs[order[1]]
    items = list(pairs) if isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes | Mapping) else []
    if not items or not all(isinstance(each, tuple) and len(each) == 2 for each in items):
        wanted = "give two files, one file with both sides, or two sequences of sentences"
        raise AlignkitError(f"{wanted}; a frame of two columns or a list of tuples (source, target) has both")
    if not any(" " in side if isinstance(side, str) else side is not None for each in items for side in each):
        problem = "tuples of two single words may be pairs of them or sentences"
        raise AlignkitError(f"{problem}; give the source and the target as two lists")
    source, target = zip(*items, strict=True)
    return source, target


def read_text(
    source: Bitext | Side | pd.DataFrame,
    target: Side | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    tokenize: bool = False,
    threads: int = 2,
    as_words: bool = True,
) -> Bitext:
    """A text however it is given.

    Args:
        source, target: a bitext; files, as :class:`PairFiles` has them; or two equally long sequences of
            sentences, strings of words with spaces between them or lists of words, which may also be the two
            columns of a frame, or a list of tuples (source, target). A line end is a space, and may end a string:
            open files have the words of their paths.
        encoding_errors, lowercase, tokenize, threads: as in :func:`read_bitext`. A bitext, or lists of words, are
            taken as they are.
        as_words: warn where sentences seem to be raw; False: they need not be words.

    Raises:
        InputError: a file cannot be read, or is damaged or invalid; or a string is a sentence, not a file.
        AlignkitError: the sides differ in length, or in what they are.

    >>> read_text(["the house", "a cat"], ["das Haus", ["eine", "Katze"]])
    Bitext(Corpus(2 sentences, 4 tokens, 4 types) -> Corpus(2 sentences, 4 tokens, 4 types))
    """
    if isinstance(source, Bitext):
        if target is not None:
            raise AlignkitError("a bitext has both sides already; give no target")
        return source
    if isinstance(source, str | os.PathLike) and (target is None or isinstance(target, str | os.PathLike)):
        for path in (source, target):
            if isinstance(path, str) and len(path.split()) > 1 and not os.path.exists(path):
                problem = "cannot be read: No such file or directory"
                raise InputError(path, problem, remedy="sentences go into a list")
        return read_bitext(
            source,
            target,
            encoding_errors=encoding_errors,
            lowercase=lowercase,
            tokenize=tokenize,
            threads=threads,
        )
    if isinstance(source, str | os.PathLike) or isinstance(target, str | os.PathLike):
        raise AlignkitError("give two files, one file with both sides, or two sequences of sentences")
    given: tuple[Any, Any] = sides_of(source) if target is None else (source, target)
    sides = []
    for name, side in zip(("source", "target"), given, strict=True):
        check_list(side, f"{name} sentences must be a list")
        if isinstance(side, Mapping | set | frozenset) or hasattr(side, "columns"):  # whose items are no sentences
            raise AlignkitError(f"{name} sentences must be a list, not a {type(side).__name__}")
        sentences: list[Any] = list(side)
        if not sentences and hasattr(side, "read"):
            raise InputError(getattr(side, "name", name), "has no lines: it is empty, or was read before")
        for n, each in enumerate(sentences):
            if not isinstance(each, str | bytes):
                what = f"the {name} sentence at index {n} must be text or a list of words"
                check_list(each, what, 'a blank one is ""')
        kinds = {isinstance(each, str | bytes) for each in sentences}
        if tokenize and len(kinds) > 1:
            raise AlignkitError(f"{name} sentences must all be text, or all lists of words")
        if False in kinds:
            rows = [
                split_words(each.removeprefix("\ufeff")) if isinstance(each, str) else list(each)
                for each in sentences
            ]
            with of_file(f"{name} sentences"):
                sides.append(
                    Corpus.from_sentences([list(map(str.lower, row)) for row in rows] if lowercase else rows)
                )
            continue
        # Line ends are white space here, like any other; byte order marks are, too, where text is tokenized.
        lines = (each if isinstance(each, bytes) else each.encode("utf-8", "surrogatepass") for each in sentences)
        mark = b"" if tokenize else BOM
        text = b"".join(line.removeprefix(mark).replace(b"\n", b" ") + b"\n" for line in lines)
        try:
            text = valid_text(name, text, encoding_errors, lowercase and not tokenize)
        except InputError as error:
            n = (error.line or 1) - 1
            problem = "has half a character and is not text" if isinstance(sentences[n], str) else error.problem
            raise AlignkitError(f"the {name} sentence at index {n} {problem}") from error
        sides.append(tokenized_text(text, lowercase) if tokenize else encode_text(text))
    if len(sides[0]) != len(sides[1]):
        raise AlignkitError(f"there are {len(sides[0])} source and {len(sides[1])} target sentences")
    bitext = Bitext(*sides)
    if as_words:
        warn_of_raw_text(bitext)
    return bitext


def read_training_pairs(
    text: Files | tuple[Any, Any], valid: Any, *, encoding_errors: str = "strict", lowercase: bool = False
) -> tuple[LinePairs, LinePairs]:
    """Read a training and a validation text.

    Args:
        text: source and target, as of :func:`read_text`; or what has both sides, and None.
        valid: the same of a validation text, or what has both its sides. None: the last 1,000 pairs of the text,
            or one in twenty if that is fewer, are held out.
        encoding_errors, lowercase: as in :func:`read_line_pairs`.

    Raises:
        AlignkitError: a file cannot be read, or has no pair with words on both sides.
    """
    lines = read_line_pairs(*text, encoding_errors=encoding_errors, lowercase=lowercase)
    if valid is not None:
        given = valid if isinstance(valid, tuple) else (valid, None)
        held = read_line_pairs(*given, encoding_errors=encoding_errors, lowercase=lowercase)
    else:
        size = max(1, min(MOST_HELD_OUT, len(lines.source) // HELD_OUT_SHARE))
        held = LinePairs(lines.source[-size:], lines.target[-size:])
        lines = LinePairs(lines.source[:-size], lines.target[:-size])
    rest = " beside those that are held out at the end for lack of a validation text" if valid is None else ""
    check_has_words(lines, f"train on{rest}")
    check_has_words(held, "validate on")
    if valid is None:
        log.info("no validation text: %s at the end held out as one", counted(len(held.source), "pair"))
    return lines, held


def check_has_words(lines: LinePairs, purpose: str) -> None:
    """Raise AlignkitError if no pair has words on both sides; a network of blanks would still have a loss."""
    if not any(split_words(x) and split_words(y) for x, y in zip(*lines, strict=True)):
        raise AlignkitError(f"no pair with words on both sides to {purpose}; give another text")
