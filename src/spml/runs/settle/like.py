"""Settings for training again like a finished run: all of them are carried along (`--like`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ... import models
from ...common.errors import InputError
from ...common.files import same_path
from ...common.messages import log
from ...config import Config, DataConfig, flat
from ...config.read import nested
from ...data import MEMORY, wanted_names
from ...data.readers.features import load_arrays
from ...data.tables.formats import SUFFIXES, open_table
from ..decide.policies import read_thresholds
from ..folder import layout as run_files
from ..folder.contents import load_model, read_summary

_HEAD = ("model.scores", "model.head_bias", "model.scaling", "optim.lr", "optim.head_lr_factor")
_BACKBONE = ("data.size", "model.frozen", "model.local", "model.scaling", "optim.lr", "optim.head_lr_factor")
_FOLLOWING = {
    "method": ("hp", "model.head", "init_from", "optim.name", *_HEAD),
    "model.head": ("init_from", *_HEAD),
    "model.backbone": ("model.weights", "init_from", *_BACKBONE),
    "model.weights": ("init_from", *_BACKBONE),
    "model.frozen": ("model.local", "model.scaling", "optim.lr", "optim.head_lr_factor"),
    "init_from": ("model.backbone", "model.weights", "model.head", *_HEAD),
}
"""Settings that were settled for the value of another one, and are settled again where that one changes."""

_CARRIED = (
    "same_content", "val_share", "test_share", "split_seed", "stratify", "size", "flip", "crop",
    "max_unreadable", "max_pixels", "draft", "decoder", "workers", "cache",
)  # fmt: skip
"""Settings of the data that are carried along to other data. All others say how that of the run is read."""


def like_run(folder: Path, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a finished run, with those that are stated in their place.

    K is the one that the thresholds of the run stand on, where somebody stated it or an audit gave it since.
    If a stated setting differs, those that the run had settled for it are open again: with another method its
    hyper-parameters, with another backbone its weights. If other data is stated, names of classes, groups and
    columns of texts are carried along as far as it has them, and nothing else of how that of the run is read;
    in data that the run was trained on, everything is.

    Args:
        folder: Folder of the run.
        stated: Settings that are stated, nested as in config.yaml.

    Returns:
        Settings, nested likewise, without a folder for the output unless one is stated.

    Raises:
        InputError: The folder holds no finished run, a file is damaged, or the run was trained on data in
            memory and no other is stated.
    """
    card = load_model(folder)[1]
    config = run_files.read_config(folder)
    carried, given = _flat(asdict(config)), _flat(stated)
    defaults = _flat(asdict(Config()))
    del carried["output"]
    if (path := folder / run_files.THRESHOLDS).is_file():
        k = read_thresholds(path, tuple(card["classes"]), str(card["weights_sha256"])).mean_labels
        if k.source in ("stated", "audit"):
            carried["mean_labels"] = k.value
    for name, following in _FOLLOWING.items():
        if name in given and given[name] != carried[name]:
            carried |= {each: defaults[each] for each in following}
            if name == "model.head" and given[name] in models.CLOSED_FORM:
                carried |= {each: defaults[each] for each in ("method", "hp", "optim.name")}
    data = str(given.get("data.path", ""))
    if data and not same_path(data, config.data.path):
        kept = {"data.path", *(f"data.{name}" for name in _CARRIED)}
        carried |= {
            name: value for name, value in defaults.items() if name.startswith("data.") and name not in kept
        }
        carried["data.rename"] = wanted_names(config.data) or ""
        carried |= _columns_of(folder, config.data, Path(data), given)
    elif config.data.path == MEMORY:
        raise InputError(
            f"{folder}: was trained on data in memory, so `like` can't read it again. Name data: spml train "
            f"DATA --like {folder}."
        )
    sizes = read_summary(folder).get("sizes")
    if sizes and carried["data.size"] == "auto" and given.keys().isdisjoint(_FOLLOWING):
        carried["data.size"] = ",".join(sizes["weights"])  # those that were chosen
    if "hp" in given:  # one at a time, as for --config
        given["hp"] = {**carried["hp"], **given["hp"]}
    return nested({**carried, **given})


def _columns_of(folder: Path, data: DataConfig, path: Path, given: Mapping[str, Any]) -> dict[str, str]:
    """Columns of groups and texts in other data: as in the run, or `group` and `text`, as in an export."""
    columns: Collection[str] = ()
    if path.suffix.lower() in SUFFIXES and path.is_file():
        columns = open_table(path).names
    elif path.suffix.lower() == ".npz" and path.is_file():
        columns = load_arrays(path, (data.group, "group"))[0] if data.group else ()
    found = {}
    for name, lost in (
        ("group", "splits and folds may separate samples that belong together"),
        ("text", "images are read instead of texts"),
    ):
        wanted = getattr(data, name)
        if not wanted or f"data.{name}" in given:
            continue
        if {*wanted.split(",")} <= {*columns}:
            found[f"data.{name}"] = wanted
        elif name in columns:
            found[f"data.{name}"] = name
        else:
            log.info(f"note: {path} has no column {wanted!r} as the data of {folder} has, so {lost}.")
    return found


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names with dots; the hyper-parameters are one of them."""
    named = flat({name: value for name, value in settings.items() if name != "hp"})
    return {**named, "hp": dict(settings["hp"])} if "hp" in settings else named
