"""Lists of alignment heads for other programs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from alignkit.errors import InputError
from alignkit.storage import atomic_write
from alignkit.types import PathLike

FIELD = "alignment_heads"


def write_alignment_heads(path: PathLike, heads: Sequence[tuple[int, int]]) -> None:
    """Write the ``alignment_heads`` that CTranslate2 reads: a list of [layer, head] in ``config.json``.

    If the file is such a configuration, its other entries stay as they are.

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
    known[FIELD] = [[int(layer), int(head)] for layer, head in heads]
    with atomic_write(path) as stream:
        stream.write((json.dumps(known, indent=2, ensure_ascii=False) + "\n").encode())
