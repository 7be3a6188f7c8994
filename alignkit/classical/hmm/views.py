"""Views of a text: its words in lower case, their first letters, and subwords of several sizes."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from alignkit.classical.exchange import ALONE, Exchange
from alignkit.classical.hmm.windows import is_long, training_pairs
from alignkit.embeddings.levels import UNKNOWN
from alignkit.errors import AlignkitError
from alignkit.kernels.views import UnitCounts, add_merged, spread_values
from alignkit.parallel import blocks, blocks_of_size, run_blocks
from alignkit.records import Record
from alignkit.scores import Scores, flat_offsets
from alignkit.storage import Fields
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.on_disk import RELEASED, release
from alignkit.text.tokenization import SubwordTokenizer, train_word_pieces
from alignkit.text.units import Units, units_of

#: The most subwords of a side, as a share of its types of words: with more of them, most words would be whole.
SUBWORDS_OF_TYPES = 0.4
#: The most units of a word, which has no more letters as a rule; what follows is left out.
MOST_UNITS = 64
#: From this number of subwords on they are long enough to be compared by their spelling.
SPELLED = 3000
TOKENIZERS = ("source_subwords", "target_subwords")  # names in saved files


@dataclass(frozen=True)
class View:
    """A way to write the words of a text as units.

    Attributes:
        letters: how many first letters of a word make its only unit; 0: all.
        subwords: the size of the vocabulary of subwords, less where there are few types of words; 0: words are one
            unit each.
        types: how many types of words a text needs on each side for subwords; 0: as many as there are subwords.
        tokenizers: of the source and the target words, if there are subwords.
    """

    letters: int = 0
    subwords: int = 0
    types: int = 0
    tokenizers: tuple[SubwordTokenizer, SubwordTokenizer] | None = None

    @property
    def has_words(self) -> bool:
        """Whether the units are whole words."""
        return not self.letters and not self.subwords

    @property
    def is_spelled(self) -> bool:
        """Whether units can be compared by their spelling."""
        return not self.subwords or self.subwords >= SPELLED

    def units(self, bitext: Bitext) -> tuple[Units, Units]:
        """The units of the source and of the target words of a bitext."""
        if self.tokenizers is not None:
            source, target = (tokenizer.pieces for tokenizer in self.tokenizers)
        else:
            source = target = self._first_letters
        return (
            units_of(bitext.source.vocabulary, lambda word: source(word.lower())[:MOST_UNITS]),
            units_of(bitext.target.vocabulary, lambda word: target(word.lower())[:MOST_UNITS]),
        )

    def _first_letters(self, word: str) -> tuple[str, ...]:
        return (word[: self.letters or None],)

    def header(self) -> dict[str, int]:
        """The numbers of a saved file."""
        return {"letters": self.letters, "subwords": self.subwords}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        models = [tokenizer.model for tokenizer in self.tokenizers or ()]
        return {name: np.frombuffer(model, np.uint8) for name, model in zip(TOKENIZERS, models, strict=False)}


def unpack_view(fields: Fields, header: Record) -> View:
    """A view from what its ``arrays`` and ``header`` wrote; raises AlignkitError if they are damaged."""
    letters, subwords = header.whole("letters"), header.whole("subwords")
    if not subwords:
        return View(letters)
    source, target = (SubwordTokenizer(fields.get(name, np.uint8).tobytes()) for name in TOKENIZERS)
    for tokenizer in (source, target):
        tokenizer.pieces("a")  # which a damaged one cannot
    return View(letters, subwords, tokenizers=(source, target))


#: What `alignkit align` looks at where a text is small.
SMALL_VIEWS = View(), View(subwords=1500, types=1000)
#: What `alignkit align --quality best` looks at.
VIEWS = (
    View(),
    View(letters=4),
    View(letters=6),
    View(subwords=1000),
    View(subwords=2000),
    View(subwords=4000),
    View(subwords=8000),
)


def trained_views(views: tuple[View, ...], bitext: Bitext, exchange: Exchange = ALONE) -> tuple[View, ...]:
    """The views with their tokenizers, trained on the words of a text; without those for which it is too small.

    Args:
        views: those that have tokenizers stay as they are.
        bitext: with the vocabulary of the whole text, or of a larger one.
        exchange: with the processes that have the rest of the text.
    """
    if not any(view.subwords and view.tokenizers is None for view in views):
        return views
    sides = [_word_counts(side, exchange) for side in (bitext.source, bitext.target)]
    found, sizes = [], set()
    for view in views:
        if not view.subwords or view.tokenizers is not None:
            found.append(view)
            continue
        size = tuple(_subwords_of(view, counts) for counts in sides)
        if min(map(len, sides)) < (view.types or view.subwords) or size in sizes:
            continue
        sizes.add(size)
        try:
            source, target = (train_word_pieces(*each) for each in zip(sides, size, strict=True))
        except AlignkitError:  # more letters than subwords
            continue
        found.append(replace(view, tokenizers=(source, target)))
    return tuple(found)


def _word_counts(side: Corpus, exchange: Exchange) -> Counter[str]:
    """How often each word of a side occurs, in lower case, without those of the vocabulary that do not."""
    counts = exchange.summed(np.bincount(side.tokens, minlength=len(side.vocabulary)))
    found: Counter[str] = Counter()
    for word, count in zip(side.vocabulary, counts.tolist(), strict=True):
        if count:
            found[word.lower()] += count
    return found


def _subwords_of(view: View, counts: Counter[str]) -> int:
    """How many subwords a side gets: at least its letters."""
    letters = len({letter for word in counts for letter in unicodedata.normalize("NFKC", word)})
    return max(min(view.subwords, int(SUBWORDS_OF_TYPES * len(counts))), letters + 16)


class ViewedText:
    """A bitext as a view shows it.

    Args:
        view: trained.
        bitext: M pairs.
    """

    def __init__(self, view: View, bitext: Bitext) -> None:
        sides = bitext.source, bitext.target
        units = view.units(bitext)
        source, target = (each.encode(side) for each, side in zip(units, sides, strict=True))
        self.bitext = Bitext(source, target)
        self._counts = [
            UnitCounts(each.counts(side), side.offsets) for each, side in zip(units, sides, strict=True)
        ]
        self._is_one_to_one = all(each.is_one_to_one for each in units)

    def add(self, log_odds: Scores, weight: float, total: Scores, threads: int) -> None:
        """Adds the log-odds of links between words, from those between units, times the weight."""
        if self._is_one_to_one:
            for low in range(0, len(log_odds.values), RELEASED):
                part = slice(low, low + RELEASED)
                total.values[part] += np.float32(weight) * log_odds.values[part]
                release(log_odds.values, total.values)
            return
        matrices, words = (log_odds.values, log_odds.offsets), (total.values, total.offsets)

        def merge(low: int, high: int) -> None:
            add_merged(low, high, *self._counts, matrices, np.float32(weight), words)
            release(log_odds.values, total.values)

        run_blocks(merge, blocks_of_size(log_odds.offsets, RELEASED, least=threads), threads)

    def levels(self, levels: np.ndarray, threads: int) -> np.ndarray:
        """uint8 (Q,): how alike the units are whose words are as alike as ``levels`` uint8 (P,) say
        (:mod:`alignkit.embeddings.levels`); of pairs to fit an aligner on (:func:`training_pairs`)."""
        long = is_long(self.bitext)
        offsets, (source, target) = flat_offsets(self.bitext.shapes), self._counts
        if not self._is_one_to_one:
            words = np.zeros(len(offsets), np.int64)
            np.cumsum(np.diff(source.offsets) * np.diff(target.offsets), out=words[1:])
            given, levels = levels, np.empty(offsets[-1], levels.dtype)

            def fill(low: int, high: int) -> None:
                spread_values(low, high, source, target, (given, words), (levels, offsets))

            run_blocks(fill, blocks(np.diff(offsets), threads), threads)
        if not long.any():
            return levels
        if long.all():
            return np.full(flat_offsets(training_pairs(self.bitext)[0].shapes)[-1], UNKNOWN, np.uint8)
        return levels[np.repeat(~long, np.diff(offsets))]
