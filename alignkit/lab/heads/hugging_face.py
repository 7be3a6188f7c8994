"""The attention of models of Hugging Face's transformers (the ``transformers`` extra): the cross-attention of
encoder-decoders, and that of decoder-only models from a translation to its source."""

from __future__ import annotations

import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from alignkit.errors import AlignkitError, InputError, check_known, first_line
from alignkit.lab.interop.heads import QUANTITIES, WEIGHTS, AttentionHeads, HeadCollector
from alignkit.neural.devices import pick_device
from alignkit.scores import Grouping
from alignkit.support.packages import missing, need
from alignkit.support.stages import no_progress
from alignkit.text.tokenization import split_words
from alignkit.types import PathLike, Progress

T = TypeVar("T")

BATCH_SIZE = 16  #: sentence pairs at a time
PROMPTS = 8  #: prompts at a time
PATIENCE = 3.0  #: seconds until a server counts as out of reach
GGUF_ROWS = 4096  #: of a tensor of a GGUF file, which are dequantized at a time
TEMPLATE = "{source} = {target}"  #: of the prompt, if none is given
NO_TOKENS = np.zeros(0, np.int64), 0  # the words of one side of a pair that is not read
_IGNORED = -100  # a label that transformers leaves out
_NAME = "alignkit"  # of the attention function that transformers is given
#: By class and name; BigBird's last norm has the name of BART's first one.
_LAST_NORM = re.compile(
    r"\w+\.((final_|embedding_)?(layer_?)?norm(_f)?|ln_f)|BigBirdPegasusDecoder\.layernorm_embedding"
)
_FREQUENCIES = ("inv_freq", "full_attention_inv_freq")  # of positions; Gemma's local ones are never scaled
_OUTPUT_MATRICES = ("o_proj", "out_proj", "dense", "o", "c_proj")


class EncodedSide(NamedTuple):
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
        model: a folder, a GGUF file, or a name that transformers downloads. Weights of a GGUF file become float32.
        source_language, target_language: language codes of multilingual models, as ``deu_Latn``; of Whisper,
            only the second: the language of the transcript, as ``de``.

    Raises:
        AlignkitError: transformers is not installed, or gguf for such a file; there is no such model; or languages
            are missing, or not those of its tokenizer.
    """
    remedy = "give a folder that save_pretrained wrote, a GGUF file, or the name of a model as org/name"
    name = os.fspath(model)  # that of a model has at most one slash; others can only be folders
    is_path = not isinstance(model, str) or name.startswith((".", "/", "~")) or name.endswith(("/", ".gguf"))
    is_file = os.path.isfile(model)
    is_local = os.path.exists(model) or is_path or name.count("/") > 1
    if is_local and not is_file and not os.path.exists(os.path.join(model, "config.json")):
        raise InputError(model, "is neither a file nor a folder with a config.json", remedy=remedy)
    try:
        import transformers as hf
        from huggingface_hub.constants import ENDPOINT
        from huggingface_hub.utils import logging as hub_logging
    except ImportError as error:
        raise missing("transformers") from error
    if is_file:
        need("gguf")
    more: dict[str, Any] = {"src_lang": source_language, "tgt_lang": target_language}
    more = {name: value for name, value in more.items() if value is not None}
    is_offline = not os.path.exists(model) and not _answers(ENDPOINT)
    where: dict[str, Any] = {"local_files_only": True} if is_offline else {}
    place: PathLike = model
    if is_file:
        place, where["gguf_file"] = os.path.dirname(model) or os.curdir, os.path.basename(model)
    hf.utils.logging.disable_progress_bar()
    hub_logging.set_verbosity_error()  # without a network, a line for every retry
    try:
        with warnings.catch_warnings(action="ignore"):  # of packages that the tokenizer would like to have
            tokenizer = hf.AutoTokenizer.from_pretrained(place, **more, **where)
        config = hf.AutoConfig.from_pretrained(place, **where)
        marks = hasattr(type(tokenizer), "src_lang")
        if is_speech(config) and source_language is not None:
            raise ValueError("speech has a target language only, that of the transcript")
        if more and not marks and not is_speech(config):
            raise ValueError("its tokenizer marks no languages")
        if marks and (len(more) == 1 or tokenizer.tgt_lang is None):
            raise ValueError("it marks sentences with their language: name those of source and target")
        symbols = [tokenizer(**{side: ""})["input_ids"] for side in ("text", "text_target") if marks]
        if any(tokenizer.unk_token_id in each for each in symbols):
            raise ValueError(f"its tokenizer does not know the languages {source_language}, {target_language}")
        kind: Any = hf.AutoModelForSeq2SeqLM if config.is_encoder_decoder else hf.AutoModelForCausalLM
        if is_speech(config):
            kind = hf.AutoModelForSpeechSeq2Seq
            if target_language is not None:
                tokenizer.set_prefix_tokens(language=target_language, task="transcribe")
        if is_file:
            found = _from_gguf(model, kind, config)
        else:
            found = kind.from_pretrained(model, attn_implementation="eager", **where)
    except Exception as error:  # transformers, its tokenizers and its hub raise errors of many kinds
        if is_offline:
            problem = f"is neither a folder nor a model that was downloaded before, and {ENDPOINT} does not answer"
            raise InputError(model, problem, remedy="give a folder that save_pretrained wrote") from error
        problem = f"cannot be loaded as a model of transformers that translates: {first_line(error)}"
        raise InputError(model, problem, remedy=remedy) from error
    return found, tokenizer


def _from_gguf(path: PathLike, kind: Any, config: Any) -> Any:
    """The model of a GGUF file, of an automatic class of transformers, in float32.

    transformers alone would hold a tensor twice, and the vocabulary as Python objects: three times the memory of
    the weights, and would not read how positions are scaled.

    Raises:
        ValueError: weights are missing, or positions are scaled in a way that is not known.
        Exception: what gguf or transformers raise for a file that they cannot read.
    """
    from gguf import GGUFReader, dequantize
    from transformers import modeling_gguf_pytorch_utils as of_gguf

    reader = GGUFReader(path)
    architecture, tensors = reader.fields["general.architecture"].contents(), reader.tensors
    start = f"{architecture}.rope."
    rope = {key[len(start) :]: field.contents() for key, field in reader.fields.items() if key.startswith(start)}
    del reader  # and with it the vocabulary
    processor_class = of_gguf.TENSOR_PROCESSORS.get(architecture, of_gguf.TensorProcessor)
    processor = processor_class(config=config.to_dict())
    with torch.device("meta"):
        empty = kind.from_config(config)
    names = of_gguf.get_gguf_hf_weights_map(empty, processor)
    weights: dict[str, torch.Tensor] = {}
    frequency_factors: Any = 1.0
    for tensor in tensors:
        values = np.empty(tensor.shape[::-1].tolist(), np.float32)
        for low in range(0, len(values), GGUF_ROWS):
            part = slice(low, low + GGUF_ROWS)
            values[part] = dequantize(tensor.data[part], tensor.tensor_type)
        if tensor.name == "rope_freqs.weight":
            frequency_factors = torch.from_numpy(values)
        elif tensor.name.startswith("rope_factors") or rope.get("scaling.type", "none") not in ("none", "linear"):
            raise ValueError("it scales positions in a way that alignkit does not read from a file")
        values, name, _ = processor.process(
            weights=values, name=tensor.name, tensor_key_mapping=names, parsed_parameters={"tensors": weights}
        )
        if name in names:
            weights[names[name]] = torch.from_numpy(np.ascontiguousarray(values))
    missing_names = [name for name, _ in empty.named_parameters() if name not in weights]
    if missing_names:
        raise ValueError(f"the file has no weights {missing_names[0]}")
    model = type(empty).from_pretrained(None, config=config, state_dict=weights, attn_implementation="eager")
    for module in model.modules():
        for known in (known for name, known in module.named_buffers(recurse=False) if name in _FREQUENCIES):
            places = torch.arange(0, size := rope.get("dimension_count", 2 * len(known)), 2) / size
            waves = rope.get("freq_base", 1e4) ** places * (rope.get("scaling.factor") or 1.0)
            known.copy_(1.0 / waves / frequency_factors)
    return model


def _answers(address: str) -> bool:
    """Whether a server answers soon: transformers would try for a minute. Behind a proxy, this is not known."""
    url = urlsplit(address)
    if getproxies():
        return True
    try:
        socket.create_connection((url.hostname, url.port or 443), PATIENCE).close()
    except OSError:
        return False
    return True


def is_speech(config: Any) -> bool:
    """Whether the model of this configuration hears, as Whisper does."""
    return bool(config.model_type == "whisper")


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
    folder: PathLike | None = None,
    progress: Progress | None = None,
) -> AttentionHeads:
    """The cross-attention of every layer and head while the model is given the target.

    Args:
        model: an encoder-decoder of transformers; it is moved to the device and set to evaluation.
        tokenizer: its tokenizer.
        source, target: M lines each, of words with spaces between them. A pair with a blank side has no tokens.
        layers: which decoder layers to keep, counted from 0; all if not given.
        prefix: what the model expects before each source line (``>>deu<<``, or T5's task); it is no word of it.
        quantity: one of :data:`alignkit.lab.interop.heads.QUANTITIES`.
        batch_size: pairs at a time; the result does not depend on it but for rounding.
        device: as :func:`alignkit.neural.devices.pick_device`.
        folder: where to keep the attention, on disk, until it is saved; in memory if not given.
        progress: called after each batch.

    Returns:
        heads between subwords, with their words; ``on_words`` and ``shifted`` give the others.

    Raises:
        AlignkitError: the sides have different numbers of lines, the model has no cross-attention, a line is too
            long for it, its tokenizer has tokens that it has not, or there is no such layer.
    """
    if len(source) != len(target):
        raise AlignkitError(f"there are {len(source)} source and {len(target)} target lines")
    sides = [encode_side(tokenizer, source, prefix=prefix), encode_side(tokenizer, target, is_target=True)]
    kept = [m for m in range(len(source)) if split_words(source[m]) and split_words(target[m])]
    for name, side in zip(("source", "target"), sides, strict=True):
        check_lengths(model, name, {m: side.ids[m] for m in kept})
    place = pick_device(device)
    model = model.to(place).eval()
    lengths = {m: (len(sides[0].ids[m]), len(sides[1].ids[m])) for m in kept}
    collector = HeadCollector([lengths.get(m, (0, 0))[::-1] for m in range(len(source))], folder)
    for batch in batches(lengths, batch_size, progress):
        ids, target_ids = ([side.ids[m] for m in batch] for side in sides)
        labels = padded_ids(target_ids, _IGNORED).to(place)
        given = {
            "input_ids": padded_ids(ids, tokenizer.pad_token_id or 0).to(place),
            "attention_mask": padded_ids([[1] * len(tokens) for tokens in ids], 0).to(place),
            "labels": labels,
        }
        if hasattr(model, "prepare_decoder_input_ids_from_labels"):  # by labels alone, FSMT reads the source
            given["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels.clone())
        give(model, quantity, labels.clamp_min(0))
        with model_errors("read this text"), torch.inference_mode():
            output = model(**given, output_attentions=True, use_cache=False)
        attention: Any = getattr(output, "cross_attentions", None)
        for m, found in zip(batch, pairs_of_cross_attentions(attention, ids, target_ids, layers), strict=True):
            collector.put(m, found)
    columns, rows = (
        [words if m in lengths else NO_TOKENS for m, words in enumerate(side.words)] for side in sides
    )
    return collector.heads((columns, rows), layers)


def batches(lengths: Mapping[int, Any], size: int, progress: Progress | None) -> Iterator[list[int]]:
    """Pairs at a time, of the given lengths by number, the shorter ones first; ``progress`` after each batch."""
    if size < 1:
        raise AlignkitError(f"the batch size must be at least 1, not {size}")
    order = sorted(lengths, key=lambda m: (lengths[m], m))
    for low in range(0, len(order), size):
        yield order[low : low + size]
        (progress or no_progress)(min(low + size, len(order)), len(order), "attention")


def chosen_layers(found: Mapping[int, T], layers: Sequence[int] | None) -> dict[int, T]:
    """What was found of these layers, of all if None; raises AlignkitError if there is no such layer."""
    chosen = found if layers is None else layers
    if unknown := [layer for layer in chosen if layer not in found]:
        raise AlignkitError(f"there is no layer {unknown[0]} with attention, but {[*found]}, counted from 0")
    return {layer: found[layer] for layer in chosen}


def stacked(layers: Sequence[np.ndarray]) -> np.ndarray:
    """(layers, heads, T, L), from (heads, T, L) of each layer; raises AlignkitError if some have more heads."""
    if len(numbers := {len(each) for each in layers}) > 1:
        some = " and ".join(map(str, sorted(numbers)))
        raise AlignkitError(f"the model's layers have {some} heads; choose layers that have as many")
    return np.stack(layers)


def pairs_of_cross_attentions(
    cross_attentions: Sequence[torch.Tensor] | None,
    source: Sequence[Sized],
    target: Sequence[Sized],
    layers: Sequence[int] | None = None,
) -> list[np.ndarray]:
    """float32 (layers, heads, T, L) of each pair, from what a model gives as ``cross_attentions``.

    Args:
        cross_attentions: for each layer (B, heads, T, L), padded at the right.
        source, target: for each of the B pairs something of every token.
        layers: which layers to keep; all if not given.

    Raises:
        AlignkitError: the attention is missing, smaller than the tokens, or not a number.
    """
    if not cross_attentions or cross_attentions[0] is None:
        remedy = "call it with output_attentions=True and eager attention"
        raise AlignkitError(f"the model gave no cross_attentions: {remedy}")
    chosen = chosen_layers(dict(enumerate(cross_attentions)), layers)
    kept = [layer.float().cpu().numpy() for layer in chosen.values()]
    pairs = []
    for array, x, y in zip(np.stack(kept, axis=1), source, target, strict=True):
        if array.shape[2] < len(y) or array.shape[3] < len(x):
            have = f"{array.shape[2]} by {array.shape[3]}"
            raise AlignkitError(f"attention of {have} for {len(y)} target and {len(x)} source tokens")
        pairs.append(array[:, :, : len(y), : len(x)].copy())  # not the padding
        if not (pairs[-1] >= 0).all():
            raise AlignkitError("the model's attention is no weights, but NaN (load it as float32) or below 0")
    return pairs


@contextmanager
def model_errors(what: str) -> Iterator[None]:
    """Within the block, a model computes; AlignkitError if it lacks tokens of the text, or memory."""
    try:
        yield
    except (IndexError, RuntimeError) as error:
        raise AlignkitError(f"the model cannot {what}: {first_line(error)}") from error


def padded_ids(rows: Sequence[list[int]], filler: int) -> torch.Tensor:
    """int64: rows made equally long."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler)


def check_lengths(model: Any, what: str, ids: Mapping[int, Sequence[int]]) -> None:
    """Check that a model can read lines, ``ids`` by number; raises AlignkitError if one is too long."""
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)  # -1: no limit, as of XLNet
    for m, tokens in ids.items():
        if most is not None and 0 <= most < len(tokens):
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
    found, words = [], []
    for line in lines:
        own = split_words(line)
        ids, groups = _encode(tokenizer, [*before, *own], is_target) if own else ([], [])
        found.append(ids)
        words.append((np.maximum(np.array(groups, np.int64) - len(before), -1), len(own)))
    return EncodedSide(found, words)


def _encode(tokenizer: Any, words: list[str], is_target: bool) -> tuple[list[int], list[int]]:
    """The token ids of a sentence, special tokens included, and the word of each, -1 for none."""
    side = "text_target" if is_target else "text"
    if not tokenizer.is_fast:
        ids = list(tokenizer(**{side: words}, is_split_into_words=True)["input_ids"])
        each = tokenizer(**{side: words}, add_special_tokens=False)["input_ids"]
        groups = [k for k, tokens in enumerate(each) for _ in tokens]
        tokens = [token for tokens in each for token in tokens]
        for start in range(len(ids) - len(tokens) + 1):  # special tokens stand at both ends
            if ids[start : start + len(tokens)] == tokens:
                return ids, [-1] * start + groups + [-1] * (len(ids) - start - len(tokens))
        raise AlignkitError("the tokenizer splits words differently in a sentence; use its fast version")
    line = " ".join(words)
    wanted = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    encoded = tokenizer(**{side: line}, **wanted)
    starts = np.cumsum([0, *(len(word) + 1 for word in words)])
    groups = []
    for (low, high), special in zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
        low = high - len(line[low:high].lstrip(" "))
        word = int(np.searchsorted(starts, low, side="right")) - 1
        groups.append(-1 if special else min(word, len(words) - 1))
    return list(encoded["input_ids"]), groups


class Prompt(NamedTuple):
    """A sentence pair as a language model reads it.

    Attributes:
        ids: the token ids.
        columns: the source word of each token up to the end of the source, -1 for none.
        rows: the target word of each token from the first of the target on, -1 for none.
        first: the place of that token.
    """

    ids: list[int]
    columns: np.ndarray
    rows: np.ndarray
    first: int

    @property
    def places(self) -> np.ndarray:
        """Those of the target's tokens."""
        return self.first + np.arange(len(self.rows) - 1)


def translation_attention(
    model: Any,
    tokenizer: Any,
    source: Sequence[str],
    target: Sequence[str],
    *,
    template: str = TEMPLATE,
    layers: Sequence[int] | None = None,
    quantity: str = WEIGHTS,
    batch_size: int = PROMPTS,
    device: str = "auto",
    folder: PathLike | None = None,
    progress: Progress | None = None,
) -> AttentionHeads:
    """The attention from each target token to the source, of every layer and head, while the model reads both.

    A row is the attention while its token is predicted, which is that at the place before it; the last row, which
    has no word, is that at the last token. So ``shifted`` gives the attention at each token's own place. Columns
    go from the first token of the prompt, on which attention may rest (a sink), to the end of the source. Whole
    maps are in memory for one layer at a time.

    Args:
        model: decoder-only, of transformers; it is moved to the device and set to evaluation.
        tokenizer: its tokenizer, of the tokenizers library.
        source, target: M lines each, of words with spaces between them. A pair with a blank side has no tokens.
        template: the prompt, with ``{source}`` and after it ``{target}``.
        layers: which to keep, counted from 0; all if not given.
        quantity: one of :data:`alignkit.lab.interop.heads.QUANTITIES`.
        batch_size: pairs at a time; the result does not depend on it but for rounding.
        device: as :func:`alignkit.neural.devices.pick_device`.
        folder: where to keep the attention, on disk, until it is saved; in memory if not given.
        progress: called after each batch.

    Raises:
        AlignkitError: the template lacks a side, the tokenizer does not tell the characters of its tokens, the
            model does not return its attention, a prompt is too long for it, or there is no such layer.
    """
    if len(source) != len(target):
        raise AlignkitError(f"there are {len(source)} source and {len(target)} target lines")
    both = ((m, prompt(tokenizer, template, *pair)) for m, pair in enumerate(zip(source, target, strict=True)))
    prompts = {m: one for m, one in both if one is not None}
    check_lengths(model, "prompt", {m: one.ids for m, one in prompts.items()})
    place = pick_device(device)
    model = model.to(place).eval()
    shapes = {m: (len(one.rows), len(one.columns)) for m, one in prompts.items()}
    collector, numbers = HeadCollector([shapes.get(m, (0, 0)) for m in range(len(source))], folder), layers
    for batch in batches({m: len(one.ids) for m, one in prompts.items()}, batch_size, progress):
        found, _ = read_prompts(model, tokenizer, [prompts[m] for m in batch], place, quantity)
        if not found:
            raise AlignkitError("the model does not return its attention")
        found = chosen_layers(found, layers)
        numbers = list(found)
        for k, m in enumerate(batch):
            collector.put(m, stacked([layer[k] for layer in found.values()]))
    words = [NO_TOKENS] * len(source), [NO_TOKENS] * len(source)
    for m, one in prompts.items():
        words[0][m] = one.columns, len(split_words(source[m]))
        words[1][m] = one.rows, len(split_words(target[m]))
    return collector.heads(words, numbers)


def split_template(template: str) -> tuple[str, str, str]:
    """What a prompt's template has before, between and after both sides; raises AlignkitError if it lacks one."""
    parts = re.split(r"\{(source|target)\}", template)
    if parts[1::2] != ["source", "target"]:
        raise AlignkitError(f"the template must have {{source}} and then {{target}}, once each, not {template!r}")
    return parts[0], parts[2], parts[4]


def prompt(
    tokenizer: Any, template: str, source: str, target: str, *, without_source: bool = False
) -> Prompt | None:
    """A sentence pair in its template, or its target alone; None if a side is blank.

    Raises:
        AlignkitError: the template lacks a side, or the tokenizer does not tell the characters of its tokens.
    """
    before, between, after = split_template(template)
    if not getattr(tokenizer, "is_fast", False):
        raise AlignkitError("the tokenizer does not say which characters its tokens cover; use its fast version")
    sides = split_words(source), split_words(target)
    if not all(sides):
        return None
    if without_source:
        sides = [], sides[1]
    texts = [" ".join(words) for words in sides]
    starts = len(before), len(before) + len(texts[0]) + len(between)
    text = before + texts[0] + between + texts[1] + after
    encoded = tokenizer(text, return_offsets_mapping=True)
    words = np.full((2, len(encoded["input_ids"])), -1, np.int64)
    for side in (0, 1):
        places = starts[side] + np.cumsum([0, *(len(word) + 1 for word in sides[side])])
        for k, (low, high) in enumerate(encoded["offset_mapping"]):
            low = high - len(text[low:high].lstrip(" "))
            if low < high and places[0] <= low < places[-1] - 1:
                words[side, k] = np.searchsorted(places, low, side="right") - 1
    of_source, of_target = (np.flatnonzero(each >= 0) for each in words)
    if not (len(of_source) or without_source) or not len(of_target) or of_target[0] == 0:
        raise AlignkitError(f"no token of the model covers a side of {text!r}")
    first, last = of_target[0], of_target[-1]
    rows = np.append(words[1, first : last + 1], -1)
    return Prompt(list(encoded["input_ids"]), words[0, : of_source.max(initial=-1) + 1], rows, int(first))


def alignment_mask(one: Prompt, links: np.ndarray, *, shifted: bool = False) -> np.ndarray:
    """float32 (N, N): 1 where a head that aligns attends, as ``detect_head`` of TransformerLens takes it.

    Args:
        one: a sentence pair as the model reads it, of N tokens.
        links: int (K, 2), of its words.
        shifted: rows are those of the target tokens themselves, not those of the places that predict them.
    """
    mask = np.zeros([len(one.ids)] * 2, np.float32)
    for source, target in links.tolist():
        rows = one.first - 1 + shifted + np.flatnonzero(one.rows == target)
        mask[np.ix_(rows, np.flatnonzero(one.columns == source))] = 1
    return mask


def attention_layers(model: Any) -> list[tuple[int, Any]]:
    """The modules of a model's attention, each with the number of its layer; GPT-Neo has one within another.

    Hybrid models have layers without, and those that also see have others, which text does not go through.
    """

    def is_attention(module: Any) -> bool:
        return type(module).__name__.endswith("Attention")

    found = [(name, part) for name, part in model.named_modules() if is_attention(part)]
    inner = [(name, part) for name, part in found if sum(map(is_attention, part.modules())) == 1]
    return [(int(number[0]), part) for name, part in inner if (number := re.search(r"(?<![^.])\d+", name))]


def read_prompts(
    model: Any,
    tokenizer: Any,
    batch: Sequence[Prompt],
    device: torch.device,
    quantity: str = WEIGHTS,
    *,
    with_logits: bool = False,
) -> tuple[dict[int, list[np.ndarray]], Any]:
    """What a decoder-only model makes of prompts.

    Returns:
        float32 (H, T, L) of each prompt by the number of a layer that has attention: the rows and columns that are
        meant; and, if asked for, the logits (N, V) that predict the targets' tokens, those of one prompt after
        those of another.

    Raises:
        AlignkitError: the model cannot read the tokens, or has several attentions in a layer.
    """
    ids = padded_ids([one.ids for one in batch], tokenizer.pad_token_id or 0)
    mask, width = padded_ids([[1] * len(one.ids) for one in batch], 0), ids.shape[1]
    give(model, quantity, ids.roll(-1, dims=1).to(device))
    found: dict[int, list[np.ndarray]] = {}

    def keep(layer: int, module: Any, given: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, torch.Tensor) or weights.shape[-2:] != (width, width):
            return
        if layer in found:
            raise AlignkitError(f"layer {layer} of the model has several attentions, which cannot be told apart")
        parts = [weights[k, :, one.first - 1 :, : len(one.columns)] for k, one in enumerate(batch)]
        found[layer] = [x[:, : len(one.rows)].float().cpu().numpy() for x, one in zip(parts, batch, strict=True)]

    def predicting(module: Any, given: Any) -> Any:
        return torch.cat([given[0][k, one.places - 1] for k, one in enumerate(batch)])

    with ExitStack() as hooks:
        for layer, module in attention_layers(model):
            hooks.callback(module.register_forward_hook(partial(keep, layer)).remove)
        # All logits of a batch would take more memory than all its maps.
        run = getattr(model.base_model, "model", model.base_model)  # Llama 4 without sight names itself
        if with_logits:
            run = model
            hooks.callback(model.get_output_embeddings().register_forward_pre_hook(predicting).remove)
        with model_errors("read this text"), torch.inference_mode():
            output = run(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
    return found, output.logits if with_logits else None


def give(model: Any, quantity: str, targets: torch.Tensor) -> None:
    """Make a model give a quantity where it gives its attention weights; what it computes stays the same.

    Args:
        model: of transformers.
        quantity: one of :data:`QUANTITIES`.
        targets: for ``ov``, int64 (B, T), the token that each row of the next batch predicts.

    Raises:
        AlignkitError: there is no such quantity, or the model cannot give it.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    check_known(quantity, QUANTITIES, "quantity of heads")
    if quantity == WEIGHTS:
        if hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation("eager")
        return
    read_out = partial(_probabilities, model, targets) if quantity == "ov" else None
    AttentionInterface.register(_NAME, partial(_attend, read_out))
    AttentionMaskInterface.register(_NAME, AttentionMaskInterface()["eager"])
    model.set_attn_implementation(_NAME)
    if model.config._attn_implementation != _NAME:  # transformers only logs that a model does not allow this
        raise AlignkitError(f"the attention of {type(model).__name__} gives its weights, but no {quantity}")


def _attend(
    read_out: Any,
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *given: Any,
    **more: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of the model's own attention, and the quantity (B, H, T, L).

    Raises:
        AlignkitError: when the output matrix gets something else than this output, as of gated attention.
    """
    eager = sys.modules[type(module).__module__].eager_attention_forward
    output, weights = eager(module, query, key, value, *given, **more)
    heads, size, matrix = query.shape[1], value.shape[-1], output_matrix(module)
    weight = matrix.weight if type(matrix).__name__ == "Conv1D" else matrix.weight.T  # (H * d, D)
    added = value.repeat_interleave(heads // value.shape[1], dim=1) @ weight.reshape(heads, size, -1)

    def check_unchanged(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        hook.remove()
        if not torch.allclose(inputs[0].flatten(), output.flatten(), rtol=0, atol=0, equal_nan=True):
            problem = "the model changes what its heads give before its output matrix, by a gate or a norm"
            raise AlignkitError(f"{problem}; of such a model, only the quantity weights can be read")

    hook = matrix.register_forward_pre_hook(check_unchanged)
    if read_out is None:
        return output, weights * added.norm(dim=-1)[:, :, None]
    return output, read_out(added, weights)


def output_matrix(attention: Any) -> Any:
    """The module of an attention layer that the outputs of all heads go through, one beside the other.

    Raises:
        AlignkitError: it has none that alignkit knows.
    """
    matrix = next((getattr(attention, name) for name in _OUTPUT_MATRICES if hasattr(attention, name)), None)
    if matrix is None:
        raise AlignkitError("the model's attention has no output matrix that alignkit recognizes")
    return matrix


def _probabilities(model: Any, targets: torch.Tensor, added: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The probability of each row's token by what each column adds, (B, H, T, L)."""
    if weights.shape[2] != targets.shape[1]:
        return weights  # of an encoder, where nothing is predicted
    from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

    decoder = model.get_decoder()
    decoder = getattr(decoder, "model", decoder)  # as Llama 4's
    kind = type(decoder).__name__
    norms = [part for name, part in decoder.named_children() if _LAST_NORM.fullmatch(f"{kind}.{name}")]
    vectors = norms[-1](added) if norms else added
    found = weights.new_empty(weights.shape, dtype=torch.float32)
    for h in range(added.shape[1]):  # the whole vocabulary's logits of one head at a time
        states = vectors[:, h]
        last = BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=states)
        last.router_logits = last.shared_kv_states = None  # for which mixtures of experts and Gemma 4 ask
        given: dict[str, Any] = {"inputs_embeds": states}
        if model.config.is_encoder_decoder:
            given = {"decoder_inputs_embeds": states, "encoder_outputs": last}
        # The model itself, because many scale, shift or bound the logits of their output matrix.
        with patch.object(decoder, "forward", lambda *_, last=last, **__: last):
            logs = model(**given, use_cache=False).logits.float().log_softmax(dim=-1)  # (B, L, V)
        found[:, h] = logs.gather(2, targets[:, None, :].expand(-1, logs.shape[1], -1)).transpose(1, 2).exp()
    return found
