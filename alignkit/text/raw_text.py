"""Words of raw text, which nobody has tokenized, and the places of these words in their lines.

Words end at the boundaries that Unicode defines (UAX #29), as ICU finds them: Chinese, Japanese, Thai, Lao, Khmer
and Burmese words by its dictionaries. A few more rules make them the words that most parallel texts have: what has
to stay together, and what parts at an apostrophe.
"""

from __future__ import annotations

import logging
import re
from array import array
from dataclasses import replace
from io import BytesIO
from itertools import accumulate, chain, pairwise

import numpy as np

from alignkit.errors import abbreviated
from alignkit.support.packages import need
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.reading import encode_text
from alignkit.text.vocabulary import VISIBLE

log = logging.getLogger(__name__)

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
#: Letters of scripts without spaces: Thai, Lao and Khmer; from U+3000 on, Japanese and Chinese.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_END = re.compile("[^\\W\\d_][.!?…,;:؟।][\"'”\u2019»)\\]]*\\Z")  # of a word with punctuation attached
_MARKS = ".,!?;:…"
_LOOKED_AT = 200  # sentences that tell whether a text is raw
_FEWEST = 10  # of which punctuation attached to words tells anything


def warn_of_raw_text(bitext: Bitext) -> bool:
    """Log a warning, and return true, if a side of a text that was not tokenized here seems to be raw."""
    example = raw_example(bitext.source) or raw_example(bitext.target)
    if example is not None:
        log.warning(
            'the text seems to be raw, with words such as "%s"; tokenize it, or let --tokenize do so '
            "(in Python tokenize=True)",
            abbreviated(example),
        )
    return example is not None


def raw_example(corpus: Corpus) -> str | None:
    """A token that shows that nobody has split the first sentences into words; None: somebody has.

    Either most lines end in a word with punctuation attached, and little punctuation stands alone; or most text is
    Chinese, Japanese, Thai, Lao or Khmer, and most of it in tokens as long as sentences.
    """
    if corpus.spans is not None:
        return None
    if len(corpus) < _FEWEST and not _UNSPACED.search(" ".join(corpus.vocabulary.tokens)):
        return None  # at once, for a process may be asked for one sentence after another
    part = corpus.block(0, _LOOKED_AT)
    last = part.tokens[part.offsets[1:][part.lengths > 0] - 1]
    types, counts = np.unique(part.tokens, return_counts=True)
    words = {i: corpus.vocabulary.decoded(i) for i in types.tolist()}
    characters = letters = unspaced = alone = 0
    longest = ""
    for word, count in zip(words.values(), counts.tolist(), strict=True):
        found = [] if word.isascii() else _UNSPACED.findall(word)
        characters += len(word) * count
        letters += len(found) * count
        # A character of Chinese says as much as two letters.
        if sum(1 + (letter >= "\u3000") for letter in found) >= 16:
            unspaced += len(found) * count
            longest = longest or word
        alone += count * (not word.strip(_MARKS))
    if 2 * unspaced > letters > characters / 2:
        return longest
    attached = [words[i] for i in last.tolist() if _END.search(words[i])]
    is_raw = len(last) >= _FEWEST and 2 * len(attached) > len(last) and 4 * alone < len(attached)
    return attached[0] if is_raw else None


def unicode_word_spans(line: str) -> list[tuple[int, int]]:
    """The words of a line of raw text, each as the characters [start, end); between them is only white space.

    >>> line = "They don't cost $1,000.50."
    >>> [line[start:end] for start, end in unicode_word_spans(line)]
    ['They', 'do', "n't", 'cost', '$', '1,000.50', '.']
    """
    from icu4py.breakers import WordBreaker

    if not VISIBLE.search(line):
        return []
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
