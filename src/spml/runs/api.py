"""Train and load from Python; the command line does the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..config import Config, from_dict
from ..errors import InputError
from .console import Console
from .contents import load_model
from .run import Run
from .train import run_training


def train(
    source: str | Path | Config,
    /,
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train a model and write its run folder.

    Args:
        source: Folder with one sub-folder per class, a CSV file, a .npz feature file, `digits`, or a
            complete `Config`.
        resume: Continue the run in `output`.
        overwrite: Replace the run in `output`.
        quiet: Print nothing.
        settings: Fields of `Config`, nested as in config.yaml, for example
            `method="em", epochs=10, optim={"lr": 1e-3}, output="runs/em"`.

    Returns:
        The finished run, loaded.

    Raises:
        InputError: A setting, the data or the folder does not suit; nothing was written.
        SpmlError: Training failed; the last checkpoint is in the folder.

    Example:
        run = spml.train("photos/", epochs=10, output="runs/photos")
        run.predict(["new.jpg"]).labels
    """
    if isinstance(source, Config):
        if settings:
            raise InputError("give either a Config or settings by name, not both")
        config = source
    else:
        if not isinstance(source, (str, Path)):
            raise InputError(f"the data must be a path or a Config, got {type(source).__name__}")
        if not isinstance(settings.get("data", {}), dict):
            raise InputError(
                f"data must be settings by name (data={{'val_share': 0.1}}), got {settings['data']!r}"
            )
        merged = {**settings, "data": {**settings.get("data", {}), "path": str(source)}}
        config = from_dict(merged)
    console = Console(silent=quiet)
    return load(run_training(config, resume=resume, overwrite=overwrite, console=console))


def load(folder: str | Path) -> Run:
    """Load a trained run from its folder.

    Raises:
        InputError: The folder holds no finished run, or its files are damaged.
    """
    classifier, card = load_model(Path(folder))
    return Run(Path(folder), classifier, card)
