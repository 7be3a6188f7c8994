"""Words of raw text, which nobody has tokenized, and the places of these words in their lines.

Words end at the boundaries that Unicode defines (UAX #29), as ICU finds them: Chinese, Japanese, Thai, Lao, Khmer
and Burmese words by its dictionaries. A few more rules make them the words that most parallel texts have: what has
to stay together, and what parts at an apostrophe.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from io import BytesIO
from itertools import accumulate, chain, pairwise

import numpy as np

from alignkit.support.packages import need
from alignkit.text.bitext import Corpus
from alignkit.text.reading import encode_text

#: What white space parts; a zero-width space counts as some.
_SOLID = re.compile("[^\\s\u200b]+")
#: What stays one word although Unicode has a boundary in it.
_WHOLE = re.compile(
    r"""
    (?:https?|ftp)://[^\s<>"]*[^\s<>"'.,;:!?)\]}] # an address
    | www\.[\w.-]+\w
    | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
    | (?<!\w)(?:[^\W\d_]{1,3}\.){2,}                # e.g. and U.S., with their last full stop
    | (?<!\w)(?:[A-ZÀ-ÖØ-Þ]|Mrs?|Ms|Dr|Prof|St)\.(?=\s)
    | (?<!\w)\w{1,4}\.(?=\s+[^\W\d_A-ZÀ-ÖØ-ÞΑ-ΩА-Я]) # etc. and 12. within a sentence
    | &(?:\#\w+|[A-Za-z]{2,8});                       # a reference to a character
    | [^\W_](?:-[^\W_]+)+
    | [^\W\d_]['\u2019](?=\d)                        # dell'8 marzo
    | ([!-/:-@\[-`{-~…—])\1+                        # ... and --
    """,
    re.VERBOSE,
)
#: Where a word ends within what Unicode takes for one: do|n't, Moon|'s, l'|homme, dell'|arte.
_APOSTROPHE = re.compile(
    r"""
    (?<=\w)(?=n['\u2019]t\b | ['\u2019](?:s|re|ve|ll|d|m)\b)
    | (?:(?<=[b-df-hj-np-tv-z]['\u2019])|(?<=qu['\u2019])) (?=[aeiouyhà-æè-ïò-öø-ýÿœ])
    """,
    re.VERBOSE | re.IGNORECASE,
)


def unicode_word_spans(line: str) -> list[tuple[int, int]]:
    """The words of a line of raw text, each as the characters [start, end); between them is only white space.

    >>> line = "They don't cost $1,000.50."
    >>> [line[start:end] for start, end in unicode_word_spans(line)]
    ['They', 'do', "n't", 'cost', '$', '1,000.50', '.']
    """
    from icu4py.breakers import WordBreaker

    cuts = {0, *accumulate(map(len, WordBreaker(line, "root")))}
    for match in _WHOLE.finditer(line):
        cuts.difference_update(range(match.start() + 1, match.end()))
    cuts.update(match.start() for match in _APOSTROPHE.finditer(line))
    bounds = pairwise(sorted(cuts))
    return [match.span() for start, end in bounds for match in _SOLID.finditer(line, start, end)]


def tokenized_text(data: bytes, lowercase: bool = False) -> Corpus:
    """The corpus of raw text in UTF-8, a sentence per line, with the ``spans`` of its words.

    Args:
        data: the text.
        lowercase: take the words in lower case; the spans are those in the text as it is.

    Raises:
        MissingPackageError: ICU is not installed.

    >>> corpus = tokenized_text(b"the  house.\\n")
    >>> corpus.words(0), corpus.spans.tolist()
    (['the', 'house', '.'], [[0, 3], [5, 10], [10, 11]])
    """
    need("icu4py")
    lines: list[bytes] = []
    spans = array("i")
    for raw in BytesIO(data):
        line = raw.decode("utf-8")
        found = unicode_word_spans(line)
        spans.extend(chain.from_iterable(found))
        words = " ".join([line[start:end] for start, end in found])
        lines.append((words.lower() if lowercase else words).encode() + b"\n")
    return replace(encode_text(b"".join(lines)), spans=np.array(spans, np.int32).reshape(-1, 2))
