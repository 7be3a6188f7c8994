"""Tokenizers from lines of text to ids: SentencePiece subwords or whitespace words, joint for both sides.

The special ids are those of the paper's code: pad 0, bos 1, eos 2, unk 3.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from alignkit.errors import AlignkitError, check_list
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.vocabulary import UNKNOWN, Vocabulary

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
MOST_WORDS, COPIES = 1 << 20, 50  # to train subwords on, and the copies of a word on a line
MOST_KEPT = 1 << 17  # words whose subwords are remembered
WORD_START = "\u2581"  # SentencePiece's mark of the start of a word


def split_words(line: str) -> list[str]:
    """The words of a line, separated by ASCII spaces and tabs."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


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

    @cached_property
    def _known(self) -> dict[str, list[int]]:
        return {}

    def _encode_word(self, word: str) -> list[int]:
        ids = self._known.get(word)
        if ids is None:
            # SentencePiece ends a string at NUL.
            ids = self._known[word] = self._processor.EncodeAsIds(word.replace("\0", "\ufffd"))
        return ids

    @cached_property
    def _split(self) -> dict[str, tuple[str, ...]]:
        return {}

    def pieces(self, word: str) -> tuple[str, ...]:
        """The subwords of a word, at least one."""
        found = self._split.get(word)
        if found is None:
            if len(self._split) >= MOST_KEPT:
                self._split.clear()
            found = self._split[word] = tuple(self._pieces(word))
        return found

    def _pieces(self, word: str) -> list[str]:
        found = self._processor.EncodeAsPieces(word.replace("\0", "\ufffd"))
        if len(found) > 1 and found[0] == WORD_START:  # a mark of its own says nothing
            found = [found[0] + found[1], *found[2:]]
        return found or [WORD_START]

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
        raise AlignkitError(f"cannot learn {size} subwords: {str(error).split('] ')[-1].strip()}") from error
    return SubwordTokenizer(found.getvalue())


def train_word_pieces(counts: Mapping[str, int], size: int) -> SubwordTokenizer:
    """Train a SentencePiece model (byte-pair encoding) on words.

    Args:
        counts: how often each word occurs; their order does not matter.
        size: of the vocabulary; few words get a smaller one.

    Raises:
        AlignkitError: there are no words, or they have more distinct characters than ``size``.
    """
    # What a larger text repeats teaches nothing new.
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
    known = int((table[words] != UNKNOWN).sum())
    # A sentence or two of rare words is no evidence; a text of which nothing is known is.
    if len(words) >= 20 and known * 10 < len(words):
        raise AlignkitError(
            f"the network's vocabulary has {known} of the {len(words)} distinct tokens of this text: "
            "encode the text with the network's tokenizer"
        )
    table = np.where(table == UNKNOWN, UNK, table).astype(np.int32)
    return Corpus(table[corpus.tokens], corpus.offsets, vocabulary)
