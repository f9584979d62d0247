"""The command `spml train`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..config import from_dict, to_yaml
from .arguments import TYPED, Settings
from .shared import Cluster, with_path


def train(
    path: str = "",
    *,
    settings: Settings,
    cluster: Cluster,
    like: str = "",
    print_config: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    logger: Literal["none", "tensorboard", "wandb", "mlflow"] = "none",
) -> None:
    """Train a model on one known label per sample.

    Args:
        path: Folder with one sub-folder per class, CSV, .npz, or `digits`.
        settings: Settings of the run.
        cluster: Where features of a frozen backbone are computed.
        like: Folder of a finished run to train again with all its settings: its data, backbone, weights,
            method and K. Settings that are stated take the place of its own. Data that is stated is read as
            the command line says, with nothing of how that of the run was read.
        print_config: Print what would run, with every default settled, as YAML for --config; train nothing.
        resume: Continue the run in --output.
        overwrite: Replace the run in --output.
        logger: Where settings and metrics are logged, too, while the model is trained: tensorboard (in the
            folder of the run), wandb or mlflow.

    Examples:
      spml train photos/ --output runs/photos           a folder of images per class
      spml train labels.csv --mean_labels 2             a table of files and one known label each
      spml train features.npz --head ridge              features of your own, solved in seconds
    """
    from ..engine import Interrupted
    from ..engine.distributed import started_processes
    from ..runs.folder.layout import how_to_continue
    from ..runs.settle.resolve import run_folder
    from ..runs.train import complete_config, is_first, run_training

    settings = {**settings, "data": with_path(settings.get("data", {}), path)}
    if like:
        from ..runs.audits.repeat import repeat_decisions
        from ..runs.predict.batches import Engine
        from ..runs.settle.like import like_run

        settings = like_run(Path(like), settings)
    config = from_dict(settings)
    if config.devices == 1:
        config = replace(config, devices=started_processes())
    if print_config:
        print(to_yaml(complete_config(config, resume=resume)), end="")
        return
    # The command that makes the run, without what only says how it goes on; empty if it names no data.
    words = [word for word in TYPED.get() if word not in ("--resume", "--overwrite")]
    command = shlex.join(words) if config.data.path else ""
    try:
        run_training(
            config,
            resume=resume,
            overwrite=overwrite,
            cluster=cluster.find(),
            command=command,
            logger=logger,
        )
        if like and is_first(config):
            repeat_decisions(Path(like), run_folder(config), Engine(device=config.accelerator))
    except Interrupted as stop:
        raise Interrupted(
            f"{stop}; everything up to here is saved. Continue with the same command and --resume."
        ) from stop
    except KeyboardInterrupt as stop:
        raise Interrupted(f"interrupted; {how_to_continue(run_folder(config))}") from stop
