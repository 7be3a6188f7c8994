"""Lexicons of models and of links; as text: TSV, Moses' lexical weights, Marian's shortlist, eflomal's priors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.aligner import Aligner, Around, Symmetrized, check_directions
from alignkit.classical.cooccurrence import PairTable, table_of_pairs
from alignkit.classical.hmm.joint import JointHMM
from alignkit.classical.hmm.model import FittedHMM
from alignkit.classical.lexical_model import LexicalModel
from alignkit.classical.settings import SHORTLIST, LexiconFormat
from alignkit.errors import AlignkitError
from alignkit.links.gold import read_links_of
from alignkit.links.links import Links
from alignkit.support.arrays import brief_repr
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.pairs import read_bitext
from alignkit.text.spellings import folded
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

NULL = "NULL"  #: how Moses writes the empty word
#: White space to a C++ stream or Python's split, but part of a token here.
_BREAKS = "\v\f\r\x1c\x1d\x1e\x1f"

#: Smaller probabilities would be 0.0000000 in Moses' files, and have no logarithm.
_SMALLEST = 5e-8


def lexicon_of(aligner: Aligner) -> LexicalModel:
    """The model with the translation table: the aligner; of two symmetrized ones the forward one; of models of
    several views that of words; of one around another that within, of a target-to-source one with the source
    words as its target's.

    Raises:
        AlignkitError: the model is not one of translation probabilities between words.
    """
    if isinstance(aligner, Symmetrized):
        return lexicon_of(aligner.forward)
    if isinstance(aligner, Around):
        return lexicon_of(aligner.inner)
    if isinstance(aligner, JointHMM):
        return aligner.words
    if not isinstance(aligner, LexicalModel):
        models = "ibm1, diagonal, hmm or align"
        raise AlignkitError(f"{aligner.name} has no translation table; give a model that {models} saved")
    return aligner


def reverse_lexicon_of(aligner: Aligner) -> LexicalModel:
    """The target-to-source translation table of a model of both directions: symmetrized models, or the joint one.

    Raises:
        AlignkitError: the model has one direction, or no translation probabilities between words.
    """
    if isinstance(aligner, Symmetrized):
        return lexicon_of(aligner.reverse)
    model = lexicon_of(aligner)
    if not isinstance(model, FittedHMM) or model.reverse is None:
        raise AlignkitError(f"{aligner.name} has one direction only; give a model of both, or a reverse one")
    rows = model.table.rows
    order = np.lexsort((rows, model.table.columns))
    offsets = np.searchsorted(model.table.columns[order], np.arange(len(model.target) + 1)).astype(np.int64)
    table = PairTable(offsets, rows[order], model.reverse.emission[order], len(model.source))
    return LexicalModel(model.target, model.source, table, null=model.reverse.null)


def translations(aligner: Aligner, word: str, best: int | None = None) -> list[tuple[str, float]]:
    """As :meth:`alignkit.aligner.Aligner.translations` has them."""
    model = lexicon_of(aligner)
    if (i := model.source.id(word)) < 0 and (i := model.source.id(folded(word))) < 0:
        return []
    columns, values = model.table.row(i)
    found = zip((model.target[o] for o in columns.tolist()), values.tolist(), strict=True)
    return sorted(((w, p) for w, p in found if p > 0), key=lambda each: (-each[1], each[0].encode()))[:best]


@dataclass(frozen=True, eq=False)
class LinkedWords:
    """How often the words of a text are linked.

    Attributes:
        bitext: M pairs.
        links: theirs, each inside its pair.
    """

    bitext: Bitext
    links: Links

    __repr__ = brief_repr

    @classmethod
    def read(cls, source: PathLike, target: PathLike | None, links: PathLike) -> LinkedWords:
        """Read a text and its links.

        Args:
            source, target: as in :func:`alignkit.text.pairs.read_bitext`.
            links: zero-based, a line for each pair.

        Raises:
            InputError: a file cannot be read, there is not a line of links for each pair, or a link is outside its
                pair.
        """
        bitext = read_bitext(source, target)
        return cls(bitext, read_links_of(links, bitext.shapes)[0])

    @cached_property
    def reversed(self) -> LinkedWords:
        """The same with source and target exchanged."""
        return LinkedWords(self.bitext.reversed, self.links.reversed)

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """int64 (K,) each: the tokens of both sides that each link joins."""
        m, (s, t) = self.links.sentences, self.links.pairs.T
        return self.bitext.source.offsets[m] + s, self.bitext.target.offsets[m] + t

    @cached_property
    def table(self) -> PairTable:
        """How often each source word is linked to each target word."""
        source, target = self.bitext.source, self.bitext.target
        x, y = source.tokens[self.places[0]], target.tokens[self.places[1]]
        return table_of_pairs(x, y, None, (len(source.vocabulary), len(target.vocabulary)))

    @cached_property
    def lexicon(self) -> LexicalModel:
        """p(target word | source word), and p(target word | NULL), as Moses counts them.

        The links of a pair of words are divided by those of the source word and its occurrences without a link;
        NULL's words are the target words without a link.
        """
        source, target = self.bitext.source, self.bitext.target
        rows, unlinked = self.table.rows, []
        for side, places in zip((source, target), self.places, strict=True):
            free = np.ones(len(side.tokens), bool)
            free[places] = False
            unlinked.append(np.bincount(side.tokens[free], minlength=len(side.vocabulary)))
        totals = np.bincount(rows, self.table.values, len(source.vocabulary)) + unlinked[0]
        null = (unlinked[1] / max(unlinked[1].sum(), 1)).astype(np.float32)
        table = self.table.with_values((self.table.values / totals[rows]).astype(np.float32))
        return LexicalModel(source.vocabulary, target.vocabulary, table, null=null)

    def fertilities(self) -> Iterator[tuple[str, int, int]]:
        """(source word, number of links, how often an occurrence of the word has so many), of linked ones."""
        links = np.bincount(self.places[0])
        linked = np.flatnonzero(links)
        rows = np.stack([self.bitext.source.tokens[linked], links[linked]])
        (words, numbers), counts = np.unique(rows, axis=1, return_counts=True)
        for word, number, count in zip(words.tolist(), numbers.tolist(), counts.tolist(), strict=True):
            yield self.bitext.source.vocabulary[word], number, count

    def jumps(self) -> Iterator[tuple[int, int]]:
        """(jump, how often): from the last source word of a target word to the first of the next one that has a
        link, with the start of the sentence at -1 and its end after the last word, as eflomal counts them.
        """
        reverse = self.links.reversed
        t, s = reverse.pairs.T.astype(np.int64)
        linked = np.diff(reverse.offsets) > 0
        starts, ends = reverse.offsets[:-1][linked], reverse.offsets[1:][linked]
        before, is_first = np.roll(s, 1), t != np.roll(t, 1)
        before[starts], is_first[starts] = -1, True
        last = np.full(len(reverse), -1)
        last[linked] = s[ends - 1]
        found = np.concatenate([(s - before)[is_first], self.bitext.source.lengths - last])
        jumps, counts = np.unique(found, return_counts=True)
        return zip(jumps.tolist(), counts.tolist(), strict=True)


def linked_around(is_linked: np.ndarray, corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """int64 (N,) each: the places of the linked words before and behind each word of a corpus.

    Without one in its sentence, the place is that before the first, or that behind the last word of the sentence.

    Args:
        is_linked: bool (N,).
        corpus: N words.
    """
    N, sizes = len(is_linked), corpus.lengths
    before = np.maximum.accumulate(np.where(is_linked, np.arange(N), -1))
    behind = np.minimum.accumulate(np.where(is_linked, np.arange(N), N)[::-1])[::-1]
    before = np.maximum(np.append(-1, before)[:-1], np.repeat(corpus.offsets[:-1], sizes) - 1)
    return before, np.minimum(np.append(behind, N)[1:], np.repeat(corpus.offsets[1:], sizes))


def lexicon_files(
    forward: LexicalModel,
    reverse: LexicalModel | None = None,
    file_format: LexiconFormat = "tsv",
    best: int | None = None,
    counts: LinkedWords | None = None,
) -> dict[str, Iterator[bytes]]:
    """The files of a lexicon: the suffix of each one's name -> its content, in parts.

    Args:
        forward: source to target.
        reverse: target to source, of the same text; for ``tsv`` and ``moses``.
        file_format: ``tsv`` (see :func:`tsv`); ``moses`` (see :func:`moses`), ``.f2e`` and ``.e2f`` with a reverse
            model; ``shortlist``, as ``moses`` without NULL and with the best translations only; or ``eflomal``
            (see :func:`eflomal`).
        best: as in :func:`entries`; a shortlist has ``SHORTLIST`` translations by default.
        counts: of the links that the lexicon is counted from, for ``tsv`` and ``eflomal``.

    Raises:
        AlignkitError: the format has no place for the reverse model, or the two are not of opposite directions; or
            it needs counts.
    """
    if file_format == "eflomal":
        if counts is None:
            raise AlignkitError("eflomal's priors are counts of links, which no model has; give SRC TGT LINKS")
        return {"": eflomal(counts, best)}
    if reverse is not None:
        if file_format == "shortlist":
            raise AlignkitError("a shortlist has one direction; give one model")
        check_directions(forward, reverse)
    if file_format == "tsv":
        return {"": tsv(forward, reverse, best, None if counts is None else counts.table)}
    if file_format == "shortlist":
        return {"": moses(forward, best or SHORTLIST, null=False)}
    if reverse is None:
        return {"": moses(forward, best)}
    return {".f2e": moses(forward, best), ".e2f": moses(reverse, best)}


def tsv(
    forward: LexicalModel,
    reverse: LexicalModel | None = None,
    best: int | None = None,
    counts: PairTable | None = None,
) -> Iterator[bytes]:
    """Lines ``source TAB target TAB p(target | source)``, and TAB p(source | target) if there is a reverse model,
    and TAB the number of links if there are counts of the forward model's words.

    The pairs and their order are those of :func:`entries` of the forward model; the reverse probability is 0 for a
    pair that the reverse model does not have. NULL is left out: a word of the text may be spelled like it.
    """
    if reverse is not None:  # ids of the forward lexicon -> those of the reverse one
        own_source, own_target = reverse.target.translate(forward.source), reverse.source.translate(forward.target)
    for i, columns, values in entries(forward, best):
        word, ends = forward.source[i], [""] * len(columns)
        if reverse is not None:
            x, rows = int(own_source[i]), own_target[columns].tolist()
            ends = [f"\t{reverse.table.value(y, x) if y >= 0 and x >= 0 else 0.0:.6g}" for y in rows]
        if counts is not None:
            ends = [f"{end}\t{counts.value(i, o):.0f}" for end, o in zip(ends, columns.tolist(), strict=True)]
        lines = zip(columns.tolist(), values.tolist(), ends, strict=True)
        yield "".join(f"{word}\t{forward.target[o]}\t{p:.6g}{end}\n" for o, p, end in lines).encode()


def moses(model: LexicalModel, best: int | None = None, null: bool = True) -> Iterator[bytes]:
    """Lines ``target source p(target | source)``, as in Moses' lexical weights: ``lex.f2e`` if the source is f.

    Left out are words with a control character that other programs take for white space, whose lines would be
    misread, and words that are spelled NULL.

    Args:
        model, best: as in :func:`entries`.
        null: also write NULL's translations, last (Moses knows it as a source word; a shortlist needs none).
    """
    source, target = (tuple(map(_plain, vocabulary)) for vocabulary in (model.source, model.target))
    for i, columns, values in entries(model, best, _SMALLEST, null):
        if word := NULL if i < 0 else source[i]:
            pairs = zip((target[o] for o in columns.tolist()), values.tolist(), strict=True)
            yield "".join(f"{other} {word} {p:.7f}\n" for other, p in pairs if other).encode()


def eflomal(counts: LinkedWords, best: int | None = None) -> Iterator[bytes]:
    """The lines of eflomal's priors: how often words are linked (``LEX``), how many links a word has in each
    direction (``FERF``, ``FERR``), and the jumps between links (``HMMF``, ``HMMR``).

    Left out are words with control characters, as in :func:`moses`.

    Args:
        counts: of the links.
        best: as in :func:`entries`.
    """
    source, target = counts.lexicon.source, counts.lexicon.target
    for i, columns, _ in entries(counts.lexicon, best):
        pairs = ((source[i], target[o], counts.table.value(i, o)) for o in columns.tolist())
        yield "".join(f"LEX\t{x}\t{y}\t{n:.0f}\n" for x, y, n in pairs if _plain(x) and _plain(y)).encode()
    for direction, side in (("F", counts), ("R", counts.reversed)):
        lines = [f"FER{direction}\t{word}\t{k}\t{n}\n" for word, k, n in side.fertilities() if _plain(word)]
        yield "".join([*lines, *(f"HMM{direction}\t{jump}\t{n}\n" for jump, n in side.jumps())]).encode()


def _plain(word: str) -> str:
    """The word, or "" if it cannot stand between spaces in a file or would be taken for NULL."""
    return "" if word == NULL or any(letter in word for letter in _BREAKS) else word


def entries(
    model: LexicalModel, best: int | None = None, minimum: float = 0.0, null: bool = False
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(source id, target ids, probabilities) of every source word that has translations.

    Source words come in order of their bytes; the translations fall in probability, and equals are in order of
    their bytes. Probabilities of 0 are left out.

    Args:
        model: with the table.
        best: the most translations of a source word; None: all.
        minimum: the least probability.
        null: also NULL, last, with the id -1.
    """
    rank = _ranks(model.target)
    of_null = np.zeros(0, np.float32) if model.null is None or not null else model.null
    for i in [*np.argsort(_ranks(model.source)).tolist(), *([-1] if len(of_null) else [])]:
        columns, values = (np.arange(len(rank)), of_null) if i < 0 else model.table.row(i)
        kept = np.flatnonzero((values > 0) & (values >= minimum))
        if best is not None and len(kept) > 4 * best:
            # Sorting a long row for its first few is most of the work: leave out what cannot be among them.
            bound = np.partition(values[kept], len(kept) - best)[len(kept) - best]
            kept = kept[values[kept] >= bound]
        kept = kept[np.lexsort((rank[columns[kept]], -values[kept]))][:best]
        if len(kept):
            yield i, columns[kept], values[kept]


def _ranks(vocabulary: Vocabulary) -> np.ndarray:
    """int64 (V,): the place of each word among all in order of their UTF-8 bytes."""
    data, bounds = vocabulary.text.tobytes(), vocabulary.offsets.tolist()
    order = sorted(range(len(vocabulary)), key=lambda i: data[bounds[i] : bounds[i + 1]])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
