"""Alignment heads as other programs read them. Heads that are exported are not shifted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from alignkit.errors import InputError
from alignkit.support.files import atomic_write
from alignkit.types import PathLike

if TYPE_CHECKING:
    from alignkit.lab.heads.ranking import HeadRanking


def configuration(found: HeadRanking, path: PathLike) -> str:
    """``alignment_heads``, a list of [layer, head], in a JSON configuration whose other entries stay as they are.

    CTranslate2 reads it in ``config.json``, transformers in ``generation_config.json``.

    Raises:
        InputError: the file is there, but is not a JSON object.
    """
    known: Any = {}
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as stream:
                known = json.load(stream)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(path, f"is there, but is not JSON: {error}") from error
        if not isinstance(known, dict):
            raise InputError(path, "is there, but is not a JSON object")
    return _as_json({**known, "alignment_heads": [[int(each) for each in pair] for pair in found.alignment_heads]})


def alignatt(found: HeadRanking, path: PathLike) -> str:
    """Every head with its hits as ``ts`` and their ``count``, as AlignAtt4LLM reads it.

    The file may have only some of the model's layers, whose number is thus left out.
    """
    rows = found.table[found.table["shift"] == 0]
    languages = [found.made.get(f"{side}_language") for side in ("source", "target")]
    return _as_json(
        {
            "model": found.made.get("model"),
            "direction": "-".join(map(str, languages)) if all(languages) else None,
            "num_heads": int(rows["head"].max()) + 1,
            "used_pairs": found.pairs,
            "token_alignment_heads": [
                {"layer": int(row.layer), "head": int(row.head), "ts": float(row.hits), "count": int(row.count)}
                for row in rows[["layer", "head", "hits", "count"]].itertuples(name="Row", index=False)
            ],
        }
    )


def llama_cpp(found: HeadRanking, path: PathLike) -> str:
    """The arrays of layers and heads that llama.cpp's ``llama_set_attn_heads`` takes, in C."""
    columns = zip(("layers", "heads"), zip(*found.alignment_heads, strict=True), strict=True)
    rows = ((name, ", ".join(map(str, values))) for name, values in columns)
    arrays = [f"static const int32_t attn_{name}[] = {{{numbers}}};" for name, numbers in rows]
    return "\n".join([*arrays, f"static const size_t attn_n = {len(found.alignment_heads)};"]) + "\n"


#: The registry of formats: (ranking, file) -> the text of the file.
EXPORTS: dict[str, Callable[[HeadRanking, PathLike], str]] = {
    "alignatt": alignatt,
    "ctranslate2": configuration,
    "huggingface": configuration,
    "llama.cpp": llama_cpp,
}


def export_heads(found: HeadRanking, form: str, path: PathLike) -> None:
    """Write the heads of a ranking in a format of :data:`EXPORTS`."""
    text = EXPORTS[form](found, path)
    with atomic_write(path) as stream:
        stream.write(text.encode())


def _as_json(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
