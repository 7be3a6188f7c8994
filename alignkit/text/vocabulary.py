"""Vocabularies: tokens and their int32 ids."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from alignkit.errors import AlignkitError, abbreviated, check_list, check_type, counted
from alignkit.support.arrays import equal_fields, offsets_of, rise_to
from alignkit.support.files import Fields

UNKNOWN = -1  #: the id of a token that is not in a vocabulary
#: Matches a character that shows: no white space, soft hyphen, zero-width space, joiner or mark of direction.
VISIBLE = re.compile("[^\t-\r\x1c- \x85\xa0\xad\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The V distinct tokens of a text; the id of a token is its index.

    Tokens are stored as one array of UTF-8 bytes, so that a vocabulary of millions has no Python objects until
    its strings are asked for.

    Attributes:
        text: uint8 (B,), the tokens' bytes one after another.
        offsets: int64 (V + 1,), where each token starts in ``text``.
    """

    text: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        if self.text.dtype != np.uint8 or self.offsets.dtype != np.int64:
            raise TypeError("Vocabulary needs uint8 text and int64 offsets")
        if self.text.ndim != 1 or self.offsets.ndim != 1 or len(self.offsets) == 0:
            raise ValueError("Vocabulary needs flat text and V + 1 offsets")
        if not rise_to(self.offsets, len(self.text)):
            raise ValueError("Vocabulary offsets must rise from 0 to the length of the text")

    @classmethod
    def from_tokens(cls, tokens: Iterable[str]) -> Vocabulary:
        """A vocabulary of these tokens in this order.

        Raises:
            ValueError: a token occurs twice.
            AlignkitError: ``tokens`` is a single string, or a token none.
        """
        check_list(tokens, "tokens must be a list of words")
        tokens = list(tokens)
        for token in tokens:
            if not isinstance(token, str):  # a call for each would be most of the time
                check_type(token, str, "a word must be text")
        try:
            encoded = [token.encode("utf-8") for token in tokens]
        except UnicodeEncodeError as error:
            shown = abbreviated(ascii(error.object))
            raise AlignkitError(f"{shown} has half a character and is not text") from error
        if len(set(encoded)) != len(encoded):
            raise ValueError("a vocabulary cannot hold the same token twice")
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets_of([len(token) for token in encoded]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens as strings, in order of their ids."""
        data = self.text.tobytes()
        bounds = self.offsets.tolist()
        return tuple([data[low:high].decode("utf-8", "replace") for low, high in pairwise(bounds)])

    @cached_property
    def ids(self) -> dict[str, int]:
        """Token -> id."""
        return {token: i for i, token in enumerate(self.tokens)}

    def decoded(self, index: int) -> str:
        """The token of an id, without making the strings of all."""
        return self.text[self.offsets[index] : self.offsets[index + 1]].tobytes().decode("utf-8", "replace")

    def forget_strings(self) -> None:
        """Gives back the memory of ``tokens`` and ``ids``, which are made again when they are asked for."""
        for name in ("tokens", "ids"):
            vars(self).pop(name, None)

    def __getitem__(self, index: int) -> str:
        return self.tokens[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self.ids

    def id(self, token: str) -> int:
        """The id of ``token``, or ``UNKNOWN`` (-1)."""
        return self.ids.get(token, UNKNOWN)

    __eq__ = equal_fields

    def translate(self, other: Vocabulary) -> np.ndarray:
        """This vocabulary's ids of the tokens of another: int32 (V_other,), ``UNKNOWN`` where absent.

        ``self.translate(v)[corpus.tokens]`` re-encodes a corpus of vocabulary ``v``.
        """
        if self == other:
            return np.arange(len(self), dtype=np.int32)
        own = self.ids
        return np.fromiter((own.get(t, UNKNOWN) for t in other.tokens), np.int32, len(other))

    def __repr__(self) -> str:
        return f"Vocabulary({counted(len(self), 'token')})"


class ExtendedVocabulary(Vocabulary):
    """The tokens of a vocabulary and, after them, others, which may occur several times.

    It is made in no time, however many tokens are known.

    Attributes:
        known: the vocabulary.
        new: the others.
    """

    known: Vocabulary
    new: list[str]

    def __init__(self, known: Vocabulary, new: list[str]) -> None:
        vars(self).update(known=known, new=new)

    def __len__(self) -> int:
        return len(self.known) + len(self.new)

    @cached_property
    def text(self) -> np.ndarray:
        return np.append(self.known.text, np.frombuffer("".join(self.new).encode(), np.uint8))

    @cached_property
    def offsets(self) -> np.ndarray:
        lengths = [len(token.encode()) for token in self.new]
        return np.append(self.known.offsets, self.known.offsets[-1] + np.cumsum(lengths, dtype=np.int64))


def vocabulary_arrays(side: str, words: Vocabulary) -> dict[str, np.ndarray]:
    """The arrays of a saved file with the words of a side."""
    return {f"{side}_types": words.text, f"{side}_type_offsets": words.offsets}


def unpack_vocabulary(fields: Fields, side: str) -> Vocabulary:
    """The words of :func:`vocabulary_arrays`; raises InputError, AlignkitError or ValueError if damaged."""
    return Vocabulary(fields.get(f"{side}_types", np.uint8), fields.get(f"{side}_type_offsets", np.int64))


def is_punctuation(token: str) -> bool:
    """True if all characters of a token are punctuation or symbols (Unicode categories P and S)."""
    return token != "" and all(unicodedata.category(letter)[0] in "PS" for letter in token)


def punctuation_types(vocabulary: Vocabulary) -> np.ndarray:
    """bool (V,): which types of a vocabulary are punctuation."""
    return np.fromiter((is_punctuation(token) for token in vocabulary.tokens), bool, len(vocabulary))
