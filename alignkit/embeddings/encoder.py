"""The lower layers of a pretrained encoder (BERT, Devlin et al. 2019), in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alignkit.embeddings.model_file import PackedModel

#: What the encoder was trained to read before a text (Wang et al. 2024, multilingual E5).
PREFIX = "query:"


@dataclass(frozen=True, eq=False)
class EncoderLayer:
    """The weights of one layer; matrices have a row for each input.

    Attributes:
        attention, attention_bias: (H, 3 H) and (3 H,), of queries, keys and values.
        output, output_bias: (H, H) and (H,), of what attention returns.
        first_norm, second_norm: (2, H), scale and shift after attention, and after the feed-forward part.
        inner, inner_bias: (H, F) and (F,); outer, outer_bias: (F, H) and (H,), of the feed-forward part.
    """

    attention: np.ndarray
    attention_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray
    first_norm: np.ndarray
    inner: np.ndarray
    inner_bias: np.ndarray
    outer: np.ndarray
    outer_bias: np.ndarray
    second_norm: np.ndarray


class ContextEncoder:
    """Contextual vectors of the pieces of a text: the states after some of the encoder's layers.

    Translations are alike in the middle layers: lower ones are nearer to the spelling, upper ones to the meaning
    of the whole sentence (Jalili Sabet et al. 2020).

    Args:
        model: the weights.
        depth: the number of layers to run.
    """

    def __init__(self, model: PackedModel, depth: int) -> None:
        self.model, self.width, self.heads = model, model.width, model.heads
        self._positions = model.tensor("emb.pos", -1, model.width)
        self._shift = model.tensor("emb.type", -1, model.width)[0]
        self._norm = np.stack([model.tensor("emb.ln.w"), model.tensor("emb.ln.b")])
        self._layers = [_layer(model, number) for number in range(depth)]

    def states(self, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """float32 (N, H): the states of N pieces, int (N,).

        Args:
            pieces: of sequences one after another, with all their symbols.
            lengths: int (S,), of each sequence; equal ones are best side by side.
        """
        place = np.arange(len(pieces)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        x = self.model.rows("emb.word", pieces)
        x += self._positions[place] + self._shift
        x = _normalised(x, self._norm, self.model.epsilon)
        for layer in self._layers:
            context = self._attend(x @ layer.attention + layer.attention_bias, lengths)
            x += context @ layer.output + layer.output_bias
            x = _normalised(x, layer.first_norm, self.model.epsilon)
            x += _gelu(x @ layer.inner + layer.inner_bias) @ layer.outer + layer.outer_bias
            x = _normalised(x, layer.second_norm, self.model.epsilon)
        return x

    def _attend(self, projected: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(N, H), the values that each piece attends to, from its queries, keys and values (N, 3 H)."""
        size, found, low = self.width // self.heads, [], 0
        for equal in np.split(lengths, np.flatnonzero(np.diff(lengths)) + 1):
            high, shape = low + int(equal.sum()), (len(equal), int(equal[0]), 3, self.heads, size)
            queries, keys, values = projected[low:high].reshape(shape).transpose(2, 0, 3, 1, 4)
            weights = (queries * np.float32(size**-0.5)) @ keys.swapaxes(-1, -2)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            found.append((weights @ values).transpose(0, 2, 1, 3).reshape(-1, self.width))
            low = high
        return np.concatenate(found)


def _layer(model: PackedModel, number: int) -> EncoderLayer:
    width, inner = model.width, model.inner

    def matrix(name: str, outputs: int, inputs: int) -> np.ndarray:
        return model.tensor(f"l{number}.{name}.w", outputs, inputs).T

    def bias(name: str) -> np.ndarray:
        return model.tensor(f"l{number}.{name}.b")

    def norm(name: str) -> np.ndarray:
        return np.stack([model.tensor(f"l{number}.{name}.w"), bias(name)])

    return EncoderLayer(
        np.ascontiguousarray(np.concatenate([matrix(name, width, width) for name in "qkv"], axis=1)),
        np.concatenate([bias(name) for name in "qkv"]),
        matrix("ao", width, width),
        bias("ao"),
        norm("aln"),
        matrix("fi", inner, width),
        bias("fi"),
        matrix("fo", width, inner),
        bias("fo"),
        norm("oln"),
    )


def _normalised(x: np.ndarray, norm: np.ndarray, epsilon: float) -> np.ndarray:
    """Layer normalisation of every row."""
    x = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[-1])
    x *= 1 / np.sqrt(variance + np.float32(epsilon))
    x *= norm[0]
    x += norm[1]
    return x


def _gelu(x: np.ndarray) -> np.ndarray:
    """x times the normal distribution function of x, which is approximated by tanh to 5e-4 (Hendrycks 2016)."""
    inner = x * x
    inner *= np.float32(0.044715 * (2 / np.pi) ** 0.5)
    inner += np.float32((2 / np.pi) ** 0.5)
    inner *= x
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= np.float32(0.5)
    return inner
