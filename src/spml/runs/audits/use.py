"""Learn K, class priors, thresholds, probabilities and the better run from fully labelled samples."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...audit.selection import Selection, select_by_audit
from ...common.files import sha256_file, write_checked_json
from ...common.label_checks import rows_of
from ...common.locks import only_writer
from ...decisions import Interval, Policy, Priors, Target, priors_from_shares
from ...version import __version__
from ..decide.policies import decide_thresholds, evidence_from_audit, write_thresholds
from ..evaluate import check_classes
from ..folder import layout as run_files
from ..folder.held_out import HeldOut, read_held_out
from ..headline import scored_in_turn
from ..predict.batches import Engine
from ..report.page import renew_report
from ..run import Run
from ..settle.conflicts import check_labels_known
from .answers import audited_groups, audited_scores, read_audited
from .sample import read_common_scores

FORMAT = 1


class MovedClass(NamedTuple):
    """Class whose share of the samples an audit estimates otherwise than the known labels do.

    Attributes:
        name: Name of the class.
        by_known: Share of samples that have it if the known label of each is a uniform draw among its labels:
            K times its share of the known labels, at most .95.
        by_audit: Share by known labels and audit together.
    """

    name: str
    by_known: float
    by_audit: float


class UsedAudit(NamedTuple):
    """Result of learning from fully labelled samples.

    Attributes:
        file: Table of the labels.
        samples: Number of fully labelled samples.
        mean_labels: Mean labels per sample K, with its 95 % interval.
        gamma: Exponent of the class priors; 1 where the known labels are a uniform draw.
        looks_biased: Whether frequent classes seem to have been preferred as known labels.
        moved: All classes with a known label, the one whose share moved most first.
        thresholds: Thresholds of each run by name.
        held_out: Scores that they were decided on.
        selection: Comparison of the runs; None if there is only one.
        contradicted: Number of known labels that the table does not have.
    """

    file: Path
    samples: int
    mean_labels: Interval
    gamma: float
    looks_biased: bool
    moved: tuple[MovedClass, ...]
    thresholds: dict[str, Policy]
    held_out: dict[str, HeldOut]
    selection: Selection | None
    contradicted: int

    @property
    def preferred(self) -> tuple[MovedClass, ...]:
        """Classes that are known more often than they are there, the most preferred first."""
        return tuple(moved for moved in self.moved if moved.by_known > moved.by_audit)

    def describe(self) -> dict[str, Any]:
        """Everything but the thresholds, which have a file of their own, for JSON."""
        selection = None
        if self.selection is not None:
            selection = {
                "by_SP": self.selection.by_observed,
                "by_audit": self.selection.by_audit,
                "by_both": self.selection.best,
                "lead": _finite(self.selection.lead),
                "runs": {
                    name: {
                        "SP": contender.observed.sp,
                        "SP_z": _finite(contender.observed.z),
                        "mAP": contender.audited.value,
                        "mAP_interval": [contender.audited.low, contender.audited.high],
                        "mAP_z": _finite(contender.z_audited),
                        "z": _finite(contender.z),
                    }
                    for name, contender in self.selection.contenders.items()
                },
                "warnings": list(self.selection.warnings),
            }
        return {
            "format": FORMAT,
            "spml": __version__,
            "file": str(self.file),
            "file_sha256": sha256_file(self.file),
            "samples": self.samples,
            "mean_labels": self.mean_labels._asdict(),
            "gamma": self.gamma,
            "looks_biased": self.looks_biased,
            "classes": [moved._asdict() for moved in self.moved],
            "contradicted": self.contradicted,
            "selection": selection,
        }

    def write(self, runs: Mapping[str, Run], engine: Engine = Engine()) -> None:  # noqa: B008 (immutable)
        """Write thresholds and what the audit told to the folder of each run, and its report again.

        Args:
            runs: The runs by name.
            engine: Settings of prediction, for the photos of the report.

        Raises:
            InputError: Another process writes to the folder of a run; nothing was written.
            SpmlError: A file could not be written.
        """
        told = self.describe()
        with ExitStack() as stack:
            for run in runs.values():
                stack.enter_context(only_writer(run.folder, inside=True))
            for name, run in runs.items():
                write_thresholds(run.folder, self.thresholds[name], self.held_out[name])
                digest = sha256_file(run.folder / run_files.THRESHOLDS)
                about = {**told, "run": run.identity, "thresholds_sha256": digest}
                write_checked_json(run.folder / run_files.AUDITED, about)
                renew_report(run, engine)


def use_audit(
    sheet: str | Path,
    runs: Mapping[str, Run],
    *,
    images: str | None = None,
    target: Target | None = None,
    draws: int = 200,
    seed: int = 0,
    engine: Engine | None = None,
) -> UsedAudit:
    """Learn from randomly chosen samples all labels of which are known; nothing is written.

    Args:
        sheet: Table that `spml audit sample` wrote and people filled in, or fully labelled data, as in
            `read_audited`.
        runs: Runs by name, with the same classes; at least one.
        images: Folder that names of files are relative to; None = the folder of `sheet`.
        target: What thresholds aim at; None = what those of each run aimed at.
        draws: Number of bootstrap draws of the comparison of runs.
        seed: Seed of these draws.
        engine: Settings of prediction, for samples that a run has no held-out scores of.

    Raises:
        InputError: The table is not complete; a run has learned from one of its samples and has no held-out
            score of it; the runs have different classes; or a target is not reached.
    """
    path, engine = Path(sheet), engine or Engine()
    check_classes(runs)
    for run in runs.values():
        check_labels_known(run.folder, run.config, "nothing can be estimated")
    held_out = {name: read_held_out(run.folder, run.classes) for name, run in runs.items()}
    audited = {name: read_audited(path, run, images) for name, run in runs.items()}
    scores, rows, thresholds = {}, {}, {}
    for name, run in runs.items():
        scores[name], rows[name] = audited_scores(run, audited[name], held_out[name], engine)
        evidence = evidence_from_audit(held_out[name], rows[name], scores[name], audited[name].truth)
        thresholds[name] = decide_thresholds(
            run.weights_sha256,
            run.scale,
            run.classes,
            held_out[name],
            evidence,
            target or run.thresholds.target,
        )
    first = next(iter(runs))
    truth, priors = audited[first].truth, thresholds[first].priors
    kept = rows[first] >= 0
    known = held_out[first].labels.take(rows[first][kept]).to_ternary() == 1
    assert priors.gamma is not None
    k = thresholds[first].mean_labels
    interval = Interval(k.value, k.low or k.value, k.high or k.value)
    selection = None
    if len(runs) > 1:
        common = read_common_scores(runs)
        in_order = {name: scores[name][:, rows_of(runs[name].classes, common.classes)] for name in runs}
        selection = select_by_audit(
            common.scores,
            common.labels,
            interval.value,
            in_order,
            truth,
            draws=draws,
            seed=seed,
            groups=common.groups,
            audited_groups=audited_groups(audited[first], held_out[first]),
        )
        turns = {name: scored_in_turn(run.summary, len(held_out[name].ids)) for name, run in runs.items()}
        if len({*turns.values()}) > 1:
            some = ", ".join(name for name, in_turn in turns.items() if in_turn)
            selection = selection._replace(
                warnings=(
                    *selection.warnings,
                    f"Scores of {some} are by models that each left out a part of the samples, those of the "
                    "other runs by the finished model, so a small difference says little. Compare them on "
                    "other samples (spml evaluate).",
                )
            )
    return UsedAudit(
        file=path,
        samples=len(truth),
        mean_labels=interval,
        gamma=priors.gamma,
        looks_biased=priors.looks_biased,
        moved=_moved(runs[first].classes, held_out[first], priors),
        thresholds=thresholds,
        held_out=held_out,
        selection=selection,
        contradicted=int((known & ~truth[kept]).sum()),
    )


def _moved(classes: tuple[str, ...], held_out: HeldOut, priors: Priors) -> tuple[MovedClass, ...]:
    positives = held_out.positives
    by_known = priors_from_shares(positives, priors.mean_labels, samples=held_out.total).shares
    order = np.argsort(-np.abs(by_known - priors.shares), kind="stable")
    return tuple(
        MovedClass(classes[column], float(by_known[column]), float(priors.shares[column]))
        for column in order.tolist()
        if positives[column]
    )


def _finite(z: float) -> float | str:
    """A number for JSON, which has no infinity."""
    return z if np.isfinite(z) else "infinity" if z > 0 else "-infinity"
