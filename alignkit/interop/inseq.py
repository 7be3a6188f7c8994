"""Attributions that inseq saved (``out.save("out.json")``), read without inseq; nothing in the file is executed.

An array of inseq has a row per *source* token and a column per target token, which is turned here. Attention has
two more dimensions, layers and heads; it is that of the step which predicts the token, not shifted.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from alignkit.errors import InputError
from alignkit.types import PathLike

MARKER = "sequence_attributions"
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_AGGREGATE = "sum it up before you save it: out.aggregate()"


@dataclass(frozen=True, eq=False)
class Attribution:
    """The attribution of one sentence pair.

    Attributes:
        values: float32 (layers, heads, T, L), or (T, L) if inseq summed them up.
        source, target: the L and T tokens.
    """

    values: np.ndarray
    source: tuple[str, ...]
    target: tuple[str, ...]


def read_attributions(path: PathLike, text: str) -> list[Attribution]:
    """The attributions of the source tokens of a file.

    Args:
        path: the file, for messages.
        text: its JSON.

    Raises:
        InputError: the file is damaged, has no attributions of source tokens, or has a further dimension that is
            not layers and heads.
    """
    try:
        sequences = _attributes(json.loads(text))[MARKER]
        found = [_attribution(path, number, _attributes(each)) for number, each in enumerate(sequences, 1)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        problem = f"not an attribution that inseq saved, or damaged: {error or type(error).__name__}"
        raise InputError(path, problem) from error
    if len({each.values.ndim for each in found}) > 1:
        raise InputError(path, "some attributions have layers and heads, others do not")
    return found


def _attribution(path: PathLike, number: int, fields: dict[str, Any]) -> Attribution:
    source, target = (
        [str(_attributes(token)["token"]) for token in fields[side]] for side in ("source", "target")
    )
    target = target[int(fields.get("attr_pos_start") or 0) : fields.get("attr_pos_end")]
    if fields["source_attributions"] is None:
        raise InputError(path, f"pair {number} has attributions of target tokens only")
    values = _tensor(fields["source_attributions"])
    if values.ndim not in (2, 4):
        problem = f"pair {number} has an attribution with {values.ndim} dimensions"
        raise InputError(path, problem, remedy=_AGGREGATE)
    if values.shape[:2] != (len(source), len(target)):
        problem = (
            f"an attribution of shape {values.shape} for {len(source)} source and {len(target)} target tokens"
        )
        raise InputError(path, f"pair {number} has {problem}")
    if np.isnan(values).any():
        raise InputError(path, f"pair {number} has an attribution that is not a number (NaN)")
    turned = values.T if values.ndim == 2 else values.transpose(2, 3, 1, 0)
    return Attribution(np.ascontiguousarray(turned), tuple(source), tuple(target))


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
    return numbers.astype(np.float32).reshape(entry["shape"])
