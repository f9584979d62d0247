"""The command `spml train`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..config import Config, from_dict, to_yaml
from ..short_names import SHORT_NAMES
from .common_options import CommonOption, add_aliases, add_two_helps
from .evaluate import add_cluster_arguments

_ALIASES = {
    **{f"--{setting}": f"--{name}" for name, setting in SHORT_NAMES.items()},
    "--init_from": "--init-from",
}

_COMMON = (
    CommonOption("--method"),
    CommonOption(
        "--head",
        "what is trained or solved on the features: `linear`, `mlp`, ..., or in seconds `ridge` or `lda`",
    ),
    CommonOption(
        "--backbone", "any timm model, `torchvision/NAME`, `hf/FOLDER`, or `module:callable` of your own"
    ),
    CommonOption("--weights", "`pretrained`, `random`, or a .safetensors file"),
    CommonOption("--frozen"),
    CommonOption("--epochs"),
    CommonOption("--lr"),
    CommonOption("--mean_labels"),
    CommonOption("--data.unlisted"),
    CommonOption("--init-from", "folder of a finished run whose model to start from"),
    CommonOption("--output"),
    CommonOption("--config"),
    CommonOption("--print_config"),
    CommonOption("--resume"),
    CommonOption("--overwrite"),
)

_EXAMPLES = """examples:
  spml train photos/ --output runs/photos           a folder of images per class
  spml train labels.csv --mean_labels 2             a table of files and one known label each
  spml train features.npz --head ridge              features of your own, solved in seconds

`spml train --help-all` lists all options, those of data, model and optimiser."""


def add_train_command(commands: Any) -> None:
    """Add `train` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Train a model on one known label per sample.",
        usage="spml train [options] [path]",
        add_help=False,
        print_config=None,
    )
    add_two_helps(parser, _COMMON, _EXAMPLES)
    parser.add_argument(
        "path", nargs="?", default="", help="folder with one sub-folder per class, CSV, .npz, or `digits`"
    )
    parser.add_argument(
        "--config", action="config", help="YAML file with settings, such as config.yaml of a run"
    )
    parser.add_argument(
        "--print_config",
        action="store_true",
        help="print what would run, with every default settled, as YAML for --config; train nothing",
    )
    parser.add_class_arguments(Config, as_group=False)
    parser.add_argument("--resume", action="store_true", help="continue the run in --output")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --output")
    add_cluster_arguments(parser, "features of a frozen backbone are computed")
    add_aliases(parser, _ALIASES)
    commands.add_subcommand("train", parser, help="train a model")


def run_train(arguments: Namespace) -> None:
    """Train a model.

    Raises:
        InputError: Settings, data or folder do not suit.
        SpmlError: Training failed or was interrupted.
    """
    from ..engine import Interrupted
    from ..engine.distributed import started_processes
    from ..runs.compute.cluster.connection import check_engine
    from ..runs.folder.layout import how_to_continue
    from ..runs.settle.resolve import run_folder
    from ..runs.train import complete_config, run_training

    settings = arguments.as_dict()
    resume, overwrite = settings.pop("resume"), settings.pop("overwrite")
    print_config = settings.pop("print_config")
    cluster = check_engine(settings.pop("engine"), settings.pop("address"))
    settings.pop("config", None)
    path = settings.pop("path")
    if path and settings["data"]["path"] not in ("", path):
        raise InputError(f"the data is named twice: {path} and --data.path {settings['data']['path']}")
    settings["data"]["path"] = path or settings["data"]["path"]
    config = from_dict(settings)
    if config.devices == 1:
        config = replace(config, devices=started_processes())
    if print_config:
        print(to_yaml(complete_config(config, resume=resume)), end="")
        return
    try:
        run_training(config, resume=resume, overwrite=overwrite, cluster=cluster)
    except Interrupted as stop:
        raise Interrupted(
            f"{stop}; everything up to here is saved. Continue with the same command and --resume."
        ) from stop
    except KeyboardInterrupt as stop:
        raise Interrupted(f"interrupted; {how_to_continue(run_folder(config))}") from stop
