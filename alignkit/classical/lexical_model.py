"""The base of aligners that have a table of translation probabilities between words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from alignkit.classical.lookup import Lookup
from alignkit.classical.translation_table import PairTable
from alignkit.parallel import thread_count
from alignkit.records import Record
from alignkit.storage import Fields, arrays_fingerprint
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class LexicalModel:
    """An aligner with a table of translation probabilities between words.

    Attributes:
        source, target: the vocabularies.
        table: Trans(o|i) for every pair that occurs in the training text, (V_src, V_tgt).
        null: float32 (V_tgt,), Trans(o|NULL), or None where the model has no such row.
        log_likelihood: natural logarithm of the training text's probability, up to a factor for its lengths, under
            the parameters that each E-step used. Maximum likelihood makes it rise; with priors it may fall.
        threads: how many threads scoring uses (None: all); no result depends on it.

    Raises:
        ValueError: the parts do not fit each other.
    """

    source: Vocabulary
    target: Vocabulary
    table: PairTable
    null: np.ndarray | None = field(default=None, kw_only=True)
    log_likelihood: tuple[float, ...] = field(default=(), kw_only=True)
    threads: int | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.source), len(self.target)):
            raise ValueError(f"table of shape {self.table.shape} does not fit the vocabularies")
        if self.null is not None and (self.null.shape, self.null.dtype) != ((len(self.target),), np.float32):
            raise ValueError("null must be float32 with one value per target word")
        probabilities = [self.table.values] if self.null is None else [self.table.values, self.null]
        # A little more than 1, for sums are rounded; NaN is neither.
        if not all(((each >= 0) & (each <= 1.001)).all() for each in probabilities):
            raise ValueError("translation probabilities must lie between 0 and 1")

    def __repr__(self) -> str:
        """One line: the sizes of the model, and its last log-likelihood."""
        sizes = f"{len(self.source)} source and {len(self.target)} target words, {len(self.table.values)} pairs"
        fit = f", log-likelihood {self.log_likelihood[-1]:.6g}" if self.log_likelihood else ""
        return f"{type(self).__name__}({sizes}{fit})"

    def ids(self, bitext: Bitext) -> tuple[np.ndarray, np.ndarray]:
        """int32 each: the model's ids of a bitext's source words and of its target words, -1 if unknown."""
        return self.source.translate(bitext.source.vocabulary), self.target.translate(bitext.target.vocabulary)

    def lookup(self, bitext: Bitext) -> Lookup:
        """The table for the words of a bitext."""
        return Lookup(self.table, bitext, *self.ids(bitext), thread_count(self.threads))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file: both vocabularies, the table, and NULL's row where there is one."""
        arrays = {name: getattr(self.table, name) for name in ("offsets", "columns", "values")}
        arrays |= {"source_types": self.source.text, "source_type_offsets": self.source.offsets}
        arrays |= {"target_types": self.target.text, "target_type_offsets": self.target.offsets}
        return arrays if self.null is None else arrays | {"null": self.null}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the :meth:`arrays`, equal only for equal words and parameters."""
        return arrays_fingerprint(self.arrays())

    def header(self) -> dict[str, Any]:
        """The numbers of a saved file."""
        return {"log_likelihood": list(self.log_likelihood)}


def read_parts(fields: Fields, header: Record) -> dict[str, Any]:
    """The arguments of a :class:`LexicalModel` from what its ``arrays`` and ``header`` wrote.

    Raises:
        InputError, TypeError, ValueError: the file is damaged.
    """
    source, target = (
        Vocabulary(fields.get(f"{side}_types", np.uint8), fields.get(f"{side}_type_offsets", np.int64))
        for side in ("source", "target")
    )
    columns, values = fields.get("columns", np.int32), fields.get("values", np.float32)
    return {
        "source": source,
        "target": target,
        "table": PairTable(fields.get("offsets", np.int64), columns, values, len(target)),
        "null": fields.get("null", np.float32) if "null" in fields.arrays else None,
        "log_likelihood": header.numbers("log_likelihood"),
    }
