"""What several processes need to agree with one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def gather_rows(fabric: Any, mine: Tensor, rows: int, *, differentiable: bool) -> Tensor:
    """All rows of a batch of which each process holds every `world`-th, in the order of the batch.

    Args:
        fabric: Lightning Fabric.
        mine: (B_rank, ...), rows rank, rank + world, ... of the batch; possibly none.
        rows: rows of the batch over all processes.
        differentiable: the gradient flows back to the process that a row came from.

    Returns:
        (rows, ...), the same on every process.
    """
    world = fabric.world_size
    if world == 1:
        return mine if differentiable else mine.detach()
    largest = -(-rows // world)
    padded = torch.cat([mine, mine.new_zeros((largest - len(mine), *mine.shape[1:]))])
    gathered: Tensor = fabric.all_gather(padded, sync_grads=differentiable)
    return gathered.reshape(world, largest, *mine.shape[1:]).transpose(0, 1).flatten(0, 1)[:rows]
