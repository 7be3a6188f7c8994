"""Types that the whole package uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

#: What to do about bytes that are not UTF-8: stop with an error, or read them as U+FFFD.
EncodingErrors = Literal["strict", "replace"]
#: The path of a file or folder.
PathLike = str | os.PathLike[str]
#: Called as ``progress(done, total, message)`` in the course of long work.
Progress = Callable[[int, int, str], None]
