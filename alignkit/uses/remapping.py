"""Links moved to the tokens of another tokenization, which is found through the characters that both share.

Words of tokenized text, subwords and the words between the spaces of untokenized text are all runs of the same
characters. Two tokens belong together if they share a character. Marks of subwords and spaces are no characters.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from alignkit.errors import AlignkitError, InputError, counted, of_list
from alignkit.links.gold import read_links_of
from alignkit.links.links import Links, LinksLike, as_links, check_range, links_of_keys
from alignkit.support.arrays import brief_repr, in_runs, offsets_of, places_of
from alignkit.text.bitext import Bitext, Corpus, check_bitext
from alignkit.text.pairs import PairFiles
from alignkit.text.tokenization import style_of, without_mark
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

log = logging.getLogger(__name__)

#: Links that are made at a time, before repetitions are dropped.
_MOST_LINKS = 1 << 22
BLOCK = 50_000  # sentences compared at a time

#: What Moses' tokenizer writes for other characters.
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&#91;": "[", "&#93;": "]", "&#124;": "|"}
_ENTITY = re.compile("|".join(_ENTITIES))
_SPLIT_MARK = re.compile(r"@(.)@\Z")  # @-@, Moses' mark of a hyphen that it split off
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")  # a byte of a character that a SentencePiece model does not know


def remap_links(links: LinksLike, old: Bitext, new: Bitext) -> Links:
    """Links between the tokens of ``new``, from those between the tokens of ``old``, another tokenization.

    Words of tokenized text, subwords, and the words between the spaces of untokenized text can stand on either
    side. Two new tokens are linked if two linked old tokens share a character with them
    (:func:`token_map`). From words to subwords, all subwords of linked words are linked
    with each other; back, the words of linked subwords. The way to subwords and back to words thus gives the same
    links, and so does every way over a finer tokenization and back.

    Args:
        links: of M pairs, between the tokens of ``old``.
        old, new: M pairs with the same characters on each side.

    Raises:
        AlignkitError: a sentence has other characters in ``new`` than in ``old``, or a link is outside its pair.
    """
    links = as_links(links)
    for text in (old, new):
        check_bitext(text)
    with of_list("links"):
        check_range("links", links, old.shapes)
    if not len(links) == len(old) == len(new):
        raise AlignkitError(f"{len(links)} lines of links, {len(old)} old and {len(new)} new sentence pairs")
    maps = token_map(old.source, new.source), token_map(old.target, new.target)
    found = first_differing(maps)
    if found is not None:
        side, m, problem = found
        raise AlignkitError(f"{('source', 'target')[side]}[{m}] has other characters in the new text: {problem}")
    return remap_through(links, *maps)


def remap_files(
    links: PathLike, old: tuple[PathLike, PathLike], new: tuple[PathLike, PathLike], *, skip: bool = False
) -> Links:
    """Links between the tokens of ``new``, from a file of links between the tokens of ``old``.

    Args:
        links: zero-based, a line for each of M sentence pairs; probabilities are dropped.
        old, new: source and target file of the same M pairs, tokens with spaces between them; see
            :func:`remap_links`.
        skip: go on after a sentence that has other characters in the new text than in the old one: its pair gets
            no links, and a warning with the number of such pairs is logged.

    Raises:
        InputError: a file cannot be read; links and texts have different numbers of lines; a link is outside its
            sentence pair; or, unless they are skipped, a sentence has other characters.
    """
    before, after = PairFiles(*old).bitext(), PairFiles(*new).bitext()
    if len(after) != len(before):
        raise InputError(new[0], f"has {counted(len(after), 'line')}, {old[0]} has {len(before):,}")
    found, _ = read_links_of(links, before.shapes)
    maps = token_map(before.source, after.source), token_map(before.target, after.target)
    differing = first_differing(maps)
    if differing is not None:
        side, m, shown = differing
        problem = f"has other characters than {old[side]}: {shown}"
        remedy = "give two tokenizations of the same text, or go on with --on-error skip"
        error = InputError(new[side], problem, line=m + 1, remedy=remedy)
        if not skip:
            raise error
        count = int((maps[0].differs | maps[1].differs).sum())
        pairs = "1 pair differs and has no links" if count == 1 else f"{count} pairs differ and have no links"
        log.warning("%s; the first: %s, line %d", pairs, error.path, m + 1)
    return remap_through(found, *maps)


def first_differing(maps: tuple[TokenMap, TokenMap]) -> tuple[int, int, str] | None:
    """The side and number of the first sentence that has other characters in the new text, and what differs."""
    differs = maps[0].differs | maps[1].differs
    if not differs.any():
        return None
    m = int(differs.argmax())
    side = 0 if maps[0].differs[m] else 1
    texts = list[list[tuple[str, str]]]()  # of the old and the new one in each style
    for corpus in (maps[side].old, maps[side].new):
        sentence = Corpus.from_sentences([corpus.words(m)])
        forms = ((style, _Forms(sentence, style, _normalized).text(np.array([0]))) for style in _styles(corpus))
        texts.append([(form.tobytes().decode("utf-8", "backslashreplace"), style) for style, form in forms])

    def agreeing(a: str, b: str) -> int:
        return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

    (old, old_style), (new, new_style) = max(product(*texts), key=lambda pair: agreeing(pair[0][0], pair[1][0]))
    at = agreeing(old, new)
    shown = f"{new[at : at + 20]!r} where the old one has {old[at : at + 20]!r}"
    return side, m, f"{shown} (read as {new_style}, the old one as {old_style})"


def remap_through(links: Links, source: TokenMap, target: TokenMap) -> Links:
    """Links moved through the maps of both sides; those of a pair with a side that differs are dropped."""
    sentence = links.sentences
    places = [tokens.old.offsets[sentence] + links.pairs[:, side] for side, tokens in enumerate((source, target))]
    low = [tokens.first[place] for tokens, place in zip((source, target), places, strict=True)]
    high = [tokens.end[place] for tokens, place in zip((source, target), places, strict=True)]
    size = [stop - start for start, stop in zip(low, high, strict=True)]
    counts = size[0].astype(np.int64) * size[1]
    total = offsets_of(counts)
    ends = total[links.offsets]  # the first new link of each pair, with repetitions
    widths = [int(tokens.new.lengths.max(initial=0)) + 1 for tokens in (source, target)]
    most_pairs = max((1 << 62) // (widths[0] * widths[1]), 1)  # a key for each place fits int64
    parts, begin = [], 0
    while begin < len(links):
        stop = max(int(np.searchsorted(ends, ends[begin] + _MOST_LINKS, "right")) - 1, begin + 1)
        stop = min(stop, begin + most_pairs)
        span = slice(links.offsets[begin], links.offsets[stop])
        repeats = counts[span]
        within = np.arange(ends[stop] - ends[begin]) - np.repeat(total[:-1][span] - ends[begin], repeats)
        row, column = np.divmod(within, np.repeat(size[1][span], repeats))
        row += np.repeat((sentence[span] - begin) * widths[0] + low[0][span], repeats)
        column += np.repeat(low[1][span], repeats)
        parts.append(links_of_keys(row * widths[1] + column, widths, stop - begin))
        begin = stop
    return Links.concatenated(parts)


@dataclass(frozen=True, eq=False)
class TokenMap:
    """The tokens of a new tokenization that each token of an old one shares a character with.

    Attributes:
        old, new: the same M sentences in both tokenizations.
        first, end: int32 (N_old,), for each old token the range [first, end) of its new tokens within the
            sentence; empty if there are none.
        differs: bool (M,), sentences whose characters are not the same in both; their ranges are empty.
    """

    old: Corpus
    new: Corpus
    first: np.ndarray
    end: np.ndarray
    differs: np.ndarray

    __repr__ = brief_repr


def token_map(old: Corpus, new: Corpus) -> TokenMap:
    """The map from the tokens of one tokenization to those of another.

    The characters are compared as they are, without the marks of subwords; where they differ, after normalization
    as by SentencePiece (compatibility characters, white space, control characters), without case and Moses'
    escapes; where they still differ, without accents, which some models for uncased text drop.

    A token without characters, such as a lone ``▁``, belongs to the token after it, or else to the last character.

    Args:
        old, new: M sentences each. Marks of subwords are recognized (:mod:`alignkit.text.tokenization`).
    """
    first, end = np.zeros((2, len(old.tokens)), np.int32)
    open_sentences = np.arange(len(old))
    for level, *pair in product(_LEVELS, _styles(old), _styles(new)):
        if not len(open_sentences):
            break
        old_forms, new_forms = (_Forms(each, style, level) for each, style in zip((old, new), pair, strict=True))
        left = []
        for low in range(0, len(open_sentences), BLOCK):
            sentences = open_sentences[low : low + BLOCK]
            equal = old_forms.sizes[sentences] == new_forms.sizes[sentences]
            chosen = sentences[equal]
            unlike = offsets_of(old_forms.text(chosen) != new_forms.text(chosen))
            bounds = offsets_of(old_forms.sizes[chosen])
            equal[equal] = unlike[bounds[1:]] == unlike[bounds[:-1]]
            left.append(sentences[~equal])
            chosen = sentences[equal]
            filled = chosen[old_forms.sizes[chosen] > 0]  # tokens of sentences without any character stay unmapped
            places, starts, ends = old_forms.intervals(filled)
            _, new_starts, new_ends = new_forms.intervals(filled)
            base = np.repeat(offsets_of(new.lengths[filled])[:-1], old.lengths[filled])
            first[places] = np.searchsorted(new_ends, starts, "right") - base
            end[places] = np.searchsorted(new_starts, ends, "left") - base
        open_sentences = np.concatenate(left)
    differs = np.zeros(len(old), bool)
    differs[open_sentences] = True
    return TokenMap(old, new, first, end, differs)


class _Forms:
    """The characters of a corpus's tokens, as bytes.

    Args:
        corpus: M sentences.
        style: of the marks of subwords, one of :func:`_styles`.
        level: one of ``_LEVELS``.

    Attributes:
        sizes: int64 (M,), the number of bytes of each sentence.
    """

    def __init__(self, corpus: Corpus, style: str, level: Callable[[str], str]) -> None:
        self.corpus = corpus = _with_characters(corpus) if style == "sentencepiece" else corpus
        forms = [_characters(token, style, level) for token in corpus.vocabulary.tokens]
        self.lengths = np.fromiter(map(len, forms), np.int64, len(forms))
        self.starts = offsets_of(self.lengths)[:-1]
        self.bytes = np.frombuffer(b"".join(forms), np.uint8)
        self.sizes = np.diff(offsets_of(self.lengths[corpus.tokens])[corpus.offsets])

    def text(self, sentences: np.ndarray) -> np.ndarray:
        """uint8: the characters of these sentences, one after another."""
        tokens = self.corpus.take(sentences).tokens
        return self.bytes[in_runs(self.starts[tokens], self.lengths[tokens])]

    def intervals(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of the sentences' tokens in the corpus, and the bytes [start, end) of :meth:`text` of each.

        A token without bytes gets those of the next one of its sentence that has some, or the last byte.
        """
        places = places_of(self.corpus, sentences)
        lengths = self.lengths[self.corpus.tokens[places]]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        last = np.repeat(np.cumsum(self.sizes[sentences]), self.corpus.lengths[sentences]) - 1
        starts = np.minimum(starts, last)
        filled = ends[lengths > 0]
        return places, starts, filled[np.searchsorted(filled, starts, "right")]


def _with_characters(corpus: Corpus) -> Corpus:
    """The corpus with the characters whose bytes are pieces: the last byte of each is the character, those before
    are marks without one, which belong to it. Bytes of no character stay as they are."""
    tokens = list(corpus.vocabulary.tokens)
    bytes_of = {i: int(match[1], 16) for i, token in enumerate(tokens) if (match := _BYTE.match(token))}
    places = np.flatnonzero(np.isin(corpus.tokens, [*bytes_of]))
    ids, new = {token: i for i, token in enumerate(tokens)}, corpus.tokens.copy()
    starts_run = np.isin(places, corpus.offsets) | (np.diff(places, prepend=-2) > 1)
    for run in np.split(places, np.flatnonzero(starts_run)):
        at = 0
        for character in bytes(bytes_of[i] for i in corpus.tokens[run].tolist()).decode(*_ENCODING):
            size = len(character.encode(*_ENCODING))
            if character != "\u2581" and not "\udc80" <= character <= "\udcff":
                new[run[at : at + size - 1]] = ids.setdefault("\u2581", len(ids))
                new[run[at + size - 1]] = ids.setdefault(character, len(ids))
            at += size
    return Corpus(new, corpus.offsets, Vocabulary.from_tokens(ids)) if len(places) else corpus


def _styles(corpus: Corpus) -> list[str]:
    """The style of most of a corpus's marks, and ``words``, for any of its sentences may have none.

    It is ``bytes`` for byte-level BPE, whose tokens are bytes shown as letters.
    """
    tokens = corpus.vocabulary.tokens
    style = style_of([tokens])
    if style == "sentencepiece" and not any("▁" in token for token in tokens):
        style = "bytes"
    return [*dict.fromkeys((style, "words"))]


def _characters(token: str, style: str, level: Callable[[str], str]) -> bytes:
    if style == "bytes":
        letters = _byte_letters()
        if all(letter in letters for letter in token):
            raw = bytes(letters[letter] for letter in token).replace(b" ", b"")
            return level(raw.decode(*_ENCODING)).encode(*_ENCODING)
    if style == "sentencepiece":
        match = _BYTE.match(token)
        if match is not None:
            return bytes.fromhex(match[1])
        token = token.replace("▁", "")
    else:
        token = without_mark(token, "sentencepiece" if style == "bytes" else style)
    return level(token).encode(*_ENCODING)


_ENCODING = ("utf-8", "surrogateescape")


@cache
def _byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE (Radford et al. 2019) shows bytes as -> the bytes.

    Printable bytes of Latin-1 stand for themselves, the others for the letters from U+0100 on.
    """
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {chr(byte): byte for byte in shown}
    others = [byte for byte in range(256) if byte not in shown]
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}


def _normalized(text: str) -> str:
    """Compatibility characters decomposed, case folded, without white space, controls and Moses' escapes."""
    text = _SPLIT_MARK.sub(r"\1", _ENTITY.sub(lambda match: _ENTITIES[match[0]], text)).replace("&amp;", "&")
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(letter for letter in folded if unicodedata.category(letter) not in _INVISIBLE)


def _without_accents(text: str) -> str:
    return "".join(letter for letter in _normalized(text) if unicodedata.category(letter) != "Mn")


_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))
_LEVELS: tuple[Callable[[str], str], ...] = (str, _normalized, _without_accents)
