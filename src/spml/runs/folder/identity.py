"""The identity of a run, which its files state, so that a file of another run in its folder is noticed.

It follows from what decides the results: eight digits for the settings, eight for the data and the weights
that training starts from. Equal runs have the same one, in whatever folder they lie. It is written to
config.yaml when the folder is made, every other file takes it from there, and a resumed run keeps it. Files
of earlier versions state none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...common.documents import load_json, read_yaml_text
from ...common.errors import InputError
from ...config import Config, differences, flat
from ...data import wanted_names
from ...engine.checkpoint import check_run
from ...models.classifier import CARD

CONFIG = "config.yaml"
IDENTITY = "# Run, which the other files name too (keep this line): "
"""Comment in config.yaml that states an identity."""

_OTHER = {
    "output", "threads", "accelerator", "init_from", "checkpoint_steps", "minutes",
    *(f"data.{name}" for name in ("path", "images", "classes", "cache", "workers")),
}  # fmt: skip
"""Settings that say where files are, or how a machine computes what it computes."""


def identity_of(config: Config, fingerprint: str, classes: Sequence[str], weights: str = "") -> str:
    """Identity of a run.

    Args:
        config: Complete settings.
        fingerprint: Fingerprint of the data.
        classes: Names of the classes.
        weights: Digest of the weights that the settings do not name.
    """
    config = replace(config, data=replace(config.data, rename=wanted_names(config.data)))
    values = flat(asdict(config))
    settings = {name: values[name] for name in differences(config, Config()) if name not in _OTHER}
    return f"{_digits(settings)}-{_digits([fingerprint, *classes, weights])}"


def identity_in(folder: Path) -> str:
    """Identity that config.yaml in a folder states, or model.json where it is missing; empty if none does."""
    return _stated(folder)[0]


def check_identity(path: Path, stated: object, folder: Path | None = None) -> None:
    """Check that a file is of the run in whose folder it lies.

    Args:
        path: The file.
        stated: Identity that it states; empty if it states none.
        folder: Folder of the run; None = that of the file.

    Raises:
        OtherRun: It is of another run; the message names both.
    """
    expected, source = _stated(folder or path.parent)
    if source is not None:
        check_run(path, stated, expected, source)


def continued(folder: Path, identity: str) -> str:
    """Identity of a run that is resumed, which has this one by its settings and data of now.

    Raises:
        InputError: Its settings were changed in config.yaml.
    """
    before = identity_in(folder)
    if before and before.split("-")[0] != identity.split("-")[0]:
        raise InputError(
            f"{folder / CONFIG}: can't be resumed with other settings: they were changed since the run was "
            f"started (those of run {before} then, of run {identity} now). Restore them, or start again with "
            "`overwrite`."
        )
    return before


def _stated(folder: Path) -> tuple[str, Path | None]:
    """Identity that a folder states, and the file that does; None where there is none."""
    path = folder / CONFIG
    if path.is_file():
        found = re.search(rf"^{re.escape(IDENTITY)}(.*)$", read_yaml_text(path), re.M)
        return found[1] if found else "", path
    path = folder / CARD
    if path.is_file():
        return str(load_json(path, dict[str, Any], advice="Train again.").get("run", "")), path
    return "", None


def _digits(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
