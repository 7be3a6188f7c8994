"""Settings of the transformer. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from alignkit.errors import AlignkitError
from alignkit.neural.settings import NetworkSettings
from alignkit.neural.validation import check_choice, check_share, check_sizes

Norm = Literal["pre", "post"]
Positions = Literal["sinusoidal", "learned", "relative"]


@dataclass(frozen=True)
class TransformerSettings(NetworkSettings):
    """The transformer encoder-decoder (Vaswani et al. 2017), at a size for texts of some ten thousand pairs.

    ``embedding`` is E, the size of all states, and ``attention`` that to the source.

    Attributes:
        hidden: size of the hidden layer of each feed-forward network.
        layers: of encoder and of decoder.
        norm: layer normalization before each part (``pre``; Xiong et al. 2020) or after it (``post``, the
            original).
        positions: ``sinusoidal`` vectors; ``learned`` vectors of the first ``longest`` positions, of which the
            last also stands for later ones; or ``relative``, a learned number per head and distance that is added
            to the scores of self-attention (Raffel et al. 2020), one for all distances from ``reach`` on (Shaw et
            al. 2018).
        longest, reach: see ``positions``.
        dropout: of embeddings, of what each part adds, and within feed-forward networks.
    """

    architecture: str = field(default="transformer", init=False)
    attention: str = "scaled-dot"
    heads: int = 4
    hidden: int = 1024
    layers: int = 3
    norm: Norm = "pre"
    positions: Positions = "sinusoidal"
    longest: int = 512
    reach: int = 16
    dropout: float = 0.1

    @property
    def attention_layers(self) -> int:
        return self.layers

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("network", hidden=self.hidden, layers=self.layers, longest=self.longest, reach=self.reach)
        if self.layers > 64:
            raise AlignkitError(f"network: at most 64 layers, not {self.layers}")
        if self.embedding % self.heads:
            raise AlignkitError(
                f"network: {self.heads} heads cannot share an embedding of {self.embedding}; choose a multiple"
            )
        check_choice("network", "norm", self.norm, get_args(Norm))
        check_choice("network", "positions", self.positions, get_args(Positions))
        check_share("network", dropout=self.dropout)
