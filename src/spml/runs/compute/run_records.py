"""What the files of a run say about its model and its training."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from ...common.errors import InputError
from ...config import Config
from ...data import wanted_names
from ...decisions import Calibration, Policy
from ..decide.policies import read_thresholds
from ..folder import layout as run_files
from ..folder.contents import read_metrics, read_summary


class RunRecords:
    """Files in the folder of a run, read when they are first asked for.

    Attributes:
        folder: The folder.
        card: Content of model.json.
        name: Name in figures: the last part of the folder.
        classes: Names of the classes, in the order of the scores.
        global_logit: Logit of the threshold for all classes.
    """

    def __init__(self, folder: Path, card: dict[str, Any]) -> None:
        self.folder, self.card = folder, card
        self.name = folder.resolve().name
        self.classes: tuple[str, ...] = tuple(card["classes"])
        self.global_logit = float(card["threshold"]["logit"])

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Content of summary.json.

        Raises:
            InputError: The file is missing or damaged.
        """
        return read_summary(self.folder)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Content of metrics.jsonl: what was measured in each epoch, or of each penalty or head.

        Raises:
            InputError: The file is missing or damaged.
        """
        return read_metrics(self.folder)

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights."""
        return str(self.card["weights_sha256"])

    @cached_property
    def thresholds(self) -> Policy:
        """Thresholds of the classes, in thresholds.json.

        Raises:
            InputError: The file is missing, damaged, or of another model.
        """
        return read_thresholds(self.folder / run_files.THRESHOLDS, self.classes, self.weights_sha256)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features in the order of the training; empty if that data did not name them."""
        return tuple(self.card.get("feature_names", ()))

    @property
    def trained_on(self) -> str:
        """Path of the training data as the user stated it; empty if the run does not record it."""
        return self.config.data.path if self.config else ""

    @cached_property
    def config(self) -> Config | None:
        """Settings of the training; None if the run does not record them."""
        return run_files.read_config(self.folder) if (self.folder / run_files.CONFIG).is_file() else None

    @property
    def settings(self) -> Config:
        """Settings of the training, for what can't do without them.

        Raises:
            InputError: The run does not record them.
        """
        if self.config is None:
            raise InputError(
                f"{self.folder / run_files.CONFIG}: is missing, so the settings of the run are not known. "
                "Name the folder of a run as `spml train` writes it."
            )
        return self.config

    @property
    def names(self) -> dict[str, str]:
        """Wanted names of classes by given ones, as in the training (`data.rename`)."""
        return wanted_names(self.config.data) if self.config else {}

    @property
    def decoding(self) -> dict[str, Any]:
        """Settings `decoder` and `draft` of the images in training; empty if they are not recorded."""
        return {name: getattr(self.config.data, name) for name in ("decoder", "draft")} if self.config else {}

    @cached_property
    def calibration(self) -> Calibration | None:
        """Map from logits to probabilities, in thresholds.json; None without that file, or if K is not known.

        Raises:
            InputError: The file is damaged, or of another model.
        """
        return self.thresholds.calibrated if (self.folder / run_files.THRESHOLDS).is_file() else None
