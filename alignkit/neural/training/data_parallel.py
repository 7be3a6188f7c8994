"""Data-parallel training: the parts of a batch, the sum of their gradients, and the same network at every rank.

Gradients are summed at every step, and the network is shared at every measured one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alignkit.distributed.group import Group


def split_batch(batch: np.ndarray, parts: int) -> list[np.ndarray]:
    """The parts of a batch, whose sizes differ by one at most; fewer if it does not have so many pairs."""
    return np.array_split(batch, max(1, min(parts, len(batch))))


def sum_gradients(group: Group, parameters: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
    """Replace every gradient by its sum over all ranks, and return that of the loss.

    A parameter without a gradient at every rank still has none.

    Args:
        group: the ranks.
        parameters: the same at all ranks; their gradients are of parts of one batch.
        loss: a scalar without gradient.
    """
    if group.world_size == 1:
        return loss
    given = torch.tensor([each.grad is not None for each in parameters], dtype=loss.dtype, device=loss.device)
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
    # One tensor, so that there is one exchange; gradients, whether there is one, and the loss.
    flat = torch.cat([*(each.flatten() for each in gradients), given, loss.reshape(1)])
    flat = group.all_reduce(flat)
    sizes = [each.numel() for each in parameters]
    *sums, given, total = flat.split([*sizes, len(sizes), 1])
    for parameter, found, any_given in zip(parameters, sums, given.tolist(), strict=True):
        parameter.grad = found.view_as(parameter) if any_given else None
    return total[0]


def share_network(group: Group, network: nn.Module, optimiser: Optimizer) -> None:
    """Give all ranks the weights and Adam's moments of rank 0.

    They have the same already, unless their processors round differently.
    """
    if group.world_size == 1:
        return
    tensors = list(network.state_dict().values())
    for state in optimiser.state.values():
        tensors += [state["exp_avg"], state["exp_avg_sq"]]
    flat = torch.cat([each.detach().flatten() for each in tensors])
    group.broadcast(flat)
    with torch.no_grad():
        for tensor, found in zip(tensors, flat.split([each.numel() for each in tensors]), strict=True):
            tensor.copy_(found.view_as(tensor))
