"""Save a training, and continue it from its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..common.errors import InputError, unexpected
from ..common.phrases import class_differences
from .checkpoint import finish_saving, load_checkpoint, random_state, save_checkpoint, set_random_state
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
        "classes": list(trainer.classes),
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
        InputError: The checkpoint can't be read, belongs to other data, or does not fit the run.
    """
    folder = trainer.folder
    assert folder is not None
    if trainer.fabric.is_global_zero:
        finish_saving(folder)
    trainer.fabric.barrier()
    checkpoint = load_checkpoint(folder, trainer.report)
    try:
        # Checkpoints of earlier versions name no classes.
        check_classes(folder, checkpoint.get("classes", trainer.classes), trainer.classes)
        if checkpoint["identity"] != trainer.identity:
            raise data_changed(folder)
        _set_state(trainer, checkpoint)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder}: its checkpoint does not fit this run ({unexpected(error)}). Restore it, or start "
            "again with --overwrite."
        ) from error


def data_changed(folder: Path) -> InputError:
    """Error for a run that is resumed with other data."""
    return InputError(
        f"{folder}: can't be resumed, because the data changed since this run was started (its samples or "
        "labels, your own network, or the run that it started from). Restore it, or start again with "
        "--overwrite."
    )


def check_classes(folder: Path, before: Sequence[str], now: Sequence[str]) -> None:
    """Check that the classes of a run that is resumed still have their names.

    Args:
        folder: Folder of the run.
        before: Class names when the run was started.
        now: Class names of the data.

    Raises:
        InputError: They have other names; the message states them.
    """
    if list(now) != list(before):
        raise InputError(
            f"{folder}: can't be resumed, because the class names changed since this run was started: "
            f"{class_differences(now, before)}. Restore them, or start again with --overwrite."
        )


def _set_state(trainer: Trainer, checkpoint: dict[str, Any]) -> None:
    fabric = trainer.fabric
    state = msgspec.convert(checkpoint["loop"], LoopState)
    needed = {"train/loss", trainer.judge.metric}
    needed.update(key for record in state.history[:1] for key in record if key.startswith("val/"))
    for record in state.history:
        if lacking := sorted(needed - record.keys()):
            raise ValueError(f"a record of its history lacks {lacking[0]}")
    if state.best_epoch >= 0:  # to see now, not after the last epoch, whether the best weights fit
        trainer.model.load_state_dict(state.best)
        trainer.objective.load_state_dict(state.best_objective)
    trainer.model.load_state_dict(checkpoint["model"])
    trainer.objective.load_state_dict(checkpoint["objective"])
    trainer.optimizer.load_state_dict(checkpoint["optimizer"])
    if trainer.average:
        trainer.average.model.load_state_dict(checkpoint["average"])
    state.sums = {name: value.to(fabric.device) for name, value in state.sums.items()}
    trainer.state = state
    states = checkpoint["random"]
    # A copy, because PyTorch reads a generator's state from the start of the storage, whatever the offset.
    states["torch"] = states["torch"].reshape(fabric.world_size, -1)[fabric.global_rank].clone()
    set_random_state(states)
