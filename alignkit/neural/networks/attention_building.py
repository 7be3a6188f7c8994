"""Attentions made from their names."""

from __future__ import annotations

from alignkit.neural.networks.attention import Attention, ComposedAttention, QueryAttention
from alignkit.neural.networks.mechanisms import (
    NORMALIZERS,
    SCORE_FUNCTIONS,
    UNIFORM,
    Mechanism,
    class_of,
    parse_mechanism,
)
from alignkit.neural.networks.multihead import MultiHeadAttention, check_heads
from alignkit.neural.networks.normalizers import Normalizer, NormalizerWithDerivative
from alignkit.neural.networks.registry import ATTENTIONS
from alignkit.neural.networks.score_functions import QueryScore, ScoreFunction


def new_attention(name: str, state: int, encoding: int, heads: int = 1) -> Attention:
    """An attention with random weights, drawn from torch's global generator.

    Args:
        name: in :data:`alignkit.neural.networks.registry.ATTENTIONS`, or of a mechanism.
        state: H, the size of a decoder state, and of hidden layers of the score function.
        encoding: D, the size of an encoder state.
        heads: K; from two on, each has maps of its own from states, encoder states and to contexts of D/K numbers.

    Raises:
        AlignkitError: there is no such attention, or the sizes do not fit it.
    """
    if name in ATTENTIONS:
        attention: Attention = class_of(ATTENTIONS[name])(state, encoding)
        return attention
    mechanism = parse_mechanism(name)
    if heads > 1:
        return new_attention_of_heads(name, state, encoding, heads)
    score = new_score_function(mechanism, state, encoding, state)
    normalizer = new_normalizer(mechanism, 1)
    if isinstance(score, QueryScore) and isinstance(normalizer, NormalizerWithDerivative):
        return QueryAttention(score, normalizer)
    return ComposedAttention(score, normalizer)


def new_attention_of_heads(name: str, state: int, encoding: int, heads: int) -> MultiHeadAttention:
    """As :func:`new_attention`, with maps of its own also for a single head; ``uniform``, or a mechanism."""
    check_heads(encoding, heads)
    if name == UNIFORM:
        return MultiHeadAttention(state, encoding, None, None, heads)
    mechanism, size = parse_mechanism(name), encoding // heads
    score = new_score_function(mechanism, size, size, size)
    return MultiHeadAttention(state, encoding, score, new_normalizer(mechanism, heads), heads)


def new_text_attention(name: str, encoding: int, hidden: int) -> ComposedAttention | None:
    """The attention of a network without decoder states, of one head; None for uniform weights.

    Args:
        name: ``uniform``, or of a mechanism.
        encoding: D, the size of an encoder state.
        hidden: the size of hidden layers of the score function.

    Raises:
        AlignkitError: there is no such attention.
    """
    if name == UNIFORM:
        return None
    mechanism = parse_mechanism(name, "classifier")
    return ComposedAttention(new_score_function(mechanism, 0, encoding, hidden), new_normalizer(mechanism, 1))


def new_score_function(mechanism: Mechanism, state: int, encoding: int, hidden: int) -> ScoreFunction:
    """The mechanism's score function; the sizes as in :class:`ScoreFunction`."""
    score: ScoreFunction = class_of(SCORE_FUNCTIONS[mechanism.score].score)(state, encoding, hidden)
    return score


def new_normalizer(mechanism: Mechanism, heads: int) -> Normalizer:
    """The mechanism's normalizer for this number of heads."""
    normalizer: Normalizer = class_of(NORMALIZERS[mechanism.normalizer].normalizer)(heads, mechanism.parameter)
    return normalizer
