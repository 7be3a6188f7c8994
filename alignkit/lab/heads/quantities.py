"""Other quantities of a head than its weights, in their place: made where a model of transformers attends."""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from alignkit.errors import AlignkitError, check_known

if TYPE_CHECKING:
    import torch

NAME = "alignkit"  # of the attention function that transformers is given
WEIGHTS = "weights"
#: weights: attention. norms: the length of what each source token adds to the output, the weight times the value
#: vector through the output matrix (Kobayashi et al. 2020). ov: the probability of the target token if that vector
#: alone, without the weight, went through the model's last norm to its output layer (the OV circuit of Elhage et
#: al. 2021): a lexicon in the head.
QUANTITIES = (WEIGHTS, "norms", "ov")
_OUTPUT_MATRICES = ("o_proj", "out_proj", "dense", "o", "c_proj")


def give(model: Any, quantity: str, targets: torch.Tensor | None = None) -> None:
    """Make a model give a quantity where it gives its attention weights; what it computes stays the same.

    Args:
        model: of transformers.
        quantity: one of :data:`QUANTITIES`.
        targets: for ``ov``, int64 (B, T), the token that each row of the next batch predicts.

    Raises:
        AlignkitError: there is no such quantity.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    check_known(quantity, QUANTITIES, "quantity of heads")
    if quantity == WEIGHTS:
        if hasattr(model, "set_attn_implementation"):
            model.set_attn_implementation("eager")
        return
    read_out = None if targets is None or quantity != "ov" else partial(_probabilities, model, targets)
    AttentionInterface.register(NAME, partial(_attend, read_out))
    AttentionMaskInterface.register(NAME, AttentionMaskInterface()["eager"])
    model.set_attn_implementation(NAME)


def _attend(
    read_out: Any,
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *given: Any,
    **more: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of the model's own attention, and the quantity (B, H, T, L)."""
    eager = sys.modules[type(module).__module__].eager_attention_forward
    output, weights = eager(module, query, key, value, *given, **more)
    heads, size = query.shape[1], value.shape[-1]
    matrix = next((getattr(module, name) for name in _OUTPUT_MATRICES if hasattr(module, name)), None)
    if matrix is None:
        raise AlignkitError("the model's attention has no output matrix that is known here")
    weight = matrix.weight if type(matrix).__name__ == "Conv1D" else matrix.weight.T  # (H * d, D)
    added = value.repeat_interleave(heads // value.shape[1], dim=1) @ weight.reshape(heads, size, -1)
    if read_out is None:
        return output, weights * added.norm(dim=-1)[:, :, None]
    return output, read_out(added, weights)


def _probabilities(model: Any, targets: torch.Tensor, added: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The probability of each row's token by what each column adds, (B, H, T, L)."""
    if weights.shape[2] != targets.shape[1]:
        return weights  # of an encoder, where nothing is predicted
    decoder = getattr(model.base_model, "decoder", model.base_model)
    norms = [part for name, part in decoder.named_children() if re.fullmatch(r"(final_)?(layer_)?norm|ln_f", name)]
    vectors = norms[-1](added) if norms else added
    found = weights.new_empty(weights.shape)
    for h in range(added.shape[1]):  # the whole vocabulary's logits of one head at a time
        logs = model.get_output_embeddings()(vectors[:, h]).log_softmax(dim=-1)  # (B, L, V)
        found[:, h] = logs.gather(2, targets[:, None, :].expand(-1, logs.shape[1], -1)).transpose(1, 2).exp()
    return found
