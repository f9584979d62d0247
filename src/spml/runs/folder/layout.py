"""The folder of a run: its files, and when it may be written to."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...common.documents import load_json, read_yaml_text
from ...common.errors import InputError
from ...common.files import check_folder, make_folder, remove_leftovers, sha256_file, write_text
from ...common.locks import check_no_writer, only_writer
from ...config import Config, differences, flat, read_yaml, to_yaml
from ...data import read_names, wanted_names, write_names
from ...engine.checkpoint import CURRENT, NEW, PREVIOUS, check_run, has_checkpoint
from ...models.classifier import CARD

# -- the identity of a run, which its files state --------------------------------------------------------
#
# It follows from what decides the results: eight digits for the settings, eight for the data and the weights
# that training starts from. Equal runs have the same one, in whatever folder they lie. It is written to
# config.yaml when the folder is made, every other file takes it from there, and a resumed run keeps it. Files
# of earlier versions state none.


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


# -- files of the folder ---------------------------------------------------------------------------------


NAMES = "names.csv"
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"
CURVES = "curves.png"
EXAMPLES = "examples.png"
SKIPPED = "skipped.csv"
MODEL = ("model.safetensors", "model.json")
OBJECTIVE = "objective.safetensors"
HELD_OUT = "held_out.safetensors"
AUDITED = "audited.json"
THRESHOLDS, THRESHOLDS_PICTURE = "thresholds.json", "thresholds.png"
FEATURES = "features"
REPORT = "report.html"
EVALUATION = "evaluation.json"
LOGS, EVENTS, EVENT_FILES, MLFLOW = "logs.json", "tensorboard", "events.out.tfevents.*", "mlflow.db"
SCORES, SCORED_SAMPLES, SCORED_EPOCHS = "scores", "samples.safetensors", "epoch-*.safetensors"
_FILES = (
    CONFIG, NAMES, METRICS, SUMMARY, CURVES, EXAMPLES, SKIPPED, *MODEL, OBJECTIVE, HELD_OUT, AUDITED,
    THRESHOLDS, THRESHOLDS_PICTURE, REPORT, EVALUATION, LOGS, CURRENT, NEW, PREVIOUS,
)  # fmt: skip


def holds_run(folder: Path) -> bool:
    """Whether a run was started in this folder."""
    return (folder / CONFIG).exists() or has_checkpoint(folder)


def how_to_continue(folder: Path) -> str:
    """Say what an interrupted run left in its folder, and how to go on."""
    if has_checkpoint(folder):
        return f"the last checkpoint is in {folder}. Continue with the same command and --resume."
    if holds_run(folder):
        return f"{folder} holds no checkpoint yet. Start again with the same command and --overwrite."
    return "nothing was written."


def features_of_neighbours(folder: Path) -> list[Path]:
    """Caches of features in the folders of runs next to the one whose cache is `folder`."""
    if folder.name != FEATURES:
        return []
    found = folder.absolute().parent.parent.glob(f"*/{FEATURES}")
    return [path for path in sorted(found) if path != folder.absolute() and holds_run(path.parent)]


def check_free(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that a run may be written to a folder.

    Raises:
        InputError: Another process writes to the folder; or it holds a run and neither `resume` nor
            `overwrite` is set, or it holds no run to resume, or it is a file.
    """
    check_folder(folder)
    check_no_writer(folder, inside=True)
    _check_content(folder, resume=resume, overwrite=overwrite)


def _check_content(folder: Path, *, resume: bool, overwrite: bool) -> None:
    if resume and not holds_run(folder):
        raise InputError(f"{folder}: holds no run to resume. Start one without `resume`.")
    if holds_run(folder) and not resume and not overwrite:
        raise InputError(
            f"{folder}: already holds a run. Continue it (`resume`), replace it (`overwrite`), or name "
            "another folder (`output`)."
        )


@contextmanager
def only_trainer(folder: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Keep other processes from writing to the folder of a run, as `only_writer_in` does.

    Args:
        folder: Folder of the run.
        resume, overwrite: As in `check_free`, whose conditions are checked again: another process may have
            been faster.

    Raises:
        InputError: As `check_free`, or the folder can't be made.
    """
    with only_writer_in(folder):
        _check_content(folder, resume=resume, overwrite=overwrite)
        yield


@contextmanager
def only_writer_in(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder, which is made, and removed again if it stays empty.

    Raises:
        InputError: Another process writes to the folder, or it can't be made.
    """
    new = [path for path in (folder.absolute(), *folder.absolute().parents) if not path.exists()]
    make_folder(folder)
    try:
        with only_writer(folder, inside=True):
            yield
    finally:
        for path in new:
            with suppress(OSError):  # is not empty
                path.rmdir()


def clear(folder: Path) -> None:
    """Make the folder, and remove the files of an earlier run from it; other files stay.

    Raises:
        InputError: The folder can't be made.
    """
    make_folder(folder)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    remove_leftovers(folder)
    scores, events = folder / SCORES, folder / EVENTS
    for path in (scores / SCORED_SAMPLES, *scores.glob(SCORED_EPOCHS), *events.glob(EVENT_FILES)):
        path.unlink(missing_ok=True)
    for inner in (scores, events):
        if inner.is_dir():  # files that `spml` did not write stay, and the folder with them
            remove_leftovers(inner)
            with suppress(OSError):
                inner.rmdir()


_NAMES_SHA256 = f"# SHA-256 of {NAMES}: "
_CONFIG_SHA256 = "# SHA-256 of the lines above (remove this line to keep a change of your own): "


def write_config(folder: Path, config: Config, identity: str | None = None) -> None:
    """Write the settings of a run and `data.rename`, with checksums and the identity of the run in comments.

    Without an `identity`, the run keeps the one that it has.

    Raises:
        SpmlError: A file could not be written.
    """
    identity = identity_in(folder) if identity is None else identity
    about = f"{IDENTITY}{identity}\n" if identity else ""  # a run of an earlier version has none
    if names := wanted_names(config.data):
        write_names(folder / NAMES, names)
        config = replace(config, data=replace(config.data, rename=str(folder / NAMES)))
        about += f"{_NAMES_SHA256}{sha256_file(folder / NAMES)}\n"
    text = to_yaml(config) + about
    write_text(folder / CONFIG, f"{text}{_CONFIG_SHA256}{_sha256(text)}\n")


def read_config(folder: Path) -> Config:
    """Read the settings of a run, from whatever folder it is used. Its own folder may have been moved since.

    Raises:
        InputError: A file is missing, is no configuration, or does not have the SHA-256 that it states.
    """
    path = folder / CONFIG
    stated = re.search(f"^{re.escape(_CONFIG_SHA256)}([0-9a-f]{{64}})$", text := read_yaml_text(path), re.M)
    if stated and stated[1] != _sha256(text[: stated.start()]):
        raise InputError(
            f"{path}: damaged: its settings do not have the SHA-256 that its last line states. Restore it, "
            "or remove that line to keep a change of your own."
        )
    config = read_yaml(path)
    data = config.data
    of_names = re.search(f"^{re.escape(_NAMES_SHA256)}([0-9a-f]{{64}})$", text, re.M)
    if data.rename and of_names and of_names[1] != sha256_file(folder / NAMES):
        raise InputError(
            f"{folder / NAMES}: damaged, or of another run: it does not have the SHA-256 that {CONFIG} "
            "states. Restore it."
        )
    # Relative paths belong to the folder in which the training ran, which follows from that of its output.
    depth = len(Path(config.output or "runs/x").parts)
    started = Path(*folder.resolve().parts[:-depth])
    found: dict[str, Any] = {
        key: str(started / value)
        for key in ("path", "images", "classes")
        if (value := getattr(data, key)) and not os.path.exists(value) and os.path.exists(started / value)
    }
    rename = read_names(folder / NAMES) if data.rename else data.rename
    return replace(config, data=replace(data, **found, rename=rename))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    """Write one JSON object per line, whole or not at all."""
    write_text(path, "".join(json.dumps(record, allow_nan=False) + "\n" for record in records))
