"""The cross-attention of encoder-decoder models of Hugging Face's transformers (the ``transformers`` extra)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from alignkit.errors import AlignkitError, InputError, first_line
from alignkit.lab.heads.quantities import WEIGHTS, give
from alignkit.lab.interop.heads import AttentionHeads, pairs_of_cross_attentions
from alignkit.neural.devices import pick_device
from alignkit.scores import Grouping
from alignkit.support.packages import missing
from alignkit.support.stages import no_progress
from alignkit.text.tokenization import split_words
from alignkit.types import PathLike, Progress

BATCH_SIZE = 16  #: sentence pairs at a time
_IGNORED = -100  # a label that transformers leaves out


@dataclass(frozen=True, eq=False)
class EncodedSide:
    """One side of M pairs as a model's tokenizer encodes it.

    Attributes:
        ids: the token ids of each sentence, special tokens included.
        words: the word of each token, -1 for special tokens and the prefix; and the number of words.
    """

    ids: list[list[int]]
    words: Grouping


def load_pretrained(
    model: PathLike, *, source_language: str | None = None, target_language: str | None = None
) -> tuple[Any, Any]:
    """Load an encoder-decoder, a decoder-only language model or a Whisper, with the attention implementation that
    can return its weights, and its tokenizer.

    Args:
        model: a folder, or a name that transformers downloads.
        source_language, target_language: language codes of multilingual models, as ``deu_Latn``; of Whisper, the
            second is the language of the transcript, as ``de``.

    Raises:
        AlignkitError: transformers is not installed, or there is no such model.
    """
    remedy = "give a folder that save_pretrained wrote, or the name of a model as org/name"
    if (os.path.exists(model) or _is_path(model)) and not os.path.exists(os.path.join(model, "config.json")):
        raise InputError(model, "has no config.json, so it is no model of transformers", remedy=remedy)
    try:
        from huggingface_hub.utils import logging as hub_logging
        from transformers import (
            AutoConfig,
            AutoModelForCausalLM,
            AutoModelForSeq2SeqLM,
            AutoModelForSpeechSeq2Seq,
            AutoTokenizer,
        )
        from transformers.utils import logging
    except ImportError as error:
        raise missing("transformers") from error
    more = {"src_lang": source_language, "tgt_lang": target_language}
    logging.disable_progress_bar()
    hub_logging.set_verbosity_error()  # without a network, a line for every retry
    try:
        with warnings.catch_warnings(action="ignore"):  # of packages that the tokenizer would like to have
            tokenizer = AutoTokenizer.from_pretrained(model, **{k: v for k, v in more.items() if v is not None})
        config = AutoConfig.from_pretrained(model)
        kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        if is_speech(config):
            kind = AutoModelForSpeechSeq2Seq
            if target_language is not None:
                tokenizer.set_prefix_tokens(language=target_language, task="transcribe")
        found = kind.from_pretrained(model, attn_implementation="eager")
    except Exception as error:  # transformers, its tokenizers and its hub raise errors of many kinds
        problem = f"cannot be loaded as a model of transformers that translates: {first_line(error)}"
        raise InputError(model, problem, remedy=remedy) from error
    return found, tokenizer


def is_speech(config: Any) -> bool:
    """Whether the model of this configuration hears, as Whisper does."""
    return bool(config.model_type == "whisper")


def _is_path(model: PathLike) -> bool:
    """Whether this can only be a folder: the name of a model has at most one slash, as in ``org/name``."""
    name = os.fspath(model)
    marked = name.startswith((".", "/", "~")) or name.endswith("/") or name.count("/") > 1
    return marked or not isinstance(model, str)


def cross_attention(
    model: Any,
    tokenizer: Any,
    source: Sequence[str],
    target: Sequence[str],
    *,
    layers: Sequence[int] | None = None,
    prefix: str = "",
    quantity: str = WEIGHTS,
    batch_size: int = BATCH_SIZE,
    device: str = "auto",
    progress: Progress | None = None,
) -> AttentionHeads:
    """The cross-attention of every layer and head while the model is given the target.

    Args:
        model: an encoder-decoder of transformers; it is moved to the device and set to evaluation.
        tokenizer: its tokenizer.
        source, target: M lines each, of words with spaces between them. A pair with a blank side has no tokens.
        layers: which decoder layers to keep, counted from 0; all if not given.
        prefix: what the model expects before each source line (``>>deu<<``, or T5's task); it is no word of it.
        quantity: one of :data:`alignkit.lab.heads.quantities.QUANTITIES`.
        batch_size: pairs at a time; the result does not depend on it but for rounding.
        device: as :func:`alignkit.neural.devices.pick_device`.
        progress: called after each batch.

    Returns:
        heads between subwords, with their words; ``on_words`` and ``shifted`` give the others.

    Raises:
        AlignkitError: the sides have different numbers of lines, the model has no cross-attention, a line is too
            long for it, its tokenizer has tokens that it has not, or there is no such layer.
    """
    if batch_size < 1:
        raise AlignkitError(f"the batch size must be at least 1, not {batch_size}")
    if len(source) != len(target):
        raise AlignkitError(f"there are {len(source)} source and {len(target)} target lines")
    sides = [encode_side(tokenizer, source, prefix=prefix), encode_side(tokenizer, target, is_target=True)]
    kept = [m for m in range(len(source)) if split_words(source[m]) and split_words(target[m])]
    for name, side in zip(("source", "target"), sides, strict=True):
        check_lengths(model, name, {m: side.ids[m] for m in kept})
    place = pick_device(device)
    model = model.to(place).eval()
    pairs: list[np.ndarray] = [np.zeros((0, 0, 0, 0), np.float32) for _ in source]
    order = sorted(kept, key=lambda m: (len(sides[0].ids[m]), len(sides[1].ids[m]), m))
    for low in range(0, len(order), batch_size):
        batch = order[low : low + batch_size]
        ids = [[side.ids[m] for m in batch] for side in sides]
        attention = _forward(model, tokenizer, ids, place, quantity)
        for m, found in zip(batch, pairs_of_cross_attentions(attention, ids[0], ids[1], layers), strict=True):
            pairs[m] = found
        (progress or no_progress)(low + len(batch), len(order), "attention")
    columns, rows = (_without_blank(side.words, pairs) for side in sides)
    return AttentionHeads.from_pairs(pairs, (columns, rows), layers)


def _without_blank(words: Grouping, pairs: Sequence[np.ndarray]) -> list[tuple[np.ndarray, int]]:
    """The words of one side; none in a pair that the model did not read."""
    nothing = np.zeros(0, np.int64)
    return [each if len(pair) else (nothing, 0) for each, pair in zip(words, pairs, strict=True)]


def _forward(model: Any, tokenizer: Any, sides: list[list[list[int]]], device: torch.device, quantity: str) -> Any:
    """The model's ``cross_attentions`` for a batch of (source, target) ids."""
    source, target = sides
    ids, mask = padded_ids(source, tokenizer.pad_token_id or 0), padded_ids([[1] * len(ids) for ids in source], 0)
    labels = padded_ids(target, _IGNORED)
    given = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    give(model, quantity, labels.clamp_min(0).to(device))
    try:
        with torch.inference_mode():
            places = {name: values.to(device) for name, values in given.items()}
            output = model(**places, output_attentions=True, use_cache=False)
    except (IndexError, RuntimeError) as error:  # ids that the model does not have, or too little memory
        raise AlignkitError(f"the model cannot read this text: {first_line(error)}") from error
    return getattr(output, "cross_attentions", None)


def padded_ids(rows: Sequence[list[int]], filler: int) -> torch.Tensor:
    """int64: rows made equally long."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler)


def check_lengths(model: Any, what: str, ids: Mapping[int, Sequence[int]]) -> None:
    """Check that a model can read lines, ``ids`` by number; raises AlignkitError if one is too long."""
    most = getattr(model.config, "max_position_embeddings", None)
    for m, tokens in ids.items():
        if most is not None and len(tokens) > most:
            problem = f"its {what} has {len(tokens)} tokens, the model reads at most {most}"
            raise AlignkitError(f"line {m + 1}: {problem}; leave the pair out or shorten it")


def encode_side(
    tokenizer: Any, lines: Sequence[str], *, is_target: bool = False, prefix: str = "", spaced: bool = False
) -> EncodedSide:
    """Encode lines with a model's tokenizer, and find the word of each token.

    Tokenizers of the tokenizers library tell which characters a token covers. The others (Marian's) read word by
    word, which gives the same subwords, because theirs never reach across a space.

    Args:
        tokenizer: of transformers.
        lines: words with spaces between them.
        is_target: whether to encode as the decoder's side, with its language and vocabulary.
        prefix: words before each line that are not counted.
        spaced: whether a space stands before the first word too.

    A blank line has no tokens, not even special ones.
    """
    before = [""] if spaced else split_words(prefix)
    found = [
        _encode(tokenizer, [*before, *split_words(line)], is_target) if split_words(line) else ([], [])
        for line in lines
    ]
    words: list[tuple[np.ndarray, int]] = []
    for line, (_, groups) in zip(lines, found, strict=True):
        words.append((np.maximum(np.array(groups, np.int64) - len(before), -1), len(split_words(line))))
    return EncodedSide([ids for ids, _ in found], words)


def _encode(tokenizer: Any, words: list[str], is_target: bool) -> tuple[list[int], list[int]]:
    """The token ids of a sentence, special tokens included, and the word of each, -1 for none."""
    side = "text_target" if is_target else "text"
    if not tokenizer.is_fast:
        ids = tokenizer(**{side: words}, is_split_into_words=True)["input_ids"]
        each = tokenizer(**{side: words}, add_special_tokens=False)["input_ids"]
        return list(ids), _places(ids, [(k, token) for k, tokens in enumerate(each) for token in tokens])
    line = " ".join(words)
    wanted = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    encoded = tokenizer(**{side: line}, **wanted)
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    groups = []
    for (low, high), special in zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
        while low < high and line[low] == " ":
            low += 1
        word = int(np.searchsorted(starts, low, side="right")) - 1
        groups.append(-1 if special else min(word, len(words) - 1))
    return list(encoded["input_ids"]), groups


def _places(ids: Sequence[int], inner: list[tuple[int, int]]) -> list[int]:
    """The word of each token, given the (word, token) of all but the special tokens at both ends."""
    tokens = [token for _, token in inner]
    for start in range(len(ids) - len(inner) + 1):
        if list(ids[start : start + len(inner)]) == tokens:
            after = len(ids) - start - len(inner)
            return [-1] * start + [word for word, _ in inner] + [-1] * after
    raise AlignkitError("the tokenizer reads words otherwise in a sentence than alone; use its fast version")
