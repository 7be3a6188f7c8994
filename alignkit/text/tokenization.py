"""Tokenizers from lines of text to ids, and the whitespace word of each subword of any tokenizer.

Tokenizers are of SentencePiece subwords or of whitespace words, joint for both sides. The special ids are those of
the paper's code: pad 0, bos 1, eos 2, unk 3.

The word of a subword follows from the subword's mark, without the tokenizer. SentencePiece (``▁Haus``) and
byte-level BPE (``ĠHaus``) mark the start of a word, BPE (``Ha@@ us``) a subword that the next one continues,
WordPiece (``Ha ##us``) a subword that continues the one before. BOS, EOS and padding are recognized at the ends of
a sentence only.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_known, check_list, counted
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import UNKNOWN, VISIBLE, Vocabulary
from alignkit.types import PathLike

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
MOST_WORDS, COPIES = 1 << 20, 50  # to train subwords on, and the copies of a word on a line
MOST_KEPT = 1 << 17  # words whose subwords are remembered
WORD_START = "\u2581"  # SentencePiece's mark of the start of a word

#: How subwords are marked.
STYLES = ("words", "sentencepiece", "bpe", "wordpiece")
_STARTS = ("▁", "Ġ")
_OPENING = frozenset({SPECIALS[1], "[CLS]", "<bos>"})
_CLOSING = frozenset({SPECIALS[2], "[SEP]", "<eos>"})
_PADDING = frozenset({SPECIALS[0], "[PAD]"})
UNKNOWN_SUBWORDS = frozenset({SPECIALS[3], "[UNK]", "<UNK>"})
#: A word of a line; a no-break space is part of its word.
WORD = re.compile("[^ \t\n\r\u3000]+")
_SENTENCES = "sentences must be a list of lists of subwords"
_SUBWORDS = "the subwords of a sentence must be a list"


def split_words(line: str) -> list[str]:
    """The words of a line, as :func:`alignkit.text.reading.encode_text` finds them; line ends are spaces."""
    return WORD.findall(line) if VISIBLE.search(line) else []


@dataclass(frozen=True)
class WordTokenizer:
    """A tokenizer of whitespace words; those not in the vocabulary are unk."""

    vocabulary: Vocabulary

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        ids = self.vocabulary.ids
        # Text that happens to spell a special is unknown: only the encoder adds BOS, EOS and padding.
        return [UNK if word in SPECIALS else ids.get(word, UNK) for word in split_words(line)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; specials are left out."""
        return " ".join(self.vocabulary[i] for i in ids if i not in (PAD, BOS, EOS))

    def words(self, line: str) -> list[int]:
        """The index of the whitespace word that each id of :meth:`encode` belongs to."""
        return list(range(len(split_words(line))))

    def state(self) -> dict[str, Any]:
        """The state that :func:`tokenizer_from_state` takes: strings, numbers and bytes."""
        return {"tokens": "words", "vocabulary": list(self.vocabulary.tokens)}


@dataclass(frozen=True)
class SubwordTokenizer:
    """A tokenizer of SentencePiece subwords; ``model`` is the serialised SentencePiece model."""

    model: bytes = field(repr=False)
    #: of the words that were encoded, or split, before
    _ids: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _pieces: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _processor(self) -> Any:
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(self.model)
        except RuntimeError as error:
            raise AlignkitError(f"damaged SentencePiece model: {error}") from error
        return processor

    @cached_property
    def vocabulary(self) -> Vocabulary:
        size = self._processor.GetPieceSize()
        return Vocabulary.from_tokens(self._processor.IdToPiece(i) for i in range(size))

    def _encode_word(self, word: str) -> list[int]:
        ids = self._ids.get(word)
        if ids is None:
            # SentencePiece ends a string at NUL.
            ids = self._ids[word] = self._processor.EncodeAsIds(word.replace("\0", "\ufffd"))
        return ids

    def pieces(self, word: str) -> tuple[str, ...]:
        """The subwords of a word, at least one."""
        pieces = self._pieces.get(word)
        if pieces is None:
            split = self._processor.EncodeAsPieces(word.replace("\0", "\ufffd"))
            if len(split) > 1 and split[0] == WORD_START:  # a mark of its own says nothing
                split = [split[0] + split[1], *split[2:]]
            if len(self._pieces) >= MOST_KEPT:
                self._pieces.clear()
            pieces = self._pieces[word] = tuple(split) or (WORD_START,)
        return pieces

    def forget_words(self) -> None:
        """Forget how the words of a text are split, which takes more memory than its vocabulary."""
        self._ids.clear()
        self._pieces.clear()

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS, encoded word by word.

        Subwords never cross a space, so they are those that SentencePiece finds in the line; but each distinct
        word is encoded only once, and the word of each subword is known.
        """
        return [i for word in split_words(line) for i in self._encode_word(word)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; specials are left out."""
        return self._processor.DecodeIds([int(i) for i in ids if i not in (PAD, BOS, EOS)])

    def words(self, line: str) -> list[int]:
        """The index of the whitespace word that each id of :meth:`encode` belongs to."""
        return [index for index, word in enumerate(split_words(line)) for _ in self._encode_word(word)]

    def state(self) -> dict[str, Any]:
        """The state that :func:`tokenizer_from_state` takes: strings, numbers and bytes."""
        return {"tokens": "subwords", "model": self.model}


#: Lines of text to ids and back, with one vocabulary for both sides of a bitext.
Tokenizer = WordTokenizer | SubwordTokenizer
_LINES = "lines must be a list of sentences"


def train_subwords(
    lines: Iterable[str], size: int, model: Literal["unigram", "bpe"] = "unigram"
) -> SubwordTokenizer:
    """Train a joint SentencePiece model on the lines of both sides.

    Args:
        lines: the text of both sides.
        size: of the vocabulary; a small text gets a smaller one.
        model: a unigram language model (Kudo 2018), or byte-pair encoding (Sennrich et al. 2016), which is learned
            ten times as fast.

    Raises:
        AlignkitError: there is no text, it has more distinct characters than ``size``, or it is a single string.
    """
    check_list(lines, _LINES)
    import sentencepiece

    text = [line.replace("\0", "\ufffd") for line in lines if line.strip(" \t")]
    if not text:
        raise AlignkitError("cannot learn subwords from an empty text")
    found = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(text),
            model_writer=found,
            model_type=model,
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=1.0,
            pad_id=PAD,
            bos_id=BOS,
            eos_id=EOS,
            unk_id=UNK,
            pad_piece=SPECIALS[PAD],
            minloglevel=2,
            num_threads=1,  # its EM sums depend on the number of threads
            max_sentence_length=1 << 20,
        )
    except RuntimeError as error:  # the size is smaller than the number of distinct characters
        reason = str(error).split("] ")[-1].strip() or "there must be more"
        raise AlignkitError(f"cannot learn {size} subwords: {reason}") from error
    return SubwordTokenizer(found.getvalue())


def train_word_pieces(counts: Mapping[str, int], size: int) -> SubwordTokenizer:
    """Train a SentencePiece model (byte-pair encoding) on words.

    Args:
        counts: how often each word occurs; their order does not matter.
        size: of the vocabulary; few words get a smaller one.

    Raises:
        AlignkitError: there are no words, or they have more distinct characters than ``size``.
    """
    # A larger text repeats what these words show.
    scale = min(1.0, MOST_WORDS / max(sum(counts.values()), 1))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    # SentencePiece takes quadratic time for long lines.
    lines = (
        " ".join([word] * min(COPIES, count - done))
        for word, count in ((word, math.ceil(count * scale)) for word, count in ordered)
        for done in range(0, count, COPIES)
    )
    return train_subwords(lines, size, "bpe")


def learn_words(lines: Iterable[str], minimum: int = 1) -> WordTokenizer:
    """A tokenizer of the words that occur at least ``minimum`` times, the most frequent first.

    Raises:
        AlignkitError: ``lines`` is a single string.
    """
    check_list(lines, _LINES)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_words(line))
    # Counter.most_common keeps first-seen order among equals, so this is deterministic.
    kept = [w for w, n in counts.most_common() if n >= minimum and w not in SPECIALS]
    return WordTokenizer(Vocabulary.from_tokens([*SPECIALS, *kept]))


def tokenizer_from_state(state: dict[str, Any]) -> Tokenizer:
    """The tokenizer with this ``state``; raises AlignkitError if the state is damaged."""
    try:
        if state["tokens"] == "words":
            return WordTokenizer(Vocabulary.from_tokens(state["vocabulary"]))
        if state["tokens"] == "subwords":
            return SubwordTokenizer(bytes(state["model"]))
    except (KeyError, TypeError, ValueError) as error:
        raise AlignkitError(f"damaged tokenizer: {error}") from error
    raise AlignkitError(f"unknown kind of tokens {state['tokens']!r}")


def encode_lines(tokenizer: Tokenizer, lines: Sequence[str], *, bos: bool = False, eos: bool = False) -> Corpus:
    """Encode lines, with BOS and EOS around every sentence, an empty one too, if asked for.

    Raises:
        AlignkitError: ``lines`` is a single string.
    """
    check_list(lines, _LINES)
    flat: list[int] = []
    offsets = np.zeros(len(lines) + 1, np.int64)
    for m, line in enumerate(lines):
        if bos:
            flat.append(BOS)
        flat.extend(tokenizer.encode(line))
        if eos:
            flat.append(EOS)
        offsets[m + 1] = len(flat)
    return Corpus(np.array(flat, np.int32), offsets, tokenizer.vocabulary)


def encode_bitext(tokenizer: Tokenizer, source: Sequence[str], target: Sequence[str]) -> Bitext:
    """Encode a bitext as the paper's network reads it.

    The source gets BOS and EOS. The target gets EOS, which the network predicts, but no BOS, which it does not:
    so a score matrix has one row for each token that is predicted.
    """
    return Bitext(encode_lines(tokenizer, source, bos=True, eos=True), encode_lines(tokenizer, target, eos=True))


def check_shared(known: int, count: int) -> None:
    """Raise AlignkitError if a network knows less than a tenth of the distinct tokens of a text."""
    # A sentence or two of rare words is no evidence; a text of which nothing is known is.
    if count >= 20 and known * 10 < count:
        raise AlignkitError(
            f"the network's vocabulary has {known} of the {count} distinct tokens of this text: "
            "give a bitext of words, in the languages of the text that the network was trained on"
        )


def reencode(corpus: Corpus, vocabulary: Vocabulary) -> Corpus:
    """The corpus with the ids of another vocabulary; tokens that it lacks become unk.

    Raises:
        AlignkitError: the vocabulary has less than a tenth of the corpus's types, which shows another tokenizer.
    """
    if corpus.vocabulary == vocabulary:
        return corpus
    table = vocabulary.translate(corpus.vocabulary)
    used = np.unique(corpus.tokens)
    special = {corpus.vocabulary.id(token) for token in SPECIALS}
    words = used[~np.isin(used, list(special))]
    check_shared(int((table[words] != UNKNOWN).sum()), len(words))
    table = np.where(table == UNKNOWN, UNK, table).astype(np.int32)
    return Corpus(table[corpus.tokens], corpus.offsets, vocabulary)


def style_of(sentences: Iterable[Sequence[str]]) -> str:
    """The style that most marks in these sentences have, a name in ``STYLES``; ``words`` if there are none.

    Words may look marked: Ġ is a letter of Maltese, and ▁▂▃ is a drawing.

    Raises:
        AlignkitError: a sentence is a string, not a list of subwords.
    """
    counts = dict.fromkeys(STYLES[1:], 0)
    check_list(sentences, _SENTENCES)
    for tokens in sentences:
        check_list(tokens, _SUBWORDS)
        for token in tokens:
            counts["sentencepiece"] += token.startswith(_STARTS)
            counts["bpe"] += len(token) > 2 and token.endswith("@@")
            counts["wordpiece"] += len(token) > 2 and token.startswith("##")
    return max(counts, key=counts.__getitem__) if any(counts.values()) else "words"


def word_groups(tokens: Sequence[str], style: str, *, specials: bool = True) -> np.ndarray:
    """The index of the word of each subword of a sentence, -1 for BOS, EOS and padding: int64 (L,).

    Args:
        tokens: the L subwords.
        style: a name in ``STYLES``.
        specials: whether BOS, EOS and padding are recognized, or are words like others.

    Raises:
        AlignkitError: there is no such style, or ``tokens`` is a string.
    """
    check_list(tokens, _SUBWORDS)
    check_known(style, STYLES, "style of subword marks")
    groups = np.full(len(tokens), -1, np.int64)
    start, end = 0, len(tokens)
    if specials:
        while end > 0 and tokens[end - 1] in _PADDING:
            end -= 1
        while start < end and tokens[start] in _PADDING:
            start += 1
        start += start < end and tokens[start] in _OPENING
        end -= start < end and tokens[end - 1] in _CLOSING
    word = -1
    continued = False  # the subword before, in the style of BPE
    for i in range(start, end):
        token = tokens[i]
        begins = {
            "words": True,
            "sentencepiece": token.startswith(_STARTS),
            "bpe": not continued,
            "wordpiece": not token.startswith("##"),
        }[style]
        word += begins or i == start
        continued = token.endswith("@@")
        groups[i] = word
    return groups


def corpus_groups(corpus: Corpus, *, specials: bool = True, marked: bool = True) -> list[np.ndarray]:
    """:func:`word_groups` of every sentence of a corpus; the style is that of its vocabulary.

    Args:
        corpus: of subwords or words.
        specials: as of :func:`word_groups`.
        marked: whether tokens may be subwords; otherwise each is a word, even if it looks marked.
    """
    style = style_of([corpus.vocabulary.tokens]) if marked else "words"
    return [word_groups(corpus.words(m), style, specials=specials) for m in range(len(corpus))]


def without_mark(token: str, style: str) -> str:
    """A subword without its mark of this style, if it has one."""
    if style in ("bpe", "wordpiece") and len(token) > 2:
        return token.removesuffix("@@") if style == "bpe" else token.removeprefix("##")
    return token[1:] if style == "sentencepiece" and token.startswith(_STARTS) else token


def join_words(tokens: Sequence[str], groups: np.ndarray, style: str) -> list[str | None]:
    """The words of a sentence of subwords of a style; None for a word with an unknown subword."""
    words: list[str | None] = [""] * (int(groups.max(initial=-1)) + 1)
    for token, word in zip(tokens, groups.tolist(), strict=True):
        if word >= 0:
            before = words[word]
            words[word] = (
                None if token in UNKNOWN_SUBWORDS or before is None else before + without_mark(token, style)
            )
    return words


def check_words(
    path: PathLike, sentences: Sequence[Sequence[str | None]], lines: Sequence[Sequence[str | None]]
) -> None:
    """Raise InputError, with the line, unless joined subwords are the words of the text; None fits any word.

    Args:
        path: where the subwords come from, for messages.
        sentences: the joined words of M sentences.
        lines: the words of the M lines of the text.
    """
    if len(sentences) != len(lines):
        problem = f"has subwords of {counted(len(sentences), 'sentence')}, the text has {len(lines):,}"
        raise InputError(path, problem)
    for number, (found, words) in enumerate(zip(sentences, lines, strict=True), 1):
        if len(found) != len(words):
            problem = f"number of words: {len(found)} from its subwords, {len(words)} in the text"
            raise InputError(path, problem, line=number, remedy="give the subwords of this text")
        for one, word in zip(found, words, strict=True):
            if one is not None and word is not None and one != word:
                problem = f"its subwords make the word {one!r} where the text has {word!r}"
                raise InputError(path, problem, line=number, remedy="give the subwords of this text")
