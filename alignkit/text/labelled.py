"""Labelled text, the data of a classifier: texts with one label each, from lines, a table or a folder.

A labelled text is a bitext whose target sentences have one word, the label: so scores of a classifier are (1, L)
matrices, and whatever takes a bitext (counting, IBM 1, the proxy) takes labelled text too.
"""

from __future__ import annotations

import csv
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_list, counted, of_file, reading
from alignkit.support.arrays import brief_repr
from alignkit.text.bitext import Bitext, Corpus, kept_tokens
from alignkit.text.reading import read_lines
from alignkit.text.tokenization import Tokenizer, encode_lines, split_words
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

log = logging.getLogger(__name__)

_PUNCTUATION = re.compile(r"([^\w\s])")
_BREAKS = re.compile(r"[\r\n]+")


@dataclass(frozen=True, eq=False)
class LabelledText:
    """M texts as ids, each with a label.

    Attributes:
        corpus: the texts.
        labels: int32 (M,), each an index into ``names``.
        names: the distinct labels.
    """

    corpus: Corpus
    labels: np.ndarray
    names: tuple[str, ...]

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        if self.labels.dtype != np.int32 or self.labels.shape != (len(self.corpus),):
            raise ValueError("LabelledText needs an int32 label for each text")
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < len(self.names)):
            raise ValueError("labels must lie in [0, number of names)")

    def __len__(self) -> int:
        return len(self.corpus)

    @cached_property
    def bitext(self) -> Bitext:
        """The texts with their labels as target sentences of one word."""
        offsets = np.arange(len(self) + 1, dtype=np.int64)
        return Bitext(self.corpus, Corpus(self.labels, offsets, Vocabulary.from_tokens(self.names)))

    @classmethod
    def from_bitext(cls, bitext: Bitext) -> LabelledText:
        """The labelled text whose :attr:`bitext` this is.

        Raises:
            AlignkitError: a target sentence is not one word.
        """
        if (bitext.target.lengths != 1).any():
            raise AlignkitError(
                "a classifier is for labelled texts, each with one label as its target sentence; "
                "to align sentences, give a model of `alignkit align` or a run of `alignkit train`"
            )
        return cls(bitext.source, bitext.target.tokens, tuple(bitext.target.vocabulary.tokens))

    def without_words(self, marks: Sequence[np.ndarray]) -> LabelledText:
        """The texts without the marked words, which may leave some of them empty.

        Args:
            marks: per text bool (L,), True at words to be taken out.
        """
        kept = ~np.concatenate([np.zeros(0, bool), *marks])
        return LabelledText(kept_tokens(self.corpus, kept), self.labels, self.names)


@dataclass(frozen=True)
class LabelledLines:
    """M texts as strings, words separated by spaces; ``labels[m]`` belongs to ``texts[m]``."""

    texts: Sequence[str]
    labels: Sequence[str]

    def __post_init__(self) -> None:
        check_list(self.texts, "texts must be a list")
        check_list(self.labels, "labels must be a list")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct labels, sorted."""
        return tuple(sorted(set(self.labels)))

    def encode(self, tokenizer: Tokenizer, names: Sequence[str], *, ends: bool = False) -> LabelledText:
        """The texts as ids, with BOS and EOS around each of them if ``ends``.

        Raises:
            AlignkitError: a label is not among ``names``.
        """
        numbers = {name: i for i, name in enumerate(names)}
        unknown = next((label for label in self.labels if label not in numbers), None)
        if unknown is not None:
            raise AlignkitError(f"label {unknown!r} is none of {', '.join(names)}")
        labels = np.array([numbers[label] for label in self.labels], np.int32)
        return LabelledText(encode_lines(tokenizer, self.texts, bos=ends, eos=ends), labels, tuple(names))

    def keep(self, names: Sequence[str]) -> LabelledLines:
        """The texts with one of these labels.

        Raises:
            AlignkitError: one of the labels has no texts.
        """
        found = set(self.labels)
        missing = [name for name in names if name not in found]
        if missing:
            raise AlignkitError(f"no text has the label {missing[0]!r}; there are {_listed(self.names)}")
        return self.take([i for i, label in enumerate(self.labels) if label in names])

    def take(self, places: Sequence[int] | np.ndarray) -> LabelledLines:
        """These texts, in this order."""
        return LabelledLines([self.texts[i] for i in places], [self.labels[i] for i in places])

    def split_punctuation(self) -> LabelledLines:
        """The texts with spaces around every character that is neither letter, digit, underscore nor space."""
        return LabelledLines([_PUNCTUATION.sub(r" \1 ", text) for text in self.texts], self.labels)

    def cut(self, longest: int) -> LabelledLines:
        """The first ``longest`` words of each text."""
        return LabelledLines([" ".join(split_words(text)[:longest]) for text in self.texts], self.labels)


def two_labels(text: LabelledLines, wanted: Sequence[str] | None = None) -> tuple[LabelledLines, tuple[str, str]]:
    """The texts with two labels, and these labels: y = 0 for the first and 1 for the second.

    Args:
        text: with two labels; with more, ``wanted`` says which to keep.
        wanted: the two labels, in the order of y; by default those of the text, sorted.

    Raises:
        AlignkitError: there are not two labels.
    """
    if wanted is not None:
        names = tuple(wanted)
        if len(names) != 2 or names[0] == names[1]:
            raise AlignkitError(f"give two different labels, not {', '.join(map(repr, names)) or 'none'}")
        return text.keep(names), (names[0], names[1])
    names = text.names
    if len(names) != 2:
        raise AlignkitError(
            f"a classifier has two labels, this text has {len(names)} ({_listed(names)}); "
            "keep two of them with --labels A,B"
            if len(names) > 2
            else f"a classifier needs two labels, all texts have {_listed(names)}"
        )
    return text, (names[0], names[1])


def hold_out(text: LabelledLines, most: int = 1000) -> tuple[LabelledLines, LabelledLines]:
    """Split off one text in ten, but at most ``most`` and at least one: (texts, validation texts).

    Files are often sorted by label, so the validation texts are drawn at random, with a fixed seed. Both parts
    keep their order.
    """
    size = max(1, min(most, len(text) // 10))
    chosen = np.zeros(len(text), bool)
    chosen[np.random.default_rng(0).permutation(len(text))[:size]] = True
    return text.take(np.flatnonzero(~chosen)), text.take(np.flatnonzero(chosen))


def read_labelled(
    path: PathLike,
    *,
    columns: tuple[str, str] | None = None,
    encoding_errors: str = "strict",
    lowercase: bool = False,
) -> LabelledLines:
    """Read labelled text.

    - From a folder: a subfolder per label with one text per .txt file, in order of their names (IMDB's form).
    - With names of columns, from a table: its first line names the columns, separated by commas or, if that line
      has a tab, by tabs; fields may be quoted, and may then contain line ends.
    - Otherwise, from lines of label TAB text. Blank lines are ignored; further tabs belong to the text.

    Line ends within a text become spaces. A text may be empty; a label or a file may not.

    Args:
        path: a folder, or a file, plain or compressed; "-" is standard input.
        columns: names of the column of the label and of that of the text.
        encoding_errors, lowercase: as of :func:`alignkit.text.pairs.read_bitext`; labels keep their case.

    Raises:
        InputError: unreadable, empty or malformed, with file and line.
    """
    rows: list[tuple[str, str]] = []
    if os.fspath(path) != "-" and Path(path).is_dir():
        if columns is not None:
            raise InputError(path, "is a folder, which has no columns", remedy="leave out --columns")
        with reading(path):
            folders = sorted(part for part in Path(path).iterdir() if part.is_dir())
            files = [(folder.name, place) for folder in folders for place in sorted(folder.glob("*.txt"))]
        if not files:
            raise InputError(path, "has no subfolders with .txt files", remedy="give one subfolder per label")
        rows = [(label, " ".join(read_lines(place, encoding_errors=encoding_errors))) for label, place in files]
    elif columns is not None:
        rows = list(_table(path, *columns, encoding_errors))
    else:
        for number, line in enumerate(read_lines(path, encoding_errors=encoding_errors), 1):
            if line.strip(" \t"):
                label, tab, text = line.partition("\t")
                if not tab:
                    remedy = "write LABEL<tab>TEXT, or name the columns of a table"
                    raise InputError(path, "has no tab between label and text", line=number, remedy=remedy)
                rows.append((_checked(path, number, label), text))
    if not rows:
        raise InputError(path, "has no texts")
    texts = [_BREAKS.sub(" ", text) for _, text in rows]
    if lowercase:
        texts = [text.lower() for text in texts]
    return LabelledLines(texts, [label for label, _ in rows])


def _checked(path: PathLike, number: int, label: str) -> str:
    label = label.strip()
    if not label:
        raise InputError(path, "has an empty label", line=number)
    return label


def _table(path: PathLike, label: str, text: str, encoding_errors: str) -> Iterator[tuple[str, str]]:
    """The labels and texts of a table, whose columns have these names."""
    lines = read_lines(path, encoding_errors=encoding_errors)
    delimiter = "\t" if "\t" in lines[0] else ","
    # Line ends within quotes belong to the field, so the reader must see them.
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    start = 1
    try:
        header = next(reader)
        for name in (label, text):
            if header.count(name) != 1:
                problem = "no column" if name not in header else "two columns named"
                raise InputError(path, f"has {problem} {name!r}; its columns are {_listed(header)}", line=1)
        places = header.index(label), header.index(text)
        start = reader.line_num + 1
        for row in reader:
            if row:
                if len(row) <= max(places):
                    raise InputError(path, f"has {counted(len(row), 'column')}, too few", line=start)
                yield _checked(path, start, row[places[0]]), row[places[1]]
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(path, f"is not a table: {error}", line=start) from error


def _listed(names: Sequence[str], most: int = 8) -> str:
    """The first names, for a message."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def read_training_texts(
    data: PathLike,
    valid: PathLike | None,
    labels: Sequence[str] | None = None,
    *,
    columns: tuple[str, str] | None = None,
    encoding_errors: str = "strict",
    lowercase: bool = False,
    split_punctuation: bool = False,
) -> tuple[LabelledLines, LabelledLines, tuple[str, str]]:
    """Read the training and the validation texts of a classifier, and the names of its two labels.

    Args:
        data: labelled texts; a file or folder of :func:`read_labelled`.
        valid: the same of the validation texts. None: one text in ten, at most 1,000, is held out.
        labels: keep only the texts with these two labels.
        columns, encoding_errors, lowercase: as in :func:`read_labelled`.
        split_punctuation: make every punctuation mark a word.

    Raises:
        AlignkitError: a file cannot be read or is malformed, or there are not two labels.
    """
    with of_file(data):
        lines = read_labelled(data, columns=columns, encoding_errors=encoding_errors, lowercase=lowercase)
        text, names = two_labels(lines, labels)
    if valid is None:
        text, held = hold_out(text)
        log.info("no validation text: %s held out as one", counted(len(held), "text"))
    else:
        with of_file(valid):
            held = read_labelled(valid, columns=columns, encoding_errors=encoding_errors, lowercase=lowercase)
            if labels is None and (unknown := sorted({*held.labels} - {*names})):
                problem = f"no training text has the label {unknown[0]!r}; they have {_listed(names)}"
                raise AlignkitError(f"{problem}; keep two labels with --labels A,B")
            held = held.keep(names) if labels is not None else held
    if len(held.names) == 1:
        where, remedy = ("held-out texts", "give others with --valid") if valid is None else (valid, "give both")
        log.warning("%s: all have the label %r, so a constant answer is right; %s", where, *held.names, remedy)
    if split_punctuation:
        text, held = text.split_punctuation(), held.split_punctuation()
    return text, held, names
