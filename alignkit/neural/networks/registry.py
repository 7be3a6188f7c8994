"""The registries of attentions and translation networks, by the names that settings give them.

An attention is a score function and a normalizer (:mod:`alignkit.neural.networks.mechanisms`), or one of
:data:`ATTENTIONS`: to add one that is not composed, write a class
(:class:`alignkit.neural.networks.attention.Attention`) and a line there. To add a network, write a file with its
settings and its class (:class:`alignkit.neural.networks.base.TranslationNetwork`) and a line in :data:`NETWORKS`.
An entry is a class, or ``module:name``, which is imported when it is needed, so that the names are known without
torch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from alignkit.errors import AlignkitError
from alignkit.neural.networks.mechanisms import SCORE_FUNCTIONS, UNIFORM, class_of, parse_mechanism
from alignkit.neural.validation import check_choice
from alignkit.records import shown


class NetworkEntry(NamedTuple):
    """The two classes of a network.

    Attributes:
        settings: a frozen dataclass, a subclass of :class:`alignkit.neural.settings.NetworkSettings`.
        network: the network, made from such settings.
    """

    settings: str | type[Any]
    network: str | type[Any]


ATTENTIONS: dict[str, str | type[Any]] = {
    UNIFORM: "alignkit.neural.networks.attention:UniformAttention",
}
NETWORKS: dict[str, NetworkEntry] = {
    "lstm": NetworkEntry(
        "alignkit.neural.settings:LstmSettings", "alignkit.neural.networks.encoder_decoder:EncoderDecoder"
    ),
    "transformer": NetworkEntry(
        "alignkit.neural.networks.transformer_settings:TransformerSettings",
        "alignkit.neural.networks.transformer:Transformer",
    ),
}


def check_attention(owner: str, name: object) -> None:
    """Raise AlignkitError, on behalf of ``owner``, if there is no attention of that name."""
    if isinstance(name, str) and name in ATTENTIONS:
        return
    if not isinstance(name, str) or name.partition("+")[0] not in SCORE_FUNCTIONS:
        known = ", ".join([*ATTENTIONS, *SCORE_FUNCTIONS])
        raise AlignkitError(
            f"{owner}: attention must be one of {known}, or a score function of these and a normalizer, such as "
            f"additive+sparsemax, not {shown(name)}"
        )
    parse_mechanism(name, owner)


def settings_class(architecture: str) -> type[Any]:
    """The settings of the network of that name; raises AlignkitError if there is none."""
    check_choice("network", "architecture", architecture, NETWORKS)
    found: type[Any] = class_of(NETWORKS[architecture].settings)
    return found


def network_class(architecture: str) -> type[Any]:
    """The network of that name; raises AlignkitError if there is none."""
    check_choice("network", "architecture", architecture, NETWORKS)
    found: type[Any] = class_of(NETWORKS[architecture].network)
    return found
