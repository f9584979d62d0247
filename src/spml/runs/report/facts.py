"""What a report tells of a run, read from the files in its folder and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from ...common.errors import InputError
from ...common.parsing import parse_json
from ...common.phrases import counted
from ...config import Config
from ...decisions import Policy
from ..compute.trained_model import TrainedModel
from ..folder import layout as run_files

_LARGEST = 4 << 20  # bytes of a picture; those of this package have a twentieth


class _Selected(msgspec.Struct):
    metric: str
    warnings: list[str] = []


class _Data(msgspec.Struct):
    name: str
    samples: dict[str, int]
    observed: dict[str, str]
    skipped: int


class _Map(msgspec.Struct):
    mAP: float


class Summary(msgspec.Struct):
    """The parts of summary.json that a report shows."""

    method: str
    selected: _Selected
    validation: dict[str, float | None]
    data: _Data
    warnings: list[str]
    versions: dict[str, str]
    test: _Map | None = None
    command: str = ""

    @property
    def score(self) -> float:
        """The score by which the model was selected."""
        return float(self.validation[self.selected.metric] or 0)


class _Average(msgspec.Struct):
    f1: float


class _Averages(msgspec.Struct):
    micro: _Average
    macro: _Average


class Evaluation(msgspec.Struct):
    """The parts of evaluation.json, where labels are full, that a report shows."""

    data: str
    split: str
    samples: int
    mAP: float
    thresholded: _Averages


class _Interval(msgspec.Struct):
    value: float
    low: float
    high: float


class Audited(msgspec.Struct):
    """The parts of audited.json that a report shows."""

    samples: int
    mean_labels: _Interval


@dataclass(frozen=True)
class Facts:
    """What a page tells of a run, besides its classes.

    Attributes:
        folder: Folder of the run.
        images: Whether samples are photos.
        summary: Summary of the run.
        config: Settings of the run; None if it does not record them.
        policy: Thresholds.
        classes: Number of classes.
        curves, thresholds: Pictures in PNG; None if there are none.
        evaluation: Result of `spml evaluate` on full labels, if there is one.
        audited: Result of `spml audit use`, if there is one.
        remarks: What the report lacks, and why.
    """

    folder: str
    images: bool
    summary: Summary
    config: Config | None
    policy: Policy
    classes: int
    curves: bytes | None = None
    thresholds: bytes | None = None
    evaluation: Evaluation | None = None
    audited: Audited | None = None
    remarks: Sequence[str] = ()

    def samples(self, number: int) -> str:
        """A number of samples in words."""
        return counted(number, "photo" if self.images else "sample")

    @property
    def many(self) -> str:
        """Samples in words."""
        return "photos" if self.images else "samples"


def read_facts(run: TrainedModel, remarks: Sequence[str]) -> Facts:
    """Read what a page tells of a run.

    Args:
        run: Finished run.
        remarks: As in `Facts`.

    Raises:
        InputError: A file of the run is missing or damaged.
    """
    folder = run.folder
    try:
        summary = msgspec.convert(run.summary, Summary)
    except msgspec.ValidationError as error:
        raise InputError(f"{folder / run_files.SUMMARY}: damaged ({error}). Train again.") from error
    return Facts(
        folder=str(folder),
        images=bool(run.spec.size),
        summary=summary,
        config=run.config,
        policy=run.thresholds,
        classes=len(run.classes),
        curves=_picture(folder / run_files.CURVES),
        thresholds=_picture(folder / run_files.THRESHOLDS_PICTURE),
        evaluation=_optional(folder / run_files.EVALUATION, Evaluation),
        audited=_optional(folder / run_files.AUDITED, Audited),
        remarks=remarks,
    )


def _picture(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST else None


_T = TypeVar("_T")


def _optional(path: Path, kind: type[_T]) -> _T | None:
    """Content of a JSON file; None if there is none, or it holds something else."""
    try:
        return msgspec.convert(parse_json(path.read_bytes()), kind)
    except (OSError, ValueError, RecursionError):
        return None
