"""Decide for a run as was decided for the run that it was trained like (`--like`): by its audit, for its
target."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from ...common.errors import InputError
from ...common.files import sha256_file
from ...common.locks import only_writer
from ...common.messages import log
from ...common.phrases import shorten
from ...decisions import Policy, Target
from ..decide.policies import decide_thresholds, evidence_from_policy, evidence_from_shares, write_thresholds
from ..folder import layout as run_files
from ..folder.contents import read_document
from ..folder.held_out import HeldOut, read_held_out
from ..headline import headline, scored_in_turn
from ..predict.batches import Engine
from ..report.page import renew_report
from ..run import Run, load
from .answers import audited_scores, read_audited
from .use import use_audit


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
            evidence, earlier = evidence_from_shares(held_out, k.value, "audit"), evidence_from_policy(policy)
            evidence = evidence._replace(interval=earlier.interval, audited=earlier.audited)
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
