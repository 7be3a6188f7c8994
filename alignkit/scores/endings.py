"""The endings of the files that scores are written to. Imports nothing, for the command line reads them."""

from __future__ import annotations

#: Arrays without pickle; a table with a row per element, which needs pyarrow.
SCORE_ENDINGS = (".npz", ".parquet")
