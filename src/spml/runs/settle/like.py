"""Settings for training again like a finished run: all of them are carried along (`--like`)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ... import models
from ...common.errors import InputError
from ...common.files import same_path, sha256_file
from ...common.locks import only_writer
from ...common.messages import log
from ...common.phrases import shorten
from ...config import Config, DataConfig, flat
from ...data import MEMORY, wanted_names
from ...data.readers.features import load_arrays
from ...data.tables.formats import SUFFIXES, open_table
from ...decisions import Interval, Policy, Target
from ...short_names import nested
from ..api import load
from ..audits.answers import audited_scores, read_audited
from ..audits.use import use_audit
from ..decide.policies import (
    decide_thresholds,
    evidence_from_policy,
    evidence_from_shares,
    read_thresholds,
    write_thresholds,
)
from ..folder import layout as run_files
from ..folder.contents import load_model, read_document
from ..folder.held_out import HeldOut, read_held_out
from ..headline import headline, scored_in_turn
from ..predict.batches import Engine
from ..report.page import renew_report
from ..run import Run

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
    with suppress(InputError):  # thresholds are missing or damaged
        k = read_thresholds(
            folder / run_files.THRESHOLDS, tuple(card["classes"]), str(card["weights_sha256"])
        ).mean_labels
        if k.source in ("stated", "audit"):
            carried["mean_labels"] = k.value
    for name, following in _FOLLOWING.items():
        if name in given and given[name] != carried[name]:
            carried |= {each: defaults[each] for each in following}
            if name == "model.head" and given[name] in models.CLOSED_FORM:
                carried |= {each: defaults[each] for each in ("method", "hp", "optim.name")}
    path = str(given.get("data.path", ""))
    if path and not same_path(path, config.data.path):
        kept = {"data.path", *(f"data.{name}" for name in _CARRIED)}
        carried |= {
            name: value for name, value in defaults.items() if name.startswith("data.") and name not in kept
        }
        carried["data.rename"] = wanted_names(config.data) or ""
        carried |= _columns_of(folder, config.data, Path(path), given)
    elif config.data.path == MEMORY:
        raise InputError(
            f"{folder}: was trained on data in memory, so `like` can't read it again. Name data: spml train "
            f"DATA --like {folder}."
        )
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


def repeat_decisions(like: Path, folder: Path, engine: Engine) -> None:
    """Decide the thresholds of a new run by the audit and for the target of the run that it was trained like.

    What can't be repeated is said, with what happens instead; so is whether the two held-out scores compare.

    Args:
        like: Folder of the earlier run.
        folder: Folder of the new one, which has finished.
        engine: Settings of prediction, for audited samples of which the new run has no held-out scores.

    Raises:
        SpmlError: A file could not be written.
    """
    before, run = load(like), load(folder)
    held_out = read_held_out(folder, run.classes)
    if differs := {*before.classes} ^ {*run.classes}:
        log.info(f"note: only one of {like} and {folder} has the classes {shorten(sorted(differs))}.")
    log.info(_compared(before, run, held_out))
    try:
        policy = before.thresholds
    except InputError as error:
        log.info(f"note: {error} So thresholds aim at the best F1 of each class.")
        return
    k, evidence = policy.mean_labels, evidence_from_policy(run.thresholds)
    if k.source == "audit" and run.config is not None and run.config.mean_labels == k.value:
        try:
            sheet, images = _table(before)
            # Refused before the target is tried, which has other reasons to fail.
            audited_scores(run, read_audited(sheet, run, images), held_out, engine)
            used = _reached(
                policy.target,
                lambda target: use_audit(
                    sheet, {str(folder): run}, images=images, target=target, engine=engine
                ),
            )
            used.write({str(folder): run}, engine)
            _say(like, policy, used.thresholds[str(folder)])
            return
        except InputError as error:
            log.info(
                f"note: the audit of {like} can't be repeated ({str(error).rstrip('.')}). Its K stays; the "
                "shares of the classes follow from known labels."
            )
            evidence = evidence_from_shares(held_out, k.value, "audit")
            interval = None if k.low is None or k.high is None else Interval(k.value, k.low, k.high)
            evidence = evidence._replace(interval=interval, audited=policy.rows.audited)
    new = _reached(
        policy.target,
        lambda target: decide_thresholds(
            run.weights_sha256, run.scale, run.classes, held_out, evidence, target
        ),
    )
    with only_writer(folder, inside=True):
        write_thresholds(folder, new, held_out)
        renew_report(run, engine)
    _say(like, policy, new)


_T = TypeVar("_T")


def _reached(target: Target, decide: Callable[[Target], _T]) -> _T:
    """Decision for a target; for the best F1 of each class where that is not reached."""
    try:
        return decide(target)
    except InputError as error:
        log.info(f"note: {error} So thresholds aim at the best F1 of each class.")
        return decide(Target())


def _say(like: Path, before: Policy, policy: Policy) -> None:
    k, earlier = policy.mean_labels, before.mean_labels
    source = {"audit": f" from {policy.rows.audited} audited samples", "stated": " as stated"}
    known = f"K = {k.value:.3g}{source.get(k.source, '')}, " if k.known else ""
    if k.source == earlier.source == "audit" and f"{k.value:.3g}" != f"{earlier.value:.3g}":
        known = f"{known.rstrip(', ')} ({earlier.value:.3g} with the known labels of then), "
    log.info(f"as in {like}: {known}thresholds for {policy.target.describe()}")


def _table(before: Run) -> tuple[Path, str]:
    """Table of the samples that were labelled in full for an earlier run, and the folder of their images.

    Raises:
        InputError: It is gone, or it was changed.
    """
    path, data = before.folder / run_files.AUDITED, before.settings.data
    try:
        content = read_document(path)
        digest = content.get("file_sha256", content.get("sha256"))  # as earlier versions name it
        told = msgspec.convert({"file": content.get("file"), "sha256": digest}, _Told)
    except ValueError as error:
        raise InputError(f"{path}: does not say which table it was ({error}).") from error
    places = Path(told.file), path.parent / Path(told.file).name
    sheet = next((place for place in places if place.is_file()), None)
    if sheet is None or sha256_file(sheet) != told.sha256:
        raise InputError(f"{told.file}: {'was changed since' if sheet else 'no such file'}.")
    root = Path(data.images or data.path)
    return sheet, str(root if root.is_dir() else root.parent)


class _Told(msgspec.Struct):
    """The parts of audited.json that say which table it was."""

    file: str
    sha256: str


def _compared(before: Run, run: Run, held_out: HeldOut) -> str:
    """The held-out score of an earlier run, and whether it compares with that of a new one."""
    text = f"{before.folder}: {headline(before.summary).describe()}"
    try:
        earlier = read_held_out(before.folder)
    except InputError as error:
        return f"{text}. note: {error}"
    turns = [
        scored_in_turn(each.summary, len(kept.ids)) for each, kept in ((before, earlier), (run, held_out))
    ]
    reasons = []
    if {*earlier.ids} != {*held_out.ids}:
        reasons.append("other samples are held out, or they have other names")
    elif earlier.labels.positives_per_class().tolist() != held_out.labels.positives_per_class().tolist():
        reasons.append("other labels of the held-out samples are known")
    if turns[0] != turns[1]:
        reasons.append("each sample was held back in turn in one of them, and a fixed part in the other")
    if not reasons:
        return f"{text}, of the same samples with as many known labels: the two scores can be compared."
    return (
        f"{text}. It can't be compared with that of {run.folder}: {' and '.join(reasons)}. `spml evaluate "
        f"{shlex.join(map(str, (before.folder, run.folder)))} DATA` measures both on the same samples."
    )


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names with dots; the hyper-parameters are one of them."""
    named = flat({name: value for name, value in settings.items() if name != "hp"})
    return {**named, "hp": dict(settings["hp"])} if "hp" in settings else named
