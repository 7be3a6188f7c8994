"""Numba functions on plain arrays, and nothing else: no validation, no allocation of results."""

import os
import re

from alignkit.errors import AlignkitError

if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):
    raise AlignkitError("alignkit computes with compiled functions only; unset NUMBA_DISABLE_JIT")
if re.fullmatch(r"\s*(-\d+|0+)\s*", os.environ.get("NUMBA_NUM_THREADS", "")):
    raise AlignkitError("Numba needs at least one thread; unset NUMBA_NUM_THREADS")
