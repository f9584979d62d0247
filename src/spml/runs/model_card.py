"""Load the model of a run, with the checked content of its model.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from .. import models
from ..errors import InputError
from . import folder as run_files

_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _Method(msgspec.Struct):
    name: str


class _Threshold(msgspec.Struct):
    """One threshold for all classes; runs of early versions have no curve."""

    logit: float
    labels_per_sample: _Positive
    source: str
    curve: Annotated[list[tuple[_Positive, float]], msgspec.Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        labels = [point[0] for point in self.curve or ()]
        if labels != sorted(labels):
            raise ValueError("the numbers of labels per sample must rise - at `$.threshold.curve`")


class _Card(msgspec.Struct):
    """What a run adds to the description of a model in model.json, and how others read it."""

    classes: list[str]
    method: _Method
    threshold: _Threshold
    thresholds: str | None = None
    without_positives: list[str] = []

    def __post_init__(self) -> None:
        known = set(self.classes)
        for position, name in enumerate(self.without_positives):
            if name not in known:
                raise ValueError(f"there is no class {name!r} - at `$.without_positives[{position}]`")


def load_model(folder: Path) -> tuple[models.Classifier, dict[str, Any]]:
    """Load the model in the folder of a run.

    Returns:
        Classifier in evaluation mode on the CPU, and the content of model.json.

    Raises:
        InputError: The folder holds no finished run, or a file is damaged.
    """
    classifier, card = models.load_classifier(folder)
    try:
        msgspec.convert(card, _Card)
    except ValueError as error:
        raise InputError(f"{folder / run_files.MODEL[1]}: damaged: {error}. Train again.") from error
    return classifier, card
