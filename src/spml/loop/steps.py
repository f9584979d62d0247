"""The steps of a loop, up to the next one that only a person can make."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..audit.folder import ABOUT
from ..audit.hidden import NothingMissingError
from ..audit.sheets import read_answers
from ..common.errors import InputError
from ..common.files import check_folder, remove_leftovers, sha256_file, write_json
from ..common.messages import log
from ..config import from_dict
from ..decisions.priors import FEWEST_AUDITED
from ..review.labelling import count_complete, write_page_labels
from ..review.store import FILE as REVIEW
from ..runs.audits.find import Limits, run_audit
from ..runs.audits.sample import sample_for_audit
from ..runs.audits.use import use_audit
from ..runs.folder import layout as run_files
from ..runs.folder.contents import read_document
from ..runs.folder.held_out import read_held_out
from ..runs.predict.batches import Engine
from ..runs.run import Run, load
from ..runs.settle.like import like_run
from ..runs.train import run_training
from .compare import METRICS, Change, compare_rounds
from .folder import SHEET, Begun, Round, begin, last_round, read_data, round_of, write_data
from .labels import next_labels


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
