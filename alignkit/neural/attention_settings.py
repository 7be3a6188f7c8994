"""Settings of the cross-attention of Hugging Face models. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.errors import AlignkitError


@dataclass(frozen=True)
class AttentionSettings:
    """What of a model's attention to compute, and how.

    Attributes:
        layers: which decoder layers to keep, counted from 0; all if None.
        prefix: what the model expects before each source line (``>>deu<<``, or T5's task); it is no word of it.
        batch_size: pairs at a time; the result does not depend on it but for rounding.
        device: as :func:`alignkit.neural.devices.pick_device`.

    Raises:
        AlignkitError: the batch size is below 1.
    """

    layers: Sequence[int] | None = None
    prefix: str = ""
    batch_size: int = 16
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise AlignkitError(f"the batch size must be at least 1, not {self.batch_size}")
