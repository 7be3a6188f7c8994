"""The attention of decoder-only models of Hugging Face's transformers, from a translation to its source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import torch

from alignkit.errors import AlignkitError, first_line
from alignkit.lab.heads.hugging_face import check_lengths, padded_ids
from alignkit.lab.heads.quantities import WEIGHTS, give
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.neural.devices import pick_device
from alignkit.support.stages import no_progress
from alignkit.text.tokenization import split_words
from alignkit.types import Progress

BATCH_SIZE = 8  #: sentence pairs at a time
TEMPLATE = "{source} = {target}"  #: of the prompt, if none is given


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


def translation_attention(
    model: Any,
    tokenizer: Any,
    source: Sequence[str],
    target: Sequence[str],
    *,
    template: str = TEMPLATE,
    layers: Sequence[int] | None = None,
    quantity: str = WEIGHTS,
    batch_size: int = BATCH_SIZE,
    device: str = "auto",
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
        quantity: one of :data:`alignkit.lab.heads.quantities.QUANTITIES`.
        batch_size: pairs at a time; the result does not depend on it but for rounding.
        device: as :func:`alignkit.neural.devices.pick_device`.
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
    pairs: list[np.ndarray] = [np.zeros((0, 0, 0, 0), np.float32) for _ in source]
    order = sorted(prompts, key=lambda m: (len(prompts[m].ids), m))
    for low in range(0, len(order), batch_size):
        batch = order[low : low + batch_size]
        found = _maps(model, tokenizer, [prompts[m] for m in batch], place, quantity)
        if not found:
            raise AlignkitError("the model does not return its attention")
        kept = range(len(found)) if layers is None else layers
        if any(layer >= len(found) for layer in kept):
            raise AlignkitError(f"there is no layer {max(kept)}; there are {len(found)}, counted from 0")
        for k, m in enumerate(batch):
            pairs[m] = np.stack([found[layer][k] for layer in kept])
        (progress or no_progress)(low + len(batch), len(order), "attention")
    columns, rows = (
        [_words(prompts.get(m), side, line) for m, line in enumerate(lines)]
        for side, lines in enumerate((source, target))
    )
    return AttentionHeads.from_pairs(pairs, (columns, rows), layers)


def _words(one: Prompt | None, side: int, line: str) -> tuple[np.ndarray, int]:
    """The words of a side's tokens, and their number; none of a pair that the model did not read."""
    return (np.zeros(0, np.int64), 0) if one is None else ((one.columns, one.rows)[side], len(split_words(line)))


def split_template(template: str) -> tuple[str, str, str]:
    """What a prompt's template has before, between and after both sides; raises AlignkitError if it lacks one."""
    parts = re.split(r"\{(source|target)\}", template)
    if parts[1::2] != ["source", "target"]:
        raise AlignkitError(f"the template must have {{source}} and then {{target}}, once each, not {template!r}")
    return parts[0], parts[2], parts[4]


def prompt(tokenizer: Any, template: str, source: str, target: str) -> Prompt | None:
    """A sentence pair in its template; None if a side is blank.

    Raises:
        AlignkitError: the template lacks a side, or the tokenizer does not tell the characters of its tokens.
    """
    before, between, after = split_template(template)
    if not getattr(tokenizer, "is_fast", False):
        raise AlignkitError("the tokenizer does not tell which characters its tokens cover; use its fast version")
    sides = split_words(source), split_words(target)
    if not all(sides):
        return None
    texts = [" ".join(words) for words in sides]
    starts = len(before), len(before) + len(texts[0]) + len(between)
    text = before + texts[0] + between + texts[1] + after
    encoded = tokenizer(text, return_offsets_mapping=True)
    words = np.full((2, len(encoded["input_ids"])), -1, np.int64)
    for side in (0, 1):
        places = starts[side] + np.cumsum([0, *(len(word) + 1 for word in sides[side])])
        for k, (low, high) in enumerate(encoded["offset_mapping"]):
            while low < high and text[low] == " ":
                low += 1
            if low < high and places[0] <= low < places[-1] - 1:
                words[side, k] = np.searchsorted(places, low, side="right") - 1
    of_source, of_target = (np.flatnonzero(each >= 0) for each in words)
    if not (len(of_source) and len(of_target)) or of_target[0] == 0:
        raise AlignkitError(f"no token of the model covers a side of {text!r}")
    first, last = of_target[0], of_target[-1]
    rows = np.append(words[1, first : last + 1], -1)
    return Prompt(list(encoded["input_ids"]), words[0, : of_source[-1] + 1], rows, int(first))


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


def _maps(
    model: Any, tokenizer: Any, batch: Sequence[Prompt], device: torch.device, quantity: str
) -> list[list[np.ndarray]]:
    """float32 (H, T, L) of each layer and prompt of a batch: the rows and columns that are meant."""
    ids = padded_ids([one.ids for one in batch], tokenizer.pad_token_id or 0)
    mask, width = padded_ids([[1] * len(one.ids) for one in batch], 0), ids.shape[1]
    give(model, quantity, ids.roll(-1, dims=1).to(device))
    found: list[list[np.ndarray]] = []

    def keep(module: Any, given: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if not isinstance(weights, torch.Tensor) or weights.shape[-2:] != (width, width):
            return
        found.append(
            [
                weights[k, :, one.first - 1 :, : len(one.columns)][:, : len(one.rows)].float().cpu().numpy()
                for k, one in enumerate(batch)
            ]
        )

    with ExitStack() as hooks:
        for module in model.modules():
            if type(module).__name__.endswith("Attention"):
                hooks.callback(module.register_forward_hook(keep).remove)
        try:
            with torch.inference_mode():
                model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
        except (IndexError, RuntimeError) as error:  # ids that the model does not have, or too little memory
            raise AlignkitError(f"the model cannot read this text: {first_line(error)}") from error
    return found
