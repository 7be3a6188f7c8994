"""The registries of attentions and translation networks, by the names that settings give them.

To add an attention, write a class (:class:`alignkit.neural.networks.attention.Attention`) and a line in
:data:`ATTENTIONS`; to add a network, a file with its settings and its class
(:class:`alignkit.neural.networks.base.TranslationNetwork`) and a line in :data:`NETWORKS`. An entry is a class, or
``module:name``, which is imported when it is needed, so that the names are known without torch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from alignkit.lazy import imported
from alignkit.neural.validation import check_choice


class NetworkEntry(NamedTuple):
    """The two classes of a network.

    Attributes:
        settings: a frozen dataclass, a subclass of :class:`alignkit.neural.settings.NetworkSettings`.
        network: the network, made from such settings.
    """

    settings: str | type[Any]
    network: str | type[Any]


ATTENTIONS: dict[str, str | type[Any]] = {
    "general": "alignkit.neural.networks.attention:GeneralAttention",
    "dot": "alignkit.neural.networks.attention:DotAttention",
    "uniform": "alignkit.neural.networks.attention:UniformAttention",
}
NETWORKS: dict[str, NetworkEntry] = {
    "lstm": NetworkEntry(
        "alignkit.neural.settings:LstmSettings", "alignkit.neural.networks.encoder_decoder:EncoderDecoder"
    ),
}


def attention_class(name: str) -> type[Any]:
    """The subclass of :class:`.attention.Attention` of that name; raises AlignkitError if there is none."""
    check_choice("network", "attention", name, ATTENTIONS)
    return _loaded(ATTENTIONS[name])


def settings_class(architecture: str) -> type[Any]:
    """The settings of the network of that name; raises AlignkitError if there is none."""
    check_choice("network", "architecture", architecture, NETWORKS)
    return _loaded(NETWORKS[architecture].settings)


def network_class(architecture: str) -> type[Any]:
    """The network of that name; raises AlignkitError if there is none."""
    check_choice("network", "architecture", architecture, NETWORKS)
    return _loaded(NETWORKS[architecture].network)


def _loaded(entry: str | type[Any]) -> Any:
    return imported(entry) if isinstance(entry, str) else entry
