"""Attributions that inseq saved (``out.save("out.json")``), read without inseq; nothing in the file is executed.

An array of inseq has a row per *source* token and a column per target token, which is turned here. Attention has
two more dimensions, layers and heads; it is that of the step which predicts the token, not shifted.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from alignkit.errors import InputError
from alignkit.lab.interop.heads import AttentionHeads
from alignkit.lab.interop.score_formats import ExternalScores, ScoreFile, words_of_tokens
from alignkit.scores import Scores

_MARKER = "sequence_attributions"
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def is_inseq(file: ScoreFile) -> bool:
    """True if it is JSON with the name of inseq's list of attributions."""
    return file.first_line.startswith("{") and f'"{_MARKER}"'.encode() in file.data


def read_inseq(file: ScoreFile) -> ExternalScores | AttentionHeads:
    """The attributions of the source tokens; with layers and heads, if inseq did not sum them up.

    Raises:
        InputError: the file is damaged, has no attributions of source tokens, a number that is not finite, or a
            further dimension that is not layers and heads.
    """
    try:
        sequences = _attributes(json.loads("\n".join(file.lines)))[_MARKER]
        pairs = [_attribution(number, _attributes(each)) for number, each in enumerate(sequences, 1)]
        matrices = [matrix for matrix, _, _ in pairs]
        source, target = [tokens for _, tokens, _ in pairs], [tokens for _, _, tokens in pairs]
        if len({matrix.ndim for matrix in matrices}) > 1:
            raise ValueError("some attributions have layers and heads, others do not")
        if matrices and matrices[0].ndim == 4:
            return AttentionHeads.from_pairs(matrices, words_of_tokens(source, target))
        return ExternalScores(file.name, Scores.from_matrices(matrices), tuple(source), tuple(target))
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        problem = f"not an attribution of inseq that can be read: {error or type(error).__name__}"
        raise InputError(file.path, problem) from error


def _attribution(number: int, fields: dict[str, Any]) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """float32 (layers, heads, T, L) or (T, L), and the L and T tokens of a sentence pair."""
    sides = fields["source"], fields["target"]
    source, target = (tuple(str(_attributes(token)["token"]) for token in side) for side in sides)
    target = target[fields.get("attr_pos_start") : fields.get("attr_pos_end")]
    if fields["source_attributions"] is None:
        raise ValueError(f"pair {number} has attributions of target tokens only")
    values = _tensor(fields["source_attributions"])
    if values.ndim not in (2, 4):
        remedy = "sum it up before you save it: out.aggregate()"
        raise ValueError(f"pair {number} has an attribution with {values.ndim} dimensions; {remedy}")
    if values.shape[:2] != (len(source), len(target)):
        tokens = f"{len(source)} source and {len(target)} target tokens"
        raise ValueError(f"pair {number} has an attribution of shape {values.shape} for {tokens}")
    if not np.isfinite(values).all():
        raise ValueError(f"pair {number} has an attribution that is not a finite number")
    return values.T if values.ndim == 2 else values.transpose(2, 3, 1, 0), source, target


def _attributes(value: Any) -> dict[str, Any]:
    """The fields of an object, which may be wrapped with its type."""
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not {type(value).__name__}")
    return value.get("attributes", value)


def _tensor(text: str) -> np.ndarray:
    """float32, the array of a safetensors file in base64: the header's length, the header, the numbers."""
    data = base64.b64decode(text, validate=True)
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + size])["attribution"]
    if entry["dtype"] not in _FLOATS:
        raise ValueError(f"numbers of type {entry['dtype']}; save them with scores_precision='float32'")
    low, high = entry["data_offsets"]
    numbers = np.frombuffer(data[8 + size :][low:high], _FLOATS[entry["dtype"]])
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        return numbers.astype(np.float32).reshape(entry["shape"])
