"""A text as the hidden Markov models see it: words, collocations, first letters, or subwords of several sizes; and
pairs too long for the models' matrices in windows, with links found block by block."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from alignkit.classical.hmm.spelling import is_word
from alignkit.embeddings.levels import UNKNOWN
from alignkit.errors import AlignkitError
from alignkit.kernels.link_probabilities import UnitCounts, merge_values, spread_values
from alignkit.links.links import Links
from alignkit.scores import Scores, flat_offsets
from alignkit.support.arrays import in_runs, offsets_of
from alignkit.support.files import Fields, Record
from alignkit.support.threads import blocks_of_size, run_evenly
from alignkit.text.bitext import Bitext, Corpus, check_bitext
from alignkit.text.spellings import base_letters, folded
from alignkit.text.tokenization import SubwordTokenizer, train_word_pieces
from alignkit.text.units import (
    UnitIds,
    find_collocations,
    folded_counts,
    folded_text,
    in_units,
    joined,
    joined_words,
    units_of,
)
from alignkit.text.vocabulary import Vocabulary, unpack_vocabulary, vocabulary_arrays

#: The most elements (t, l) of a pair that is aligned as a whole, and the elements of a window of a longer one.
LARGEST_PAIR, WINDOW = 1 << 22, 1 << 19
#: Pairs are aligned in blocks of about this number of elements, each with some 30 bytes.
BLOCK_ELEMENTS = 1 << 22

#: Links, and the probability of each, float64 (K,).
Linked = tuple[Links, np.ndarray]
Result = TypeVar("Result")
#: The most units of a word, which has no more letters as a rule; what follows is left out.
MOST_UNITS = 64
#: A view of collocations needs at least so many of them for each type of word: else it would be as one of words.
LEAST_JOINED = 0.01
#: From this number of subwords on they are long enough to be compared by their spelling.
SPELLED = 3000
# Names in saved files.
TOKENIZERS = ("source_subwords", "target_subwords")
COLLOCATIONS = ("source_collocation", "target_collocation")


@dataclass(frozen=True)
class View:
    """A way to write the words of a text as units.

    Attributes:
        letters: how many first letters of a word make its only unit; 0: all.
        subwords: the size of the vocabulary of subwords, less where there are few types of words; 0: words are one
            unit each.
        types: how many types of words a text needs on each side for subwords; 0: as many as there are subwords.
        share: the most subwords of a side for each of its types of words: with more, most words would be whole.
        joined: words that often stand together are one unit; goes with whole words whose case is folded.
        tokenizers: of the source and the target words, if there are subwords.
        collocations: of the source and the target words, if they are joined (:mod:`alignkit.text.units`).
        fold_case: take words that differ only in case, or in marks of sentences, as one; False goes with words.
    """

    letters: int = 0
    subwords: int = 0
    types: int = 0
    share: float = 0.4
    joined: bool = False
    tokenizers: tuple[SubwordTokenizer, SubwordTokenizer] | None = None
    collocations: tuple[Vocabulary, Vocabulary] | None = None
    fold_case: bool = True

    @property
    def has_words(self) -> bool:
        """True if the units are whole words, one or several."""
        return not self.letters and not self.subwords

    def pieces(self, side: int, word: str) -> tuple[str, ...]:
        """The units of a source (0) or target (1) word."""
        if self.tokenizers is None:
            word = folded(word) if self.fold_case else word
            return (base_letters(word)[: self.letters] if self.letters else word,)
        return tuple(self.tokenizers[side].pieces(folded(word))[:MOST_UNITS])

    def header(self) -> dict[str, int]:
        """The numbers of a saved file."""
        return {
            "letters": self.letters,
            "subwords": self.subwords,
            "joined": self.joined,
            "fold_case": self.fold_case,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        if self.collocations is not None:
            source, target = map(vocabulary_arrays, COLLOCATIONS, self.collocations)
            return source | target
        models = [tokenizer.model for tokenizer in self.tokenizers or ()]
        return {name: np.frombuffer(model, np.uint8) for name, model in zip(TOKENIZERS, models, strict=False)}


def unpack_view(fields: Fields, header: Record) -> View:
    """A view from what its ``arrays`` and ``header`` wrote; raises AlignkitError if they are damaged."""
    letters, subwords = header.whole("letters"), header.whole("subwords")
    if header.flag("joined"):
        source, target = (unpack_vocabulary(fields, name) for name in COLLOCATIONS)
        return View(joined=True, collocations=(source, target))
    if not subwords:
        return View(letters, fold_case=header.flag("fold_case"))
    first, second = (SubwordTokenizer(fields.get(name, np.uint8).tobytes()) for name in TOKENIZERS)
    for tokenizer in (first, second):
        tokenizer.pieces("a")  # which a damaged one cannot
    return View(letters, subwords, tokenizers=(first, second))


#: What `alignkit align` looks at where a text is small; where it has few words, with ``--quality best`` too. Views
#: learn in this order, but words come last: what they would say first is most like the first letters.
SMALL_VIEWS = View(), View(subwords=1500, types=1000)
FEW_WORDS_VIEWS = (
    View(),
    View(subwords=1500, types=1),
    View(subwords=750, types=1, share=0.2),
    View(letters=4),
    View(joined=True),
)
#: What `alignkit align --quality best` looks at otherwise.
VIEWS = (
    View(),
    View(subwords=1000),
    View(subwords=2000),
    View(subwords=4000),
    View(subwords=8000),
    View(letters=4),
    View(letters=6),
    View(joined=True),
)


def trained_views(views: tuple[View, ...], bitext: Bitext) -> tuple[View, ...]:
    """The views with their tokenizers and collocations, learned from a text; without those for which it is too
    small, or in which all units would be words.

    Args:
        views: those that have tokenizers or collocations stay as they are.
        bitext: with its vocabulary, or a larger one.
    """
    if all(view.has_words and not view.joined for view in views):
        return views
    sides = [folded_counts(side) for side in (bitext.source, bitext.target)]
    # A side has at least as many subwords as letters.
    letters = [
        len({letter for word in counts for letter in unicodedata.normalize("NFKC", word)}) for counts in sides
    ]
    trained, sizes = [], set()
    for view in views:
        if view.joined and view.collocations is None:
            text = folded_text(bitext)
            of_source, of_target = (find_collocations(side, is_word) for side in (text.source, text.target))
            if len(of_source) + len(of_target) >= LEAST_JOINED * sum(map(len, sides)) > 0:
                trained.append(replace(view, collocations=(of_source, of_target)))
            continue
        if not view.subwords or view.tokenizers is not None:
            if not view.letters or any(len(word) > view.letters for counts in sides for word in counts):
                trained.append(view)
            continue
        size = tuple(
            max(min(view.subwords, int(view.share * len(counts))), least + 16)
            for counts, least in zip(sides, letters, strict=True)
        )
        if min(map(len, sides)) < (view.types or view.subwords) or size in sizes:
            continue
        sizes.add(size)
        try:
            source, target = (train_word_pieces(*each) for each in zip(sides, size, strict=True))
        except AlignkitError:  # more letters than subwords
            continue
        pieces = zip((source, target), sides, strict=True)
        if any(len(side.pieces(word)) > 1 for side, counts in pieces for word in counts):
            trained.append(replace(view, tokenizers=(source, target)))
    return tuple(trained)


class UnitReader:
    """Reads the words of a side of a text as units, in the numbers of a fitted model.

    Args:
        view: trained; side: 0 for source words, 1 for target words.
        vocabulary: of the model's units.
    """

    def __init__(self, view: View, side: int, vocabulary: Vocabulary) -> None:
        self.ids = UnitIds(vocabulary, partial(view.pieces, side))
        self.collocations = None if view.collocations is None else view.collocations[side].ids

    def read(self, corpus: Corpus) -> tuple[Corpus, np.ndarray]:
        """M sentences of units, which may be new to the model; and int64 (N,), how many each token has, or, if
        units are collocations, how many tokens each unit has."""
        if self.collocations is None:
            ids, sizes, vocabulary = self.ids.units(corpus.vocabulary.tokens)
            tokens, offsets = in_units(corpus, ids, sizes)
            return Corpus.unchecked(tokens, offsets, vocabulary), sizes[corpus.tokens]
        units, widths, numbers = list[str](), list[int](), list[int]()
        for m in range(len(corpus)):
            own, own_widths = joined_words([*map(folded, corpus.words(m))], self.collocations)
            units += own
            widths += own_widths
            numbers += [len(own)]
        ids, _, vocabulary = self.ids.units(units)
        return Corpus(ids, offsets_of(numbers), vocabulary), np.array(widths, np.int64)


class ViewedText:
    """A bitext as a view shows it.

    Args:
        view: trained.
        bitext: M pairs.
        readers: of both sides, to number the units as a model does; None: as they first appear.
    """

    def __init__(self, view: View, bitext: Bitext, readers: tuple[UnitReader, UnitReader] | None = None) -> None:
        check_bitext(bitext)
        self.view, self._shapes = view, bitext.shapes
        self._is_one_to_one = view.has_words and not view.joined
        if readers is not None:
            source, target = readers[0].read(bitext.source), readers[1].read(bitext.target)
        elif self._is_one_to_one:
            self.bitext = folded_text(bitext) if view.fold_case else bitext
            return
        elif view.collocations is not None:
            text, names = folded_text(bitext), view.collocations
            source, target = joined(text.source, names[0].ids), joined(text.target, names[1].ids)
        else:
            source, target = (
                units_of(side, partial(view.pieces, n)) for n, side in enumerate((bitext.source, bitext.target))
            )
        self.bitext = Bitext(source[0], target[0])
        self._is_one_to_one = bool((source[1] == 1).all() and (target[1] == 1).all())
        if not self._is_one_to_one:
            of = self.bitext if view.joined else bitext
            self._counts = UnitCounts(source[1], of.source.offsets), UnitCounts(target[1], of.target.offsets)

    def of_words(self, log_odds: Scores, threads: int) -> Scores:
        """The log-odds of links between words, from those between units.

        Args:
            log_odds: of links between units; returned if every word is one.
            threads: how many to use; no result depends on it.
        """
        if self._is_one_to_one:
            return log_odds
        offsets = flat_offsets(self._shapes)
        words = Scores.unchecked(np.zeros(offsets[-1], np.float32), offsets, self._shapes)
        arrays = *self._counts, (log_odds.values, log_odds.offsets), (words.values, words.offsets)
        # A unit has several words, or a word has several units.
        fill, no_levels = (spread_values, ()) if self.view.joined else (merge_values, (None,))
        run_evenly(lambda *span: fill(*span, *arrays, *no_levels), log_odds.offsets, threads)
        return words

    def levels(self, levels: np.ndarray, threads: int) -> np.ndarray:
        """uint8 (Q,): how alike the units are whose words are as alike as ``levels`` uint8 (P,) say
        (:mod:`alignkit.embeddings.levels`); of pairs to fit an aligner on (:func:`training_pairs`)."""
        long, offsets = is_long(self.bitext), flat_offsets(self.bitext.shapes)
        if not self._is_one_to_one:
            of_words, levels = (levels, flat_offsets(self._shapes)), np.empty(offsets[-1], levels.dtype)
            arrays = *self._counts, of_words, (levels, offsets)
            fill, unknown = (merge_values, (UNKNOWN,)) if self.view.joined else (spread_values, ())
            run_evenly(lambda *span: fill(*span, *arrays, *unknown), offsets, threads)
        if not long.any():
            return levels
        if long.all():
            return np.full(flat_offsets(training_pairs(self.bitext)[0].shapes)[-1], UNKNOWN, np.uint8)
        return levels[np.repeat(~long, np.diff(offsets))]


def is_long(bitext: Bitext) -> np.ndarray:
    """bool (M,): the pairs that have more than ``LARGEST_PAIR`` elements."""
    check_bitext(bitext)
    return bitext.shapes.prod(axis=1, dtype=np.int64) > LARGEST_PAIR


class Windows(NamedTuple):
    """Long pairs in windows, which follow the diagonal. Every target token is in one window."""

    bitext: Bitext  # W windows
    pairs: np.ndarray  # int64 (W,), the pair that each is a part of, rising
    starts: np.ndarray  # int64 (W, 2), where it starts in the source and in the target sentence


def in_windows(bitext: Bitext, overlap: float = 1.0) -> Windows:
    """Cut the long pairs of a bitext; a pair that is not long is one window.

    Args:
        bitext: M pairs.
        overlap: how far the source side of a window reaches into both of its neighbours', in halves of theirs:
            translations need not stand exactly on the diagonal.
    """
    T, L = bitext.shapes.T.astype(np.int64)
    wanted = np.ceil(np.sqrt(T * L / WINDOW)).astype(np.int64)
    counts = np.where(is_long(bitext), np.minimum(wanted, np.minimum(T, L)), 1)
    pairs = np.repeat(np.arange(len(bitext)), counts)
    k = in_runs(np.zeros_like(counts), counts)
    T, L, counts = T[pairs], L[pairs], counts[pairs]
    low = np.maximum(0, (k - overlap / 2) * L / counts).astype(np.int64)
    high = np.minimum(L, np.ceil((k + 1 + overlap / 2) * L / counts)).astype(np.int64)
    source = _parts(bitext.source, pairs, low, high)
    target = _parts(bitext.target, pairs, k * T // counts, (k + 1) * T // counts)
    return Windows(Bitext(source, target), pairs, np.stack([low, k * T // counts], axis=1))


def training_pairs(bitext: Bitext, keep_blank: bool = False) -> tuple[Bitext, np.ndarray | None]:
    """The pairs to fit an aligner on, and which they are, bool (M,); None: all of them.

    Pairs with a blank side and long ones are left out, unless there are no others: then long ones are cut, and
    none of them is there. Vocabularies have no words that no pair has, as those of a part of a bitext do: a model
    would take them for words it knows.

    Args:
        bitext: M pairs.
        keep_blank: leave out long pairs only.
    """
    short, is_blank = ~is_long(bitext), ~bitext.shapes.all(axis=1)
    filled = short & ~is_blank
    chosen = short if keep_blank and (filled.any() or short.all()) else filled
    if not chosen.any() and not is_blank.all():
        bitext = in_windows(bitext.take(np.flatnonzero(~is_blank)), overlap=0.0).bitext
    elif chosen.any() and not chosen.all():
        bitext = bitext.take(np.flatnonzero(chosen))
    if not all(np.bincount(x.tokens, minlength=len(x.vocabulary)).all() for x in (bitext.source, bitext.target)):
        bitext = bitext.with_own_words()
    return bitext, None if chosen.all() else chosen


def linked_in_blocks(bitext: Bitext, find: Callable[[Bitext], Linked]) -> Linked:
    """The links of a bitext and their probabilities, found in blocks, and those of long pairs in windows.

    Args:
        bitext: M pairs.
        find: links of a few pairs, and their probabilities.
    """
    windows = in_windows(bitext) if is_long(bitext).any() else None
    parts = _in_blocks(bitext if windows is None else windows.bitext, find)
    links = parts[0][0] if len(parts) == 1 else Links.concatenated([links for links, _ in parts])
    probabilities = parts[0][1] if len(parts) == 1 else np.concatenate([values for _, values in parts])
    if windows is None:
        return links, probabilities
    window = links.sentences
    pairs, sentences = links.pairs + windows.starts[window], windows.pairs[window]
    order = np.lexsort((pairs[:, 1], pairs[:, 0], sentences))
    offsets = offsets_of(np.bincount(sentences, minlength=len(bitext)))
    return Links(pairs[order].astype(np.int32), offsets), probabilities[order]


def scores_in_windows(bitext: Bitext, find: Callable[[Bitext], Scores], least: float = 0.0) -> Scores:
    """The scores of a bitext; those of long pairs are found in windows, and the least far from the diagonal."""
    if not is_long(bitext).any():
        return find(bitext)
    windows, shapes, offsets = in_windows(bitext), bitext.shapes, flat_offsets(bitext.shapes)
    values = np.full(offsets[-1], least, np.float32)
    for matrix, pair, (source, target) in zip(find(windows.bitext), windows.pairs, windows.starts, strict=True):
        whole = values[offsets[pair] : offsets[pair + 1]].reshape(shapes[pair])
        whole[target : target + matrix.shape[0], source : source + matrix.shape[1]] = matrix
    return Scores(values, offsets, shapes)


def sums_in_windows(bitext: Bitext, find: Callable[[Bitext], np.ndarray]) -> np.ndarray:
    """float64 (M,): a value of each pair; that of a long one is the sum of its windows', which do not overlap."""
    windows = in_windows(bitext, overlap=0.0) if is_long(bitext).any() else None
    values = np.concatenate(_in_blocks(bitext if windows is None else windows.bitext, find))
    return values if windows is None else np.bincount(windows.pairs, values, minlength=len(bitext))


def _in_blocks(bitext: Bitext, find: Callable[[Bitext], Result]) -> list[Result]:
    ranges = blocks_of_size(flat_offsets(bitext.shapes), BLOCK_ELEMENTS) or [(0, 0)]
    return [find(bitext.block(low, high)) for low, high in ranges]


def interleaved_links(is_first: np.ndarray, first: Linked, second: Linked) -> Linked:
    """The links of all pairs, bool (M,), from those of the pairs that are first, and of the others."""
    counts = np.zeros(len(is_first), np.int64)
    counts[is_first], counts[~is_first] = np.diff(first[0].offsets), np.diff(second[0].offsets)
    offsets = offsets_of(counts)
    pairs, probabilities = np.empty((offsets[-1], 2), np.int32), np.empty(offsets[-1])
    for chosen, (links, values) in ((is_first, first), (~is_first, second)):
        places = in_runs(offsets[:-1][chosen], counts[chosen])
        pairs[places], probabilities[places] = links.pairs, values
    return Links(pairs, offsets), probabilities


def interleaved_scores(is_first: np.ndarray, shapes: np.ndarray, first: Scores, second: Scores) -> Scores:
    """The scores of all pairs (M, 2), from those of the pairs that are first, bool (M,), and of the others."""
    values = np.empty(flat_offsets(shapes)[-1], np.float32)
    elements = np.repeat(is_first, shapes.astype(np.int64).prod(axis=1))
    values[elements], values[~elements] = first.values, second.values
    return Scores(values, flat_offsets(shapes), shapes)


def _parts(corpus: Corpus, sentences: np.ndarray, low: np.ndarray, high: np.ndarray) -> Corpus:
    """The tokens low <= j < high of each of these sentences."""
    lengths = high - low
    tokens = corpus.tokens[in_runs(corpus.offsets[sentences] + low, lengths)]
    return Corpus(tokens, offsets_of(lengths), corpus.vocabulary)
