"""Fabric, and collectives that make several processes compute what one would."""

from __future__ import annotations

import os
import sys
import threading
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..common.errors import InputError
from .process_memory import keep_freed_memory


def make_fabric(accelerator: str, devices: int = 1, precision: Any = "32-true") -> Any:
    """Make a Lightning Fabric, not yet launched.

    Args:
        accelerator: `auto`, `cpu`, `cuda` or `mps`.
        devices: Number of processes on all machines together, each with a device of its own.
        precision: As Fabric takes it.

    Raises:
        InputError: The accelerator is not available here, there are fewer devices, or torchrun has started
            another number of processes.
    """
    import_fabric()
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    machines = _machines(devices)
    _without_gpu()
    try:
        return Fabric(
            accelerator=accelerator,
            devices=devices // machines,
            num_nodes=machines,
            # Memories are already the same on all processes, or differ on purpose.
            strategy=DDPStrategy(broadcast_buffers=False) if devices > 1 else "auto",
            precision=precision,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"{devices} x {accelerator} is not possible here ({error})") from error


def import_fabric() -> None:
    """Import Lightning Fabric, seconds faster as long as this process has no other thread."""
    # Fabric imports torchmetrics, which brings transformers and more, to look up its version for a part that
    # is not used here, and torch's compiler to unwrap modules of a class that is not used here: 3 s each at
    # every start. So the first looks as if it were missing, and the second as if it had this class only,
    # unless another thread could need it now.
    hidden: dict[str, ModuleType | None] = {"torchmetrics": None}
    if threading.active_count() == 1:
        hidden["torch._dynamo"] = ModuleType("torch._dynamo")
        vars(hidden["torch._dynamo"])["OptimizedModule"] = type("OptimizedModule", (), {})
    hidden = {name: module for name, module in hidden.items() if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        import lightning_fabric.strategies.ddp  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


def find_device(accelerator: str) -> torch.device:
    """Device of `make_fabric` for one process, without Fabric, whose import takes seconds.

    Args:
        accelerator: `auto`, `cpu`, `cuda` or `mps`.

    Raises:
        InputError: The accelerator is not available here.
    """
    _without_gpu()
    available = {"mps": torch.backends.mps.is_available(), "cuda": torch.cuda.is_available(), "cpu": True}
    if accelerator == "auto":
        accelerator = next(name for name, there in available.items() if there)
    if not available.get(accelerator):
        there = ", ".join(name for name, found in available.items() if found)
        raise InputError(f"device {accelerator} is not possible here: choose auto or {there}")
    return torch.device(accelerator) if accelerator == "cpu" else torch.device(accelerator, 0)


def _without_gpu() -> None:
    """What speeds torch up on machines without a GPU."""
    if not torch.cuda.is_available():
        # Otherwise torch's optimisers look for a driver at every step: 0.1 s in a thousand steps.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
        keep_freed_memory()


def started_processes() -> int:
    """Number of processes on all machines that torchrun has started together; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def _machines(devices: int) -> int:
    """Number of machines that torchrun or SLURM has started as many processes on."""
    if devices == 1:
        return 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        started, machines = started_processes(), int(os.environ["GROUP_WORLD_SIZE"])
        if started != devices:
            raise InputError(
                f"`devices` is {devices}, but torchrun has started {started} processes. Leave `devices` out, "
                "or start as many as the run that is resumed had."
            )
        if int(os.environ["LOCAL_WORLD_SIZE"]) * machines != started:
            raise InputError(
                f"torchrun has started {started} processes on {machines} machines, but each machine needs "
                "the same number (`nproc_per_node`)."
            )
        return machines
    if os.environ.get("SLURM_NTASKS") == str(devices):
        return int(os.environ.get("SLURM_NNODES", "1"))
    return 1


def gather_rows(fabric: Any, own: Tensor, rows: int, *, differentiable: bool) -> Tensor:
    """Gather the rows of a batch of which each process holds every `world`-th, in the order of the batch.

    Args:
        fabric: Lightning Fabric.
        own: (B_rank, ...), rows rank, rank + world, ... of the batch; possibly none.
        rows: Number of rows of the batch over all processes.
        differentiable: Whether the gradient flows back to the process that a row came from.

    Returns:
        (rows, ...), the same on every process.
    """
    world = fabric.world_size
    if world == 1:
        return own if differentiable else own.detach()
    largest = -(-rows // world)
    padded = torch.cat([own, own.new_zeros((largest - len(own), *own.shape[1:]))])
    gathered: Tensor = fabric.all_gather(padded, sync_grads=differentiable)
    return gathered.reshape(world, largest, *own.shape[1:]).transpose(0, 1).flatten(0, 1)[:rows]
