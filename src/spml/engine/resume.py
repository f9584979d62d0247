"""Save a training, and continue it from its last checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError
from .checkpoint import load_checkpoint, random_state, save_checkpoint, set_random_state
from .state import LoopState

if TYPE_CHECKING:
    from .loop import Trainer


def save_training(trainer: Trainer) -> None:
    """Write a checkpoint with everything that the training needs to continue, if it has a folder.

    Called on every process; the first one writes.

    Raises:
        SpmlError: The checkpoint could not be written.
    """
    fabric, average = trainer.fabric, trainer.average
    states = random_state()
    states["torch"] = fabric.all_gather(states["torch"].to(fabric.device)).cpu()
    if trainer.folder is None or not fabric.is_global_zero:
        return
    checkpoint = {
        "identity": trainer.identity,
        "model": dict(trainer.model.state_dict()),
        "objective": dict(trainer.objective.state_dict()),
        "optimizer": trainer.optimizer.state_dict(),
        "average": dict(average.model.state_dict()) if average else None,
        "random": states,
        "loop": vars(trainer.state),
    }
    save_checkpoint(trainer.folder, checkpoint)


def resume_training(trainer: Trainer) -> None:
    """Put a trainer into the state of the last checkpoint in its folder.

    Raises:
        InputError: The checkpoint can't be read, or belongs to other data.
    """
    fabric, folder = trainer.fabric, trainer.folder
    assert folder is not None
    checkpoint = load_checkpoint(folder)
    if checkpoint["identity"] != trainer.identity:
        raise InputError(
            f"{folder}: can't be resumed, because the data changed since this run was started (its samples "
            "or labels, or the run that it started from). Restore it, or start again with --overwrite."
        )
    trainer.model.load_state_dict(checkpoint["model"])
    trainer.objective.load_state_dict(checkpoint["objective"])
    trainer.optimizer.load_state_dict(checkpoint["optimizer"])
    if trainer.average:
        trainer.average.model.load_state_dict(checkpoint["average"])
    state = LoopState(**checkpoint["loop"])
    state.sums = {name: value.to(fabric.device) for name, value in state.sums.items()}
    trainer.state = state
    states = checkpoint["random"]
    states["torch"] = states["torch"].reshape(fabric.world_size, -1)[fabric.global_rank]
    set_random_state(states)
