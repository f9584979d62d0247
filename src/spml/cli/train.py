"""The command `spml train`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..config import Config, from_dict
from ..errors import InputError

_SHORT_OPTIONS = {"--head": "--model.head", "--init-from": "--init_from"}


def add_train_command(commands: Any) -> None:
    """Add `train` to the commands of `spml`."""
    parser = ArgumentParser(description="Train a model on one known label per sample.")
    parser.add_argument(
        "path", nargs="?", default="", help="folder with one sub-folder per class, CSV, .npz, or `digits`"
    )
    parser.add_argument(
        "--config", action="config", help="YAML file with settings, such as config.yaml of a run"
    )
    parser.add_class_arguments(Config, as_group=False)
    parser.add_argument("--resume", action="store_true", help="continue the run in --output")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --output")
    commands.add_subcommand("train", parser, help="train a model")


def expand_short_options(arguments: Sequence[str]) -> list[str]:
    """Replace short options by the names of the settings: the parser knows one name for each."""
    parts = [argument.partition("=") for argument in arguments]
    return [_SHORT_OPTIONS.get(name, name) + equals + value for name, equals, value in parts]


def run_train(arguments: Namespace) -> None:
    """Train a model.

    Raises:
        InputError: Settings, data or folder do not suit.
        SpmlError: Training failed or was interrupted.
    """
    from ..engine import Interrupted
    from ..runs.train import run_training

    settings = arguments.as_dict()
    resume, overwrite = settings.pop("resume"), settings.pop("overwrite")
    settings.pop("config", None)
    path = settings.pop("path")
    if path and settings["data"]["path"] not in ("", path):
        raise InputError(f"the data is named twice: {path} and --data.path {settings['data']['path']}")
    settings["data"]["path"] = path or settings["data"]["path"]
    try:
        run_training(from_dict(settings), resume=resume, overwrite=overwrite)
    except Interrupted as stop:
        raise Interrupted(
            f"{stop}; everything up to here is saved. Continue with the same command and --resume."
        ) from stop
