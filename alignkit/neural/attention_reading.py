"""The choice of the layer and head whose attention weights are read. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.neural.validation import check_flag, check_not_negative


@dataclass(frozen=True)
class Reading:
    """Which of a network's attention weights are its ``alpha`` scores.

    Attributes:
        layer: the layer of the decoder, from 1 on; 0 for the mean over layers.
        head: the head, from 1 on; 0 for the mean over heads.
        shifted: row t has the weights of the step whose input is y_t, not of the step that predicts it: the
            decoder then knows the word that it aligns (Chen et al. 2020).
    """

    layer: int = 0
    head: int = 0
    shifted: bool = False

    def __post_init__(self) -> None:
        check_not_negative("reading", layer=self.layer, head=self.head)
        check_flag("reading", shifted=self.shifted)
