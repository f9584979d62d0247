"""The loop of training and people: train, label a sample in full, review missing labels, train again."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from .audit.folder import ABOUT
from .audit.hidden import NothingMissingError
from .audit.sheets import read_answers
from .common.documents import parse_json
from .common.errors import InputError
from .common.files import (
    check_folder,
    check_json_sha256,
    json_sha256,
    remove_leftovers,
    sha256_file,
    write_checked_json,
    write_json,
)
from .common.label_checks import rows_of
from .common.messages import log
from .common.safe import read_bytes
from .config import flat, from_dict
from .data.records import Records
from .data.writers import named_from, write
from .data.writers.samples import image_files
from .decisions.priors import FEWEST_AUDITED
from .labels import ObservedLabels
from .review.labelling import count_complete, write_page_labels
from .review.merged import reviewed
from .review.store import FILE as REVIEW
from .runs.audits.answers import audited_groups, audited_scores, read_audited
from .runs.audits.find import Limits, run_audit
from .runs.audits.out_of_fold import open_for_run
from .runs.audits.sample import sample_for_audit
from .runs.audits.use import use_audit
from .runs.evaluate import Measured, measure_runs
from .runs.folder import layout as run_files
from .runs.folder.contents import read_document
from .runs.folder.held_out import read_held_out
from .runs.predict.batches import Engine
from .runs.run import Run, load
from .runs.settle.like import like_run
from .runs.train import run_training
from .scores import InMemory, Scores

# -- the folder of a loop: what lies in it says how far the loop has come --------------------------------


BEGUN, SHEET = "loop.json", "sample.csv"
FORMAT = 1


class Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a loop was begun: the content of loop.json.

    Attributes:
        settings: Settings of the first training as they were stated, nested as in config.yaml.
        rows: Number of samples to label in full.
        top: Most labels that an audit lists; 0 = all.
        folds: As in `run_audit`.
        format: Version of this structure.
    """

    settings: dict[str, Any]
    rows: Annotated[int, msgspec.Meta(ge=1)] = 100
    top: Annotated[int, msgspec.Meta(ge=0)] = 1000
    folds: int | None = None
    format: int = FORMAT

    @property
    def digest(self) -> str:
        """Eight digits by which the files of the rounds name the loop."""
        return json_sha256(msgspec.to_builtins(self))[:8]


class Round(NamedTuple):
    """A round: a training, an audit with its review, and what was measured.

    Attributes:
        folder: Its folder.
    """

    folder: Path

    @property
    def run(self) -> Path:
        """Folder of the run."""
        return self.folder / "run"

    @property
    def audit(self) -> Path:
        """Folder of the audit, in which the review lies, too."""
        return self.folder / "audit"

    @property
    def data(self) -> Path:
        """File that names the loop, and from the second round on the data that is trained on. With it such a
        round begins."""
        return self.folder / "data.json"

    @property
    def compared(self) -> Path:
        """File with the comparison of this round with the first one."""
        return self.folder / "compared.json"

    def labels(self, features: bool) -> Path:
        """File of the data that is trained on, from the second round on."""
        return self.folder / ("labels.npz" if features else "labels.csv")

    @property
    def trained(self) -> bool:
        """Whether the training has finished, and written its report, which comes last."""
        return all((self.run / name).is_file() for name in (run_files.SUMMARY, run_files.REPORT))


def write_data(here: Round, begun: Begun, settings: Mapping[str, Any]) -> None:
    """Write what a round trains on: nothing in the first one, where loop.json says it."""
    labels = {"labels_sha256": sha256_file(Path(settings["path"]))} if settings else {}
    write_checked_json(here.data, {"loop": begun.digest, "settings": dict(settings), **labels})


def read_data(here: Round, begun: Begun) -> dict[str, Any]:
    """Settings of the data of a round; none where it names no data.

    Raises:
        InputError: A file is missing, damaged or of another loop.
    """
    if not here.data.is_file():  # of the first round before it, or of an earlier version
        return {}
    try:
        content: dict[str, Any] = parse_json(read_bytes(here.data))
        check_json_sha256(content)
        settings: dict[str, Any] = content.get("settings", content)
        if "loop" in content and content["loop"] != begun.digest:
            raise ValueError(f"it is of the loop {content['loop']}, but {BEGUN} is of {begun.digest}")
        digest = content.get("labels_sha256")
        if digest and sha256_file(here.folder / Path(settings["path"]).name) != digest:
            raise ValueError(f"{settings['path']} is not the file that it was written for")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{here.data}: can't be used ({error}). Restore the files of this loop.") from error
    return settings


def round_of(work: Path, number: int) -> Round:
    """A round of a loop by its number, from 1 on."""
    return Round(work / f"round-{number}")


def last_round(work: Path) -> int:
    """Number of the round that a loop has come to, at least 1."""
    number = 1
    while round_of(work, number + 1).data.is_file():
        number += 1
    return number


def begin(work: Path, stated: Begun) -> Begun:
    """Begin a loop in a folder, or read how it was begun there.

    Args:
        work: Folder of the loop, which exists.
        stated: What the command line states. Of a loop that has trained, nothing but what it was begun with.

    Raises:
        InputError: No data is named for a new loop, other settings are stated than it was begun with, or its
            file is damaged.
        SpmlError: The file could not be written.
    """
    path, given = work / BEGUN, flat(stated.settings)
    corrected = "data.path" in given and not run_files.holds_run(round_of(work, 1).run)
    if corrected or not path.is_file():
        if not given.get("data.path"):
            raise InputError(
                f"{work}: holds no loop to go on with. Name data: spml loop DATA --output {work}."
            )
        write_json(path, msgspec.to_builtins(stated))
        return stated
    try:
        begun = msgspec.convert(parse_json(read_bytes(path)), Begun)
        if begun.format != FORMAT:
            raise ValueError(f"format {begun.format} instead of {FORMAT}")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: can't be read ({error}). Restore it, or begin in another folder."
        ) from error
    before = flat(begun.settings)
    other = sorted(name for name, value in given.items() if before.get(name) != value)
    for name in ("rows", "top", "folds"):
        if getattr(stated, name) not in (getattr(Begun({}), name), getattr(begun, name)):
            other.append(name)
    if other:
        raise InputError(
            f"{work}: this loop was begun with another {', another '.join(other)}. Leave it out to go on, or "
            "begin in another folder (`output`)."
        )
    return begun


# -- the data of the next round --------------------------------------------------------------------------


def next_labels(last: Round, following: Round, run: Run, begun: Begun, without: Collection[str]) -> None:
    """Write the labels that the next round learns from, and then the file with which it begins.

    The split is that of the last training, so that what was held back stays so. Answers about samples that
    were labelled in full are left out: these only measure.

    Args:
        last: Round whose review is learned from.
        following: The next round.
        run: Run of the last round.
        begun: How the loop was begun.
        without: Names of the samples that were labelled in full.

    Raises:
        InputError: Nothing was reviewed, the data was changed, or its samples are neither image files nor
            features.
        SpmlError: The file could not be written.
    """
    records, notes = reviewed(last.audit, without=without)
    for note in notes:
        log.info(note)
    files = image_files(records)
    features = getattr(records.inputs, "kind", "") == "feature"
    if files is None and not features:
        raise InputError(
            f"{records.source}: a loop needs image files or features, which it can read again with other "
            "labels. Train, audit and review such data by the single commands."
        )
    data = open_for_run(run, run.settings.data)
    split = {name: part for part, samples in data.splits.items() for name in samples.ids}
    rows = np.asarray([row for row, name in enumerate(records.ids) if name in split], np.int64)
    kept = _take(records, rows, split)
    path = following.labels(features)
    settings = {"path": str(path)}
    if not features:
        root = image_root(records)
        kept, settings["images"] = named_from(kept, root), str(root)
    if kept.groups is not None:
        settings["group"] = "group"
    following.folder.mkdir(exist_ok=True)
    write(kept, path, "nan" if features else "csv", overwrite=True)
    write_data(following, begun, settings)


def _take(records: Records, rows: Any, split: dict[str, str]) -> Records:
    """The samples that the last run was given, in their order, with their split."""
    inputs: Any = records.inputs
    return replace(
        records,
        ids=tuple(records.ids[row] for row in rows.tolist()),
        inputs=[inputs[row] for row in rows.tolist()]
        if image_files(records) is not None
        else inputs.take(rows),
        labels=records.labels.take(rows),
        split=tuple(split[records.ids[row]] for row in rows.tolist()),
        groups=None if records.groups is None else tuple(records.groups[row] for row in rows.tolist()),
        objects=None,
        protocol=None,
    )


def image_root(records: Records) -> Path:
    """Folder that the names of image files are relative to.

    Raises:
        InputError: There is none, because the names are not those of the files.
    """
    files = image_files(records)
    assert files is not None
    path, name = files[0].absolute().as_posix(), records.ids[0]
    root = path.removesuffix(f"/{name}")
    if root == path:
        raise InputError(
            f"{records.source}: its samples are not named by their files ({name} is {path}), so a loop can't "
            "find them again. Train, audit and review such data by the single commands."
        )
    return Path(root)


# -- two rounds compared on the samples that were labelled in full ---------------------------------------


METRICS = {"mAP": "mAP", "macro_F1": "macro F1", "micro_F1": "micro F1"}
"""Metrics that are compared, with their titles."""

DRAWS, SEED = 1000, 0


class Change(NamedTuple):
    """A metric before and after, in [0, 1], with half the widths of 95 % intervals.

    Attributes:
        before, after: The metric of the two runs.
        before_margin, after_margin: Half the widths of their intervals.
        difference_margin: Half the width of the interval of the difference, on the same draws of samples.
    """

    before: float
    before_margin: float
    after: float
    after_margin: float
    difference_margin: float

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


def compare_rounds(sheet: Path, before: Run, after: Run, engine: Engine) -> dict[str, Change]:
    """Compare two runs by a paired bootstrap over fully labelled samples, or over their groups.

    Args:
        sheet: Table of the samples that were labelled in full.
        before, after: Runs that were not fitted to these samples, or have held-out scores of them, with the
            same classes.
        engine: Settings of prediction.

    Returns:
        Change of each metric of `METRICS` by name.

    Raises:
        InputError: The table does not suit, or a run has learned from one of its samples.
    """
    named: Mapping[str, Run] = {"before": before, "after": after}
    audited = read_audited(sheet, before)
    truth = ObservedLabels.from_multi_hot(audited.truth, unlisted="negative")

    def scores(run: Run) -> Scores:
        kept = read_held_out(run.folder, run.classes)
        return InMemory(audited_scores(run, read_audited(sheet, run), kept, engine)[0])

    measured = {
        name: Measured(partial(scores, run), run.decision(), rows_of(run.classes, before.classes).tolist())
        for name, run in named.items()
    }
    groups = audited_groups(audited, read_held_out(before.folder, before.classes))
    found = measure_runs(measured, truth, before.classes, "exclude", draws=DRAWS, seed=SEED, groups=groups)[
        "runs"
    ]
    changes = {}
    for metric in METRICS:
        first, last = (found[name]["intervals"][metric] for name in named)
        # The better one is 0 behind itself.
        margin = max(first["behind_margin"], last["behind_margin"])
        changes[metric] = Change(first["value"], first["margin"], last["value"], last["margin"], margin)
    return changes


# -- steps, up to the next one that only a person can make -----------------------------------------------


class Stop(NamedTuple):
    """Where a loop waits for a person.

    Attributes:
        lines: What was found, and what is to be done.
        commands: Commands to type next, in their order.
    """

    lines: list[str]
    commands: list[str]


def go_on(work: Path, stated: Begun) -> Stop:
    """Begin a loop in a folder, or go on with the one there, until a person must do something.

    1. Train. 2. Draw random samples, which a person labels in full. 3. Learn K, thresholds and probabilities
    from them, and compare with the first round. 4. Audit; a person reviews the list. 5. Train again with the
    answers and everything else as before, and so on from 3. Nothing but files says which step is next, so a
    loop that was killed goes on where it was.

    Args:
        work: Folder of the loop.
        stated: How it is begun.

    Raises:
        InputError: A setting, the data, the table of samples or a file of the loop does not suit, or another
            process is at work in the folder.
        SpmlError: A training failed, or a file could not be written.
    """
    check_folder(work)
    with run_files.only_writer_in(work):
        begun = begin(work, stated)
        for folder in filter(
            Path.is_dir, work.glob("round-*/*")
        ):  # what a killed process left where nothing is written again
            with run_files.only_writer_in(folder):
                remove_leftovers(folder)
        steps = _Steps(work, begun)
        while True:
            number = last_round(work)
            if (stop := steps.make(number)) is not None:
                return stop


class _Steps:
    """Steps of one round after the other."""

    def __init__(self, work: Path, begun: Begun) -> None:
        self._work, self._begun = work, begun
        self._sheet = self._labelled = work / SHEET
        settings = from_dict(begun.settings)
        self._engine = Engine(workers=settings.data.workers, device=settings.accelerator)
        self._again = f"spml loop --output {shlex.quote(str(work))}"

    def make(self, number: int) -> Stop | None:
        """Make what is left of a round; None once the next one has begun."""
        here = round_of(self._work, number)
        for each in range(1, number + 1):  # refuses files of another loop
            if round_of(self._work, each).trained:
                read_data(round_of(self._work, each), self._begun)
        if not here.trained:
            self._train(number)
        run = load(here.run)
        if (stop := self._sample(run)) is not None:
            return stop
        run = self._use(here, run)
        lines = self._compare(number, run)
        if not (here.audit / ABOUT).is_file():
            log.info(f"{here.audit}: looking for labels that are missing")
            limits, folds = Limits(top=self._begun.top), self._begun.folds
            try:
                run_audit(here.run, {}, output=here.audit, folds=folds, limits=limits, engine=self._engine)
            except NothingMissingError:
                k = run.thresholds.mean_labels.value
                return Stop(
                    [
                        *lines,
                        f"The samples labelled in full have {k:.3g} labels each, no more than are known: no "
                        "label is missing, so there is nothing to review.",
                        f"the model: {run.folder}",
                    ],
                    [],
                )
        if not (here.audit / REVIEW).is_file():
            return Stop(
                [*lines, "Review labels that are probably missing. As many answers as you like will do."],
                [f"spml review {shlex.quote(str(here.audit))}", self._again],
            )
        following = round_of(self._work, number + 1)
        in_full = read_answers(self._labelled, run.classes).ids
        next_labels(here, following, run, self._begun, set(in_full))
        return None

    def _train(self, number: int) -> None:
        here = round_of(self._work, number)
        settings = self._begun.settings
        if number > 1:
            data = read_data(here, self._begun)
            settings = like_run(round_of(self._work, number - 1).run, {"data": data})
        else:
            here.folder.mkdir(exist_ok=True)
            write_data(here, self._begun, {})
        settings = {**settings, "output": str(here.run)}
        log.info(f"round {number}: training")
        resume = run_files.holds_run(here.run)
        run_training(from_dict(settings), resume=resume)

    def _sample(self, run: Run) -> Stop | None:
        """Draw samples to label in full, once; a stop unless all are complete."""
        if not self._sheet.is_file():
            available = len(read_held_out(run.folder, run.classes).ids)
            rows = min(self._begun.rows, available)
            if rows < FEWEST_AUDITED:
                raise InputError(
                    f"{run.folder}: has held-out scores of {available} samples, but {FEWEST_AUDITED} or more "
                    "must be labelled in full to measure anything. Collect more data, or hold out more "
                    "(data.val_share)."
                )
            sample_for_audit({str(run.folder): run}, rows=rows).write(self._sheet)
        complete, rows = count_complete(self._sheet)
        if complete == rows:
            self._labelled = write_page_labels(self._sheet)[0]
            return None
        return Stop(
            [
                f"{self._sheet}: {complete} of {rows} samples are complete. Label them on a page, or write "
                "all labels of each into the table, with | between them, and then yes into its last column. "
                "To do fewer, delete the last rows of the table."
            ],
            [f"spml review {shlex.quote(str(self._sheet))}", self._again],
        )

    def _use(self, here: Round, run: Run) -> Run:
        """Learn from the samples that were labelled in full, unless the run already has; the run after it."""
        about, report = here.run / run_files.AUDITED, here.run / run_files.REPORT
        used_before = False
        with suppress(InputError, OSError):  # missing, damaged or of another run: it is written again
            digests = read_document(about)
            used_before = digests.get("file_sha256") == sha256_file(self._labelled) and digests.get(
                "thresholds_sha256"
            ) == sha256_file(here.run / run_files.THRESHOLDS)
        if used_before and report.stat().st_mtime_ns >= about.stat().st_mtime_ns:  # it is written after it
            return run
        used = use_audit(self._labelled, {str(here.run): run}, engine=self._engine)
        used.write({str(here.run): run}, self._engine)
        k = used.mean_labels
        log.info(f"K {k.value:.2f} labels per sample (95 % interval {k.low:.2f} to {k.high:.2f})")
        return load(here.run)

    def _compare(self, number: int, run: Run) -> list[str]:
        """What a later round has changed, and keep it in a file."""
        if number == 1:
            return []
        start = round_of(self._work, 1)
        first = self._use(start, load(start.run))
        changes = compare_rounds(self._labelled, first, run, self._engine)
        content = {
            name: {**change._asdict(), "difference": change.difference} for name, change in changes.items()
        }
        write_json(round_of(self._work, number).compared, content)
        rows = len(read_answers(self._labelled, run.classes).ids)
        return [
            f"round 1 -> round {number}, on {rows} samples labelled in full (95 % intervals, bootstrap):",
            *(describe_change(METRICS[name], change) for name, change in changes.items()),
            f"the model: {run.folder}",
        ]


def describe_change(title: str, change: Change) -> str:
    """One line for a metric before and after, in percent."""
    before, margin, after, after_margin, of_difference = (100 * value for value in change)
    return (
        f"  {title:<9} {before:5.1f} ±{margin:.1f} -> {after:5.1f} ±{after_margin:.1f}, difference "
        f"{after - before:+.1f} ±{of_difference:.1f}"
    )


__all__ = ["Begun", "Stop", "go_on"]
