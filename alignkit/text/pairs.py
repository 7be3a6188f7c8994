"""Sentence pairs of two files, of one with both sides, or of a stream: whole, in blocks, or as they come."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_list, check_type, counted
from alignkit.support.stages import Stage
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.pair_records import object_fields, object_lines, object_of, record_lines, split_fields
from alignkit.text.raw_text import tokenized_text
from alignkit.text.reading import encode_text, file_parts, split_lines, valid_text, whole_lines
from alignkit.text.tokenization import split_words
from alignkit.types import PathLike

log = logging.getLogger(__name__)

COUNTED_BLOCK = 1 << 16  # pairs that are counted or sampled at a time
#: Without a validation text, the last pairs of the training text become one: at most this many, and at most one
#: in HELD_OUT_SHARE.
MOST_HELD_OUT, HELD_OUT_SHARE = 1000, 20
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")  # only \n ends one
_BLANK = b" \t\r\n"
LINE_FORMS = (
    "give two files, or one form of lines: SOURCE ||| TARGET, or SOURCE<tab>TARGET, "
    'or {"src": "SOURCE", "tgt": "TARGET"}'
)
#: Two files, or one with both sides and None.
Files = tuple[PathLike, PathLike | None]
#: One side of a text: a file, or sentences as strings or as lists of words.
Side = PathLike | Iterable[str | Sequence[str]]


@dataclass(frozen=True)
class SeparatedLines:
    """Lines of source, separator and target, which can be read a part at a time.

    Attributes:
        name: of the separator, for messages.
        separator: matches it.
    """

    name: str
    separator: re.Pattern[bytes]

    def recognizes(self, data: bytes) -> bool:
        """True if the separator is anywhere in ``data``."""
        return self.separator.search(data) is not None

    def sides(
        self,
        path: PathLike,
        data: bytes,
        encoding_errors: str = "strict",
        lowercase: bool = False,
        first_line: int = 1,
    ) -> tuple[bytes, bytes]:
        """The two sides of whole lines, of which the first has the number ``first_line``.

        Both sides of a blank line are blank.

        Raises:
            InputError: invalid UTF-8; a line without the separator, or with more than one.
        """
        lines = valid_text(path, data, encoding_errors, lowercase, first_line).split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        for number, line in enumerate(lines, first_line):
            parts = self.separator.split(line) if line.strip(b" \t\r") else [b"", b""]
            if len(parts) != 2:
                raise InputError(
                    path,
                    f"has {len(parts) - 1} separators ({self.name}) where one is needed",
                    line=number,
                    remedy=LINE_FORMS,
                )
            for side, part in zip(sides, parts, strict=True):
                side.append(part)
        return b"".join(line + b"\n" for line in sides[0]), b"".join(line + b"\n" for line in sides[1])


#: ``|||`` as a token of its own, with the space on each side
BARS = SeparatedLines("|||", re.compile(rb" ?(?<![^ \t\n])\|\|\|(?![^ \t\r\n]) ?"))
TAB = SeparatedLines("tab", re.compile(rb"\t"))


def _id(line: bytes) -> Any:
    """The field ``id`` of a line, None if it has none."""
    return (object_of(line) or {}).get("id")


def pair_format(parts: Iterable[bytes]) -> SeparatedLines:
    """The form of a file's lines, told by the first that has one separator and not the other.

    Args:
        parts: the file without byte order mark, cut after line ends only.
    """
    lines = (line[0] for part in parts for line in _LINE.finditer(part) if line[0].strip(_BLANK))
    forms = ([form for form in (BARS, TAB) if form.recognizes(line)] for line in lines)
    return next((found[0] for found in forms if len(found) == 1), BARS)


class LinePairs(NamedTuple):
    """Raw text: line m of ``source`` and line m of ``target`` are a sentence pair."""

    source: Sequence[str]
    target: Sequence[str]


@dataclass(frozen=True)
class PairBatch:
    """Consecutive sentence pairs, as valid UTF-8 with a line each.

    Attributes:
        first: number of the first pair, from 1.
        source, target: the two sides.
        errors: those of malformed lines, which are blank pairs here.
        encode: makes a corpus of a side.
        ids: of JSON lines, the field ``id`` of each pair or None; else empty.
    """

    first: int
    source: bytes
    target: bytes
    errors: tuple[InputError, ...] = ()
    encode: Callable[[bytes], Corpus] = encode_text
    ids: tuple[Any, ...] = ()

    @property
    def bitext(self) -> Bitext:
        """The pairs, with vocabularies of their own."""
        return Bitext(self.encode(self.source), self.encode(self.target))


@dataclass(frozen=True)
class PairFiles:
    """Sentence pairs in files, plain or compressed (gzip, xz, bzip2, zstd).

    Attributes:
        source, target: two files with a sentence per line; or one whose lines are ``source ||| target`` or source
            TAB target; or one of :func:`alignkit.text.pair_records.record_lines`. "-" is standard input.
        encoding_errors: "strict" or "replace" (invalid UTF-8 becomes U+FFFD).
        lowercase: lower-case both sides (full Unicode).
        tokenize: find the words of raw text (:mod:`alignkit.text.raw_text`); not for ``lines``.

    All methods raise InputError for unreadable, empty, damaged or invalid input, with file and line, and
    AlignkitError for unequal numbers of lines, or for what is no path.
    """

    source: PathLike
    target: PathLike | None = None
    encoding_errors: str = "strict"
    lowercase: bool = False
    tokenize: bool = False

    def __post_init__(self) -> None:
        for path in self.paths:
            check_type(path, str | os.PathLike, "a text must be a file; Bitext.from_sentences takes sentences")

    @property
    def how(self) -> tuple[str, bool]:
        """How to make text valid, and whether in lower case: raw text is lowered when its words are found."""
        return self.encoding_errors, self.lowercase and not self.tokenize

    @property
    def encode(self) -> Callable[[bytes], Corpus]:
        """What makes a corpus of valid text."""
        return partial(tokenized_text, lowercase=self.lowercase) if self.tokenize else encode_text

    @property
    def paths(self) -> tuple[PathLike, ...]:
        """The one file or the two."""
        return (self.source,) if self.target is None else (self.source, self.target)

    def bitext(self, threads: int = 2) -> Bitext:
        """All pairs; with more than one thread, both sides are read at the same time."""
        readers = self._sides()
        with Stage("reading"), ThreadPoolExecutor(min(threads, 2)) as pool:
            source, target = pool.map(lambda read: self.encode(read()), readers)
        self._check_counts(len(source), len(target))
        return Bitext(source, target)

    def lines(self) -> LinePairs:
        """The lines of all pairs, without their ends."""
        lines = LinePairs(*(split_lines(read()) for read in self._sides()))
        self._check_counts(len(lines.source), len(lines.target))
        return lines

    def bounds(self, pairs: int, elements: int | None = None) -> np.ndarray:
        """int64 (B + 1,): the numbers of the pairs at which the blocks of the text start, and that of all pairs.

        Args:
            pairs: in a block, if ``elements`` is None.
            elements: in a block, that is the sum of (T + 1)(L + 1) of its pairs, unless one pair has more.
        """
        self._check_read_again()
        with Stage("reading"):
            if self.target is not None:
                self._check_counts(
                    *(sum(len(_line_ends(part)) for part in file_parts(path)) for path in self.paths)
                )
            batches = self._batches(range(0, 1 << 62, COUNTED_BLOCK))
            if elements is not None:
                return element_bounds((batch.bitext for batch in batches), elements)
            count = sum(len(_line_ends(batch.source)) for batch in batches)
            return np.array([*range(0, count, pairs), count])

    def blocks(self, bounds: np.ndarray) -> Iterator[Bitext]:
        """The pairs from each of these numbers to the next, with vocabularies of their own."""
        return (batch.bitext for batch in self._batches(bounds.tolist()))

    def sample(self, pairs: np.ndarray) -> Bitext:
        """The pairs with these numbers, int64, rising; all lines are read and checked."""
        sides: tuple[list[bytes], list[bytes]] = ([], [])
        for batch in self._batches(range(0, 1 << 62, COUNTED_BLOCK)):
            first = batch.first - 1
            chosen = pairs[slice(*np.searchsorted(pairs, [first, first + COUNTED_BLOCK]))] - first
            for side, text in zip(sides, (batch.source, batch.target), strict=True):
                ends = _line_ends(text)
                starts = np.concatenate([np.zeros(1, np.int64), ends])
                side.extend(text[starts[m] : ends[m]] for m in chosen.tolist())
        # The last line of a file may lack its end.
        texts = [b"".join(line if line.endswith(b"\n") else line + b"\n" for line in side) for side in sides]
        return Bitext(*map(self.encode, texts))

    def _sides(self) -> list[Callable[[], bytes]]:
        """What reads each side, as valid UTF-8."""
        if self.target is not None:
            if [os.fspath(path) for path in self.paths] == ["-", "-"]:
                raise AlignkitError("standard input cannot be both sides; give it one SOURCE ||| TARGET text")
            return [partial(self._side, path) for path in self.paths]
        data = b"".join(file_parts(split_fields(self.source)[0], -1))
        records = record_lines(self.source, [data], self.encoding_errors)
        known = pair_format([data]) if records is None else TAB
        text = data if records is None else b"".join(records)
        return [partial(bytes, side) for side in known.sides(self.source, text, *self.how)]

    def _side(self, path: PathLike, lines: bytes | None = None, first: int = 1) -> bytes:
        """Whole lines of one of two files, from the line of that number on, or all of it, as valid UTF-8."""
        lines = b"".join(file_parts(path, -1)) if lines is None else lines
        line = re.search(rb"[^\n]+", lines)
        if first == 1 and line and object_fields(line[0]):
            remedy = "give one file with both sides in its fields, or two with a sentence per line"
            raise InputError(path, "has JSON lines, not sentences", remedy=remedy)
        return valid_text(path, lines, *self.how, first)

    def _batches(self, bounds: Sequence[int]) -> Iterator[PairBatch]:
        """The pairs from each of these numbers to the next; those that a file lacks are left out."""
        self._check_read_again()
        files = [split_fields(self.source)[0]] if self.target is None else self.paths
        known, records = None, None
        if self.target is None:
            records = record_lines(self.source, file_parts(files[0]), self.encoding_errors)
            known = pair_format(file_parts(files[0])) if records is None else TAB
        parts: list[Iterable[bytes]] = [file_parts(path) for path in files] if records is None else [records]
        for first, *texts in zip(bounds, *(line_blocks(each, bounds) for each in parts), strict=False):
            if known is not None:
                sides = known.sides(self.source, texts[0], *self.how, first + 1)
                yield PairBatch(first + 1, *sides, encode=self.encode)
                continue
            source, target = (
                self._side(path, text, first + 1)
                for path, text in zip((self.source, self.paths[-1]), texts, strict=True)
            )
            yield PairBatch(first + 1, source, target, encode=self.encode)

    @property
    def read_once(self) -> PathLike | None:
        """A path that can be read only once, as a pipe; None: there is none."""
        for path in (split_fields(each)[0] for each in self.paths):
            special = os.path.exists(path) and not os.path.isdir(path) and not stat.S_ISREG(os.stat(path).st_mode)
            if special or os.fspath(path) == "-":
                return path
        return None

    def _check_read_again(self) -> None:
        if self.read_once is not None:
            problem = "can be read only once, and this reads the text several times"
            raise InputError(self.read_once, problem, remedy="give a file")

    def _check_counts(self, source: int, target: int) -> None:
        if source != target:
            first, second = (InputError(path, "").path for path in self.paths)
            raise AlignkitError(
                f"{first} has {counted(source, 'line')}, {second} has {target:,}; "
                "line n of one must belong to line n of the other"
            )


def element_bounds(texts: Iterable[Bitext], most: int) -> np.ndarray:
    """The :meth:`PairFiles.bounds` of consecutive parts of a text, in blocks of at most so many elements."""
    found, held, count = [0], 0, 0
    for text in texts:
        for size in ((text.source.lengths + 1) * (text.target.lengths + 1)).tolist():
            if held and held + size > most:
                found.append(count)
                held = 0
            held += size
            count += 1
    return np.array([*found, count])


def line_blocks(parts: Iterable[bytes], bounds: Sequence[int]) -> Iterator[bytes]:
    """The lines of a text, given in parts of whole lines, from each number of ``bounds`` to the next."""
    waiting: list[bytes] = []
    place, n = 0, 0  # the number of the part's first line; the block to be found
    for part in parts:
        ends = np.concatenate([np.zeros(1, np.int64), _line_ends(part)])
        stop = place + len(ends) - 1
        while n + 1 < len(bounds) and bounds[n + 1] <= stop:
            waiting.append(part[ends[max(bounds[n], place) - place] : ends[bounds[n + 1] - place]])
            yield b"".join(waiting)
            waiting, n = [], n + 1
        if n + 1 == len(bounds):
            return
        if bounds[n] < stop:
            waiting.append(part[ends[max(bounds[n], place) - place] :])
        place = stop
    if waiting:
        yield b"".join(waiting)


def _line_ends(text: bytes) -> np.ndarray:
    """int64: the place after each line of a text, the last of which may lack its end."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    return ends if text.endswith(b"\n") or not text else np.append(ends, len(text))


def pair_batches(
    path: PathLike,
    chunks: Iterable[bytes],
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    tokenize: bool = False,
    single: bool = False,
    skip: bool = False,
) -> Iterator[PairBatch]:
    """Sentence pairs of a stream of lines, as soon as they arrive.

    The first line that is neither blank nor malformed decides whether they are ``source ||| target``, source TAB
    target, or JSON.

    Args:
        path: name of the stream, for messages.
        chunks: of any size, as of :func:`alignkit.text.reading.read_chunks`.
        encoding_errors, lowercase, tokenize: as in :class:`PairFiles`.
        single: one pair in each batch, instead of all that are there.
        skip: pass a malformed line on as a blank pair with its error, and go on after it.

    Raises:
        InputError: as for files; the pairs before the bad line have been passed on. With ``skip``, only if the
            stream is empty or a damaged archive.
    """
    form: SeparatedLines | tuple[str, ...] | None = None
    reading = PairFiles(path, None, encoding_errors, lowercase, tokenize)
    first = 1

    def read(part: bytes) -> PairBatch:
        nonlocal form, first
        found = _form_of(part) if form is None else form
        ids: tuple[Any, ...] = ()
        separated, text = TAB if found is None else found, part
        if isinstance(separated, tuple):
            ids = tuple(map(_id, _LINE.findall(part)))
            text = b"".join(object_lines(path, [part], separated, encoding_errors, first))
            separated = TAB
        sides = separated.sides(path, text, *reading.how, first)
        batch, form = PairBatch(first, *sides, encode=reading.encode, ids=ids), found
        first += len(_line_ends(part))
        return batch

    for data in whole_lines(path, chunks):
        for part in _LINE.findall(data) if single else [data]:
            try:
                yield read(part)
                continue
            except InputError:
                pass  # one of the lines is malformed
            for line in _LINE.findall(part):
                try:
                    yield read(line)
                except InputError as error:
                    if not skip:
                        raise
                    yield PairBatch(first, b"\n", b"\n", (error,), ids=(_id(line),))
                    first += 1


def _form_of(lines: bytes) -> SeparatedLines | tuple[str, ...] | None:
    """The form of the lines of a stream, or the fields of its objects, by the first not blank; None: all are."""
    line = next((line for line in lines.split(b"\n") if line.strip(_BLANK)), None)
    if line is None:
        return None
    fields = object_fields(line)
    return fields if fields is not None else pair_format([lines])


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
    return PairFiles(source, target, encoding_errors, lowercase, tokenize).bitext(threads)


def read_line_pairs(
    source: PathLike, target: PathLike | None = None, *, encoding_errors: str = "strict", lowercase: bool = False
) -> LinePairs:
    """The lines of both sides of a bitext, equal in number; arguments and errors as :class:`PairFiles`."""
    return PairFiles(source, target, encoding_errors, lowercase).lines()


def read_text(
    source: Bitext | Side,
    target: Side | None = None,
    *,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    tokenize: bool = False,
    threads: int = 2,
) -> Bitext:
    """A text however it is given.

    Args:
        source, target: a bitext; files, as :class:`PairFiles` takes them; or two equally long sequences of
            sentences, strings of words with spaces between them or lists of words.
        encoding_errors, lowercase, tokenize, threads: as in :func:`read_bitext`. A bitext, or lists of words, are
            taken as they are.

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
        files = PairFiles(source, target, encoding_errors, lowercase, tokenize)
        for path in files.paths:
            if isinstance(path, str) and len(path.split()) > 1 and not os.path.exists(path):
                problem = "cannot be read: No such file or directory"
                raise InputError(path, problem, remedy="sentences go into a list")
        return files.bitext(threads)
    if target is None or isinstance(source, str | os.PathLike) or isinstance(target, str | os.PathLike):
        raise AlignkitError("give two files, one file with both sides, or two sequences of sentences")
    sides = []
    for name, side in (("source", source), ("target", target)):
        check_list(side, f"{name} sentences must be a list")
        sentences = list(side)
        if tokenize and any(isinstance(each, str) for each in sentences):
            sides.append(_raw_sentences(f"{name} sentences", sentences, encoding_errors, lowercase))
            continue
        words = [_words(f"{name} sentence {n}", each, lowercase) for n, each in enumerate(sentences, 1)]
        sides.append(Corpus.from_sentences(words))
    if len(sides[0]) != len(sides[1]):
        raise AlignkitError(f"there are {len(sides[0])} source and {len(sides[1])} target sentences")
    return Bitext(*sides)


def _raw_sentences(name: str, sentences: Iterable[Any], encoding_errors: str, lowercase: bool) -> Corpus:
    """The words of sentences of raw text, whose line breaks are white space like any other."""
    for each in sentences:
        check_type(each, str, f"{name} must all be text, or all lists of words")
    text = "".join(each.replace("\n", " ") + "\n" for each in sentences).encode("utf-8", "surrogatepass")
    return tokenized_text(valid_text(name, text, encoding_errors), lowercase)


def _words(name: str, sentence: str | Sequence[str], lowercase: bool) -> list[str]:
    if not isinstance(sentence, str):
        check_list(sentence, f"{name} must be text or a list of words", 'a blank one is ""')
    words = split_words(sentence) if isinstance(sentence, str) else list(sentence)
    return [word.lower() for word in words] if lowercase else words


def read_training_pairs(text: Files, valid: Files | None, **reading: Any) -> tuple[LinePairs, LinePairs]:
    """Read a training and a validation text.

    Args:
        text: source and target file; or one file with both sides, and None.
        valid: the same of a validation text. None: the last 1,000 pairs of the text, or one in twenty if that is
            fewer, are held out.
        **reading: ``encoding_errors`` and ``lowercase`` of :func:`read_line_pairs`.

    Raises:
        AlignkitError: a file cannot be read, or has no pair with words on both sides.
    """
    lines = read_line_pairs(*text, **reading)
    if valid is not None:
        held = read_line_pairs(*valid, **reading)
    else:
        lines, held = hold_out_pairs(lines)
    check_has_words(lines, "train on")
    check_has_words(held, "validate on")
    if valid is None:
        log.info("no validation text: %s at the end held out as one", counted(len(held.source), "pair"))
    return lines, held


def hold_out_pairs(lines: LinePairs) -> tuple[LinePairs, LinePairs]:
    """Split off the last 1,000 pairs, but at most one in twenty and at least one: (text, validation text)."""
    source, target = lines
    size = max(1, min(MOST_HELD_OUT, len(source) // HELD_OUT_SHARE))
    return LinePairs(source[:-size], target[:-size]), LinePairs(source[-size:], target[-size:])


def check_has_words(lines: LinePairs, purpose: str) -> None:
    """Raise AlignkitError if no pair has words on both sides; a network of blanks would still have a loss."""
    if not any(x.strip() and y.strip() for x, y in zip(*lines, strict=True)):
        raise AlignkitError(f"no pair with words on both sides to {purpose}; give another text")


def blank_pairs(bitext: Bitext) -> int:
    """The number of pairs with a blank side, which have no links."""
    return int(((bitext.source.lengths == 0) | (bitext.target.lengths == 0)).sum())


def shard_range(units: int, shard: tuple[int, int]) -> tuple[int, int]:
    """The range [low, high) of so many units that is the i-th of n parts, whose sizes are as equal as may be.

    Raises:
        AlignkitError: there is no such part.

    >>> [shard_range(10, (i, 3)) for i in (1, 2, 3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    i, n = shard
    if not 1 <= i <= n:
        raise AlignkitError(f"the number of a shard goes from 1 to {n}, not {i}")
    return (i - 1) * units // n, i * units // n


def sampled_pairs(count: int, size: int, seed: int = 0) -> np.ndarray:
    """int64 (size,), rising: a sample of 0..count-1 without repetition; that of a smaller size is a part of it."""
    return np.sort(np.random.default_rng(seed).permutation(count)[:size])
